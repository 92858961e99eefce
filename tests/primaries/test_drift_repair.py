"""The running service finds and repairs changes by hand in a zone on a primary; foreign records stay."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sublet.doctor.notices import list_notices
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.platform_domains.zone_store import find_apex_dnskeys
from sublet.primaries.check_zone import CLOCK_MARGIN
from support.name_servers import KINDS
from support.repetitions import share
from support.running_service import DS, Registrant, RunningService
from support.service_on_primary import (
    ZONE,
    ServiceOn,
    check_often,
    primary_settings,
    service_on,
    settings_file,
)
from support.waiting import wait_until

pytestmark = pytest.mark.slow

NS = "ns.provider.example"
SHOP, TWO, OLD = (f"{label}.{ZONE}" for label in ("shop", "two", "old"))
GLUE_HOST = f"ns1.{SHOP}"


@contextmanager
def watched(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[ServiceOn]:
    check_often(monkeypatch)
    with service_on(kind, folder, **settings) as found:
        yield found


@pytest.fixture(params=share(KINDS[:1], whole=KINDS))
def on(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServiceOn]:
    with watched(request.param, tmp_path, monkeypatch) as found:
        yield found
        assert [each for each in found.service.doctor() if each.invariant != "nothing_waits"] == []


@pytest.fixture
def on_knot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceOn]:
    with watched("knot", tmp_path, monkeypatch) as found:
        yield found


def checked_and_right(on: ServiceOn) -> bool:
    """True if the last check was of the current zone and found nothing to repair."""
    state = on.state()
    wrong = state.missing or state.different or state.orphaned or state.rebuilt_at
    return state.checked_serial == on.primary.serial() and not wrong


def settle(on: ServiceOn) -> None:
    wait_for_check(on, lambda: checked_and_right(on))


def zone_becomes(on: ServiceOn, wanted: set[tuple[str, str, str]]) -> None:
    wait_for_check(on, lambda: on.records() == wanted)
    settle(on)


def wait_for_check(on: ServiceOn, condition: Callable[[], bool]) -> None:
    """Wait for what a check does. Checks leave out what was published less than `CLOCK_MARGIN` ago, so the
    clock is advanced now and then.
    """
    asked = itertools.count()

    def is_so() -> bool:
        if next(asked) % 10 == 0:
            on.service.clock.advance(seconds=CLOCK_MARGIN.total_seconds())
        return condition()

    wait_until(is_so, 600)  # the process of a check has a low priority


def test_hand_edits_are_repaired_and_foreign_names_stay(on: ServiceOn) -> None:
    service = on.service
    ada = service.add_user()
    service.register(ada, SHOP, nameservers=[GLUE_HOST, NS], glue=[{"host": GLUE_HOST, "ipv4": "9.9.9.9"}])
    service.register(ada, TWO, nameservers=[NS])
    ours = on.records()
    assert len(ours) == 4
    settle(on)
    _check_signing_was_detected(on, ada)
    foreign = (f"office.{ZONE}", "A", "192.0.2.1")
    on.primary.nsupdate(
        [
            f"delete {TWO}. NS",
            f"add {GLUE_HOST}. 3600 A 8.8.8.8",
            f"add {SHOP}. 3600 NS ns.evil.example.",
            f"add {foreign[0]}. 300 A 192.0.2.1",
        ]
    )
    zone_becomes(on, ours | {foreign})
    counted = service.metrics()
    assert counted['sublet_zone_checks_total{outcome="done"}'] >= 2
    assert counted['sublet_zone_drift_found_total{kind="missing"}'] >= 1
    assert counted['sublet_zone_drift_found_total{kind="different"}'] >= 1
    refused = service.call(ada, "POST", "/subdomains", {"fqdn": f"office.{ZONE}"})
    assert (refused.status_code, refused.json()["details"]["reason"]) == (409, "taken")
    shown = service.operator("zone", "check", ZONE)
    assert [each["owner"] for each in shown["foreign"]] == [f"office.{ZONE}"]
    assert {f"ns1.{ZONE}", f"ns2.{ZONE}"} & {each.owner for each in on.apex}, (
        "the zone has its own name servers"
    )
    on.primary.nsupdate([f"delete {foreign[0]}. A"])
    zone_becomes(on, ours)
    wait_until(
        lambda: service.call(ada, "POST", "/subdomains", {"fqdn": f"office.{ZONE}"}).status_code == 201
    )


def _check_signing_was_detected(on: ServiceOn, ada: Registrant) -> None:
    """DS records in a signed zone get no warning, even without the operator's setting."""
    service = on.service
    served = {each[0].to_text() for each in on.primary.ask(ZONE, "DNSKEY").answer}
    noted = service.read(lambda tx: find_apex_dnskeys(tx, find_platform_domain(tx, ZONE).id, ZONE))
    assert noted
    assert {each.rdata for each in noted} >= served
    for ds_records in ([DS], []):
        changed = service.call(ada, "PUT", f"/subdomains/{SHOP}/nameservers", {"ds_records": ds_records})
        warnings = changed.json()["provisioning"]["warnings"]
        assert [each for each in warnings if "not signed" in each] == []


