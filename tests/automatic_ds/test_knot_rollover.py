"""A registrant's Knot rolls its key, changes the algorithm and goes insecure; nobody does anything, and the name always resolves."""

import time
from pathlib import Path

import pytest

from support.name_servers import resolver
from support.network_namespace import runs_outside
from support.rolling_child import KnotChild, Watcher, knot_child_running
from support.running_service import Registrant, RunningService
from support.serve_process import wait_until
from support.service_on_primary import ZONE, service_on

CHILD = f"blog.{ZONE}"
ADDRESS = "9.9.1.1"


def test_knot_rolls_its_keys_without_a_human(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if runs_outside(request, [ADDRESS]):
        return
    with service_on("knot", tmp_path, health_checks=True) as on:
        service, server = on.service, on.primary
        service.operator("domain", "edit", ZONE, "--automatic-ds", "all", "--delegation-ttl-seconds", "2")
        child = KnotChild(tmp_path / "child", CHILD, ADDRESS, (server.address, server.port))
        ada = service.add_user()
        with (
            resolver(tmp_path / "r", {ZONE: (server.address, server.port)}, [server.trust_anchor()]) as asked,
            knot_child_running(child),
        ):
            first = child.ds_records()
            service.register(
                ada,
                CHILD,
                nameservers=[f"ns1.{CHILD}"],
                glue=[{"host": f"ns1.{CHILD}", "ipv4": ADDRESS}],
                ds_records=[vars_of(each) for each in first],
            )
            began = time.time()
            with Watcher(asked, f"www.{CHILD}") as watcher:
                child.control("zone-key-rollover", CHILD, "ksk")
                follow_until(service, ada, lambda ds: bool(ds) and not ds & {each.key_tag for each in first})
                print("rolled", time.time() - began)
            print(watcher.answers)
            print(service.call(ada, "GET", f"/subdomains/{CHILD}/automatic-ds").json())
            print(service.operator("mail", "list"))
            assert 0


def vars_of(record):
    return {name: getattr(record, name) for name in record.__slots__}


def follow_until(service: RunningService, who: Registrant, is_done) -> None:
    def done():
        print(service.operator("subdomain", "check-ds", CHILD, expect=None))
        shown = service.call(who, "GET", f"/subdomains/{CHILD}/automatic-ds").json()["automatic_ds"]
        return is_done({each["key_tag"] for each in shown["ds_records"]})

    wait_until(done, 60)
