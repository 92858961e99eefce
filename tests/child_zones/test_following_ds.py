"""Children on real servers request DS records: permitted requests are followed automatically, and attacks
change nothing.

A registrant's Knot rolls its key and goes insecure, while unbound validates continuously. Another zone gets
its first DS records.
"""

from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sublet.db import Tx
from sublet.structs import replace
from sublet.subdomains.child_state_store import find_automatic_ds, save_state
from sublet.subdomains.store import find_unreleased
from support.asking_children import INSECURE, KEYS, OPERATOR, OPERATOR_ADDRESS, AskingChild, asking_world
from support.dns_world import world_running
from support.name_servers import resolver
from support.network_namespace import runs_outside
from support.repetitions import share
from support.rolling_child import FollowedChild, KnotChild, Watcher, child_running, notify
from support.running_service import Registrant, RunningService
from support.service_on_primary import ZONE, service_on
from support.waiting import wait_until

CHILD = f"blog.{ZONE}"
ADDRESS = "11.1.1.1"
RESOLVER = ("127.0.0.1", 5399)
SHARE = share(
    {"good", "forged", "wrongsignal", "breaking"},
    whole={each.label for each in asking_world()[1]},
)
"""The children that are checked, each for seconds: a permitted request, and attacks on the transport, the
signals and the chain of trust. tests/rules/test_automatic_ds_decisions.py has every decision.
"""


def test_children_get_the_ds_records_that_they_may_request(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    world, children = asking_world()
    if runs_outside(request, [ADDRESS, *world.addresses]):
        return
    health_resolver = f"{RESOLVER[0]}:{RESOLVER[1]}"
    with ExitStack() as stack:
        stack.enter_context(world_running(tmp_path / "world", world))
        on = stack.enter_context(
            service_on("knot", tmp_path, health_checks=True, health_resolver=health_resolver)
        )
        service, parent = on.service, (on.primary.address, on.primary.port)
        service.environment["SUBLET_HEALTH_RESOLVER"] = health_resolver
        service.operator("domain", "edit", ZONE, "--automatic-ds", "all", "--delegation-ttl-seconds", "1")
        ada = service.add_user()
        stubs = {ZONE: parent, OPERATOR: (OPERATOR_ADDRESS, 53), INSECURE: (OPERATOR_ADDRESS, 53)}
        anchors = [on.primary.trust_anchor(), f"{OPERATOR}. IN DNSKEY {KEYS['operator'].dnskey}"]
        stack.enter_context(resolver(tmp_path / "r", stubs, anchors, address=RESOLVER))
        child = KnotChild(tmp_path / "child", CHILD, ADDRESS, parent)
        stack.enter_context(child_running(child))
        _roll_and_go_insecure(service, ada, child)
        for each in children:
            if each.label in SHARE:
                _check_asking(service, ada, each)
        _check_choices(service, ada, next(each for each in children if each.label == "good"))
        assert service.doctor() == []


def _roll_and_go_insecure(service: RunningService, ada: Registrant, child: KnotChild) -> None:
    first = child.ds_records()
    followed = FollowedChild(service, ada, CHILD)
    followed.register([f"ns1.{CHILD}"], first, {f"ns1.{CHILD}": ADDRESS})
    with Watcher(RESOLVER, f"www.{CHILD}") as watcher:
        child.control("zone-key-rollover", CHILD, "ksk")
        wait_until(lambda: child.ds_records() != first)
        notify(service.dns, CHILD)
        wait_until(lambda: followed.ds_records() == child.ds_records())
        wait_until(lambda: child.key_tags("ksk") == {each.key_tag for each in followed.ds_records()})
    assert watcher.faults(secure=True) == [], watcher.answers
    assert [each["source"] for each in followed.show()["ds_records"]] == ["cds"]

    with Watcher(RESOLVER, f"www.{CHILD}") as watcher:
        child.change_policy(cds_cdnskey_publish="delete-dnssec")
        followed.wait_for(lambda ds_records: not ds_records)
    assert watcher.faults(secure=False) == [], watcher.answers
    assert [each["by"] for each in followed.timeline("ds_followed")] == ["system", "system"]
    subjects = [each["subject"] for each in service.operator("mail", "list")]
    assert subjects == [f"The DS records of {CHILD} {done}" for done in ("were removed", "have changed")]


def _check_asking(service: RunningService, ada: Registrant, child: AskingChild) -> None:
    """Check a child, and the result that its user sees."""
    followed = FollowedChild(service, ada, child.fqdn)
    followed.register(child.nameservers, child.ds)
    if child.refusal == "replayed":
        service.write(lambda tx: _remember_newer(tx, child.fqdn))
    # On a busy machine a server may seem silent at first.
    wait_until(lambda: _decision(followed.check()) == (child.outcome, child.refusal))
    shown = followed.show()
    if child.outcome == "replaced":
        assert followed.ds_records() == {KEYS["old"].ds(child.fqdn)}
        assert [each["source"] for each in shown["ds_records"]] == ["cds"]
    else:
        assert followed.ds_records() == set(child.ds)
        assert {each["source"] for each in shown["ds_records"]} <= {"registrant"}
    assert (shown["refusal"] or {"code": None})["code"] == child.refusal
    health = service.call(ada, "GET", f"/subdomains/{child.fqdn}/health").json()["health"]
    found = [each["message"] for each in health["findings"] if each["code"] == "ds_refused"]
    assert [f"({child.refusal})" in each for each in found] == ([True] if child.refusal else [])


def _decision(answer: dict[str, Any]) -> tuple[str | None, str | None]:
    return answer.get("outcome"), answer.get("refusal")


def _remember_newer(tx: Tx, fqdn: str) -> None:
    """Store that a request with a signature an hour old was followed."""
    subdomain = find_unreleased(tx, fqdn)
    assert subdomain is not None
    known = find_automatic_ds(tx, subdomain.id)
    save_state(tx, known, replace(known, signed_at=tx.now - timedelta(hours=1)))


def _check_choices(service: RunningService, ada: Registrant, child: AskingChild) -> None:
    """A user who removes DS records gets none by bootstrapping, until it is turned on again; and may turn all
    of it off.
    """
    followed = FollowedChild(service, ada, child.fqdn)
    path = f"/subdomains/{child.fqdn}"
    removed = service.call(ada, "PUT", f"{path}/nameservers", {"ds_records": []})
    assert removed.status_code == 200, removed.text
    assert followed.show()["bootstrap"] is False
    assert followed.check()["error"] == "conflict"
    answer = service.call(ada, "PUT", f"{path}/automatic-ds", {"enabled": False, "bootstrap": True})
    assert answer.json()["automatic_ds"]["enabled"] is False
    assert followed.check()["error"] == "conflict"
    service.call(ada, "PUT", f"{path}/automatic-ds", {"enabled": True})
    wait_until(lambda: _decision(followed.check()) == ("replaced", None))
    assert followed.ds_records() == {KEYS["old"].ds(child.fqdn)}
    assert [each["by"] for each in followed.timeline("automatic_ds_set")] == ["user", "user"]
