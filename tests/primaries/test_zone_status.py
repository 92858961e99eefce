"""`sublet zone status` and the metrics of a zone on a real primary: without problems,
and with each problem.
"""

import asyncio
import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sublet.cli import zone_probe
from sublet.cli.main import app
from sublet.dns.types import Secondary
from sublet.platform_domains import zone_store
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.primaries import drift_repair, primary_zone, serial_watch, zone_metrics
from sublet.primaries.primary import CAUSES, Fence, read_fence
from support.free_ports import free_address
from support.name_servers import NameServerProcess, fresh_key, secondary
from support.service_on_primary import ZONE, ServiceOn, check_often, service_on
from support.waiting import wait_until

HOST = "ns2.example.net"
NAMESERVERS = ["ns1.provider.example"]
pytestmark = pytest.mark.slow


@dataclass
class Site:
    """A service on a Knot with a secondary."""

    on: ServiceOn
    second: NameServerProcess
    key_file: Path

    def status(self, *, well: bool) -> dict[str, Any]:
        """Return the reported status of the zone. The exit code must match."""
        answer = self.on.service.operator("zone", "status", expect=0 if well else 1)
        assert answer["well"] is well
        (zone,) = answer["zones"]
        assert (zone["zone"], zone["well"]) == (ZONE, well)
        return dict(zone)

    def wait_for_metric(self, name: str, value: float) -> None:
        wait_until(lambda: self.on.service.metrics().get(name) == value)

    def publish(self, label: str) -> None:
        """Register a name and wait until it is published."""
        service, name = self.on.service, f"{label}.{ZONE}"
        token = service.issue_token("ada@example.org")
        service.register(token, name, nameservers=NAMESERVERS)
        self.on.wait_until_active(token, name)


