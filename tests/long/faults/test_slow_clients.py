"""500 connections that send a byte a second: other clients are answered, and each slow connection ends at its deadline.

`make soak ONLY='slow-clients/*'` measures the p99 of the others, on an idle machine.
"""

from pathlib import Path

import pytest

from long.faults.slow_clients import SLOW, measure, violations

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_only]


def test_slow_clients_are_ended_and_the_others_answered(tmp_path: Path) -> None:
    measured = measure(tmp_path, rounds=1, round_seconds=15.0)
    assert violations(measured) == []
    assert len(measured.beside) > 50
    assert measured.slow.ended >= SLOW
