"""Two services over one PostgreSQL and a real primary: one is killed, or pauses for longer than its leases
last.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries.store import count_waiting
from sublet.processes.leases import publish_lease
from sublet.processes.model import Lease
from support.leases import find
from support.name_servers import primary
from support.postgresql import fresh_database
from support.running_service import Registrant, initialised_postgresql
from support.serve_process import ServeProcess, serve_process, wait_until
from support.service_on_primary import ZONE, ServiceOn, primary_settings, settings_file

pytestmark = pytest.mark.slow

NAME = f"shop.{ZONE}"
OTHER = f"other.{ZONE}"
GIVEN_UP_SECONDS = 30.0
"""An idle transaction is ended after 15 s."""


@dataclass
class Two:
    """Two processes that serve one registry; the test kills or stops `first`."""

    on: ServiceOn
    first: ServeProcess
    second: ServeProcess
    armed: Path
    ada: Registrant

    def put(self, nameserver: str, name: str = NAME) -> None:
        """Change a name through the second."""
        self._call("PUT", f"/subdomains/{name}/nameservers", {"nameservers": [nameserver]})

    def register(self, name: str, nameserver: str) -> None:
        """Register a name through the second."""
        self._call("POST", "/subdomains", {"fqdn": name, "nameservers": [nameserver]})

    def _call(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Send a request, again while it is refused as `unavailable`: a paused process may hold a row until
        PostgreSQL ends its transaction.
        """
        ends_at = time.monotonic() + GIVEN_UP_SECONDS
        while True:
            answer = self.second.service.call(self.ada, method, path, body)
            if answer.status_code != 503 or time.monotonic() > ends_at:
                break
            time.sleep(float(answer.headers["Retry-After"]))
        assert answer.is_success, answer.text

    def lease(self) -> Lease:
        """Return the process that has the zone, or had it last."""
        return self.second.service.read(lambda tx: find(tx, publish_lease(find_platform_domain(tx, ZONE).id)))

    def processes(self) -> dict[int, dict[str, Any]]:
        """What `sublet status` shows, by process id."""
        shown = self.second.service.operator("status")["processes"]
        return {each["pid"]: each for each in shown}

    def pid(self) -> int:
        """The first's process id."""
        assert self.first.process is not None
        return self.first.process.pid

    def is_settled(self) -> bool:
        """Nothing waits for its publication."""
        return self.second.service.read(count_waiting) == {}


@contextmanager
def two_services(url: str, folder: Path, point: str, kill_signal: str, broken: str = "") -> Iterator[Two]:
    """Run a Knot and two services, the first of which gets a signal at a point once it is armed."""
    with (
        primary("knot", folder / "knot", ZONE) as server,
        serve_process(url, folder, broken=broken, free_quota=1000) as first,
        serve_process(url, folder, free_quota=1000) as second,
    ):
        apex = frozenset(server.records())
        section = primary_settings(folder, server)
        armed = folder / "armed"
        path = str(settings_file(folder, [section]))
        for each in (first, second):
            each.environment |= {"SUBLET_CONFIG": path, "SUBLET_PUBLISH_WAIT_MS": "0"}
            each.service.environment["SUBLET_CONFIG"] = path
        first.environment |= {"KILL_ARMED": str(armed), "KILL_SIGNAL": kill_signal}
        second.service.add_domain(ZONE, "--primary", section.name)
        ada = second.service.add_user()
        first.start(point)
        second.start()
        yield Two(ServiceOn(second.service, server, apex), first, second, armed, ada)


@pytest.fixture
def url(postgresql_server: str) -> Iterator[str]:
    with fresh_database(postgresql_server, like=initialised_postgresql()) as address:
        yield address


def _first_gets_it(two: Two) -> None:
    """Let the first process begin with a change of the name and get its signal there;
    it has the zone then.
    """
    two.register(NAME, "ns1.first.example")
    wait_until(two.is_settled)
    two.armed.write_text("1")
    tries = 0
    while not _has_got_it(two):
        tries += 1
        assert tries < 100, "the first never has the zone"
        two.put(f"ns1.try{tries}.example")
        wait_until(lambda: two.is_settled() or _has_got_it(two))


def _has_got_it(two: Two) -> bool:
    if two.first.ended():
        return True
    state = Path(f"/proc/{two.pid()}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return state == "T"


@pytest.mark.whole
@pytest.mark.parametrize("point", ["written_ahead", "applied"])
def test_a_paused_service_overwrites_nothing_afterwards(url: str, tmp_path: Path, point: str) -> None:
    with two_services(url, tmp_path, point, "SIGSTOP") as two:
        _first_gets_it(two)
        before = two.lease()
        two.put("ns1.new.example")
        two.register(OTHER, "ns1.other.example")
        wait_until(two.is_settled)
        after = two.lease()
        assert (after.epoch, after.holder == before.holder) == (before.epoch + 1, False)
        wanted = {(NAME, "NS", "ns1.new.example."), (OTHER, "NS", "ns1.other.example.")}
        assert two.on.records() == wanted
        two.armed.unlink()
        os.kill(two.pid(), signal.SIGCONT)
        # It sends what it was about to send, if it was; the fence refuses that. What it would record, the
        # epoch does.
        wait_until(lambda: "zone_taken_over" in two.first.log.read_text())
        two.put("ns1.last.example", OTHER)
        wait_until(two.is_settled)
        wanted = {(NAME, "NS", "ns1.new.example."), (OTHER, "NS", "ns1.last.example.")}
        assert two.on.records() == wanted
        assert two.second.service.doctor() == []
        assert two.first.stop() == two.second.stop() == 0


def test_a_stopping_service_releases_its_leases_at_once(url: str, tmp_path: Path) -> None:
    with two_services(url, tmp_path, "", "SIGKILL") as two:
        second = two.second.process
        assert second is not None
        two.register(NAME, "ns1.first.example")
        wait_until(two.is_settled)
        assert two.first.stop() == 0
        shown = two.processes()
        assert set(shown) == {second.pid}
        # The sweep and the checks are the other's at its next look, though their leases last a minute.
        wait_until(lambda: {"sweep", "check:1"} <= set(two.processes()[second.pid]["leases"]))
        assert two.second.stop() == 0
        assert two.processes() == {}
