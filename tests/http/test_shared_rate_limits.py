"""Rate limits over several processes: their reservations of a window in PostgreSQL never exceed the limit."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from sublet.config import Settings
from sublet.db import Database, Tx, open_database
from sublet.errors import Unavailable
from sublet.operations import rate_limiter
from sublet.operations.rate_limit_store import (
    RESERVED_PART,
    WINDOW_SECONDS,
    delete_ended,
    rate_windows,
)
from sublet.operations.rate_limiter import (
    FAILED_AUTHENTICATION,
    Allowance,
    RateLimiter,
    choose_reserve,
)
from support.postgresql import fresh_database
from support.registry import Prepared


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Processes:
    """The rate limiters of several processes with one database.

    Each has connections of its own; the test sets their clock.
    """

    def __init__(self, url: str, count: int, **chosen: int) -> None:
        settings = Settings(database_url=url, **chosen)  # type: ignore[arg-type]
        self.clock = Clock()
        self.dbs: list[Database] = [open_database(url, may_lose_writes=True) for _ in range(count)]
        self.limiters = [RateLimiter(settings, choose_reserve(settings, db), self.clock) for db in self.dbs]

    async def take(self, process: int, policy: str = "write", key: str = "1") -> Allowance:
        taken = await self.limiters[process].take(policy, key)
        assert taken is not None
        return taken

    async def allowed(self, order: Sequence[int], policy: str = "write", key: str = "1") -> int:
        """Send one request after the other to these processes; return how many were allowed."""
        return sum([(await self.take(process, policy, key)).allowed for process in order])

    async def minute_passes(self, seconds: float = WINDOW_SECONDS) -> None:
        """Advance the processes' clock, and end the database's windows earlier, because its clock can't be
        moved.
        """
        self.clock.now += seconds

        def earlier(tx: Tx) -> None:
            moved = text("UPDATE rate_windows SET ends_at = ends_at - make_interval(secs => :seconds)")
            tx.connection.execute(moved, {"seconds": seconds})

        await self.dbs[0].write(earlier)

    async def windows(self) -> int:
        def count(tx: Tx) -> int:
            return int(tx.connection.execute(select(func.count()).select_from(rate_windows)).scalar_one())

        return await self.dbs[0].read(count)


@pytest.fixture
def url(postgresql_server: str, postgresql_registry: Prepared) -> Iterator[str]:
    with fresh_database(postgresql_server, like=postgresql_registry.url) as fresh:
        yield fresh


@asynccontextmanager
async def opened(url: str, count: int = 4, **chosen: int) -> AsyncIterator[Processes]:
    some = Processes(url, count, **chosen)
    try:
        yield some
    finally:
        for db in some.dbs:
            await db.close()


def robin(count: int, processes: int = 4) -> list[int]:
    return [number % processes for number in range(count)]


@pytest.mark.parametrize(("limit", "processes"), [(1, 2), (3, 4), (20, 2), (120, 4), (600, 4)])
def test_requests_in_turn_at_several_processes_reach_the_limit(url: str, limit: int, processes: int) -> None:
    """In a round robin over up to four processes the whole limit is allowed before the first refusal."""

    async def story() -> tuple[int, int]:
        async with opened(url, processes, rate_limit_write_per_minute=limit) as some:
            return await some.allowed(robin(limit, processes)), await some.allowed(robin(40, processes))

    assert asyncio.run(story()) == (limit, 0)


def test_a_process_strands_at_most_its_reservation(url: str) -> None:
    """After a change to another process, the first process keeps only what it has
    reserved and not counted.
    """

    async def story() -> tuple[int, int]:
        async with opened(url, 2, rate_limit_write_per_minute=120) as some:
            first = await some.allowed([0] * 33)
            held = some.limiters[0]._windows["write", "1"].left
            assert 0 < held <= 120 // RESERVED_PART
            assert first + await some.allowed([1] * 120) == 120 - held
            return await some.allowed([0] * 120), held

    left, held = asyncio.run(story())
    assert left == held


@pytest.mark.uncovered
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    limit=st.integers(1, 60),
    bursts=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), min_size=1, max_size=6),
    policy=st.sampled_from(["write", FAILED_AUTHENTICATION]),
)
def test_concurrent_requests_never_exceed_the_limit(
    url: str, limit: int, bursts: list[list[int]], policy: str
) -> None:
    """Concurrent requests at any processes never exceed the limit. After enough requests they reach it."""

    async def story() -> None:
        chosen = {"rate_limit_write_per_minute": limit, "rate_limit_failed_auth_per_minute": limit}
        async with opened(url, **chosen) as some:
            await some.minute_passes()
            allowed = 0
            for burst in bursts:
                taken = await asyncio.gather(*(some.take(process, policy) for process in burst))
                allowed += sum(each.allowed for each in taken)
                assert allowed <= limit
            rest = await asyncio.gather(*(some.take(process, policy) for process in robin(4 * limit + 4)))
            assert allowed + sum(each.allowed for each in rest) == limit

    asyncio.run(story())


def test_every_failed_authentication_counts_immediately(url: str) -> None:
    """Each failed authentication counts at once, at any process, because processes reserve them singly."""

    async def story() -> None:
        async with opened(url, rate_limit_failed_auth_per_minute=5) as some:
            order = [0, 0, 0, 1, 3, 2, 0]
            taken = [(await some.take(process, FAILED_AUTHENTICATION)).allowed for process in order]
            assert taken == [True] * 5 + [False] * 2

    asyncio.run(story())


def test_a_window_ends_and_the_next_one_begins(url: str) -> None:
    """A reservation ends with its window, also at a process that has counted nothing since."""

    async def story() -> None:
        async with opened(url, 2, rate_limit_write_per_minute=40) as some:
            assert await some.allowed([0] * 25) == 25
            assert await some.allowed([1]) == 1
            assert some.limiters[0]._windows["write", "1"].left
            await some.minute_passes(59)
            taken = await some.take(0)
            assert (taken.allowed, taken.reset_seconds) == (True, 1)
            await some.minute_passes(1)
            assert await some.allowed(robin(80, 2)) == 40
            assert await some.windows() == 1

    asyncio.run(story())


def test_a_window_ends_if_the_clock_of_the_database_is_set_back(url: str) -> None:
    async def story() -> None:
        async with opened(url, 2, rate_limit_write_per_minute=4) as some:
            assert await some.allowed([0] * 5) == 4
            await some.minute_passes(-86_400)
            assert await some.allowed([1] * 5) == 4

    asyncio.run(story())


def test_expired_windows_are_deleted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "RESERVATIONS_BETWEEN_DELETIONS", 5)
    monkeypatch.setattr(rate_limiter, "DELETED_MAX", 10)

    async def story() -> None:
        async with opened(url, 1) as some:
            for number in range(23):
                await some.take(0, key=str(number))
            assert await some.windows() == 23
            await some.minute_passes()
            left = []
            for number in range(20, 34):
                await some.take(0, key=str(number))
                left.append(await some.windows())
            assert left[0] == 23  # a new window in the row of the ended one
            assert left[-1] == 14
            assert await delete_ended(some.dbs[0], 100) == 0

    asyncio.run(story())


def test_a_request_without_the_database_is_refused_and_not_counted(url: str, postgresql_server: str) -> None:
    """Without the database a request is refused.

    The unreserved part of the window is available afterwards.
    """
    name = url.rpartition("/")[2]

    def reachable(allowed: str) -> None:
        with psycopg.connect(postgresql_server, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")
            if allowed == "false":
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
                )

    async def story() -> None:
        async with opened(url, 1, rate_limit_write_per_minute=2) as some:
            assert (await some.take(0)).allowed
            await asyncio.to_thread(reachable, "false")
            for policy in ("write", FAILED_AUTHENTICATION):
                with pytest.raises(Unavailable):
                    await some.take(0, policy)
            await asyncio.to_thread(reachable, "true")
            assert await some.allowed([0, 0]) == 1

    asyncio.run(story())
