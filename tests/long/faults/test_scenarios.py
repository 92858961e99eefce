"""A share of `make faults`; and broken twins, with which a scenario must fail."""

from pathlib import Path

import pytest

from long.faults.disk import DISK_FULL, EIO
from long.faults.sigkill import SIGKILL
from long.faults.syncs import SYNCED
from long.scenario import POSTGRESQL, SQLITE, NotPossibleError, Scenario, Trial
from support.repetitions import share

pytestmark = pytest.mark.slow


@pytest.fixture(params=share([SQLITE], whole=[SQLITE, POSTGRESQL]))
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(scenario: Scenario, folder: Path, database: str, count: int, *, broken: str = "") -> None:
    """Run a trial, smaller than `make faults`, whatever it says of promises of time."""
    try:
        scenario.run(Trial(folder, database, count, 1, broken=broken))
    except NotPossibleError as error:
        pytest.skip(str(error))


def test_the_service_is_killed_under_load(database: str, tmp_path: Path) -> None:
    run(SIGKILL, tmp_path, database, 1)


def test_no_answer_precedes_its_sync(database: str, tmp_path: Path) -> None:
    run(SYNCED, tmp_path, database, share(20, whole=50))


@pytest.mark.whole
def test_a_full_disk(tmp_path: Path) -> None:
    run(DISK_FULL, tmp_path, SQLITE, 1)


@pytest.mark.whole
def test_a_failing_disk(tmp_path: Path) -> None:
    run(EIO, tmp_path, SQLITE, 1)


@pytest.mark.whole
@pytest.mark.parametrize("broken", ["no_syncs", "early_answers"])
def test_an_answer_before_its_sync_is_caught(broken: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="before their sync"):
        run(SYNCED, tmp_path, SQLITE, 20, broken=broken)


@pytest.mark.whole
def test_an_answer_before_its_commit_is_caught_by_sigkill(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is stored, not"):
        run(SIGKILL, tmp_path, SQLITE, 20, broken="early_answers")
