"""Fixtures that all tests share: a running service over SQLite, and a PostgreSQL of the tests' own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgresql import fresh_database, run_postgresql
from service import RunningService, running_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    """A running service over a fresh SQLite database; every invariant must hold when the test is over."""
    with running_service(f"sqlite:///{tmp_path}/registry.db") as running:
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL started by the tests; gives the address of its maintenance database."""
    with run_postgresql(tmp_path_factory.mktemp("postgresql")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh, empty database on each of the two engines."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/registry.db"
        return
    with fresh_database(request.getfixturevalue("postgresql_server")) as url:
        yield url
