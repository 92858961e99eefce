"""Faults between registry and zone: an unreachable name server, and records that the registry doesn't own."""

from pathlib import Path

import pytest

from sublet.primaries.store import count_waiting
from support.crash_checks import HOST, NAME
from support.publisher_outage import service_with_outage
from support.running_service import Registrant, RunningService, registry_address
from support.waiting import wait_until

pytestmark = pytest.mark.slow

NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]


def _shown(service: RunningService, who: Registrant, fqdn: str) -> dict[str, object]:
    return dict(service.call(who, "GET", f"/subdomains/{fqdn}").json()["subdomain"])


def test_new_glue_does_not_overwrite_foreign_records_below_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = (HOST, "A", "8.8.8.8")
    with service_with_outage(registry_address(tmp_path), monkeypatch, publish_wait_ms=0) as outage:
        service = outage.service
        ada = service.add_user()
        service.register(ada, NAME, nameservers=NAMESERVERS[:1])
        wait_until(lambda: _shown(service, ada, NAME)["status"] == "active")
        outage.server.nsupdate([f"add {HOST}. 300 A 8.8.8.8"])
        body = {"nameservers": [HOST], "glue": [{"host": HOST, "ipv4": "8.8.4.4"}]}
        service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", body)
        wait_until(lambda: _shown(service, ada, NAME)["status"] == "failed")
        assert "in use" in str(_shown(service, ada, NAME)["provision_error"])
        assert outage.on.records() == {(NAME, "NS", f"{NAMESERVERS[0]}."), by_hand}
        service.call(ada, "DELETE", f"/subdomains/{NAME}")
        wait_until(lambda: service.read(count_waiting) == {})
        assert outage.on.records() == {by_hand}
