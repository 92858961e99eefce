"""A registrant's Knot adds a nameserver, and publishes CSYNC: the registry follows, while unbound validates
all the time; attacks change nothing.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sublet.db import Tx
from sublet.structs import replace
from sublet.subdomains.child_state_store import find_csync_state, save_state
from sublet.subdomains.store import find_unreleased
from support.name_servers import resolver
from support.network_namespace import runs_outside
from support.repetitions import share
from support.rolling_child import FollowedChild, KnotChild, Watcher, ask, child_running, notify
from support.running_service import Registrant, RunningService
from support.service_on_primary import ZONE, service_on
from support.waiting import wait_until

CHILD = f"blog.{ZONE}"
FIRST, SECOND, DEAD = "11.1.1.1", "12.2.2.2", "13.3.3.3"
HOSTS = [f"ns1.{CHILD}", f"ns2.{CHILD}"]
RESOLVER = ("127.0.0.1", 5399)
TWO = ("@ NS ns2", f"ns2 A {SECOND}")
CSYNC = "@ CSYNC 1 1 NS A AAAA"
ATTACKS = {
    "would_break": (*TWO, "@ NS ns3", f"ns3 A {DEAD}"),
    "not_accepted": (*TWO, f"@ NS ns.free.{ZONE}."),
    "not_accepted, by its address": (*TWO, "@ NS ns3", "ns3 A 10.0.0.1"),
    "replayed": (),
}
SHARE = share({"would_break"}, whole=set(ATTACKS))
"""The tested attacks. Each takes seconds, because servers are queried slowly."""


def test_nameservers_follow_the_child(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if runs_outside(request, [FIRST, SECOND, DEAD]):
        return
    with ExitStack() as stack:
        on = stack.enter_context(service_on("knot", tmp_path, health_checks=True))
        service, parent = on.service, (on.primary.address, on.primary.port)
        service.environment["SUBLET_HEALTH_CHECKS"] = "true"
        service.operator("domain", "edit", ZONE, "--csync", "--delegation-ttl-seconds", "1")
        ada = service.add_user()
        anchors = [on.primary.trust_anchor()]
        stack.enter_context(resolver(tmp_path / "r", {ZONE: parent}, anchors, address=RESOLVER))
        child = KnotChild(tmp_path / "child", CHILD, FIRST, parent, others=(SECOND,))
        stack.enter_context(child_running(child))
        FollowedChild(service, ada, CHILD).register(HOSTS[:1], child.ds_records(), {HOSTS[0]: FIRST})

        with Watcher(RESOLVER, f"www.{CHILD}") as watcher:
            child.change_records(*TWO, CSYNC)
            notify(service.dns, CHILD, "CSYNC")
            wait_until(lambda: _nameservers(service, ada) == HOSTS)
            wait_until(lambda: _delegated(parent) == {f"{each}." for each in HOSTS})
        assert watcher.faults(secure=True) == [], watcher.answers
        _check_traces(service, ada)
        _check_attacks(service, ada, child)
        assert service.doctor() == []


def _check(service: RunningService) -> tuple[str, str | None]:
    """Return the outcome and the refusal of a check that the operator asks for."""
    got: dict[str, Any] = {}

    def is_checked() -> bool:  # refused while a change is being published, or the worker checks
        got.update(service.operator("subdomain", "check-csync", CHILD, expect=None) or {})
        return "outcome" in got

    wait_until(is_checked)
    return got["outcome"], got["refusal"]


def _show(service: RunningService, who: Registrant) -> dict[str, Any]:
    answer = service.call(who, "GET", f"/subdomains/{CHILD}/automatic-ds").json()
    return dict(answer["automatic_ds"]["csync"])


def _nameservers(service: RunningService, who: Registrant) -> list[str]:
    return list(service.call(who, "GET", f"/subdomains/{CHILD}").json()["subdomain"]["nameservers"])


def _delegated(parent: tuple[str, int]) -> set[str]:
    return {
        str(each)
        for rrset in ask(parent[0], CHILD, "NS", parent[1]).authority
        for each in rrset
        if rrset.rdtype.name == "NS"
    }


def _check_traces(service: RunningService, who: Registrant) -> None:
    """The user sees the change, and gets a mail."""
    shown = _show(service, who)
    assert (shown["followed"], shown["refusal"]) == (True, None)
    assert isinstance(shown["serial"], int)
    followed = FollowedChild(service, who, CHILD)
    assert [each["by"] for each in followed.timeline("nameservers_followed")] == ["system"]
    subjects = [each["subject"] for each in service.operator("mail", "list")]
    assert f"The nameservers of {CHILD} have changed" in subjects


def _check_attacks(service: RunningService, who: Registrant, child: KnotChild) -> None:
    """Nameservers that don't work or are not the holder's to choose, and an old version of the zone, change
    nothing.
    """
    for attack in (each for each in ATTACKS if each in SHARE):
        if attack == "replayed":
            service.write(_follow_newer)
        code = attack.partition(",")[0]
        child.change_records(*ATTACKS[attack], CSYNC)
        assert _check(service) == ("refused", code)
        assert _show(service, who)["refusal"]["code"] == code
        assert _nameservers(service, who) == HOSTS
        health = service.call(who, "GET", f"/subdomains/{CHILD}/health").json()["health"]
        assert "csync_refused" in {each["code"] for each in health["findings"]}
    if "replayed" in SHARE:
        _check_change_by_hand(service, who, child)


def _check_change_by_hand(service: RunningService, who: Registrant, child: KnotChild) -> None:
    """It forgets the serial, and following can be turned off."""
    path = f"/subdomains/{CHILD}"
    kept = service.call(who, "PUT", f"{path}/nameservers", {"nameservers": [HOSTS[0]]})
    assert kept.status_code == 200, kept.text
    child.change_records(*TWO, CSYNC)
    assert _check(service) == ("changed", None)
    service.call(who, "PUT", f"{path}/automatic-ds", {"enabled": False})
    assert service.operator("subdomain", "check-csync", CHILD, expect=None)["error"] == "conflict"


def _follow_newer(tx: Tx) -> None:
    """Pretend that a zone with a later serial was followed."""
    subdomain = find_unreleased(tx, CHILD)
    assert subdomain is not None
    known = find_csync_state(tx, subdomain.id)
    assert known.serial is not None
    save_state(tx, known, replace(known, serial=known.serial + 1000))
