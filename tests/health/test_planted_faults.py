"""Each finding is planted in a small Internet of real servers, and found there; nothing else is found."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sublet.health.ask import Asker
from sublet.health.findings import CODES, report
from sublet.health.model import Report
from sublet.health.observe import Observer
from sublet.health.resolve import IteratingResolver
from support.dns_world import ROOT_ADDRESS, world_running
from support.network_namespace import runs_outside
from support.planted_faults import Planted, planted_world


@asynccontextmanager
async def _claimed(_addresses: Sequence[str]) -> AsyncIterator[None]:
    yield


def test_each_fault_is_found_and_nothing_else(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    world, cases, _ = planted_world()
    if runs_outside(request, world.addresses):
        return
    assert {code for each in cases for code in each.codes} == CODES.keys()

    async def look(case: Planted) -> Report:
        asker = Asker()
        observer = Observer(asker, IteratingResolver(asker, [ROOT_ADDRESS]), _claimed)
        return report(case.target(), await observer.observe(case.target()), datetime.now(UTC))

    async def look_at_all() -> list[Report]:
        return list(await asyncio.gather(*(look(each) for each in cases)))

    with world_running(tmp_path, world):
        reports = asyncio.run(look_at_all())
    expected = {each.label: (each.state, set(each.codes)) for each in cases}
    found = {
        case.label: (got.state, {each.code for each in got.findings})
        for case, got in zip(cases, reports, strict=True)
    }
    assert found == expected, [
        each.message
        for case, got in zip(cases, reports, strict=True)
        if found[case.label] != expected[case.label]
        for each in got.findings
    ]
