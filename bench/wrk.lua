-- The script for wrk: sends the requests of a file in their order, each once or again and again.
--     wrk ... -- FILE (once|again) [REQUESTS_PER_SECOND LEAD_SECONDS]
-- The file has for each request its length in bytes, a line feed, and the request as it is sent.
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
    if args[3] then
        -- All connections share one timetable: a connection takes the next time when it becomes free. So a request
        -- starts when it is due, even if earlier ones are unanswered, as long as a connection is free.
        local between = 1000 / tonumber(args[3])
        local lead = 1000 * tonumber(args[4])
        local due
        delay = function()
            local now = now_ms()
            due = (due or now + lead) + between
            -- wrk's timer has whole milliseconds.
            return math.max(0, math.floor(due - now + 0.5))
        end
    end
end

function request()
    sent = sent + 1
    return requests[(sent - 1) % prepared + 1]
end

function done(summary, latency)
    local thread = threads[1]
    local exhausted = thread:get("once") and thread:get("sent") > thread:get("prepared")
    io.write(string.format(
        'RESULT {"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "status": %d, "socket": %d, "exhausted": %s}\n',
        summary.requests, summary.duration / 1000000, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
        summary.errors.status,
        summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
        exhausted and "true" or "false"))
end
