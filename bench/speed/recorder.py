"""Which statements the service sends for a request: the real application in this process, over drivers that note what they are asked.

Nothing runs beside it: no worker, no other client. So what is noted between a request and its answer belongs to that request.
"""

import asyncio
import re
import sqlite3
import sqlite3.dbapi2
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import httpx
import psycopg
from psycopg.pq import TransactionStatus

from speed.load import Request
from speed.servers import SETTINGS
from sublet.accounts.authenticate import authenticate
from sublet.config import load_settings
from sublet.db import open_database
from sublet.db.pipeline import Asker, NotAnswered
from sublet.http.app import build_app
from sublet.http.endpoints import BASE_PATH, Context
from sublet.http.limits import Limits, borrow_whole
from sublet.http.observe import Metrics
from sublet.http.settling import Settling

NOTIFYING = ("LISTEN", "UNLISTEN", "NOTIFY", "SELECT PG_NOTIFY")
"""Statements that are not a request's own: many requests share one."""
_SAVEPOINT = re.compile(r"sa_savepoint_\d+")
"""Savepoints are numbered; a statement is to have the same text each time."""


@dataclass(slots=True)
class Statement:
    """A statement as the driver got it, on which connection; `is_read` where its rows were fetched.

    `given` is the number that others may refer to it by: the first column of its first row, or the id of the row that it added.
    """

    connection: int
    sql: str
    parameters: Any = None
    many: bool = False
    given: Any = None
    is_read: bool = False


@dataclass(slots=True)
class Notes:
    """What was noted since it was last taken."""

    statements: list[Statement] = field(default_factory=list)

    def take(self) -> list[Statement]:
        """Return what was noted, and begin anew."""
        taken, self.statements = self.statements, []
        return taken

    def end(self, connection: object, word: str) -> None:
        """Note the end of a transaction."""
        self.statements.append(Statement(id(connection), word))


NOTES = Notes()


class _Noting:
    """What the cursors of both drivers have in common."""

    connection: Any
    current: Statement | None = None

    def note(self, sql: Any, parameters: Any, *, many: bool = False) -> None:
        text = sql.decode() if isinstance(sql, bytes) else str(sql)
        self.current = Statement(
            id(self.connection), _SAVEPOINT.sub("a_savepoint", text), parameters, many=many
        )
        NOTES.statements.append(self.current)

    def see(self, row: Any) -> None:
        if self.current is not None:
            self.current.is_read = True
            if row is not None and self.current.given is None:
                self.current.given = row[0]


class SqliteCursor(_Noting, sqlite3.Cursor):
    """A cursor that notes."""

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Do so, and note it."""
        self.note(sql, parameters)
        result = super().execute(sql, parameters)
        if self.current is not None and sql.lstrip()[:6].upper() == "INSERT":
            self.current.given = self.lastrowid
        return result

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Do so, and note it."""
        rows = list(parameters)
        self.note(sql, rows, many=True)
        return super().executemany(sql, rows)

    def fetchone(self) -> Any:
        """Do so, and note what is seen."""
        row = super().fetchone()
        self.see(row)
        return row

    def fetchall(self) -> Any:
        """Do so, and note what is seen."""
        rows = super().fetchall()
        self.see(rows[0] if rows else None)
        return rows


class SqliteConnection(sqlite3.Connection):
    """A connection that notes; in C its own `execute` would take a plain cursor."""

    def cursor(self, factory: Any = SqliteCursor) -> Any:
        """Return a cursor that notes."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Do so, and note it."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Do so, and note it."""
        return self.cursor().executemany(sql, parameters)

    def commit(self) -> None:
        """Do so, and note it."""
        NOTES.end(self, "COMMIT")
        super().commit()

    def rollback(self) -> None:
        """Do so, and note it where there was something to roll back."""
        if self.in_transaction:
            NOTES.end(self, "ROLLBACK")
        super().rollback()


class PostgresqlCursor(_Noting, psycopg.Cursor[Any]):
    """A cursor that notes."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Do so, and note it."""
        self.note(query, params)
        return super().execute(query, params, **options)

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> Any:
        """Do so, and note it."""
        rows = list(params_seq)
        self.note(query, rows, many=True)
        return super().executemany(query, rows, **options)

    def fetchone(self) -> Any:
        """Do so, and note what is seen."""
        row = super().fetchone()
        self.see(row)
        return row

    def fetchall(self) -> Any:
        """Do so, and note what is seen."""
        rows = super().fetchall()
        self.see(rows[0] if rows else None)
        return rows


class PostgresqlConnection(psycopg.Connection[Any]):
    """A connection that notes."""

    def commit(self) -> None:
        """Do so, and note it."""
        NOTES.end(self, "COMMIT")
        super().commit()

    def rollback(self) -> None:
        """Do so, and note it where there was something to roll back."""
        if self.info.transaction_status != TransactionStatus.IDLE:
            NOTES.end(self, "ROLLBACK")
        super().rollback()


@contextmanager
def noting() -> Iterator[None]:
    """Have every connection that this process makes in the block note what it is asked."""
    to_sqlite, to_postgresql = sqlite3.dbapi2.connect, psycopg.connect

    def connect_sqlite(*args: Any, **options: Any) -> Any:
        return to_sqlite(*args, **{"factory": SqliteConnection, **options})

    def connect_postgresql(*args: Any, **options: Any) -> Any:
        return PostgresqlConnection.connect(*args, **{"cursor_factory": PostgresqlCursor, **options})

    # The drivers have no place for this: who makes connections is the service, which is not to know of it.
    sqlite3.dbapi2.connect, psycopg.connect = connect_sqlite, connect_postgresql
    # A pipeline has no cursor: without one, single questions come by the driver like all others.
    by_pipeline, Asker.ask = Asker.ask, _no_pipeline  # type: ignore[method-assign, assignment]
    NOTES.take()
    try:
        yield
    finally:
        sqlite3.dbapi2.connect, psycopg.connect = to_sqlite, to_postgresql
        Asker.ask = by_pipeline  # type: ignore[method-assign]


async def _no_pipeline(*_: object) -> NoReturn:
    raise NotAnswered


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request, the status of its answer, and the statements that it took."""

    request: Request
    status: int
    statements: tuple[Statement, ...]


def record(url: str, requests: Sequence[Request]) -> list[Recorded]:
    """Send requests, one after the other, to the application over a registry; return what each asked of the database."""
    with noting():
        return asyncio.run(_record(url, requests))


async def _record(url: str, requests: Sequence[Request]) -> list[Recorded]:
    settings = load_settings(None, SETTINGS | {"SUBLET_DATABASE_URL": url, "SUBLET_LOG_LEVEL": "error"})
    database = open_database(url)
    context = Context(
        settings=settings,
        db=database,
        authenticate=authenticate,
        limits=Limits(settings, borrow_whole),
        metrics=Metrics(),
        settling=Settling(database),
    )
    transport = httpx.ASGITransport(build_app(context, f"http://localhost{BASE_PATH}"))
    found = []
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for each in requests:
                NOTES.take()
                answer = await client.request(
                    each.method, each.path, headers=each.headers(), content=each.body.encode() or None
                )
                statements = [one for one in NOTES.take() if not one.sql.upper().startswith(NOTIFYING)]
                found.append(Recorded(each, answer.status_code, tuple(statements)))
    finally:
        await database.close()
    return found
