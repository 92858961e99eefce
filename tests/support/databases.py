"""Which database the tests run their services on: SQLite, or PostgreSQL with `pytest --database postgresql`.

A service's tests take the address of their registry from here. On PostgreSQL it is a fresh database of the one server that each
process of pytest runs, and is dropped with the test whose folder it belongs to.
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
"""Says which one, also to processes that tests start. No SUBLET_ before it: that would be an unknown setting."""


def on_postgresql() -> bool:
    """Return True if services run on PostgreSQL."""
    return os.environ.get(VARIABLE, "sqlite") == "postgresql"


@dataclass(slots=True)
class _Server:
    """The PostgreSQL of this process: its address once it runs, and the databases on it by folder."""

    url: str = ""
    running: ExitStack = field(default_factory=ExitStack)
    databases: dict[Path, tuple[str, ExitStack]] = field(default_factory=dict)


_server = _Server()


def server_address() -> str:
    """Return the address of the maintenance database of this process' PostgreSQL, which is started when it is first asked for."""
    if not _server.url:
        # Not in pytest's own folder: any other run of pytest closes that to all but its owner, and PostgreSQL is another user.
        folder = _server.running.enter_context(tempfile.TemporaryDirectory(prefix="sublet-postgresql-"))
        _server.url = _server.running.enter_context(run_postgresql(Path(folder)))
    return _server.url


def stop_server() -> None:
    """Drop the databases of this process's PostgreSQL and stop it, if it was started."""
    drop_registries(Path("/"))
    _server.running.close()
    _server.url = ""


def registry_address(folder: Path, *, like: str | None = None) -> str:
    """Return the address of the registry of a test's folder: a file that isn't there yet, or a database that is empty.

    On PostgreSQL it may be a copy of another one. Asked again for the same folder it is the same.
    """
    if not on_postgresql():
        return f"sqlite:///{folder}/registry.db"
    if folder not in _server.databases:
        stack = ExitStack()
        url = stack.enter_context(fresh_database(server_address(), like=like))
        _server.databases[folder] = url, stack
    return _server.databases[folder][0]


def driver_of(tx: Tx) -> sqlite3.Connection:
    """Return the driver's connection of a transaction on SQLite."""
    return cast("sqlite3.Connection", tx.connection.connection.dbapi_connection)


def template(name: str) -> Path:
    """Return a folder for a registry that is copied; it exists until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"sublet-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def drop_registries(folder: Path) -> None:
    """Drop the databases of a folder and of those in it."""
    for each in [each for each in _server.databases if each.is_relative_to(folder)]:
        _server.databases.pop(each)[1].close()