@pytest.mark.whole
def test_a_platform_domain_below_the_zone_is_added_once_it_is_delegated(on_knot: ServiceOn) -> None:
    service, child = on_knot.service, f"child.{ZONE}"
    refused = service.operator("domain", "add", child, expect=1)
    assert f"{child}. 3600 IN NS" in refused["message"]
    on_knot.primary.nsupdate([f"add {child}. 3600 NS ns1.{child}.", f"add ns1.{child}. 3600 A 192.0.2.54"])
    settle(on_knot)
    service.add_domain(child)
    ada = service.add_user()
    service.register(ada, f"shop.{child}", nameservers=[NS])
    service.register(ada, SHOP, nameservers=[NS])
    settle(on_knot)
    assert [each.to_text() for each in on_knot.primary.ask(f"shop.{child}", "A").authority] == [
        f"{child}. 3600 IN NS ns1.{child}."
    ]
    assert service.read(list_notices) == []


@pytest.mark.whole
def test_a_zone_rebuilt_from_an_old_or_empty_file_is_repaired(on: ServiceOn) -> None:
    service = on.service
    ada, ben = service.add_user(), service.add_user("ben@example.org")
    service.register(ada, OLD, nameservers=[GLUE_HOST.replace("shop", "old")], glue=[
        {"host": f"ns1.{OLD}", "ipv4": "9.9.9.9"}])  # fmt: skip
    service.register(ada, SHOP, nameservers=["ns.former.example"])
    old_file = on.primary.zone_text()
    for name in (OLD, SHOP):
        assert service.call(ada, "DELETE", f"/subdomains/{name}").status_code == 200
    wait_until(lambda: on.records() == set())
    for name in (OLD, SHOP):
        service.operator("subdomain", "purge", name)
        wait_until(lambda: on.service.operator("subdomain", "list", "--domain", ZONE) is not None)
        release(service, name)
    service.register(ben, SHOP, nameservers=[NS])
    service.register(ben, TWO, nameservers=[NS])
    ours = on.records()
    assert ours == {(SHOP, "NS", f"{NS}."), (TWO, "NS", f"{NS}.")}
    settle(on)
    on.primary.rebuild(old_file)
    zone_becomes(on, ours)
    on.primary.rebuild()
    zone_becomes(on, ours)
    service.register(ada, f"new.{ZONE}", nameservers=[NS])
    on.wait_until_active(ada, f"new.{ZONE}")


def release(service: RunningService, name: str) -> None:
    """Have a purged name released, once its removal is confirmed."""

    def tried() -> bool:
        shown = service.operator("subdomain", "show", name)
        return bool(shown["generation"] == shown["published_generation"])

    wait_until(tried)
    service.operator("subdomain", "purge", name, "--release")


def test_the_brake_stops_removals_but_missing_records_are_added(on_knot: ServiceOn) -> None:
    service, ada = on_knot.service, on_knot.service.add_user()
    names = [f"n{number}.{ZONE}" for number in range(25)]
    for name in names:
        service.register(ada, name, nameservers=[NS])
    old_file = on_knot.primary.zone_text()
    for name in names:
        service.call(ada, "DELETE", f"/subdomains/{name}")
    service.register(ada, SHOP, nameservers=[NS])
    wait_until(lambda: on_knot.records() == {(SHOP, "NS", f"{NS}.")})
    settle(on_knot)
    on_knot.primary.rebuild(old_file)
    wait_for_check(on_knot, lambda: on_knot.state().repair_stopped_at is not None)
    wait_for_check(on_knot, lambda: len(on_knot.records()) == 26)  # what was missing is refilled
    shown = service.operator("zone", "status", expect=1)["zones"][0]
    assert (shown["orphaned"], "repair_stopped" in {each["what"] for each in shown["wrong"]}) == (25, True)
    assert "zone_is_repaired" in {
        each["invariant"] for each in service.operator("doctor", expect=1)["violations"]
    }
    # A command uses the real clock, and the service's is ahead. So at first the command skips the removed
    # names as just published.
    wait_until(lambda: len(service.operator("zone", "check", ZONE, expect=None)["orphaned"]) == 25)
    service.operator("zone", "repair", ZONE, expect=1)
    service.operator("zone", "repair", ZONE, "--force")
    zone_becomes(on_knot, {(SHOP, "NS", f"{NS}.")})
    wait_until(lambda: on_knot.state().repair_stopped_at is None)


