"""Rate limits over several processes: what they borrow of one window in PostgreSQL is never more than the limit."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from sublet.config import Settings
from sublet.db import Database, Tx, open_database
from sublet.errors import Unavailable
from sublet.http import limits
from sublet.http.limits import FAILED_AUTHENTICATION, Allowance, Borrow, Limits, borrow_from
from sublet.http.rate_store import SHARE, WINDOW_SECONDS, Loan, forget_ended, lend, rate_windows
from support.postgresql import fresh_database
from support.registry import Prepared


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Processes:
    """Several processes' limits over one database, each with its own connections; their clocks are the test's."""

    def __init__(self, url: str, count: int, **chosen: int) -> None:
        settings = Settings(database_url=url, **chosen)  # type: ignore[arg-type]
        self.clock = Clock()
        self.dbs: list[Database] = [open_database(url, may_lose_writes=True) for _ in range(count)]
        self.limits = [Limits(settings, borrow_from(settings, db), self.clock) for db in self.dbs]

    async def take(self, process: int, policy: str = "write", key: str = "1") -> Allowance:
        taken = await self.limits[process].take(policy, key)
        assert taken is not None
        return taken

    async def allowed(self, order: Sequence[int], policy: str = "write", key: str = "1") -> int:
        """Take one after the other, at these processes; tell how many were allowed."""
        return sum([(await self.take(process, policy, key)).allowed for process in order])

    async def minute_passes(self, seconds: float = WINDOW_SECONDS) -> None:
        """Let time pass for the processes and, since its clock can't be moved, have the database's windows end earlier."""
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
def test_the_sum_in_turn_is_the_limit(url: str, limit: int, processes: int) -> None:
    """Asked in turn, up to four processes strand nothing: the limit is let through before the first refusal."""

    async def story() -> tuple[int, int]:
        async with opened(url, processes, rate_limit_write_per_minute=limit) as some:
            return await some.allowed(robin(limit, processes)), await some.allowed(robin(40, processes))

    assert asyncio.run(story()) == (limit, 0)


def test_what_is_stranded_is_at_most_a_share(url: str) -> None:
    """Who changes to another process leaves at most what the first one had borrowed and not spent."""

    async def story() -> tuple[int, int]:
        async with opened(url, 2, rate_limit_write_per_minute=120) as some:
            first = await some.allowed([0] * 33)
            held = some.limits[0]._windows["write", "1"].left
            assert 0 < held <= 120 // SHARE
            assert first + await some.allowed([1] * 120) == 120 - held
            return await some.allowed([0] * 120), held

    left, held = asyncio.run(story())
    assert left == held


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    limit=st.integers(1, 60),
    bursts=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=30), min_size=1, max_size=6),
    policy=st.sampled_from(["write", FAILED_AUTHENTICATION]),
)
def test_at_once_it_is_never_above_the_limit(
    url: str, limit: int, bursts: list[list[int]], policy: str
) -> None:
    """Whatever is asked at once and wherever: not more than the limit; and in the end the limit, when all have asked enough."""

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


def test_every_failed_authentication_counts_at_once(url: str) -> None:
    """No process keeps any for itself: each failure counts at once, wherever it comes."""

    async def story() -> None:
        async with opened(url, rate_limit_failed_auth_per_minute=5) as some:
            order = [0, 0, 0, 1, 3, 2, 0]
            taken = [(await some.take(process, FAILED_AUTHENTICATION)).allowed for process in order]
            assert taken == [True] * 5 + [False] * 2

    asyncio.run(story())


def test_the_window_ends_and_begins_anew(url: str) -> None:
    """What was borrowed of a window dies with it, also at a process that did not ask since."""

    async def story() -> None:
        async with opened(url, 2, rate_limit_write_per_minute=40) as some:
            assert await some.allowed([0] * 25) == 25
            assert await some.allowed([1]) == 1
            assert some.limits[0]._windows["write", "1"].left
            await some.minute_passes(59)
            taken = await some.take(0)
            assert (taken.allowed, taken.reset_seconds) == (True, 1)
            await some.minute_passes(1)
            assert await some.allowed(robin(80, 2)) == 40
            assert await some.windows() == 1

    asyncio.run(story())


def test_one_process_tells_what_is_left_exactly(url: str) -> None:
    async def story() -> list[tuple[int, int]]:
        async with opened(url, 1, rate_limit_write_per_minute=50) as some:
            taken = [await some.take(0) for _ in range(51)]
            return [(each.remaining, each.reset_seconds) for each in taken]

    told = asyncio.run(story())
    assert [remaining for remaining, _ in told] == [*range(49, -1, -1), 0]
    assert {seconds for _, seconds in told} <= {59, 60}


def test_keys_and_policies_are_counted_apart(url: str) -> None:
    async def story() -> None:
        async with opened(url, 2, rate_limit_write_per_minute=1, rate_limit_read_per_minute=1) as some:
            for policy in ("write", "read"):
                for key in ("1", "2"):
                    assert await some.allowed([0, 1], policy, key) == 1
            assert await some.windows() == 4

    asyncio.run(story())


def test_a_limit_that_was_lowered_lends_nothing_more(url: str) -> None:
    """While processes are restarted one after the other with another setting, both limits are looked at by their own."""

    async def story() -> None:
        async with opened(url, 1) as some:
            loans = [await lend(some.dbs[0], "read", "1", limit, 8) for limit in (40, 4, 40)]
            assert [(each.count, each.not_lent) for each in loans] == [(8, 32), (0, 0), (8, 24)]

    asyncio.run(story())


def test_windows_that_are_over_are_deleted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOANS_BETWEEN_FORGETTING", 5)
    monkeypatch.setattr(limits, "ENDED_MAX", 10)

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
            assert left[0] == 23  # begun anew in its place
            assert left[-1] == 14
            assert await forget_ended(some.dbs[0], 100) == 0

    asyncio.run(story())


def test_without_its_database_nothing_is_counted_and_the_next_request_asks_again(
    url: str, postgresql_server: str
) -> None:
    """Where the database is away the request is refused as any is then; what was not lent is there afterwards."""
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


def test_what_it_costs(url: str) -> None:
    """How many of the requests of one token in a minute ask the database: few, and fewer where one process has them all."""

    async def borrowed(processes: int, requests: int, policy: str) -> int:
        async with opened(url, processes) as some:
            await some.minute_passes()
            asked = 0

            def counting(borrow: Borrow) -> Borrow:
                async def counted(*wanted: Any) -> Loan:
                    nonlocal asked
                    asked += 1
                    return await borrow(*wanted)

                return counted

            for each in some.limits:
                each._borrow = counting(each._borrow)
            assert await some.allowed(robin(requests, processes), policy) == requests
            return asked

    async def story() -> list[int]:
        return [
            await borrowed(processes, requests, policy)
            for processes in (1, 4)
            for requests, policy in ((100, "read"), (600, "read"), (100, "write"))
        ]

    assert asyncio.run(story()) == [5, 27, 12, 12, 37, 26]
