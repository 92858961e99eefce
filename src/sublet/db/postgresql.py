"""PostgreSQL: psycopg on worker threads.

Verbs take row locks in one order (the user first, then the coupon, then the ledger; what the publisher locks:
`subdomains/publishing.py`); serialization failures and deadlocks are tried again a bounded number of times.
"""

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from sublet.db.changes import Changes
from sublet.db.model import Clock, Tx, unavailable, utc_now
from sublet.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

RETRIES_MAX = 8
_RETRYABLE = ("40001", "40P01")  # serialization_failure, deadlock_detected


class PostgresqlDatabase:
    """PostgreSQL: each call on a worker thread with a pooled connection."""

    def __init__(self, url: str, clock: Clock = utc_now, *, threads: int = 8) -> None:
        self._clock = clock
        self._engine = create_engine(
            make_url(url).set(drivername="postgresql+psycopg"),
            pool_size=threads,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={"connect_timeout": 5},
        )
        self._reading = self._engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sublet-db")
        self._changes = Changes()

    async def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def run() -> R:
            with self._reading.connect() as connection, connection.begin() as transaction:
                try:
                    return fn(Tx(connection, self._clock()), *args, **kwargs)
                finally:
                    transaction.rollback()

        return await self._run(run)

    async def write(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        def run() -> R:
            with self._engine.begin() as connection:
                return fn(Tx(connection, self._clock()), *args, **kwargs)

        result = await self._run(lambda: _with_retries(run))
        self._changes.tell()
        return result

    async def _run(self, run: Callable[[], R]) -> R:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except OperationalError as error:
            raise unavailable(error) from error

    async def changed(self, timeout_seconds: float) -> bool:
        # Commits of other processes are not announced here; a bounded wait lets callers look again.
        return await self._changes.wait(min(timeout_seconds, 0.1))

    async def close(self) -> None:
        self._threads.shutdown(wait=True)
        self._engine.dispose()


def _with_retries(run: Callable[[], R]) -> R:
    for attempt in range(RETRIES_MAX):
        try:
            return run()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _RETRYABLE or attempt == RETRIES_MAX - 1:
                raise
            time.sleep(random.uniform(0, 0.01 * 2**attempt))  # noqa: S311 - jitter, no secret
    raise AssertionError("unreachable")


def open_postgresql(url: str, clock: Clock) -> PostgresqlDatabase:
    """Open the database of an address.

    Raises:
        Unavailable: it can't be opened, or may lose acknowledged writes (`synchronous_commit` off).
    """
    database = PostgresqlDatabase(url, clock)
    try:
        _refuse_lossy(database)
    except Unavailable:
        database._engine.dispose()  # noqa: SLF001 - its own module
        raise
    return database


def _refuse_lossy(database: PostgresqlDatabase) -> None:
    try:
        with database._engine.connect() as connection:  # noqa: SLF001 - its own module
            setting = connection.execute(text("SHOW synchronous_commit")).scalar_one()
    except OperationalError as error:
        raise Unavailable(f"PostgreSQL can't be reached: {error.orig}") from error
    if setting == "off":
        raise Unavailable("PostgreSQL has synchronous_commit = off, which loses writes; set it to on.")
