"""A clock that is 400 days ahead: the sweep stops and asks, and nothing is lost until the operator says that the clock is right."""

from long.faults.scenario import POSTGRESQL, SQLITE, Asked, Outcome, Scenario, registry_on
from support.guard_checks import WRONG_CLOCK_NAMES, check_wrong_clock_loses_nothing
from support.running_service import running_service


def run(asked: Asked) -> Outcome:
    """Put a running service's clock forward so many times, each over a registry of its own."""
    for number in range(asked.count):
        folder = asked.folder / str(number)
        folder.mkdir()
        one = Asked(folder, asked.database, 1, asked.seed)
        with registry_on(one) as url, running_service(url) as service:
            service.add_domain()
            check_wrong_clock_loses_nothing(service)
            assert service.doctor() == []
    return Outcome(
        f"the sweep stopped before the first of {WRONG_CLOCK_NAMES} names, asked twice, and names were published meanwhile",
        {"times": asked.count, "names_lost_unasked": 0},
    )


CLOCK = Scenario(
    "clock",
    "the clock jumps 400 days ahead, and the operator lets the sweep go on in the end; counted are the times",
    run,
    counts={SQLITE: 1, POSTGRESQL: 1},
)
