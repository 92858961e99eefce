"""SIGKILL of the whole service at random moments under load: nothing acknowledged is lost, and it is ready again in seconds.

Registrations, changes and deletions come from several threads. After each kill the service is started again, and every name that was
touched since the last one has to be stored as it was acknowledged last. In the end all of them are looked at once more, the zone is
compared, and the doctor is asked.
"""

import os
import random
import signal
import time
from pathlib import Path
from statistics import median

from long.faults.scenario import POSTGRESQL, SQLITE, Asked, Outcome, Scenario, registry_on
from support.crash_checks import zone_is_right
from support.serve_process import ServeProcess, serve_process, wait_until
from support.write_load import Load

READY_SECONDS_MAX = 3.0
"""The promise: so long after it is started again the service is ready."""
THREADS = 4
UP_SECONDS_MAX = 1.0
"""So long at most the service is under load, from its first acknowledgement on, before it is killed."""
SETTLED_SECONDS = 120.0


def run(asked: Asked) -> Outcome:
    """Kill the service so many times; what must hold is asserted."""
    draws = random.Random(asked.seed)  # noqa: S311 - moments, no secrets
    loads: list[Load] = []
    ready: list[float] = []
    cpu: list[float] = []
    with (
        registry_on(asked) as url,
        serve_process(url, asked.folder, broken=asked.broken, free_quota=10**6) as serving,
    ):
        # An answer that waits for the DNS comes long after its commit: the ones that come at once are those that a kill could make untrue.
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "0"
        service = serving.service
        service.add_domain()
        _start(serving)
        for number in range(asked.count):
            # A registrant for each kill: what it touched is one short list.
            load = Load(
                service, service.add_user(f"u{number}@example.org"), THREADS, 0.005, prefix=f"k{number}n"
            )
            loads.append(load)
            with load.running():
                wait_until(lambda of=load: bool(of.requests or of.faults), SETTLED_SECONDS)  # type: ignore[misc]
                time.sleep(draws.uniform(0, UP_SECONDS_MAX))
                assert serving.stop(signal.SIGKILL) == -signal.SIGKILL
            ready.append(_start(serving))
            cpu.append(_cpu_seconds(serving))
            load.check_stored()
        for load in loads:
            load.check_stored()
        wait_until(lambda: zone_is_right(service), SETTLED_SECONDS)
        assert service.doctor() == []
        assert serving.stop() == 0
    acknowledged = sum(load.requests for load in loads)
    assert acknowledged >= asked.count, "there was hardly any load"
    longest = max(ready)
    beyond = (
        ()
        if longest <= READY_SECONDS_MAX
        else (
            f"ready again after {longest:.2f} s, not {READY_SECONDS_MAX:g}; {sum(each > READY_SECONDS_MAX for each in ready)} times",
        )
    )
    return Outcome(
        f"{asked.count} kills; {acknowledged} writes acknowledged, 0 lost; ready again after {median(ready):.2f} s in the median, "
        f"{longest:.2f} s at most, with {median(cpu):.2f} s of a core",
        {
            "kills": asked.count,
            "acknowledged": acknowledged,
            "acknowledged_lost": 0,
            "answers_lost": sum(len(load.doubtful) for load in loads),
            "ready_cpu_seconds_median": round(median(cpu), 2),
            "ready_seconds_median": round(median(ready), 2),
            "ready_seconds_max": round(longest, 2),
        },
        beyond,
    )


def _start(serving: ServeProcess) -> float:
    """Start the service, and return how many seconds passed until it was ready."""
    began = time.monotonic()
    serving.start()
    return time.monotonic() - began


def _cpu_seconds(serving: ServeProcess) -> float:
    """Return how much of a core the process took by now: what its start takes where nobody else is busy."""
    assert serving.process is not None
    # pid (name) state …: of the numbers behind the name, the 12th and 13th are the ticks in the program and in the kernel.
    numbers = Path(f"/proc/{serving.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


SIGKILL = Scenario(
    "sigkill",
    "the whole service is killed at random moments under load; counted are kills",
    run,
    counts={SQLITE: 100, POSTGRESQL: 30},
    full={SQLITE: 1000, POSTGRESQL: 300},
)
