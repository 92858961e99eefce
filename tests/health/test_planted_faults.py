"""Each fault is planted in a small Internet of real servers and found there; no other finding is reported."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sublet.health.aliases import DANGLING
from sublet.health.dns_client import DnsClient
from sublet.health.findings import CODES, report
from sublet.health.model import IMPAIRED, Report
from sublet.health.observe import observe
from sublet.health.resolve import ForwardingResolver, IteratingResolver, Resolver
from sublet.structs import replace
from support.dns_world import ROOT_ADDRESS, ds_text, unbound_running, world_running
from support.network_namespace import runs_outside
from support.planted_faults import PARENT_DOMAIN, RESOLVER, Planted, planted_world
from support.repetitions import share
from support.running_service import Registrant, RunningService, running_service
from support.waiting import wait_until

BY_UNBOUND = {
    *("good", "six", "gone", "alias", "hijackable", "lame", "listed", "forged", "expired", "nsec3"),
    *("unsigned", "plainparent", "zonedead"),
}
"""The names that `make test` checks with a resolver of the registry too, and not only from the root."""


@asynccontextmanager
async def _claimed(_addresses: Sequence[str]) -> AsyncIterator[None]:
    yield


def test_each_planted_fault_is_found_and_no_other(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    world, cases, root_key = planted_world()
    if runs_outside(request, world.addresses):
        return
    # The others are about the registry, its resolver, and names with records.
    others = {IMPAIRED, DANGLING, "resolver_fails"}
    assert {code for each in cases for code in each.codes} == CODES.keys() - others

    async def check(case: Planted, resolver_address: str | None) -> Report:
        client = DnsClient()
        forwarding = None if resolver_address is None else ForwardingResolver(client, resolver_address, 53)
        resolver: Resolver = forwarding or IteratingResolver(client, [ROOT_ADDRESS])
        target = replace(case.target(), is_published=True)
        seen = await observe(target, client, resolver, _claimed, seconds=60, forwarding=forwarding)
        return report(target, seen, datetime.now(UTC))

    async def check_all(chosen: Sequence[Planted], resolver_address: str | None = None) -> list[Report]:
        return list(await asyncio.gather(*(check(each, resolver_address) for each in chosen)))

    some = [each for each in cases if each.label in share(BY_UNBOUND, whole={each.label for each in cases})]

    async def check_both_ways() -> list[list[Report]]:
        return list(await asyncio.gather(check_all(cases), check_all(some, RESOLVER)))

    root = (ROOT_ADDRESS, root_key)
    with world_running(tmp_path, world):
        with unbound_running(tmp_path / "unbound", RESOLVER, root):
            reports, by_unbound = asyncio.run(check_both_ways())
        _check_service(tmp_path, {each.label: each for each in cases})
    _compare(cases, reports)
    _compare(some, by_unbound, without={"resolver_fails"})
    failing = {
        case.label
        for case, got in zip(some, by_unbound, strict=True)
        if any(each.code == "resolver_fails" for each in got.findings)
    }
    assert "forged" in failing


def _compare(cases: Sequence[Planted], reports: Sequence[Report], without: Collection[str] = ()) -> None:
    expected = {each.label: (each.state, set(each.codes)) for each in cases}
    found = {
        case.label: (got.state, {each.code for each in got.findings} - set(without))
        for case, got in zip(cases, reports, strict=True)
    }
    assert found == expected, [
        each.message
        for case, got in zip(cases, reports, strict=True)
        if found[case.label] != expected[case.label]
        for each in got.findings
    ]


def _check_service(folder: Path, cases: dict[str, Planted]) -> None:
    """A service checks planned delegations, refuses broken ones if the platform domain requires it, and
    checks published ones.
    """
    settings = {"health_checks": True, "health_root_hints": ROOT_ADDRESS, "publish_wait_ms": 60_000}
    with running_service(f"sqlite:///{folder}/registry.db", **settings) as service:
        ada = service.add_user()
        service.add_domain(PARENT_DOMAIN)

        def body(label: str) -> dict[str, object]:
            delegation = cases[label].target().delegation
            return {
                "fqdn": cases[label].fqdn,
                "nameservers": list(delegation.nameservers),
                "ds_records": list(map(ds_text, delegation.ds_records)),
            }

        checked = service.call(ada, "POST", "/delegation-checks", body("alllame")).json()["check"]
        assert (checked["state"], {each["code"] for each in checked["findings"]}) == ("broken", {"lame"})
        assert service.call(ada, "GET", f"/subdomains/{cases['alllame'].fqdn}").status_code == 404

        assert (
            service.register(ada, cases["dead"].fqdn, **_without_name(body("alldead")))["provisioning"][
                "warnings"
            ]
            == []
        )
        service.operator("domain", "edit", PARENT_DOMAIN, "--delegation-check", "warn")
        warned = service.register(ada, cases["nokey"].fqdn, **_without_name(body("nokey")))
        assert any("DS records" in each for each in warned["provisioning"]["warnings"]), warned
        service.operator("domain", "edit", PARENT_DOMAIN, "--delegation-check", "require")
        refused = service.call(ada, "POST", "/subdomains", body("alllame"))
        assert (refused.status_code, refused.json()["error"]) == (422, "delegation_broken"), refused.text
        assert (
            service.register(ada, cases["good"].fqdn, **_without_name(body("good")))["provisioning"][
                "warnings"
            ]
            == []
        )
        path = f"/subdomains/{cases['good'].fqdn}"
        kept = service.call(
            ada, "PUT", f"{path}/nameservers", {"nameservers": body("alllame")["nameservers"]}
        )
        assert kept.json()["error"] == "delegation_broken", kept.text

        before = service.call(ada, "GET", f"{path}/health").json()["health"]
        assert (before["state"], before["checked_at"], before["findings"]) == ("unknown", None, [])
        now = service.call(ada, "POST", f"{path}/health").json()["health"]
        assert (now["state"], now["unconfirmed_state"]) == ("healthy", None)
        assert [each["state"] for each in now["history"]] == ["healthy"]
        other = f"/subdomains/{cases['dead'].fqdn}/health"

        def state_a_minute_later() -> str:
            service.clock.pass_time(minutes=1)
            return str(service.call(ada, "GET", other).json()["health"]["state"])

        # The worker checks the others within minutes.
        wait_until(lambda: state_a_minute_later() == "broken")
        broken = service.call(ada, "GET", "/subdomains?health=broken").json()["subdomains"]
        assert [each["fqdn"] for each in broken] == [cases["dead"].fqdn]
        subject = f"{cases['dead'].fqdn} doesn't work"

        def mails_an_hour_later() -> list[str]:
            service.clock.pass_time(hours=1)
            return [each["subject"] for each in service.operator("mail", "list")]

        wait_until(lambda: mails_an_hour_later() == [subject])
        _check_aliases(service, ada)
        assert service.doctor() == []


def _check_aliases(service: RunningService, user: Registrant) -> None:
    """A CNAME to a host that doesn't exist is found, also at the end of a chain; one to a host without
    addresses exists.
    """
    service.operator("domain", "edit", PARENT_DOMAIN, "--records", "on", "--delegation-check", "off")
    fqdn, path = f"site.{PARENT_DOMAIN}", f"/subdomains/site.{PARENT_DOMAIN}"
    hosts = {
        "gone": "gone.hosts.test.", "site": "a.hosts.test.", "never": "site.invalid.", "mail": "hosts.test.",
        "chain": "lost.hosts.test.", "alias": "alias.hosts.test.", "_acme-challenge": "gone.hosts.test.",
    }  # fmt: skip
    service.register(user, fqdn, records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
    refused = service.call(user, "POST", f"{path}/health")
    assert (refused.status_code, refused.json()["error"]) == (409, "nameserver_required")
    service.call(
        user,
        "PATCH",
        f"{path}/records",
        {"records": [{"name": name, "type": "CNAME", "values": [host]} for name, host in hosts.items()]},
    )
    wait_until(lambda: service.call(user, "GET", path).json()["subdomain"]["status"] == "active")
    health = service.call(user, "POST", f"{path}/health").json()["health"]
    assert health["state"] == "degraded"
    assert {(each["code"], each["subject"]) for each in health["findings"]} == {
        ("dangling_alias", f"{each}.{fqdn}") for each in ("gone", "never", "chain")
    }
    assert "lost.hosts.test, which leads to gone.hosts.test, which doesn't exist" in str(health["findings"])
    service.call(user, "PATCH", f"{path}/records", {"records": [gone("gone"), gone("never"), gone("chain")]})

    def state_a_minute_later() -> str:
        service.clock.pass_time(minutes=1)
        return str(service.call(user, "GET", f"{path}/health").json()["health"]["state"])

    # The worker checks the change within minutes.
    wait_until(lambda: state_a_minute_later() == "healthy")


def gone(name: str) -> dict[str, object]:
    """Return the change that removes the CNAME of an owner."""
    return {"name": name, "type": "CNAME", "values": []}


def _without_name(body: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name != "fqdn"}
