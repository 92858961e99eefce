"""SIGKILL the whole service at random moments under load: no acknowledged write is lost, and the service is
ready in seconds.

Several threads register, change and delete names. After each kill the service starts again, and every name of
the last load must be stored as acknowledged. At the end all names are compared again, then the zone, then the
doctor's invariants.
"""

import os
import random
import signal
import time
from pathlib import Path
from statistics import median

from long.scenario import FAULTS, POSTGRESQL, SOAK, SQLITE, Outcome, Scenario, Trial, registry_on
from support.crash_checks import zone_is_right
from support.serve_process import ServeProcess, serve_process
from support.waiting import wait_until
from support.write_load import Load

READY_SECONDS_MAX = 3.0
"""The promise: how long after a start the service is ready."""
THREADS = 4
UP_SECONDS_MAX = 1.0
"""The longest time under load, from the first acknowledgement to the kill."""
SETTLED_SECONDS = 120.0


def run(trial: Trial) -> Outcome:
    """Kill the service, start it and check what is stored, again and again."""
    draws = random.Random(trial.seed)  # noqa: S311 - moments, no secrets
    loads: list[Load] = []
    ready: list[float] = []
    cpu: list[float] = []
    with (
        registry_on(trial) as url,
        serve_process(url, trial.folder, broken=trial.broken, free_quota=10**6) as serving,
    ):
        # Answers come right after the commit: a kill could make those untrue, not answers that wait for the
        # DNS.
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "0"
        service = serving.service
        service.add_domain()
        _start(serving)
        for number in range(trial.count):
            # Each kill has a registrant of its own, whose list of names is short.
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
    assert acknowledged >= trial.count, "there was hardly any load"
    longest = max(ready)
    late = sum(each > READY_SECONDS_MAX for each in ready)
    return Outcome(
        f"{trial.count} kills; {acknowledged} writes acknowledged, 0 lost; ready again after "
        f"{median(ready):.2f} s in the median, {longest:.2f} s at most, with {median(cpu):.2f} s of a core",
        f"ready again after {longest:.2f} s, not {READY_SECONDS_MAX:g}; {late} times" if late else "",
    )


def _start(serving: ServeProcess) -> float:
    """Start the service and return the seconds until it was ready."""
    began = time.monotonic()
    serving.start()
    return time.monotonic() - began


def _cpu_seconds(serving: ServeProcess) -> float:
    """Return the CPU seconds of the process so far: how long its start takes on an idle machine."""
    assert serving.process is not None
    # pid (name) state …: the 12th and 13th fields after the name are the ticks in user and kernel mode.
    numbers = Path(f"/proc/{serving.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


SIGKILL = Scenario(
    "sigkill",
    "The whole service is killed at random moments under load. No acknowledged write is lost, and it is "
    "ready in 3 s. Counted are kills.",
    run,
    {FAULTS: {SQLITE: 100, POSTGRESQL: 30}, SOAK: {SQLITE: 1000, POSTGRESQL: 300}},
)
