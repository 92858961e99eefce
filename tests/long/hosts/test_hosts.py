"""Many processes under load, killed and restarted in turn: nothing acknowledged is lost, nothing is done
twice.

A small share of `make soak ONLY='hosts/*'`, and the broken twins that show what it would find.
"""

from pathlib import Path

import pytest

from long.hosts.trials import answers_lost_after_commit, killed_in_turn

pytestmark = pytest.mark.whole

IN_TURN = ("worker 1", "primary database, the standby promoted")


def test_processes_killed_and_restarted_in_turn_lose_nothing(short_folder: Path) -> None:
    lines = list(killed_in_turn(short_folder, IN_TURN, restarts=1))
    assert "no request failed" in lines[-2]
    assert "doctor clean" in lines[-1]


def test_a_client_with_a_new_key_for_each_retry_is_caught(short_folder: Path) -> None:
    """The broken twin: the client's repetition is a new request."""
    with pytest.raises(AssertionError, match=r"subdomain_unavailable|_not_found|renewal_not_available"):
        answers_lost_after_commit(short_folder, keeps_key=False)


def test_a_primary_without_synchronous_commit_is_caught(short_folder: Path) -> None:
    """The broken twin: what the standby doesn't have is acknowledged all the same."""
    what = ["standby database, then the primary, the standby promoted"]
    with pytest.raises(AssertionError, match=r"subdomain_not_found|ticket_not_found|names|is shown as"):
        list(killed_in_turn(short_folder, what, apis=1, children=1, workers=1, synchronous=False))
