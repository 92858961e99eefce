"""Fixtures that all tests share: a running service, a registry on both databases, and a PostgreSQL of the tests' own."""

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

import databases
from postgresql import fresh_database
from registry import Prepared, Registry, open_registry, prepare
from service import RunningService, registry_address, running_service


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the database that services run on, where a test doesn't say which."""
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default=os.environ.get(databases.VARIABLE, "sqlite"),
        help="the database of services; with postgresql what runs on both runs on it alone",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell it to the helpers, and to processes that tests start."""
    os.environ[databases.VARIABLE] = config.getoption("--database")


os.environ["SUBLET_DATABASE_MAY_LOSE_WRITES"] = "yes"
"""For commands and processes of the service that tests start: the tests' own PostgreSQL doesn't wait for the disk."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail where a program is missing in CI: there a part that is not tried must not pass for one that works."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and "not installed" in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Drop the registries of a test's folder once everything that uses them has ended."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    yield
    if folder is not None:
        databases.drop_registries(folder)


LONGEST = (
    "test_fourteen_months.py",
    "test_machine.py",
    "test_hosts.py",
    "test_privileges.py",
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
        if databases.on_postgresql() and item.get_closest_marker("sqlite_only"):
            item.add_marker(pytest.mark.skip("is about SQLite"))
    if databases.on_postgresql():
        items[:] = [item for item in items if "[sqlite" not in item.name]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True)
def _logs_as_they_come() -> None:
    """Undo what a command line in this process made of the logs: it silences them, and some tests read them."""
    structlog.reset_defaults()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A running service over a fresh database; every invariant must hold when the test is over."""
    with running_service(registry_address(tmp_path)) as running:
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="session", autouse=True)
def _postgresql_is_stopped() -> Iterator[None]:
    yield
    databases.stop_server()


@pytest.fixture(scope="session")
def postgresql_server(_postgresql_is_stopped: None) -> str:
    """A PostgreSQL started by the tests; gives the address of its maintenance database."""
    return databases.server_address()


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
