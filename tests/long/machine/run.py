"""Run the machine from a seed: the same seed takes the same steps."""

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from long.machine import machine
from long.machine.provider import NAME

RUNS = 25
"""How many runs of `machine.STEPS` steps a seed has."""


def run_seed(number: int, *, runs: int = RUNS, shrink: bool = False) -> None:
    """Run the machine `runs` times; `machine.TALLY` counts the outcomes.

    Raises:
        AssertionError: the registry and the model differ; with `shrink`, after the fewest steps that
            hypothesis finds.
    """
    machine.TALLY.example, machine.TALLY.failed_at = 0, None
    run_state_machine_as_test(
        seed(number)(machine.Machine),
        settings=settings(
            backend=NAME,
            max_examples=runs,
            stateful_step_count=machine.STEPS,
            database=None,  # the seed is enough
            deadline=None,  # other processes take their time too
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            # Long stories are the point, and so is their size; nothing is filtered.
            suppress_health_check=[
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.large_base_example,
            ],
            print_blob=False,
            report_multiple_bugs=False,  # shrinking one takes long enough
        ),
    )
