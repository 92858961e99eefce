"""The machine's share of `make test`. `make soak` is the long run."""

from collections import Counter

import pytest

from long.machine.coverage import missed
from long.machine.machine import STEPS
from long.machine.run import RUNS
from long.machine.soak import run
from support.repetitions import WHOLE, share

pytestmark = pytest.mark.slow

OPERATIONS = share(300, whole=20_000)
RUNS_OF_A_SEED = share(10, whole=RUNS)


def test_the_registry_behaves_like_the_model() -> None:
    # Fixed, so that a failure belongs to the change under test; the long runs draw new seeds.
    first = 20261130
    outcomes: Counter[tuple[str, str]] = Counter()
    # One run of many may miss a rare outcome; then further seeds must see it.
    for number in range(first, first + 3 * -(-OPERATIONS // (RUNS * STEPS))):
        if sum(outcomes.values()) >= OPERATIONS and not (WHOLE and missed(outcomes)):
            break
        print(f"once more: make soak ONLY='machine/*' COUNT=1 SEED={number}")
        ran = run(number, runs=RUNS_OF_A_SEED)
        assert ran.failed_at is None, f"make soak ONLY='machine/*' COUNT=1 SEED={number}\n{ran.trace}"
        outcomes.update(ran.outcomes)
    assert sum(outcomes.values()) >= OPERATIONS
    assert not WHOLE or missed(outcomes) == []
