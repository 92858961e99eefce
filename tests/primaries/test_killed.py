"""SIGKILL a primary under load, and the service at each point of publishing: no
acknowledged write is lost.
"""

from pathlib import Path

import pytest

from long.primaries.kills import crash_leaves_nothing_old, points_of, server_killed, worker_killed
from support.crash_checks import NAME, Change, change_it, delete_it, suspend_it
from support.name_servers import KINDS
from support.repetitions import share

pytestmark = pytest.mark.slow

CHANGED = {(NAME, "NS", "ns9.elsewhere.example.")}


@pytest.mark.parametrize("kind", share(KINDS[:1], whole=KINDS))
def test_a_primary_killed_under_load_loses_no_acknowledged_write(kind: str, tmp_path: Path) -> None:
    kills = share(1, whole=3)
    assert f"killed {kills} times" in server_killed(kind, tmp_path, kills=kills)


@pytest.mark.parametrize(
    ("kind", "points"),
    share([("knot", ("applied",))], whole=[(kind, points_of(kind)) for kind in KINDS]),
)
def test_the_service_killed_at_each_point_loses_no_acknowledged_write(
    kind: str, points: tuple[str, ...], tmp_path: Path
) -> None:
    assert len(list(worker_killed(kind, tmp_path, points=points, kills=1))) == len(points)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("change", "expected"), [(delete_it, set()), (change_it, CHANGED), (suspend_it, set())]
)
def test_a_kill_before_the_outcome_is_recorded_leaves_no_old_record(
    change: Change, expected: set[tuple[str, str, str]], tmp_path: Path
) -> None:
    crash_leaves_nothing_old("knot", tmp_path, change, expected)


@pytest.mark.whole
def test_a_publisher_without_write_ahead_fails_the_test(tmp_path: Path) -> None:
    """The broken twin: a record is stored as published only after it was seen in the zone."""
    with pytest.raises(AssertionError, match=r"blog\.example\.test"):
        crash_leaves_nothing_old("knot", tmp_path, delete_it, set(), broken="no_write_ahead", seconds=5)
