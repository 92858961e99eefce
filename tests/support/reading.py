"""Reading transactions of registries that a service uses at the same time.

All registries of a process share one engine for each kind of database, because an engine compiles each statement once: the doctor's
statements take half a second.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import NullPool

from sublet.db import sqlite_engine
from sublet.db.connect import libpq_address, postgresql_engine

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


@cache
def _sqlite() -> Engine:
    engine = sqlite_engine("sqlite://")

    @event.listens_for(engine, "do_connect", insert=True)
    def connect(_dialect: Any, _record: Any, _positional: Any, named: dict[str, Any]) -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(_url.get().removeprefix("sqlite:///"), **named)
        return connection

    return engine


@cache
def _postgresql() -> Engine:
    engine = postgresql_engine("postgresql://", poolclass=NullPool, isolation_level="REPEATABLE READ")

    @event.listens_for(engine, "do_connect", insert=True)
    def connect(
        _dialect: Any, _record: Any, _positional: Any, named: dict[str, Any]
    ) -> "psycopg.Connection[Any]":
        return psycopg.connect(libpq_address(_url.get()), **named)

    return engine
