"""Many processes under load, killed and restarted in turn: nothing acknowledged is lost, nothing is done
twice.

A small share of `make soak ONLY='hosts/*'`.
"""

from pathlib import Path

import pytest

from long.hosts.trials import killed_in_turn

pytestmark = pytest.mark.whole

IN_TURN = ("worker 1", "primary database, the standby promoted")


def test_processes_killed_and_restarted_in_turn_lose_nothing(short_folder: Path) -> None:
    lines = list(killed_in_turn(short_folder, IN_TURN, restarts=1))
    assert "no request failed" in lines[-2]
    assert "doctor clean" in lines[-1]
