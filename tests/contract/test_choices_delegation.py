"""Choices, "Delegation" and the warnings: what the owner sees of the DNS' answers, over the real service and
its name server.
"""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from sublet.db import Tx
from sublet.dns import parent_servers
from sublet.dns.types import Record
from sublet.operations import query_limit
from sublet.platform_domains import zone_store
from support.error_triggers import new_user, unused_name
from support.free_ports import free_address
from support.publisher_outage import Outage, service_with_outage
from support.running_service import DS, Registrant, RunningService, registry_address
from support.waiting import wait_until

NS = ["ns1.provider.example", "ns2.provider.example"]
MEMBERS = ["stored", "published", "servers", "in_agreement", "summary"]
SERVER_MEMBERS = [
    "server", "role", "serial", "nameservers", "glue", "ds_records", "records", "matches", "difference", "error",  # noqa: E501
]  # fmt: skip


SETTINGS = {"free_quota": 50}


def seen(shop: RunningService, who: Registrant | str, fqdn: str) -> dict[str, Any]:
    answer = shop.call(who, "GET", f"/subdomains/{fqdn}/delegation")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    assert list(body) == ["ok", "delegation", "provisioning"]
    assert list(body["delegation"]) == MEMBERS
    assert all(list(each) == SERVER_MEMBERS for each in body["delegation"]["servers"])
    shown: dict[str, Any] = {**body["delegation"], "provisioning": body["provisioning"]}
    return shown


def test_the_stored_published_and_served_delegations_are_shown(shop: RunningService) -> None:
    user = new_user(shop)
    fqdn = unused_name()
    host = f"ns1.{fqdn}"
    glue = [{"host": host, "ipv4": "8.8.4.4", "ipv6": "2a00:1450::1"}]
    added = shop.register(user, fqdn, nameservers=[*NS, host], glue=glue, ds_records=[DS])
    found = seen(shop, user, fqdn)
    stored = {name: added["subdomain"][name] for name in ("nameservers", "glue", "ds_records")}
    assert found["stored"] == {**stored, "records": [], "generation": 1}
    provisioning = added["provisioning"]
    assert found["provisioning"] == provisioning
    assert found["published"] == {
        "zone": "example.test",
        "serial": provisioning["serial"],
        "published_at": provisioning["published_at"],
        "published_generation": 1,
    }
    (server,) = found["servers"]
    assert server["serial"] >= provisioning["serial"]
    assert {**server, "serial": 0} == {
        "server": "ns1.example.test",
        "role": "built_in",
        "serial": 0,
        **stored,
        "records": [],
        "nameservers": sorted(stored["nameservers"]),
        "matches": True,
        "difference": None,
        "error": None,
    }
    assert found["in_agreement"] is True
    assert shop.call(user, "GET", f"/subdomains/{added['subdomain']['id']}/delegation").status_code == 200


def test_a_name_in_the_trash_shows_whether_the_dns_still_serves_it(shop: RunningService) -> None:
    user = new_user(shop)
    fqdn = unused_name()
    host = f"ns1.{fqdn}"
    shop.register(user, fqdn, nameservers=[host], glue=[{"host": host, "ipv4": "8.8.4.4"}])
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    wait_until(lambda: seen(shop, user, fqdn)["in_agreement"])
    assert "in the trash" in seen(shop, user, fqdn)["summary"]
    left = Record(host, "A", 3600, "8.8.4.4")
    with by_hand(shop, adding=left):
        found = seen(shop, user, fqdn)
    assert found["servers"][0]["difference"] == (
        f"{fqdn} should not be in the DNS, but has glue {host} 8.8.4.4."
    )
    assert found["servers"][0]["glue"] == [{"host": host, "ipv4": "8.8.4.4", "ipv6": None}]


@contextmanager
def by_hand(shop: RunningService, *, adding: Record) -> Iterator[None]:
    """Have a record in the zone past the registry for a while."""
    domain_id = shop.operator("domain", "show", "example.test")["id"]
    shop.write(lambda tx: zone_store.insert_records(tx, domain_id, [adding]))
    try:
        yield
    finally:
        table = zone_store.zone_records

        def remove(tx: Tx) -> None:
            tx.connection.execute(
                table.delete().where((table.c.owner == adding.owner) & (table.c.rdata == adding.rdata))
            )

        shop.write(remove)


