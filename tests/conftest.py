"""Fixtures that all tests share: a running service, a registry on both databases, and a PostgreSQL of the tests' own."""

import logging
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

from support import databases
from support.postgresql import fresh_database
from support.registry import Prepared, Registry, open_registry, prepare
from support.repetitions import WHOLE
from support.running_service import RunningService, registry_address, running_service


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the database that services run on, where a test doesn't say which, and which share of the tests.

    Measuring coverage has a run of its own: to switch it on and off takes longer than most tests.
    """
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default=os.environ.get(databases.VARIABLE, "sqlite"),
        help="the database of services; with postgresql what runs on both runs on it alone",
    )
    parser.addoption(
        "--covered", choices=("only", "not"), help="only, or none of, the tests whose coverage is measured"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell it to the helpers, and to processes that tests start."""
    os.environ[databases.VARIABLE] = config.getoption("--database")


os.environ["SUBLET_DATABASE_MAY_LOSE_WRITES"] = "yes"
"""For commands and processes of the service that tests start: the tests' own PostgreSQL doesn't wait for the disk."""


os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
"""So that `subletctl` doesn't store the tokens of tests in the keyring of who runs them. tests/clients/test_keyring.py starts one."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Drop the registries of a test's folder once everything that uses them has ended."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    yield
    if folder is not None:
        databases.drop_registries(folder)


LONGEST = tuple(
    f"test_{each}.py"
    for each in (
        *("drift_repair", "kill", "killed", "hosts", "machine", "fourteen_months", "brake", "api", "migrate"),
        *(
            "fuzzing",
            "publishing",
            "races",
            "two_services",
            "fresh_clone",
            "operator_refusals",
            "schemathesis",
        ),
        *(
            "privileges",
            "attacks",
            "bench",
            "every_state_and_verb",
            "every_state_and_action",
            "restored",
        ),
        *("hostile_names", "hostile_bodies", "every_error_code", "broken_twins", "refusals_leave_no_trace"),
        *("zone_status", "names_refused_alone", "faults_told_apart", "console", "fence", "copy"),
        *("outage", "passed_socket", "backup_killed", "nginx", "served", "changes", "tenancy_matrix"),
    )
)
"""The files whose tests take longest together: a minute and more."""

COVERED = tuple(
    f"tests/{each}"
    for each in (
        *("rules/", "verbs/", "http/", "dns/", "db/", "cli/", "worker/", "stories/test_first_minute.py"),
        "contract/test_spec_",
    )
)
"""The tests whose coverage is measured, on SQLite. It makes Python take twice as long, and the others run the same lines again."""
NOT_COVERED = tuple(
    f"tests/{each}.py"
    for each in (
        "verbs/test_every_state_and_verb",
        "db/test_privileges",
        "db/test_migrate",
        "cli/test_console",
    )
)
"""But not these: a thousand pairs over the same lines, and what runs in processes of its own."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't even read the files that have nothing for this run."""
    if config.getoption("--covered") != "only" or collection_path.is_dir():
        return None
    return None if _is_covered(collection_path.relative_to(config.rootpath).as_posix()) else True


def _is_covered(nodeid: str) -> bool:
    return nodeid.startswith(COVERED) and "[postgresql" not in nodeid and not nodeid.startswith(NOT_COVERED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first: one that starts last would have the other workers wait for its end.

    What runs on both databases is slow on PostgreSQL, by half of the time of `make test-fast`: its hand has SQLite.
    """
    for item in items:
        if "[postgresql" in item.name:
            item.add_marker(pytest.mark.slow)
        if databases.on_postgresql() and item.get_closest_marker("sqlite_only"):
            item.add_marker(pytest.mark.skip("is about SQLite"))
    if databases.on_postgresql():
        items[:] = [item for item in items if "[sqlite" not in item.name]
    if not WHOLE:
        items[:] = [item for item in items if not _is_left_to_the_whole(item)]
    wanted = config.getoption("--covered")
    if wanted is not None:
        items[:] = [item for item in items if _is_covered(item.nodeid) == (wanted == "only")]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def _is_left_to_the_whole(item: pytest.Item) -> bool:
    if item.get_closest_marker("whole"):
        return True
    return "[postgresql" in item.name and item.get_closest_marker("whole_on_postgresql") is not None


@pytest.fixture(autouse=True)
def _logs_as_they_come() -> None:
    """Undo what a command line in this process made of the logs: it silences them, and some tests read them."""
    structlog.reset_defaults()


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """The settings of all logs are the process's: a test that changes them has them put back."""
    kept, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    yield
    structlog.configure(**kept)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


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