@pytest.mark.whole
def test_a_zone_with_delegations_is_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched("knot", tmp_path, monkeypatch) as on:
        service, ada = on.service, on.service.add_user()
        held = f"held.{ZONE}"
        service.operator("domain", "edit", ZONE, "--primary", "built-in")
        service.register(ada, held, nameservers=[NS])
        assert service.delegation(held) == {NS}
        on.primary.nsupdate([f"add other.{ZONE}. 3600 NS ns.other.example."])
        service.operator("domain", "edit", ZONE, "--primary", "main")
        zone_becomes(on, {(held, "NS", f"{NS}."), (f"other.{ZONE}", "NS", "ns.other.example.")})
        assert "status: REFUSED" in service.dig(f"other.{ZONE}")
        refused = service.call(ada, "POST", "/subdomains", {"fqdn": f"other.{ZONE}"})
        assert (refused.status_code, refused.json()["details"]["reason"]) == (409, "taken")
        shown = service.operator("zone", "status")["zones"][0]
        assert (shown["zone"], shown["well"], shown["foreign"] >= 1) == (ZONE, True, True)


@pytest.mark.whole
def test_checks_during_publishing_find_no_difference(on_knot: ServiceOn) -> None:
    service, ada = on_knot.service, on_knot.service.add_user()
    differences = []
    for number in range(60):
        name = f"n{number}.{ZONE}"
        service.register(ada, name, nameservers=[NS])
        if number % 3 == 0:
            service.call(ada, "DELETE", f"/subdomains/{name}")
        if number % 10 == 0:
            shown = service.operator("zone", "check", ZONE)
            differences.append(shown["missing"] + shown["different"] + shown["orphaned"])
    settle(on_knot)
    assert differences == [[]] * 6
    events = service.read(lambda tx: [*tx.connection.exec_driver_sql(
        "SELECT action FROM audit_events WHERE action LIKE 'zone.%%'")])  # fmt: skip
    assert events == []


@pytest.mark.whole
def test_a_killed_check_is_reported_and_retried(on_knot: ServiceOn, monkeypatch: pytest.MonkeyPatch) -> None:
    service, ada = on_knot.service, on_knot.service.add_user()
    service.register(ada, SHOP, nameservers=[NS])
    settle(on_knot)
    real, kills = asyncio.create_subprocess_exec, iter([True, True])

    async def killed(*words: Any, **options: Any) -> Any:
        process = await real(*words, **options)
        if next(kills, False):
            process.kill()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", killed)
    seen = set()

    def repaired() -> bool:
        seen.add(on_knot.state().watch_problem)
        return (SHOP, "NS", f"{NS}.") in on_knot.records()

    on_knot.primary.nsupdate([f"delete {SHOP}. NS"])
    wait_until(repaired)
    settle(on_knot)
    assert "check" in seen
    wait_until(lambda: on_knot.state().watch_problem is None)


@pytest.mark.whole
def test_a_refused_transfer_is_reported_with_its_cause(on_knot: ServiceOn, tmp_path: Path) -> None:
    service = on_knot.service
    section = primary_settings(tmp_path, on_knot.primary)
    Path(section.key_file).write_text("d3JvbmcgPHdyb25nIHdyb25nIHdyb25nIHdyb25nIQ==\n", encoding="ascii")
    settings_file(tmp_path, [section])
    told = service.operator("zone", "check", ZONE, expect=3)
    assert "another secret" in told["message"]
    wait_until(lambda: on_knot.state().watch_problem == "key")
    on_knot.primary.kill()
    assert "can't be reached" in service.operator("zone", "check", ZONE, expect=3)["message"]
