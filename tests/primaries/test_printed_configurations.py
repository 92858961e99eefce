"""The printed configurations of primaries and secondaries: restarts, power cuts, full disks."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import pytest

from long.faults.failing_disk import full, small_disk
from sublet.dns.types import Secondary
from support.free_ports import free_address
from support.name_server_programs import SECONDARIES
from support.name_servers import KINDS, NameServerProcess, secondary
from support.running_service import Registrant
from support.service_on_primary import ZONE, ServiceOn, check_often, service_on
from support.waiting import wait_until

NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]
DISK_MIB = 64
pytestmark = [pytest.mark.slow, pytest.mark.whole]


@dataclass
class Zone:
    """A service with its zone on a primary, whose state is on a small disk, and on a
    secondary of each kind.
    """

    on: ServiceOn
    secondaries: dict[str, NameServerProcess]
    ada: Registrant
    count: int = 0

    def register(self) -> str:
        """Register a name and return it. It may not be published yet."""
        self.count += 1
        fqdn = f"n{self.count}.{ZONE}"
        self.on.service.register(self.ada, fqdn, nameservers=NAMESERVERS)
        return fqdn

    def wait_until_published(self, fqdn: str) -> None:
        """Wait until the primary has the delegation."""
        wait_until(lambda: _delegates(self.on.primary, fqdn))

    def wait_until_served(self, fqdn: str) -> None:
        """Wait until each server has the newest serial and the delegation."""
        servers = [self.on.primary, *self.secondaries.values()]
        wait_until(lambda: all(_delegates(each, fqdn) for each in servers))
        wait_until(lambda: _has_one_serial(servers))

    def check_records(self) -> None:
        """Check that the primary has exactly the registered names, and each secondary has them too."""
        names = [f"n{number + 1}.{ZONE}" for number in range(self.count)]
        wait_until(
            lambda: self.on.records() == {(name, "NS", f"{host}.") for name in names for host in NAMESERVERS}
        )
        self.wait_until_served(names[-1])
        for server in self.secondaries.values():
            wait_until(lambda: all(_delegates(server, name) for name in names))  # noqa: B023 - waits at once


def _delegates(server: NameServerProcess, fqdn: str) -> bool:
    """Return True if a server refers to the nameservers of a name.

    A server that starts may close connections.
    """
    try:
        reply = server.ask(fqdn, "NS")
    except (OSError, EOFError, dns.exception.DNSException):
        return False
    return any(each.name.to_text() == f"{fqdn}." for each in reply.authority)


def _has_one_serial(servers: Sequence[NameServerProcess]) -> bool:
    try:
        return len({each.serial() for each in servers}) == 1
    except (OSError, EOFError, dns.exception.DNSException):
        return False


@pytest.fixture(params=KINDS)
def zone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Zone]:
    addresses = {kind: free_address(f"127.0.0.{2 + number}") for number, kind in enumerate(("nsd", "knot"))}
    named = [Secondary(f"{kind}.example.net", *address) for kind, address in addresses.items()]
    state = tmp_path / request.param / "s"
    state.parent.mkdir()
    with ExitStack() as stack:
        stack.enter_context(small_disk(state, mib=DISK_MIB))
        on = stack.enter_context(service_on(request.param, tmp_path, secondaries=named))
        secondaries = {
            kind: stack.enter_context(secondary(kind, tmp_path / f"2-{kind}", of=on.primary, address=address))
            for kind, address in addresses.items()
        }
        yield Zone(on, secondaries, on.service.add_user())


def test_no_change_is_lost_by_restarts_and_a_full_disk(zone: Zone) -> None:
    zone.wait_until_served(zone.register())
    for each in zone.secondaries.values():
        each.write_zone_files()
    for end in (NameServerProcess.stop, NameServerProcess.kill):
        zone.wait_until_served(zone.register())
        for server in (zone.on.primary, *zone.secondaries.values()):
            end(server)
            server.start()
        # A secondary that trusts an old zone would be right again after the next change, so there is none.
        zone.wait_until_served(f"n{zone.count}.{ZONE}")
        for server in zone.secondaries.values():
            end(server)
        zone.wait_until_published(zone.register())
        for server in zone.secondaries.values():
            server.start()
        zone.wait_until_served(f"n{zone.count}.{ZONE}")
    primary = zone.on.primary
    with full(primary.folder / "s"):
        last = zone.register()
        primary.write_zone_files()
        primary.kill()
    primary.start()
    zone.wait_until_served(last)
    zone.check_records()


@pytest.mark.parametrize("lost", [1, 12])
def test_a_primary_that_was_rolled_back_is_repaired_with_its_secondaries(
    zone: Zone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """If few changes are lost, the repair reaches serials that the secondaries have stored with other
    records.
    """
    check_often(monkeypatch)
    zone.wait_until_served(zone.register())
    primary = zone.on.primary
    state, copy = primary.folder / "s", tmp_path / "copy"
    primary.stop()
    shutil.copytree(state, copy)
    primary.start()
    for _ in range(lost):
        zone.wait_until_served(zone.register())
    primary.stop()
    shutil.copytree(copy, state, dirs_exist_ok=True)
    primary.start()
    zone.wait_until_served(zone.register())
    zone.check_records()


@pytest.mark.parametrize("kind", SECONDARIES)
def test_a_secondary_follows_after_a_full_disk_and_an_old_state(kind: str, tmp_path: Path) -> None:
    address = free_address("127.0.0.2")
    state, copy = tmp_path / "2" / "s", tmp_path / "copy"
    state.parent.mkdir()
    with (
        small_disk(state, mib=DISK_MIB),
        service_on("knot", tmp_path, secondaries=[Secondary("ns2.example.net", *address)]) as on,
        secondary(kind, tmp_path / "2", of=on.primary, address=address) as server,
    ):
        zone = Zone(on, {kind: server}, on.service.add_user())
        zone.wait_until_served(zone.register())
        server.stop()
        shutil.copytree(state, copy)
        server.start()
        with full(state):
            zone.wait_until_published(zone.register())
            server.write_zone_files()
            server.kill()
        # There is no further change that would cause a transfer.
        server.start()
        zone.check_records()
        server.stop()
        shutil.copytree(copy, state, dirs_exist_ok=True)
        server.start()
        zone.check_records()