@contextmanager
def opened(folder: Path) -> Iterator[Site]:
    address = free_address("127.0.0.2")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        check_often(patch)
        for limit in ("TIMEOUT_SECONDS", "FOLLOW_SECONDS"):
            patch.setattr(zone_probe, limit, 60.0)
        patch.setattr(serial_watch, "POLL_SECONDS", 0.1)
        patch.setattr(zone_metrics, "POLL_SECONDS", 0.1)
        on = stack.enter_context(
            service_on("knot", folder, secondaries=[Secondary(HOST, *address)], publish_wait_ms=0)
        )
        second = stack.enter_context(secondary("knot", folder / "second", of=on.primary, address=address))
        on.service.add_user()
        site = Site(on, second, folder / "main.key")
        site.publish("first")
        yield site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with opened(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def kept_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site for tests that leave the zone without problems."""
    with opened(tmp_path_factory.mktemp("kept")) as found:
        yield found


def test_a_zone_without_problems(kept_site: Site) -> None:
    zone = kept_site.status(well=True)
    assert zone["wrong"] == []
    assert (zone["fence"], zone["waiting"]) == ("as_left", 0)
    assert zone["primary"]["server"] == "main"
    assert zone["primary"]["serial"] == kept_site.on.primary.serial()
    (second,) = zone["secondaries"]
    assert (second["server"], second["standing"], second["serial"]) == (
        HOST,
        "current",
        kept_site.second.serial(),
    )
    serial = kept_site.on.primary.serial()
    wanted = {
        f'sublet_zone_serial{{role="primary",server="main",zone="{ZONE}"}}': serial,
        f'sublet_zone_serial{{role="secondary",server="{HOST}",zone="{ZONE}"}}': serial,
        f'sublet_name_server_up{{role="primary",server="main",zone="{ZONE}"}}': 1,
        f'sublet_name_server_up{{role="secondary",server="{HOST}",zone="{ZONE}"}}': 1,
        f'sublet_secondary_lag_seconds{{server="{HOST}",zone="{ZONE}"}}': 0,
        f'sublet_secondary_ahead{{server="{HOST}",zone="{ZONE}"}}': 0,
        f'sublet_unpublished_names{{zone="{ZONE}"}}': 0,
        f'sublet_oldest_unpublished_seconds{{zone="{ZONE}"}}': 0,
        f'sublet_zone_repair_stopped{{zone="{ZONE}"}}': 0,
        "sublet_publish_seconds_count": 1,
    }
    wait_until(lambda: wanted.items() <= kept_site.on.service.metrics().items())
    found = kept_site.on.service.metrics()
    for cause in CAUSES:
        assert f'sublet_publish_failures_total{{cause="{cause}"}}' in found
    assert not [name for name in found if name.startswith("sublet_zone_problem")]


@pytest.mark.whole
def test_the_text_output_reports_the_same_problems(kept_site: Site) -> None:
    kept_site.second.kill()
    environment = {
        "SUBLET_DATABASE_URL": kept_site.on.service.settings.database_url,
        **kept_site.on.service.environment,
    }
    told = CliRunner().invoke(app, ["zone", "status"], env=environment)
    assert told.exit_code == 1
    assert f"{ZONE}: 1 problem" in told.output
    assert (
        f"secondary_away: {HOST} is away: 127.0.0.2, port {kept_site.second.port}, can't be reached"
        in told.output
    )
    assert "  fence:" in told.output
    kept_site.second.start()
    row = next(line for line in told.output.splitlines() if " main " in line)
    assert f" {kept_site.on.primary.serial()} " in row


def test_a_frozen_primary(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (primary_zone, drift_repair):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(zone_probe, "TIMEOUT_SECONDS", 3.0)
    site.on.primary.freeze()
    service = site.on.service
    service.register(service.issue_token("ada@example.org"), f"late.{ZONE}", nameservers=NAMESERVERS)
    # A frozen server accepts no more connections once its queue is full.
    hanging = {"no_answer", "unreachable"}
    problems = {f'sublet_zone_problem{{cause="{cause}",zone="{ZONE}"}}' for cause in hanging}
    wait_until(lambda: bool(problems & site.on.service.metrics().keys()))
    site.wait_for_metric(f'sublet_unpublished_names{{zone="{ZONE}"}}', 1)
    assert site.on.service.metrics()[f'sublet_oldest_unpublished_seconds{{zone="{ZONE}"}}'] > 0
    failures = (
        site.on.service.metrics()[f'sublet_publish_failures_total{{cause="{cause}"}}'] for cause in hanging
    )
    assert sum(failures) >= 1
    site.wait_for_metric(f'sublet_name_server_up{{role="primary",server="main",zone="{ZONE}"}}', 0)
    zone = site.status(well=False)
    assert {each["what"] for each in zone["wrong"]} <= {*hanging, "waiting"}
    assert CAUSES[zone["wrong"][0]["what"]] in zone["wrong"][0]["detail"]
    assert zone["wrong"][0]["since"] is not None
    assert (zone["primary"]["standing"], zone["fence"], zone["waiting"]) == ("away", "unknown", 1)
    assert zone["secondaries"][0]["standing"] == "unjudged"
    origin = service.origin
    assert service.client.get(f"{origin}/readyz").status_code == 200
    service.clock.advance(minutes=6)
    (violation,) = [each for each in service.doctor() if each.invariant == "nothing_waits"]
    assert re.search(r"its zone's problem is (no_answer|unreachable): main \(", violation.message)
    monkeypatch.undo()
    site.on.primary.thaw()
    site.wait_for_metric(f'sublet_unpublished_names{{zone="{ZONE}"}}', 0)
    assert not [name for name in site.on.service.metrics() if name.startswith("sublet_zone_problem{")]
    wait_until(lambda: site.on.primary.serial() == site.second.serial())
    assert site.status(well=True)["fence"] == "as_left"


def test_a_wrong_key(kept_site: Site) -> None:
    good = kept_site.key_file.read_text()
    kept_site.key_file.write_text(fresh_key("any").secret.reveal())
    zone = kept_site.status(well=False)
    assert [each["what"] for each in zone["wrong"]] == ["key"]
    assert (zone["primary"]["standing"], zone["fence"]) == ("current", "unknown")
    assert zone["secondaries"][0]["standing"] == "current"
    kept_site.key_file.write_text(good)
    # The worker may have used the wrong key meanwhile.
    wait_until(lambda: bool(kept_site.on.service.operator("zone", "status", expect=None)["well"]))


def test_a_secondary_that_does_not_follow(kept_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zone_probe, "FOLLOW_SECONDS", 0.5)
    control = ["knotc", "-b", "-s", f"{kept_site.second.folder}/r/knot.sock"]
    kept_site.second.run([*control, "zone-freeze", ZONE])
    kept_site.publish("second")
    lag = f'sublet_secondary_lag_seconds{{server="{HOST}",zone="{ZONE}"}}'
    wait_until(lambda: kept_site.on.service.metrics()[lag] > 0)
    assert [each["what"] for each in kept_site.status(well=False)["wrong"]] == ["secondary_behind"]
    kept_site.second.run([*control, "zone-thaw", ZONE])
    kept_site.wait_for_metric(lag, 0)
    monkeypatch.undo()
    kept_site.status(well=True)


@pytest.mark.whole
def test_the_findings_of_the_last_check(site: Site) -> None:
    def found(tx: Any) -> None:
        zone_store.update_zone_state(
            tx,
            find_platform_domain(tx, ZONE).id,
            checked_at=tx.now,
            missing=2,
            foreign_records=3,
            repair_stopped_at=tx.now,
            repair_stopped_reason="60 of 100 names would lose their records",
        )

    # A check of the new serial would overwrite what is written here.
    wait_until(lambda: site.on.state().checked_serial == site.on.primary.serial())
    site.on.service.write(found)
    zone = site.status(well=False)
    assert [each["what"] for each in zone["wrong"]] == ["drift", "repair_stopped"]
    assert (zone["missing"], zone["foreign"]) == (2, 3)
    site.wait_for_metric(f'sublet_zone_drift{{kind="missing",zone="{ZONE}"}}', 2)
    site.wait_for_metric(f'sublet_zone_drift{{kind="foreign",zone="{ZONE}"}}', 3)
    site.wait_for_metric(f'sublet_zone_repair_stopped{{zone="{ZONE}"}}', 1)
    assert f'sublet_zone_checked_seconds{{zone="{ZONE}"}}' in site.on.service.metrics()


def test_a_publication_during_the_status_is_not_reported_as_foreign(
    kept_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is published between the reads of the database and of the fence; the new fence is not a foreign
    change.
    """
    service = kept_site.on.service
    token = service.issue_token("ada@example.org")
    numbers = itertools.count()
    left = ["before", "after"]

    def publish() -> None:
        name = f"n{next(numbers)}.{ZONE}"
        service.register(token, name, nameservers=NAMESERVERS)
        kept_site.on.wait_until_active(token, name)

    async def look(*args: Any, **options: Any) -> Fence:
        if "before" in left:
            left.remove("before")
            await asyncio.to_thread(publish)
        found = await read_fence(*args, **options)
        if "after" in left:
            left.remove("after")
            await asyncio.to_thread(publish)
        return found

    monkeypatch.setattr(zone_probe, "read_fence", look)
    zone = kept_site.status(well=True)
    assert zone["fence"] == "as_left"
    assert next(numbers) == 2
