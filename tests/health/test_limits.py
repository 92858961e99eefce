"""No nameserver gets more queries than its limit, for any number of names and workers, and a tarpit delays no
other name.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sublet.db import open_database
from sublet.health.checker import Checker
from sublet.health.health_keeper import HealthKeeper
from sublet.limits import QUERIES_PER_SECOND
from support.faulty_name_server import FaultyNameServer, faulty_servers_running
from support.network_namespace import runs_outside
from support.running_service import RunningService, running_service
from support.waiting import wait_until

pytestmark = pytest.mark.whole

DOMAIN = "example.test"
ROOT, BUSY, TARPIT = "16.1.1.1", "16.2.1.1", "16.2.2.1"
OTHERS = tuple(f"16.3.{number}.1" for number in range(1, 11))
NAMES: dict[str, str] = {
    **{f"busy{number}": BUSY for number in range(6)},
    **{f"tarpit{number}": TARPIT for number in range(4)},
    **{f"other{number}": address for number, address in enumerate(OTHERS)},
}
ENOUGH_SECONDS = 100.0


def _records(labels: Sequence[str]) -> tuple[str, ...]:
    lines = []
    for fqdn in (f"{label}.{DOMAIN}" for label in labels):
        lines += [
            f"{fqdn}. 300 IN SOA ns.{fqdn}. hostmaster.{fqdn}. 1 3600 900 86400 60",
            f"{fqdn}. 300 IN NS ns.{fqdn}.",
            f"ns.{fqdn}. 300 IN A {NAMES[fqdn.partition('.')[0]]}",
        ]
    return tuple(lines)


def test_limits_hold_over_two_workers(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    faulty_servers = {
        address: FaultyNameServer(
            address,
            _records([label for label, its in NAMES.items() if its == address]),
            frozenset({"tarpit"} if address == TARPIT else ()),
        )
        for address in dict.fromkeys(NAMES.values())
    }
    if runs_outside(request, [ROOT, *faulty_servers]):
        return
    root = FaultyNameServer(ROOT, (". 300 IN SOA root. hostmaster. 1 3600 900 86400 60",))
    address = f"sqlite:///{tmp_path}/registry.db"
    with (
        faulty_servers_running([root, *faulty_servers.values()]),
        running_service(address, health_checks=True, health_root_hints=ROOT) as service,
    ):
        ada = service.add_user()
        service.operator("user", "edit", ada.email, "--free-quota", "100")
        service.add_domain(DOMAIN)
        for label, address in NAMES.items():
            host = f"ns.{label}.{DOMAIN}"
            service.register(
                ada, f"{label}.{DOMAIN}", nameservers=[host], glue=[{"host": host, "ipv4": address}]
            )
        health = asyncio.run(_check_with_another_worker(service, ada))
    for each in faulty_servers.values():
        windows = zip(sorted(each.times), sorted(each.times)[QUERIES_PER_SECOND:], strict=False)
        # A thread of the test notes the times, so they are exact to some milliseconds.
        assert all(later - earlier > 0.8 for earlier, later in windows), (each.address, each.times)
    states = {label: health[label]["state"] for label in NAMES}
    assert {states[label] for label, address in NAMES.items() if address != TARPIT} == {"healthy"}
    first_tarpit = min(health[label]["checked_at"] for label in NAMES if label.startswith("tarpit"))
    assert all(health[label]["checked_at"] < first_tarpit for label in NAMES if label.startswith("other"))


async def _check_with_another_worker(service: RunningService, ada: Any) -> dict[str, Any]:
    """Run a second worker beside that of the service until every name was checked;
    return the health of each.
    """
    database = open_database(service.settings.database_url, service.clock)
    keeper = HealthKeeper(database, Checker(service.settings, database))
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(ENOUGH_SECONDS):
            await asyncio.sleep(0)
            health: dict[str, Any] = {}
            service.clock.pass_time(minutes=2)  # the names are listed
            while not health or any(each["checked_at"] is None for each in health.values()):
                if not health:
                    await _until_listed(service)
                    service.clock.pass_time(minutes=4)  # and due
                await asyncio.sleep(0.5)
                health = {
                    label: (
                        await asyncio.to_thread(
                            service.call, ada, "GET", f"/subdomains/{label}.{DOMAIN}/health"
                        )
                    ).json()["health"]
                    for label in NAMES
                }
            return health
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await database.close()


async def _until_listed(service: RunningService) -> None:
    def is_listed() -> bool:
        return len(service.operator("health", "list")) == len(NAMES)

    await asyncio.to_thread(wait_until, is_listed, 60)
