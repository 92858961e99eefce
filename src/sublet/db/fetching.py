"""The connection to PostgreSQL over which the event loop sends single queries."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg

Connect = Callable[[], Coroutine[Any, Any, "psycopg.AsyncConnection[Any]"]]


class Fetching:
    """Opens one connection when the first query needs it, and another one when it is lost. Queries on it wait for each other."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._opening: asyncio.Task[psycopg.AsyncConnection[Any]] | None = None
        self.is_outdated = False
        """True after another connection was lost: this one may lead to a server that became a standby."""

    async def rows(self, text: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            psycopg.Error: the connection can't be opened or is lost, or PostgreSQL refuses the query.
        """
        cursor = await (await self._connection()).execute(text, parameters)
        return await cursor.fetchall()

    async def _connection(self) -> "psycopg.AsyncConnection[Any]":
        loop = asyncio.get_running_loop()
        opening = self._opening
        if opening is None or opening.get_loop() is not loop or self.is_outdated or self._is_lost(opening):
            self.is_outdated = False
            self.close()
            opening = self._opening = loop.create_task(self._connect())
        return await asyncio.shield(opening)

    @staticmethod
    def _is_lost(opening: "asyncio.Task[psycopg.AsyncConnection[Any]]") -> bool:
        if not opening.done():
            return False
        return opening.cancelled() or opening.exception() is not None or opening.result().closed

    def close(self) -> None:
        """Close the connection; the next query opens another one."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        if not opening.done():
            opening.cancel()
        elif not self._is_lost(opening):
            opening.result().pgconn.finish()
