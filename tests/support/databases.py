"""The databases of services in tests: SQLite, or PostgreSQL with `pytest --database postgresql`.

On PostgreSQL each process of pytest runs one server. Each registry is a new database of the server, and is
dropped after the test in whose folder it belongs.
"""

import atexit
import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from sublet.db import Tx
from support.postgresql import fresh_database, run_postgresql

VARIABLE = "TEST_DATABASE"
"""Names the database, also for processes that tests start. It has no prefix SUBLET_, which would make it an
unknown setting.
"""


def on_postgresql() -> bool:
    """Return True if services run on PostgreSQL."""
    return os.environ.get(VARIABLE, "sqlite") == "postgresql"


@dataclass(slots=True)
class _Server:
    """The PostgreSQL server of this process: its address once it runs, and its databases by folder."""

    url: str = ""
    running: ExitStack = field(default_factory=ExitStack)
    databases: dict[Path, tuple[str, ExitStack]] = field(default_factory=dict)


_server = _Server()


def server_address() -> str:
    """Return the address of the maintenance database of this process's PostgreSQL.

    The first call starts the server.
    """
    if not _server.url:
        # Not in pytest's own folder, which every run of pytest closes to other users, and PostgreSQL runs as
        # another user.
        folder = _server.running.enter_context(tempfile.TemporaryDirectory(prefix="sublet-postgresql-"))
        _server.url = _server.running.enter_context(run_postgresql(Path(folder)))
    return _server.url


def kept_database() -> str:
    """Create a database on this process's PostgreSQL that stays until the server stops, and return its
    address.
    """
    server = server_address()
    return _server.running.enter_context(fresh_database(server))


def stop_server() -> None:
    """Drop the databases of this process's PostgreSQL and stop the server, if it was started."""
    drop_registries(Path("/"))
    _server.running.close()
    _server.url = ""


def registry_address(folder: Path, *, like: str | None = None) -> str:
    """Return the address of the registry of a test's folder: a file that doesn't exist yet, or a new
    database.

    On PostgreSQL the new database is a copy of the database `like`, or empty. A second call for a folder
    returns the same address.
    """
    if not on_postgresql():
        return f"sqlite:///{folder}/registry.db"
    if folder not in _server.databases:
        stack = ExitStack()
        url = stack.enter_context(fresh_database(server_address(), like=like))
        _server.databases[folder] = url, stack
    return _server.databases[folder][0]


def driver_of(tx: Tx) -> sqlite3.Connection:
    """Return the connection of the SQLite driver in a transaction."""
    return cast("sqlite3.Connection", tx.connection.connection.dbapi_connection)


def template(name: str) -> Path:
    """Return a folder for a registry to copy. It exists until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"sublet-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def drop_registries(folder: Path) -> None:
    """Drop the databases of a folder and of its subfolders."""
    for each in [each for each in _server.databases if each.is_relative_to(folder)]:
        _server.databases.pop(each)[1].close()
