"""One of several workers sweeps, and one checks a zone.

The clock of another worker has no effect until the first is gone.
"""

import asyncio
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog

from sublet.db import open_database, utc_now
from sublet.dns.types import Primary, TsigKey
from sublet.platform_domains import zone_store
from sublet.primaries.check_process import CheckRequest
from sublet.primaries.drift_repair import DriftRepair
from sublet.primaries.primary import PrimaryFault
from sublet.processes import leases
from sublet.processes.leases import SWEEP, check_lease
from sublet.processes.model import Lease
from sublet.secret import Secret
from sublet.service.announced import announced
from sublet.subdomains.sweep import runner
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.runner import SweepRunner
from support.leases import find, run_out
from support.postgresql import fresh_database
from support.registry import Prepared, Registry, open_registry
from support.waiting import wait_until

NO_DATABASE = "sqlite:////nowhere/at-all.db"
"""The address of a primary that no check reaches."""


@pytest.fixture
def shared(postgresql_server: str, postgresql_registry: Prepared) -> Iterator[tuple[Registry, str]]:
    """A registry on PostgreSQL, the only database with several workers, and its address."""
    with (
        fresh_database(postgresql_server, like=postgresql_registry.url) as url,
        open_registry(url, postgresql_registry) as registry,
    ):
        yield registry, url


async def _beside_a_wrong_clock(registry: Registry, url: str) -> None:
    """One worker sweeps.

    Another one, whose clock is three hours behind, would stop the sweep if it could sweep.
    """
    behind = open_database(url, lambda: registry.now - timedelta(hours=3), may_lose_writes=True)
    try:
        one = SweepRunner(registry.db, lambda: 0.0, holder="a", clock_ahead=timedelta)
        other = SweepRunner(behind, lambda: 0.0, holder="b", clock_ahead=timedelta)
        await one.tick()
        for _ in range(3):
            assert await other.tick() is None
        assert (await registry.db.read(sweep_store.find_sweep_state)).stopped_at is None
        # The first worker is gone, so the clock of the second one counts.
        await registry.db.write(run_out, SWEEP)
        await other.tick()
        state = await registry.db.read(sweep_store.find_sweep_state)
        assert "before the sweep last ran" in str(state.stopped_reason)
        assert (await registry.db.read(find, SWEEP)).holder == "b"
        assert await one.tick() is None
        assert one.stopped is False, "it is told by the one that sweeps"
    finally:
        await behind.close()


def test_a_second_host_with_another_clock_does_not_stop_the_sweep(
    shared: tuple[Registry, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SWEEP_FOR", leases.DURATION_MAX)  # no lease ends before the test ends it
    registry, url = shared
    registry.run(_beside_a_wrong_clock(registry, url))


@pytest.mark.parametrize(
    ("hours", "reason"),
    [
        (3, "The clock of the worker's host is 3 hours ahead of the database's clock."),
        (-72, "The clock of the worker's host is 3 days behind the database's clock."),
        (0, None),
    ],
)
def test_a_worker_whose_clock_differs_from_the_databases_stops_the_sweep(
    shared: tuple[Registry, str], hours: int, reason: str | None
) -> None:
    registry, url = shared

    async def story() -> None:
        db = open_database(url, lambda: utc_now() + timedelta(hours=hours), may_lose_writes=True)
        try:
            async with announced(db, "worker") as presence:
                runner = SweepRunner(
                    db, time.monotonic, holder=presence.id, clock_ahead=lambda: presence.clock_ahead
                )
                await runner.tick()
                state = await db.read(sweep_store.find_sweep_state)
                assert state.stopped_reason == reason
        finally:
            await db.close()

    registry.run(story())


def test_a_slow_database_is_no_jump_of_the_clock(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clocks go on by a day while the runner reads what is due."""
    passed = timedelta()
    read = registry.db.read

    async def read_slowly(*words: Any) -> Any:
        nonlocal passed
        found = await read(*words)
        if words[0].__name__ == "_read_sweep" and not passed:
            passed = timedelta(days=1)
            registry.now += passed
        return found

    def monotonic() -> float:
        return passed.total_seconds()

    async def story() -> None:
        runner = SweepRunner(registry.db, monotonic, holder="a", clock_ahead=timedelta)
        for _ in range(2):
            await runner.tick()
        assert (await read(sweep_store.find_sweep_state)).stopped_at is None

    monkeypatch.setattr(registry.db, "read", read_slowly)
    registry.run(story())


def test_a_lease_is_renewed_again_after_a_fault(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error, such as a missing privilege, is logged, and the lease is renewed again."""
    tried: list[str] = []

    def renew_lease(_tx: object, lease: Lease, _lasts: timedelta) -> Lease:
        tried.append(lease.name)
        raise RuntimeError("a fault")

    async def story() -> None:
        async with leases.keep_lease(
            registry.db, Lease("publish:1", "a", 1, registry.now), timedelta(seconds=0.01)
        ):
            await asyncio.to_thread(wait_until, lambda: len(tried) > 1)

    monkeypatch.setattr(leases, "renew_lease", renew_lease)
    with structlog.testing.capture_logs() as logs:
        registry.run(story())
    assert {each["event"] for each in logs} == {"lease_fault"}


def test_a_check_cancelled_during_its_start_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    begin, reached = subprocess.Popen, asyncio.Event()

    def begin_and_note(*words: Any, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(begin(*words, **options))
        reached.set()
        return started[0]

    async def story() -> None:
        def find_primary(name: str) -> Primary:
            raise PrimaryFault("settings", f"there is no {name}", certain=True)

        database = open_database("sqlite:///:memory:")
        keeper = DriftRepair(database, NO_DATABASE, find_primary, holder="a")
        primary = Primary("main", "127.0.0.1", 1, TsigKey("key", "hmac-sha256", Secret("eA==")))
        checking = asyncio.create_task(keeper._run(CheckRequest(NO_DATABASE, 1, primary, utc_now())))
        await reached.wait()
        checking.cancel()
        await asyncio.wait([checking])
        await database.close()

    monkeypatch.setattr(subprocess, "Popen", begin_and_note)
    asyncio.run(story())
    assert started[0].returncode == -signal.SIGKILL


def test_only_the_holder_of_the_lease_checks_a_zone(registry: Registry) -> None:
    domain_id = registry.domains["example.test"]
    asked = []

    def keeper(holder: str) -> DriftRepair:
        def find_primary(name: str) -> Primary:
            asked.append(holder)
            raise PrimaryFault("settings", f"{holder} has no {name}", certain=True)

        return DriftRepair(registry.db, NO_DATABASE, find_primary, holder=holder)

    one, other = keeper("a"), keeper("b")

    def look(who: DriftRepair) -> str | None:
        registry.run(who._watch(domain_id, "example.test", "main"))
        return registry.read(zone_store.find_zone_state, domain_id).watch_problem_detail

    assert look(one) == look(other) == "a has no main"
    assert asked == ["a"]
    registry.write(run_out, check_lease(domain_id))
    look(other)
    look(one)
    assert asked == ["a", "b"]
