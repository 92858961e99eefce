"""The clock is 400 days ahead: the sweep stops, and no name is lost until the operator confirms that the
clock is right.
"""

from dataclasses import replace

from long.scenario import FAULTS, POSTGRESQL, SQLITE, Outcome, Scenario, Trial, registry_on
from support.guard_checks import WRONG_CLOCK_NAMES, check_wrong_clock_loses_nothing
from support.running_service import running_service


def run(trial: Trial) -> Outcome:
    """Advance the clock of a running service; each time of a new registry."""
    for number in range(trial.count):
        folder = trial.folder / str(number)
        folder.mkdir()
        with registry_on(replace(trial, folder=folder)) as url, running_service(url) as service:
            service.add_domain()
            check_wrong_clock_loses_nothing(service)
            assert service.doctor() == []
    return Outcome(
        f"the sweep stopped before the first of {WRONG_CLOCK_NAMES} names, asked twice, and names were "
        "published meanwhile",
    )


CLOCK = Scenario(
    "clock",
    "The clock jumps 400 days ahead, and the operator resumes the sweep at the end. No name is lost before "
    "that. Counted are the jumps.",
    run,
    {FAULTS: {SQLITE: 1, POSTGRESQL: 1}},
)
