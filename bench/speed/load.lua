-- What wrk sends: the requests of a file, one after the other, each once or round and round.
-- wrk ... -- FILE (once|round) [REQUESTS A SECOND, FROM THE SECOND ON]
-- The file has each request as its length in octets, a line feed, and the request as it goes over the wire.
local ffi = require("ffi")
ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } instant_t;
int clock_gettime(int clock, instant_t *instant);
]]
local MONOTONIC = 1
local threads = {}

local function now_ms()
    local instant = ffi.new("instant_t")
    ffi.C.clock_gettime(MONOTONIC, instant)
    return tonumber(instant.seconds) * 1000 + tonumber(instant.nanoseconds) / 1000000
end

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    requests = {}
    local file = assert(io.open(args[1], "rb"))
    while true do
        local length = file:read("*n")
        if length == nil then break end
        file:read(1)
        requests[#requests + 1] = file:read(length)
    end
    file:close()
    prepared = #requests
    once = args[2] == "once"
    sent = 0
    late = 0
    if args[3] then
        -- Connections take the next places of one timetable as they become free: requests begin when they are due, not when
        -- the one before was answered, for as long as any of the connections is free. Those that none was free for are counted.
        local between = 1000 / tonumber(args[3])
        local lead = 1000 * tonumber(args[4])
        local due
        delay = function()
            local now = now_ms()
            due = (due or now + lead) + between
            if due < now - 1 then late = late + 1 end
            -- A timer has whole milliseconds: half of one more is on average when it is due.
            return math.max(0, math.floor(due - now + 0.5))
        end
    end
end

function request()
    sent = sent + 1
    if sent > prepared then
        return requests[(sent - 1) % prepared + 1]
    end
    return requests[sent]
end

function done(summary, latency)
    local thread = threads[1]
    local exhausted = thread:get("once") and thread:get("sent") > thread:get("prepared")
    io.write(string.format(
        'RESULT {"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "max_ms": %f, "status": %d, "socket": %d, "late": %d, "exhausted": %s}\n',
        summary.requests, summary.duration / 1000000, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
        latency.max / 1000, summary.errors.status,
        summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
        thread:get("late"), exhausted and "true" or "false"))
end
