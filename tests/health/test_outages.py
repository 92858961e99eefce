"""Outages of the registry make no name broken.

Three days of each, with mails and removals: `tests/long/health/outages.py`.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from long.health.outages import OUTAGES, PORT, RESOLVER, Resolvers, begin, live_through, outage_world, targets
from sublet.config import Settings
from sublet.db import open_database
from sublet.health.checker import Checker
from sublet.migrations import upgrade
from support.dns_world import ROOT_ADDRESS, world_running
from support.network_namespace import runs_outside
from support.repetitions import share
from support.running_service import MovableClock

CHOSEN = share(("udp", "misanchored"), whole=OUTAGES)


def test_an_outage_of_the_registry_is_no_fault_of_a_name(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """First checks and later ones: a check has no memory.

    Without `health_root_hints`, the resolver names the root servers.
    """
    place = outage_world()
    if runs_outside(request, place.world.addresses):
        return
    url = f"sqlite:///{tmp_path}/registry.db"
    upgrade(url)
    clock, resolvers = MovableClock(), Resolvers(tmp_path, place)

    async def check_all(checker: Checker) -> dict[str, str]:
        clock.pass_time(minutes=2)  # The last control is too old.
        results = await asyncio.gather(*(checker.check(each) for each in targets()))
        return {each.fqdn: got.report.state for each, got in zip(targets(), results, strict=True)}

    async def check_in_outages() -> None:
        settings = Settings(database_url=url, health_resolver=f"{RESOLVER}:{PORT}")
        database = open_database(url, clock)
        checker = Checker(settings, database, clock.monotonic)
        working = {each.fqdn: "healthy" for each in targets()}
        assert await check_all(checker) == working
        assert ROOT_ADDRESS in checker.control.root_servers
        for outage in CHOSEN:
            with begin(outage, resolvers, clock):
                assert set((await check_all(checker)).values()) == {"unknown"}, outage
        assert await check_all(checker) == working
        place.victim.faults = frozenset({"silent"})
        assert await check_all(checker) == {**working, "victim.reg.test": "broken"}
        await database.close()

    with world_running(tmp_path / "world", place.world), ExitStack() as stack:
        resolvers.become("good")
        stack.callback(resolvers.become, "none")
        asyncio.run(check_in_outages())


@pytest.mark.whole
def test_the_truth_is_known_again_within_an_hour(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Also about the only name that is broken: no other check ends the stored impairment in time."""
    if runs_outside(request, outage_world().world.addresses):
        return
    (told,) = live_through(tmp_path, ("udp",), 6)
    assert told.startswith("udp: ")
