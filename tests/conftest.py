"""Options, the order of the tests, and the fixtures that all tests share: a service, a registry on both
databases, PostgreSQL.
"""

import gc
import logging
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import hypothesis
import pytest
import structlog

from sublet.db import sqlite
from support import databases
from support.kept_registry import KeptRegistry
from support.postgresql import fresh_database
from support.registry import Prepared, Registry, prepare
from support.repetitions import WHOLE, share
from support.running_service import (
    LOG_TO_STDOUT,
    RunningService,
    initialised_postgresql,
    registry_address,
    running_service,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--database` and `--covered`.

    Coverage is measured in a separate run, because it makes Python half as fast.
    """
    parser.addoption(
        "--database",
        choices=("sqlite", "postgresql"),
        default=os.environ.get(databases.VARIABLE, "sqlite"),
        help="the database of services; tests of both databases then run on this one only",
    )
    parser.addoption(
        "--covered",
        choices=("only", "not"),
        help="run only the tests whose coverage is measured, or only the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Pass the option to `support.databases`, and to processes that tests start.

    In `make test` Hypothesis makes fewer inputs, and the same in each run. It allows any time for each.
    """
    os.environ[databases.VARIABLE] = config.getoption("--database")
    hypothesis.settings.register_profile(
        "tests",
        max_examples=share(25, whole=100),
        derandomize=share(True, whole=False),
        deadline=None,
    )
    hypothesis.settings.load_profile("tests")
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector look only at what the tests make, and not again and again at all modules and
    tests, which stay.
    """
    gc.freeze()
    gc.enable()


os.environ["SUBLET_DATABASE_MAY_LOSE_WRITES"] = "yes"
"""The PostgreSQL of the tests runs without `fsync`, which the service would refuse."""


sqlite.BUSY_TIMEOUT_SECONDS = 60
"""On a busy machine, what holds the lock may stand still for more than five seconds."""


os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
"""Keeps the tokens of tests out of the developer's keyring. tests/clients/test_keyring.py starts a keyring of
its own.
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Drop the registries of a test's folder once everything that uses them has ended."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    yield
    if folder is not None:
        databases.drop_registries(folder)


_LONGEST = """
    drift_repair zone_answers brake every_page_in_a_browser publishing races copy killed doctor schemathesis
    terraform privileges lost_connections migrate sweep secondaries backup zone_status scenarios
    stories_in_a_browser ansible forged_forms hostile_http two_publishers every_error_code linear_parsers fuzzing
    account_in_a_browser api names_refused_alone every_form
"""  # noqa: E501
LONGEST = tuple(f"test_{each}.py" for each in _LONGEST.split())
"""The files that take longest, which start first: a long file that starts last would keep one worker busy
while the others wait.
"""

COVERED = tuple(
    f"tests/{each}"
    for each in (
        *("rules/", "verbs/", "http/", "dns/", "db/", "cli/", "worker/", "web/test_about.py"),
        "stories/test_first_minute.py",
        "contract/test_spec_",
    )
)
"""The tests whose coverage is measured, on SQLite. The other tests run the same lines again."""
NOT_COVERED = tuple(
    f"tests/{each}"
    for each in (
        "verbs/test_every_state_and_verb.py",
        "db/test_privileges.py",
        "db/test_migrate.py",
        "cli/test_console.py",
        "rules/test_linear_parsers.py",
        "rules/test_linear_expressions.py",
    )
)
"""Whole files that are exceptions: a thousand pairs run the same lines; the lines of other processes aren't
measured; and coverage slows down what the tests of parsers and regular expressions time. In the other files,
the exceptions have the marker `uncovered`.
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the files that have no tests for this run, because importing them takes time."""
    if config.getoption("--covered") != "only" or collection_path.is_dir():
        return None
    return None if _is_in_covered_file(collection_path.relative_to(config.rootpath).as_posix()) else True


def _is_in_covered_file(nodeid: str) -> bool:
    return nodeid.startswith(COVERED) and not nodeid.startswith(NOT_COVERED)


def _is_covered(item: pytest.Item) -> bool:
    if "[postgresql" in item.name or item.get_closest_marker("uncovered"):
        return False
    return _is_in_covered_file(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of this run, and sort them.

    `make test-fast` leaves out PostgreSQL, so its tests are marked slow.
    """
    for item in items:
        if "[postgresql" in item.name:
            item.add_marker(pytest.mark.slow)
        if databases.on_postgresql() and item.get_closest_marker("sqlite_only"):
            item.add_marker(pytest.mark.skip("tests SQLite only"))
    if databases.on_postgresql():
        items[:] = [item for item in items if "[sqlite" not in item.name]
    if not WHOLE:
        items[:] = [item for item in items if not _is_left_to_the_whole(item)]
    wanted = config.getoption("--covered")
    if wanted is not None:
        items[:] = [item for item in items if _is_covered(item) == (wanted == "only")]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def _is_left_to_the_whole(item: pytest.Item) -> bool:
    if item.get_closest_marker("whole"):
        return True
    return "[postgresql" in item.name and item.get_closest_marker("whole_on_postgresql") is not None


@pytest.fixture(autouse=True)
def _logs_as_they_come() -> None:
    """Restore the default logs, because commands that run in this process turn them off."""
    structlog.reset_defaults()
    structlog.configure(logger_factory=LOG_TO_STDOUT)


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """Restore the settings of all logs after a test that changes them."""
    kept, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    yield
    structlog.configure(**kept)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A running service with a new database. At the end of the test the doctor must find nothing."""
    with running_service(registry_address(tmp_path)) as running:
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="session", autouse=True)
def _postgresql_is_stopped() -> Iterator[None]:
    yield
    databases.stop_server()


@pytest.fixture(scope="session")
def postgresql_server(_postgresql_is_stopped: None) -> str:
    """The address of the maintenance database of a PostgreSQL that the tests start."""
    return databases.server_address()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a new, empty database, on each of the two engines."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry.db"
        return
    with fresh_database(request.getfixturevalue("postgresql_server")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def registry_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a registry for a service, on each of the two engines.

    It is initialised, or a file that doesn't exist yet.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry.db"
        return
    server = request.getfixturevalue("postgresql_server")
    with fresh_database(server, like=initialised_postgresql()) as url:
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


@pytest.fixture(scope="session")
def sqlite_kept_registry(
    sqlite_registry: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KeptRegistry]:
    """The SQLite registry of this process."""

    @contextmanager
    def copied() -> Iterator[str]:
        copy = tmp_path_factory.mktemp("kept") / "registry.db"
        shutil.copy(sqlite_registry.url.removeprefix("sqlite:///"), copy)
        yield f"sqlite:///{copy}"

    with closing(KeptRegistry(sqlite_registry, copied)) as kept:
        yield kept


@pytest.fixture(scope="session")
def postgresql_kept_registry(postgresql_server: str, postgresql_registry: Prepared) -> Iterator[KeptRegistry]:
    """The PostgreSQL registry of this process."""

    def copied() -> AbstractContextManager[str]:
        return fresh_database(postgresql_server, like=postgresql_registry.url)

    with closing(KeptRegistry(postgresql_registry, copied)) as kept:
        yield kept


@pytest.fixture(params=["sqlite", "postgresql"])
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    """A registry without a service, on each of the two engines.

    Its clock stands still. Its event loop is that of other tests too.
    """
    kept: KeptRegistry = request.getfixturevalue(f"{request.param}_kept_registry")
    yield kept.restored()
    kept.end_tasks()
