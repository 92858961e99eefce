"""Transactions of registries that a service uses at the same time.

All registries of a process share one engine for each kind of database, because an engine compiles each
statement once: the doctor's statements take half a second.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from msgspec.structs import astuple
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from sublet.db import Tx, sqlite_engine
from sublet.db.connect import libpq_address
from sublet.doctor.checks import check_all
from sublet.doctor.model import Violation
from sublet.doctor.notices import find_over_quota

_url: ContextVar[str] = ContextVar("url")


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """Open a transaction that sees one state of a registry, and roll it back at the end."""
    engine = _sqlite() if url.startswith("sqlite:") else _postgresql()
    token = _url.set(url)
    try:
        with engine.connect() as connection, connection.begin() as transaction:
            yield connection
            transaction.rollback()
    finally:
        _url.reset(token)


@contextmanager
def writing_sqlite(url: str) -> Iterator[Connection]:
    """Open a writing transaction of an SQLite registry, and commit it at the end."""
    token = _url.set(url)
    try:
        with _sqlite().connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_autocheckpoint=0")  # as in the service
            connection.rollback()
            with connection.execution_options(begin_immediate=True).begin():
                yield connection
    finally:
        _url.reset(token)


@cache
def _sqlite() -> Engine:
    engine = sqlite_engine(Path("unused"))

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, _positional: Any, named: dict[str, Any]) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(_url.get().removeprefix("sqlite:///"), **named)
        return connection

    return engine


@cache
def _postgresql() -> Engine:
    return create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(libpq_address(_url.get())),
        isolation_level="REPEATABLE READ",
        poolclass=NullPool,
        use_native_hstore=False,
    )


def find_faults(tx: Tx, free_quota: int) -> list[Violation]:
    """Return the broken invariants, and the users above their quota: a fault wherever no test lowered it."""
    over_quota = find_over_quota(tx, free_quota)
    return [*check_all(tx), *(Violation(*astuple(each)) for each in over_quota)]
