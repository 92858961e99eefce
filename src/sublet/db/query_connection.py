"""The connection to PostgreSQL on which the event loop sends single queries."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import psycopg
from msgspec import Struct

from sublet.db.error_kinds import ErrorKind, classify_error

AsyncConnection = psycopg.AsyncConnection[Any]
Connect = Callable[[], Coroutine[Any, Any, AsyncConnection]]


class _CountedConnection(Struct, eq=False):
    """A connection, open or opening, and the number of queries that use it.

    If `is_dropped`, the last query closes it.
    """

    opening: "asyncio.Task[AsyncConnection]"
    queries: int = 0
    is_dropped: bool = False

    def is_usable(self) -> bool:
        if self.opening.get_loop() is not asyncio.get_running_loop():
            return False
        return not self.opening.done() or self._connection() is not None

    def drop(self) -> None:
        self.is_dropped = True
        if not self.queries:
            self.close()

    def close(self) -> None:
        self.opening.cancel()  # no effect on an open connection
        connection = self._connection() if self.opening.done() else None
        if connection is not None:
            connection.pgconn.finish()

    def _connection(self) -> AsyncConnection | None:
        if self.opening.cancelled() or self.opening.exception() is not None:
            return None
        connection = self.opening.result()
        return None if connection.closed else connection


class QueryConnection:
    """A connection that opens at the first query, and again after a loss, and runs one query at a time."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._current: _CountedConnection | None = None
        self._is_outdated = False

    async def rows(self, text: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            psycopg.Error: the connection can't be opened or is lost, or PostgreSQL refuses the query.
        """
        counted = self._usable_connection()
        counted.queries += 1
        try:
            connection = await asyncio.shield(counted.opening)
            return await (await connection.execute(text, parameters)).fetchall()
        except psycopg.Error as error:
            if classify_error(error) is ErrorKind.LOST and counted is self._current:
                self._drop()
            raise
        finally:
            counted.queries -= 1
            if counted.is_dropped and not counted.queries:
                counted.close()

    def outdate(self) -> None:
        """Make the next query open a new connection, because the server may be a standby now.

        Any thread may call this.
        """
        self._is_outdated = True

    def close(self) -> None:
        """Close the connection now, or after its last query if queries use it."""
        self._drop()

    def _usable_connection(self) -> _CountedConnection:
        if self._current is not None and (self._is_outdated or not self._current.is_usable()):
            self._drop()
        if self._current is None:
            self._is_outdated = False
            self._current = _CountedConnection(asyncio.get_running_loop().create_task(self._connect()))
        return self._current

    def _drop(self) -> None:
        counted, self._current = self._current, None
        if counted is not None:
            counted.drop()
