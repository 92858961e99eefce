"""Rollovers on registrants' real servers, from the first to the last step, while unbound validates
continuously.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import dns.dnssec
import pytest

from sublet.dns.types import DsRecord
from support.name_servers import resolve, resolver
from support.network_namespace import runs_outside
from support.rolling_child import (
    BindChild,
    Child,
    FollowedChild,
    KnotChild,
    PowerDnsChild,
    Watcher,
    child_running,
    ds_at,
    notify,
)
from support.service_on_primary import ZONE, ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.whole
CHILD = f"blog.{ZONE}"
ADDRESS = "11.1.1.1"
RESOLVER = ("127.0.0.1", 5399)


def _roll_algorithm(child: KnotChild, followed: FollowedChild) -> None:
    before = child.ds_records()
    child.change_policy(algorithm="ed25519")
    followed.wait_for_new_ds(before)
    wait_until(lambda: child.key_tags("ksk") == {each.key_tag for each in followed.ds_records()})
    assert {each.algorithm for each in followed.ds_records()} == {15}


def _roll_bind(child: BindChild, followed: FollowedChild) -> None:
    before = child.ds_records()

    def has_seen_ds() -> bool:
        child.look()
        return "omnipresent" in next(
            line for line in child.control("dnssec", "-status", CHILD).splitlines() if "- ds:" in line
        )

    wait_until(has_seen_ds)
    child.roll()

    def is_rolled() -> bool:
        child.look()
        followed.check()
        now = followed.ds_records()
        return bool(now) and not now & before and child.key_tags("ksk") == {each.key_tag for each in now}

    wait_until(is_rolled)


def _roll_powerdns(child: PowerDnsChild, followed: FollowedChild) -> None:
    before = child.ds_records()
    (old,) = child.key_ids()
    child.control("add-zone-key", CHILD, "ksk", "active", "ecdsa256")
    wait_until(lambda: _cached_tags() == child.key_tags("ksk") and len(_cached_tags()) == 2)
    followed.wait_for(lambda ds_records: ds_records == child.ds_records() and len(ds_records) == 2)
    wait_until(lambda: len(_cached("DS")) == 2)
    # It asks for DS records of all keys that it publishes, also of inactive ones.
    child.control("deactivate-zone-key", CHILD, old)
    child.control("unpublish-zone-key", CHILD, old)
    followed.wait_for_new_ds(before)
    wait_until(lambda: len(_cached("DS")) == 1)
    child.control("remove-zone-key", CHILD, old)
    wait_until(lambda: len(_cached_tags()) == 1)


def _go_insecure(child: BindChild | PowerDnsChild, followed: FollowedChild) -> None:
    """Ask for no DS records, and stop signing once resolvers have forgotten them."""
    child.ask_to_delete()
    followed.wait_for(lambda ds_records: not ds_records)
    wait_until(lambda: not _cached("DS"))
    assert [each["by"] for each in followed.timeline("ds_followed")] == ["system"]


def _cached(rdtype: str) -> list[object]:
    return [
        each
        for rrset in resolve(RESOLVER, CHILD, rdtype).answer
        if rrset.rdtype.name == rdtype
        for each in rrset
    ]


def _cached_tags() -> set[int]:
    return {dns.dnssec.key_id(each) for each in _cached("DNSKEY") if each.flags == 257}  # type: ignore[attr-defined,arg-type]


ROLLOVERS: dict[str, tuple[type[Child], Callable[..., None]]] = {
    "knot, another algorithm": (KnotChild, _roll_algorithm),
    "bind": (BindChild, _roll_bind),
    "powerdns": (PowerDnsChild, _roll_powerdns),
}


def _asks_for_others(child: Child, before: set[DsRecord]) -> bool:
    return child.ds_records() not in (before, set())


ROUNDS = 7


@contextmanager
def _followed(of: type[Child], folder: Path) -> Iterator[tuple[ServiceOn, Child, FollowedChild]]:
    """Run a service on Knot, unbound, and a child that is registered with its DS records."""
    with ExitStack() as stack:
        on = stack.enter_context(service_on("knot", folder, health_checks=True))
        parent = on.primary.address, on.primary.port
        on.service.operator(
            "domain", "edit", ZONE, "--automatic-ds", "rollover", "--delegation-ttl-seconds", "1"
        )
        stack.enter_context(
            resolver(folder / "r", {ZONE: parent}, [on.primary.trust_anchor()], address=RESOLVER)
        )
        child = of(folder / "child", CHILD, ADDRESS, parent)
        stack.enter_context(child_running(child))
        followed = FollowedChild(on.service, on.service.add_user(), CHILD)
        followed.register([f"ns1.{CHILD}"], child.ds_records(), {f"ns1.{CHILD}": ADDRESS})
        yield on, child, followed


@pytest.mark.parametrize("of", [BindChild, PowerDnsChild])
def test_a_child_goes_insecure_without_a_gap(
    of: type[BindChild | PowerDnsChild], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if runs_outside(request, [ADDRESS]):
        return
    with _followed(of, tmp_path) as (_, child, followed):
        assert isinstance(child, BindChild | PowerDnsChild)
        with Watcher(RESOLVER, f"www.{CHILD}") as watcher:
            _go_insecure(child, followed)
        assert watcher.faults(secure=False) == [], watcher.answers
        assert followed.ds_records() == set()


@pytest.mark.parametrize("kind", ROLLOVERS)
def test_a_rollover_leaves_the_name_secure_all_the_time(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if runs_outside(request, [ADDRESS]):
        return
    of, roll = ROLLOVERS[kind]
    with _followed(of, tmp_path) as (_, child, followed):
        with Watcher(RESOLVER, f"www.{CHILD}") as watcher:
            roll(child, followed)
        assert watcher.faults(secure=True) == [], watcher.answers
        assert {each["source"] for each in followed.show()["ds_records"]} == {"cds"}


def test_the_parent_has_the_ds_records_seconds_after_a_notify_message(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if runs_outside(request, [ADDRESS]):
        return
    took = []
    with _followed(KnotChild, tmp_path) as (on, child, followed):
        assert isinstance(child, KnotChild)
        for _ in range(ROUNDS):
            before = child.ds_records()
            child.control("zone-key-rollover", CHILD, "ksk")
            wait_until(partial(_asks_for_others, child, before))
            on.service.clock.pass_time(minutes=2)  # more than the rest of a name
            began = time.monotonic()
            notify(on.service.dns, CHILD)
            wait_until(lambda: ds_at(on.primary.address, CHILD, on.primary.port) == child.ds_records())
            took.append(time.monotonic() - began)
            wait_until(lambda: child.key_tags("ksk") == {each.key_tag for each in followed.ds_records()})
    assert median(took) <= 5, took
