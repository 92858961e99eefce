"""The connection to PostgreSQL over which the event loop sends single queries."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from sublet.db.faults import Fault, fault_of

AsyncConnection = psycopg.AsyncConnection[Any]
Connect = Callable[[], Coroutine[Any, Any, AsyncConnection]]


@dataclass(eq=False, slots=True)
class _Line:
    """One connection, open or opening, and how many queries use it. Once `is_dropped`, the last of them closes it."""

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
        self.opening.cancel()  # no effect if it is open
        connection = self._connection() if self.opening.done() else None
        if connection is not None:
            connection.pgconn.finish()

    def _connection(self) -> AsyncConnection | None:
        if self.opening.cancelled() or self.opening.exception() is not None:
            return None
        connection = self.opening.result()
        return None if connection.closed else connection


class Fetching:
    """Opens one connection when the first query needs it, and another one when it is lost. Queries on it wait for each other."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._line: _Line | None = None
        self._is_outdated = False

    async def rows(self, text: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            psycopg.Error: the connection can't be opened or is lost, or PostgreSQL refuses the query.
        """
        line = self._usable_line()
        line.queries += 1
        try:
            connection = await asyncio.shield(line.opening)
            return await (await connection.execute(text, parameters)).fetchall()
        except psycopg.Error as error:
            if fault_of(error) is Fault.LOST and line is self._line:
                self._drop()
            raise
        finally:
            line.queries -= 1
            if line.is_dropped and not line.queries:
                line.close()

    def outdate(self) -> None:
        """Have the next query open another connection: this one may lead to a server that became a standby. For any thread."""
        self._is_outdated = True

    def close(self) -> None:
        """Close the connection once no query uses it."""
        self._drop()

    def _usable_line(self) -> _Line:
        if self._line is not None and (self._is_outdated or not self._line.is_usable()):
            self._drop()
        if self._line is None:
            self._is_outdated = False
            self._line = _Line(asyncio.get_running_loop().create_task(self._connect()))
        return self._line

    def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.drop()
