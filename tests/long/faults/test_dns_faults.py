"""Faults between registry and zone: an unreachable name server, edits by hand, foreign names, a poison name, the brake."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from sublet.db import Tx
from sublet.dns.types import Record
from sublet.platform_domains import zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.primaries.plan import ImplausiblePlan, ZoneChanges, plan_changes
from sublet.subdomains.store import next_generation, subdomains
from support.crash_checks import HOST, NAME, WITH_GLUE, check, standing, zone_is_right
from support.publisher_outage import Outage, service_with_outage
from support.running_service import Registrant, RunningService, registry_address
from support.serve_process import wait_until

pytestmark = pytest.mark.slow

NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]


@pytest.fixture
def outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    url = registry_address(tmp_path)
    with service_with_outage(url, monkeypatch, publish_wait_ms=0) as running:
        yield running
        assert running.service.doctor() == []


def _insert(service: RunningService, *records: Record) -> None:
    """Edit the zone by hand."""

    def write(tx: Tx) -> None:
        zone_store.insert_records(tx, find_platform_domain(tx, "example.test").id, records)

    service.write(write)


def _remove(service: RunningService, *owners: str) -> None:
    table = zone_store.zone_records
    service.write(lambda tx: tx.connection.execute(delete(table).where(table.c.owner.in_(owners))))


def _shown(service: RunningService, who: Registrant, fqdn: str) -> dict[str, object]:
    return dict(service.call(who, "GET", f"/subdomains/{fqdn}").json()["subdomain"])


def test_an_unreachable_name_server_refuses_nobody_and_is_waited_for(outage: Outage) -> None:
    service = outage.service
    ada = service.add_user()
    outage.down()
    names = [f"n{number}.example.test" for number in range(20)]
    for name in names:
        service.register(ada, name, nameservers=NAMESERVERS)
    wait_until(lambda: all(_shown(service, ada, name)["status"] == "failed" for name in names))
    failed = service.call(ada, "GET", "/subdomains?status=failed").json()["subdomains"]
    assert len(failed) == 20
    assert all(each["provision_error"] for each in failed)
    retried = service.call(ada, "POST", f"/subdomains/{names[0]}/retry")
    assert retried.status_code == 200  # tries now; still down
    wait_until(lambda: _shown(service, ada, names[0])["status"] == "failed")
    outage.up()
    retried = service.call(ada, "POST", f"/subdomains/{names[0]}/retry").json()
    if retried["subdomain"]["status"] != "active":  # the answer waits only a moment
        wait_until(lambda: _shown(service, ada, names[0])["status"] == "active")
    again = service.call(ada, "POST", f"/subdomains/{names[0]}/retry")
    assert (again.status_code, again.json()["error"]) == (409, "retry_not_available")
    # The other names follow within their back-off.
    wait_until(lambda: zone_is_right(service))
    shown = [_shown(service, ada, name) for name in names]
    assert {each["status"] for each in shown} == {"active"}
    assert {each["provision_error"] for each in shown} == {None}


def test_edits_by_hand_are_found_and_repaired_and_foreign_names_left_alone(outage: Outage) -> None:
    service = outage.service
    ada = service.add_user()
    service.register(ada, NAME, **{key: value for key, value in WITH_GLUE.items() if key != "fqdn"})
    for name in ("gone", "changed"):
        service.register(ada, f"{name}.example.test", nameservers=NAMESERVERS)
    wait_until(lambda: zone_is_right(service))
    right = standing(service)
    assert service.operator("zone", "check", "example.test")["right"] is True
    foreign = (
        Record("foreign.example.test", "NS", 300, "ns1.foreign.example."),
        Record("text.example.test", "TXT", 300, '"by hand"'),
    )
    _insert(service, *foreign)
    assert service.operator("zone", "check", "example.test")["right"] is True  # not ours: nothing to repair
    _remove(service, "gone.example.test", HOST)
    _insert(
        service,
        Record("changed.example.test", "NS", 3600, "ns1.evil.example."),
        Record(HOST, "A", 3600, "8.8.8.8"),
    )
    found = service.operator("zone", "check", "example.test", expect=1)
    assert found["missing"] == ["gone.example.test"]
    assert sorted(each["name"] for each in found["different"]) == [NAME, "changed.example.test"]
    assert sorted(each["owner"] for each in found["foreign"]) == ["foreign.example.test", "text.example.test"]
    assert {each.invariant for each in service.doctor()} == {"zone_is_registry"}
    service.operator("zone", "repair", "example.test")
    wait_until(lambda: zone_is_right(service))
    assert standing(service) == right | {(each.owner, each.type, each.rdata) for each in foreign}
    assert service.delegation("gone.example.test") == set(NAMESERVERS)
    assert service.delegation("changed.example.test") == set(NAMESERVERS)
    assert service.delegation("foreign.example.test") == {"ns1.foreign.example"}
    repaired = service.operator("zone", "repair", "example.test")
    assert repaired["right"] is True


def test_a_name_in_an_adopted_zone_is_taken(outage: Outage, tmp_path: Path) -> None:
    service = outage.service
    zone_file = tmp_path / "adopted.zone"
    zone_file.write_text(
        "$TTL 300\n"
        "@ IN SOA ns1.adopted.test. hostmaster.adopted.test. 7 3600 600 604800 300\n"
        "@ IN NS ns1.adopted.test.\n"
        "ns1 IN A 8.8.4.4\n"
        "shop IN NS ns1.old.example.\n"
        "deep.under IN TXT here\n"
    )
    service.operator("domain", "add", "adopted.test", "--zone-file", str(zone_file))
    ada = service.add_user()
    for name in ("shop.adopted.test", "under.adopted.test"):
        answer = service.call(ada, "POST", "/subdomains", {"fqdn": name, "nameservers": NAMESERVERS})
        assert (answer.status_code, answer.json()["error"]) == (409, "subdomain_unavailable"), name
        assert answer.json()["details"] == {"reason": "taken", "owned": False}
    assert service.delegation("shop.adopted.test") == {"ns1.old.example"}
    service.register(ada, "free.adopted.test", nameservers=NAMESERVERS)
    wait_until(lambda: service.delegation("free.adopted.test") == set(NAMESERVERS))
    assert service.delegation("shop.adopted.test") == {"ns1.old.example"}


@pytest.mark.parametrize("owner", [NAME, f"below.{NAME}"])
def test_what_somebody_wrote_by_hand_is_never_overwritten(outage: Outage, owner: str) -> None:
    service = outage.service
    ada = service.add_user()
    service.register(ada, NAME)
    by_hand = Record(owner, "A", 300, "8.8.8.8")
    _insert(service, by_hand)
    put = service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", {"nameservers": NAMESERVERS})
    assert put.status_code == 200
    wait_until(lambda: _shown(service, ada, NAME)["status"] == "failed")
    assert "in use" in str(_shown(service, ada, NAME)["provision_error"])
    # Retries and changes don't get it overwritten either, nor does deleting the name.
    service.call(ada, "POST", f"/subdomains/{NAME}/retry")
    service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", {"nameservers": ["ns9.other.example"]})
    wait_until(lambda: _shown(service, ada, NAME)["status"] == "failed")
    assert standing(service) == {(owner, "A", "8.8.8.8")}
    service.call(ada, "DELETE", f"/subdomains/{NAME}")
    wait_until(lambda: zone_is_right(service))
    assert standing(service) == {(owner, "A", "8.8.8.8")}
    service.call(ada, "POST", f"/subdomains/{NAME}/restore")
    _remove(service, owner)
    wait_until(lambda: _shown(service, ada, NAME)["status"] == "active")
    assert standing(service) == {(NAME, "NS", "ns9.other.example.")}


def test_an_implausible_repair_stops_and_asks(outage: Outage) -> None:
    service = outage.service
    ada = service.add_user()
    names = [f"n{number}.example.test" for number in range(25)]
    with outage.held():
        for name in names:
            service.register(ada, name, nameservers=NAMESERVERS)
    wait_until(lambda: zone_is_right(service))

    def forget(tx: Tx) -> None:
        # What an operator's hand on the database, or a wrong restore, may do: all names without nameservers.
        tx.connection.exec_driver_sql("UPDATE subdomains SET nameservers = '[]', nameserver_count = 0")

    def restore(tx: Tx) -> None:
        tx.connection.execute(
            update(subdomains).values(
                nameservers=NAMESERVERS,
                nameserver_count=len(NAMESERVERS),
                updated_at=tx.now,
                **next_generation(tx.now),
            )
        )

    service.write(forget)
    assert len(check(service).differences.orphaned) == 50
    refused = service.operator("zone", "repair", "example.test", expect=1)
    assert refused["error"] == "conflict"
    assert len(standing(service)) == 50
    assert zone_is_right(service) is False
    service.operator("zone", "repair", "example.test", "--force")
    wait_until(lambda: zone_is_right(service))
    assert standing(service) == set()
    # The audit still has the forgotten names, and the doctor reports each.
    assert {each.invariant for each in service.doctor()} == {"row_is_replayed", "nameservers_are_indexed"}
    service.write(restore)
    wait_until(lambda: zone_is_right(service))
    assert len(standing(service)) == 50


def test_one_poison_name_keeps_nobody_else_back(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    service = outage.service
    ada = service.add_user()
    names = [f"n{number}.example.test" for number in range(50)]
    poison = names[17]
    sizes: list[int] = []

    def plan(zone: str, owners: Iterator[str], desired: Iterator[Record]) -> ZoneChanges:
        wanted = list(desired)
        sizes.append(len({record.owner for record in wanted}))
        if any(record.owner == poison for record in wanted):
            raise ImplausiblePlan(poison)
        return plan_changes(zone, owners, wanted)

    with monkeypatch.context() as patch:
        patch.setattr("sublet.subdomains.change_zone.plan_changes", plan)
        with outage.held():
            for name in names:
                service.register(ada, name, nameservers=NAMESERVERS)
        wait_until(lambda: _shown(service, ada, poison)["status"] == "failed")
        assert sizes[0] == 50, "it was not one batch"
        wait_until(lambda: {owner for owner, _, _ in standing(service)} == set(names) - {poison})
        for name in names:
            expected = "failed" if name == poison else "active"
            wait_until(lambda of=name, is_to_be=expected: _shown(service, ada, of)["status"] == is_to_be)  # type: ignore[misc]
    wait_until(lambda: zone_is_right(service))
    assert service.delegation(poison) == set(NAMESERVERS)
