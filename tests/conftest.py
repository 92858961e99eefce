"""Fixtures that all tests share: a running service over SQLite, and a PostgreSQL of the tests' own."""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

from postgresql import fresh_database, run_postgresql
from registry import Prepared, Registry, open_registry, prepare
from service import RunningService, running_service


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail where a program is missing in CI: there a part that is not tried must not pass for one that works."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and "not installed" in str(report.longrepr):
        report.outcome = "failed"
    return report


LONGEST = (
    "test_fourteen_months.py",
    "test_machine.py",
    "test_every_state_and_action.py",
    "test_killed.py",
    "test_schemathesis.py",
    "test_every_state_and_verb.py",
)
"""The files with the longest tests, each of half a minute or minutes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first: one that starts last would have the other workers wait for its end.

    What runs on both databases is slow on PostgreSQL, by half of the time of `make test-fast`: its hand has SQLite.
    """
    for item in items:
        if "[postgresql" in item.name:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True)
def _logs_as_they_come() -> None:
    """Undo what a command line in this process made of the logs: it silences them, and some tests read them."""
    structlog.reset_defaults()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A running service over a fresh SQLite database; every invariant must hold when the test is over."""
    with running_service(f"sqlite:///{tmp_path}/registry.db") as running:
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A PostgreSQL started by the tests; gives the address of its maintenance database."""
    # Not in pytest's own folder: any other run of pytest closes that to all but its owner, and PostgreSQL is another user.
    with (
        tempfile.TemporaryDirectory(prefix="sublet-postgresql-") as folder,
        run_postgresql(Path(folder)) as url,
    ):
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh, empty database on each of the two engines."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry.db"
        return
    with fresh_database(request.getfixturevalue("postgresql_server")) as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_registry(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A prepared SQLite database, to be copied."""
    return prepare(f"sqlite:///{tmp_path_factory.mktemp('prepared')}/registry.db")


@pytest.fixture(scope="session")
def postgresql_registry(postgresql_server: str) -> Iterator[Prepared]:
    """A prepared PostgreSQL database, to be copied."""
    with fresh_database(postgresql_server) as url:
        yield prepare(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    """A registry without a service, on each of the two engines, with a clock that stands still."""
    prepared: Prepared = request.getfixturevalue(f"{request.param}_registry")
    if request.param == "sqlite":
        shutil.copy(prepared.url.removeprefix("sqlite:///"), tmp_path / "registry.db")
        with open_registry(f"sqlite:///{tmp_path}/registry.db", prepared) as opened:
            yield opened
        return
    server_url = request.getfixturevalue("postgresql_server")
    with fresh_database(server_url, like=prepared.url) as url, open_registry(url, prepared) as opened:
        yield opened
