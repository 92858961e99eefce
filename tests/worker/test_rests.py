"""The sweep rests after a step, longer after a full one."""

from collections import Counter

import pytest

from sublet.subdomains.sweep import clockwork
from sublet.subdomains.sweep.sweep import BATCH_MAX, Swept


@pytest.mark.parametrize(
    ("names", "took_seconds", "rests_seconds"),
    [
        (BATCH_MAX, 0.02, 3 * 0.02),
        (BATCH_MAX, 2.0, 3 * 2.0),
        (BATCH_MAX - 1, 0.02, clockwork.FEW_SECONDS),
        (1, 2.0, 2.0),
    ],
)
def test_the_sweep_rests_longer_than_its_step_and_after_few_names_for_more_to_come(
    names: int, took_seconds: float, rests_seconds: float
) -> None:
    swept = Swept(Counter(looked=names), more=True, names=names)
    assert clockwork.rest_after(swept, took_seconds) == rests_seconds


@pytest.mark.parametrize("swept", [None, Swept(Counter()), Swept(Counter(), stopped_reason="the clock")])
def test_a_sweep_with_nothing_to_do_looks_each_second(swept: Swept | None) -> None:
    assert clockwork.rest_after(swept, 0.01) == clockwork.POLL_SECONDS
