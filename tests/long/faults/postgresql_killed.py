"""PostgreSQL is killed and away for seconds: requests are answered 503 with `Retry-After`, then the service
recovers; nothing is lost.
"""

import time

from long.faults.writing import serving_a_writer
from long.scenario import FAULTS, POSTGRESQL, Outcome, Scenario, Trial
from support.crash_checks import zone_is_right
from support.postgresql import PostgresqlServer
from support.serve_process import free_address, wait_until

STEADY = 10
REFUSED_IN_A_ROW = 2
"""Each waits for seconds in case PostgreSQL comes back."""
RECOVERED_SECONDS = 60.0


def run(trial: Trial) -> Outcome:
    """Kill PostgreSQL, and start it again after requests were refused."""
    server = PostgresqlServer(trial.folder / "postgresql", free_address()[1])
    server.create()
    server.start()
    longest = 0.0
    try:
        server.ask("CREATE DATABASE registry")
        with serving_a_writer(trial, server.address("registry")) as (serving, writing):
            service = writing.service
            for _ in range(trial.count):
                writing.write_until(acknowledged=True, times=STEADY)
                server.kill()
                writing.write_until(acknowledged=False, times=REFUSED_IN_A_ROW)
                refused = service.call(writing.who, "GET", "/subdomains")
                assert refused.status_code == 503, refused.text
                assert int(refused.headers["retry-after"]) >= 1
                server.start()
                began = time.monotonic()
                wait_until(writing.write, RECOVERED_SECONDS)
                longest = max(longest, time.monotonic() - began)
                writing.check()
            wait_until(lambda: zone_is_right(service), RECOVERED_SECONDS)
            assert service.doctor() == []
            assert serving.stop() == 0
    finally:
        server.kill()
    answered = len(writing.refused) + len(writing.unknown)
    return Outcome(
        f"{trial.count} kills; {answered} writes answered 503, {len(writing.acknowledged)} acknowledged and "
        f"0 lost; a write was acknowledged again {longest:.1f} s after PostgreSQL was back at most",
    )


POSTGRESQL_KILLED = Scenario(
    "postgresql-killed",
    "PostgreSQL is killed, and started again after requests were refused. No acknowledged write is lost. "
    "Counted are kills.",
    run,
    {FAULTS: {POSTGRESQL: 3}},
)
