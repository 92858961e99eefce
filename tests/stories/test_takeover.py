"""An attacker waits for the name that another name's nameserver lies below: the other name is out of reach
before it is free.
"""

from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from sublet.db import Tx
from sublet.primaries import store as publish_store
from sublet.subdomains.sweep import store as sweep_store
from support.running_service import RunningService, registry_address, running_service
from support.waiting import wait_until

DAYS_MAX = 60
OUT = "ns1.provider.example"
GLUE = [{"host": "ns1.gone.example.test", "ipv4": "8.8.4.4"}]


def _is_swept(service: RunningService, since: datetime) -> bool:
    """Tell whether the sweep has done all that was due at an instant, and the DNS follows."""

    def ask(tx: Tx) -> bool:
        seen_at = sweep_store.find_sweep_state(tx).seen_at
        is_done = not sweep_store.list_due(tx, 1) and not sweep_store.list_losses(tx, 1)
        return seen_at is not None and seen_at >= since and is_done and not publish_store.count_waiting(tx)

    return service.read(ask)


@pytest.mark.whole
def test_a_lapsed_name_does_not_give_a_stranger_control_of_dependent_names(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path)) as service:
        service.add_domain()
        ann, ben, eve = (service.add_user(f"{name}@example.org") for name in ("ann", "ben", "eve"))
        gone = {"nameservers": ["ns1.gone.example.test", OUT], "glue": GLUE}
        service.register(ann, "gone.example.test", **gone)
        service.register(ben, "ada.example.test", nameservers=["ns1.gone.example.test", OUT])
        service.register(ben, "bob.example.test", nameservers=["ns1.gone.example.test"])
        assert service.delegation("ada.example.test") == {"ns1.gone.example.test", OUT}
        assert service.call(ann, "DELETE", "/subdomains/gone.example.test").status_code == 200
        glue = [{"host": "ns1.gone.example.test", "ipv4": "9.9.9.9"}]
        taken = {"fqdn": "gone.example.test", "nameservers": ["ns1.gone.example.test"], "glue": glue}
        for _ in range(DAYS_MAX // 3):
            service.clock.pass_time(days=3)
            wait_until(partial(_is_swept, service, service.clock()))
            answer = service.call(eve, "POST", "/subdomains", taken)
            if answer.status_code == 201:
                break
            assert answer.json()["error"] == "subdomain_unavailable"
        else:
            raise AssertionError("the name never was free")
        assert service.delegation("ada.example.test") == {OUT}
        assert service.delegation("bob.example.test") == set()
        found = service.call(ben, "GET", "/subdomains/bob.example.test").json()["subdomain"]
        assert (found["status"], found["nameservers"]) == ("inactive", [])
        subjects = [
            each["subject"] for each in service.operator("mail", "list") if each["recipient"] == ben.email
        ]
        for name in ("ada.example.test", "bob.example.test"):
            assert sorted(each for each in subjects if name in each) == [
                f"Nameservers of {name} are about to be removed",
                f"Nameservers of {name} need a change",
                f"Nameservers of {name} were removed",
            ]
        events = service.call(ben, "GET", "/subdomains/ada.example.test/timeline").json()["timeline"]
        assert [each["past"] for each in events if each["event"] == "nameservers_removed"] == [True]
        assert service.doctor() == []
