"""A zone at nameservers without signalling names gets its first DS records after a wait (RFC 8078, section
3.3), on a real Knot.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from sublet.audit import list_events
from sublet.child_zones.follow_ds import WAITING
from sublet.db import Tx
from sublet.subdomains.child_state_store import AutomaticDs, find_automatic_ds
from sublet.subdomains.store import find_unreleased
from support.network_namespace import runs_outside
from support.rolling_child import FollowedChild, KnotChild, child_running, notify
from support.running_service import Registrant, RunningService, registry_address, running_service
from support.waiting import wait_until

ZONE = "example.test"
CHILD = f"blog.{ZONE}"
ADDRESSES = {f"ns1.{CHILD}": "11.1.1.1", f"ns2.{CHILD}": "12.2.2.2"}
FIRST, SECOND = ADDRESSES.values()
DAYS, STEP = 1, 1.2
"""The days of the wait, and those between two checks: a check is due after 1.1 days at most."""
LONG = {"rrsig-lifetime": "60d", "rrsig-refresh": "20d"}


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.uncovered
def test_first_ds_records_are_accepted_after_a_wait(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Another request begins the wait again, and a restart of the service doesn't."""
    if runs_outside(request, [FIRST, SECOND]):
        return
    url, records = registry_address(tmp_path), ("@ NS ns2", f"ns2 A {SECOND}")
    child = KnotChild(tmp_path / "child", CHILD, FIRST, (FIRST, 53), LONG, records, (SECOND,))
    with child_running(child):
        with running_service(url, health_checks=True) as service:
            service.add_domain(ZONE)
            edit = ("--automatic-ds", "bootstrap", "--bootstrap-days", str(DAYS))
            service.operator("domain", "edit", ZONE, *edit)
            ada = service.add_user()
            followed = FollowedChild(service, ada, CHILD)
            followed.register(list(ADDRESSES), (), ADDRESSES)
            notify(service.dns, CHILD)
            began = _wait_for(service, lambda now: now.awaited_since is not None, days=0)
            first = child.ds_records()
            child.control("zone-key-rollover", CHILD, "ksk")
            wait_until(lambda: child.ds_records() != first)
            again = _wait_for(service, lambda now: now.awaited_seen_at != began.awaited_seen_at)
            assert again.awaited_digest not in (None, began.awaited_digest)
            assert followed.ds_records() == set()
            ahead = service.clock.ahead
        with running_service(url, health_checks=True) as service:
            service.clock.pass_time(seconds=ahead.total_seconds())
            _check_end(service, ada, child, again)


def _check_end(service: RunningService, ada: Registrant, child: KnotChild, again: AutomaticDs) -> None:
    followed = FollowedChild(service, ada, CHILD)
    assert again.awaited_since is not None
    until = followed.show()["wait"]["until"]
    assert until.startswith((again.awaited_since + timedelta(days=DAYS)).isoformat()[:19])
    _wait_for(service, lambda now: now.awaited_seen_at is None)
    assert followed.ds_records() == child.ds_records()
    assert [each["source"] for each in followed.show()["ds_records"]] == ["cds"]
    assert [each["by"] for each in followed.timeline("ds_followed")] == ["system"]
    (mail,) = service.operator("mail", "list")
    assert mail["subject"] == f"{CHILD} got its first DS records"
    events = service.read(lambda tx: list_events(tx, "automatic_ds", [again.subdomain_id], [WAITING]))
    assert len(events) == 2
    assert service.doctor() == []


def _wait_for(
    service: RunningService, is_done: Callable[[AutomaticDs], bool], *, days: float = STEP
) -> AutomaticDs:
    """Let time pass, and return the name's state after the check that changes it."""
    service.clock.pass_time(days=days)
    wait_until(lambda: is_done(_state(service)))
    return _state(service)


def _state(service: RunningService) -> AutomaticDs:
    def find(tx: Tx) -> AutomaticDs:
        subdomain = find_unreleased(tx, CHILD)
        assert subdomain is not None
        return find_automatic_ds(tx, subdomain.id)

    return service.read(find)
