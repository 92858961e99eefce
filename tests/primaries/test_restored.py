"""A registry restored from a backup, under a zone on a primary that is newer: what is told of it is what happens."""

from pathlib import Path

import pytest

from name_servers import KINDS
from service import Registrant, RunningService
from service_on import ServiceOn, serve_process_on
from serving import wait_until

pytestmark = pytest.mark.slow

BEFORE, SINCE = "ns1.provider.example.", "ns2.provider.example."


def _put(service: RunningService, who: Registrant, name: str, nameserver: str) -> None:
    sent = {"nameservers": [nameserver.rstrip(".")]}
    assert service.call(who, "PUT", f"/subdomains/{name}/nameservers", sent).status_code == 200


def _delegations(on: ServiceOn) -> dict[str, str]:
    return {owner: rdata for owner, _, rdata in on.records()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_zone_that_is_newer_than_the_registry(kind: str, tmp_path: Path) -> None:
    kept, changed, deleted, later = (
        f"{label}.example.test" for label in ("kept", "changed", "deleted", "later")
    )
    with serve_process_on(kind, tmp_path) as (on, serving):
        service = serving.service
        ada = service.add_user()
        serving.start()
        for name in (kept, changed, deleted):
            service.register(ada, name, nameservers=[BEFORE.rstrip(".")])
        of_backup = dict.fromkeys((kept, changed, deleted), BEFORE)
        wait_until(lambda: _delegations(on) == of_backup, 30)
        service.operator("backup", str(tmp_path / "backup.db"))
        _put(service, ada, changed, SINCE)
        assert service.call(ada, "DELETE", f"/subdomains/{deleted}").status_code == 200
        service.register(ada, later, nameservers=[SINCE.rstrip(".")])
        wait_until(lambda: _delegations(on) == {kept: BEFORE, changed: SINCE, later: SINCE}, 30)
        assert serving.stop() == 0
        service.operator("restore", str(tmp_path / "backup.db"), "--force")
        serving.start()
        wait_until(lambda: _delegations(on) == {**of_backup, later: SINCE}, 60)
        found = service.operator("zone", "check", "example.test")
        assert later in str(found["foreign"])
        refused = service.call(ada, "POST", "/subdomains", {"fqdn": later})
        assert (refused.status_code, refused.json()["error"]) == (409, "subdomain_unavailable")
        service.register(ada, "anew.example.test", nameservers=[SINCE.rstrip(".")])
        wait_until(lambda: "anew.example.test" in _delegations(on), 30)
        wait_until(lambda: service.doctor() == [], 90)  # it tells what the last check found
        assert serving.stop() == 0