@pytest.fixture
def outage(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    url = registry_address(tmp_path_factory.mktemp("outage"))
    with service_with_outage(url, monkeypatch, publish_wait_ms=0) as running:
        yield running


def test_a_removed_delegation_is_reported_until_no_name_server_serves_it(outage: Outage) -> None:
    """Choices, "Subdomain states": a name without nameservers is inactive once the removal is read back."""
    shop = outage.service
    user = shop.add_user()
    fqdn = shop.register(user, "name.example.test", nameservers=NS)["subdomain"]["fqdn"]
    wait_until(lambda: listed(shop, user) == {"active"})
    with outage.held():
        removed = shop.call(user, "PUT", f"/subdomains/{fqdn}/nameservers", {"nameservers": []}).json()
        assert (removed["subdomain"]["status"], removed["provisioning"]["status"]) == (
            "provisioning",
            "pending",
        )
        assert listed(shop, user) == {"provisioning"}
        assert outage.on.records() == {(fqdn, "NS", f"{host}.") for host in NS}
        outage.down()
    wait_until(lambda: listed(shop, user) == {"failed"})
    found = shop.call(user, "GET", f"/subdomains/{fqdn}").json()["subdomain"]
    assert (found["status"], found["status_label"]) == ("failed", "Failed")
    waiting = seen(shop, user, fqdn)
    assert waiting["provisioning"]["status"] == "failed"
    assert waiting["provisioning"]["next_attempt_at"] is not None
    assert waiting["provisioning"]["error"] == found["provision_error"]
    assert waiting["summary"].endswith(f"The last change is not published. {found['provision_error']}")
    assert "can't be reached" in found["provision_error"]
    refused = shop.call(user, "POST", f"/subdomains/{fqdn}/retry")
    assert (refused.status_code, refused.json()["error"]) == (409, "nameserver_required")
    outage.up()
    wait_until(lambda: listed(shop, user) == {"inactive"})
    assert shop.call(user, "GET", f"/subdomains/{fqdn}").json()["subdomain"]["provision_error"] is None
    assert outage.on.records() == set()


def listed(shop: RunningService, who: Registrant) -> set[str]:
    """Under which of these statuses both lists have the user's only name; a change between two looks gives
    none or two.
    """
    found = set()
    for status in ("active", "inactive", "provisioning", "failed"):
        own = shop.call(who, "GET", f"/subdomains?status={status}").json()["subdomains"]
        every = shop.operator("subdomain", "list", "--status", status)
        if own and every:
            found.add(status)
    return found


@pytest.mark.slow
def test_secondaries_that_give_no_answer_are_entries(outage: Outage) -> None:
    """One that nobody listens at, and one that takes the connection and says nothing."""
    shop = outage.service
    user = shop.add_user()
    closed = free_address()
    with silent_server() as silent:
        watch(shop, closed, silent)
        fqdn = shop.register(user, "name.example.test", nameservers=NS)["subdomain"]["fqdn"]
        wait_until(lambda: seen(shop, user, fqdn)["servers"][0]["matches"])
        found = seen(shop, user, fqdn)
    assert [(each["server"], each["role"], each["error"]) for each in found["servers"]] == [
        ("ns1.example.test", "primary", None),
        ("ns2.else.example", "secondary", "The name server can't be reached."),
        ("ns3.else.example", "secondary", "The name server did not answer in time."),
    ]
    for each in found["servers"][1:]:
        assert all(each[name] is None for name in ("serial", "nameservers", "glue", "ds_records", "matches"))
    assert "127.0.0.1" not in str(found)
    assert found["in_agreement"] is False


def watch(shop: RunningService, *addresses: tuple[str, int]) -> None:
    """Name secondaries at these addresses: ns2.else.example, ns3.else.example …"""
    words = [f"ns{number}.else.example={host}:{port}" for number, (host, port) in enumerate(addresses, 2)]
    options = [each for word in words for each in ("--secondary", word)]
    shop.operator("domain", "edit", "example.test", *options)


def test_only_so_many_ask_at_once(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs can't make the requests pile up: beyond four of one user, and the places of all,
    they are refused.
    """
    shop = outage.service
    user, other = shop.add_user(), shop.add_user("other@example.org")
    fqdn = shop.register(user, "name.example.test", nameservers=NS)["subdomain"]["fqdn"]
    mine = shop.register(other, "mine.example.test")["subdomain"]["fqdn"]
    path = f"/subdomains/{fqdn}/delegation"
    monkeypatch.setattr(parent_servers, "QUERY_SECONDS", 60.0)
    with ThreadPoolExecutor(7) as pool:
        with silent_server() as silent:
            watch(shop, silent)
            asking = [pool.submit(shop.call, user, "GET", path) for _ in range(7)]
            wait_until(lambda: sum(each.done() for each in asking) == 3)
        answers = [each.result() for each in asking]
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [429] * 3
    for answer in answers:
        if answer.status_code == 429:
            assert (answer.json()["error"], answer.headers["retry-after"]) == ("rate_limited", "1")
    assert shop.call(user, "GET", path).status_code == 200
    monkeypatch.setattr(query_limit, "QUERYING_REQUESTS_MAX", 0)
    full = shop.call(other, "GET", f"/subdomains/{mine}/delegation")
    assert (full.status_code, full.json()["error"], full.headers["retry-after"]) == (503, "unavailable", "1")


@contextmanager
def silent_server() -> Iterator[tuple[str, int]]:
    """A server over TCP that never answers: the kernel takes every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()


# Warnings


def warnings(answer: dict[str, Any]) -> list[str]:
    """Return the warnings other than that on the zone, which the built-in name server doesn't sign."""
    return [each for each in answer["provisioning"]["warnings"] if not each.startswith("parent_not_signed: ")]


def test_ds_records_below_an_unsigned_zone_are_warned_of(shop: RunningService) -> None:
    """Decisions, "Nameservers, glue, DS": `parent_not_signed` in every answer with `provisioning`, while
    there are DS records.
    """
    user, fqdn = new_user(shop), unused_name()
    path = f"/subdomains/{fqdn}"

    def warned(answer: dict[str, Any]) -> bool:
        found = [
            each for each in answer["provisioning"]["warnings"] if each.startswith("parent_not_signed: ")
        ]
        assert all("example.test is not signed" in each and "Ask the operator" in each for each in found)
        return bool(found)

    assert warned(shop.register(user, fqdn, nameservers=NS, ds_records=[DS]))
    assert warned(shop.call(user, "PUT", f"{path}/nameservers", {}).json())
    assert not warned(shop.call(user, "PUT", f"{path}/nameservers", {"ds_records": []}).json())
    assert warned(shop.call(user, "PUT", f"{path}/nameservers", {"ds_records": [DS]}).json())
    assert shop.call(user, "DELETE", path).status_code == 200
    assert warned(shop.call(user, "POST", f"{path}/restore").json())
    assert not warned(shop.register(user, unused_name(), nameservers=NS))
