"""A registrant's Knot rolls its key and goes insecure without a human: the worker follows, and unbound validates all the time."""

import subprocess
import time
from pathlib import Path

import pytest

from support.name_servers import resolver
from support.network_namespace import runs_outside
from support.rolling_child import FollowedChild, KnotChild, Watcher, knot_child_running
from support.serve_process import wait_until
from support.service_on_primary import ZONE, service_on

CHILD = f"blog.{ZONE}"
ADDRESS = "9.9.1.1"


def test_knot_rolls_its_key_and_goes_insecure_without_a_human(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if runs_outside(request, [ADDRESS]):
        return
    with service_on("knot", tmp_path, health_checks=True) as on:
        service, server = on.service, on.primary
        service.operator("domain", "edit", ZONE, "--automatic-ds", "all", "--delegation-ttl-seconds", "1")
        parent = server.address, server.port
        child = KnotChild(tmp_path / "child", CHILD, ADDRESS, parent)
        with (
            resolver(tmp_path / "r", {ZONE: parent}, [server.trust_anchor()]) as asked,
            knot_child_running(child),
        ):
            first = child.ds_records()
            followed = FollowedChild(service, service.add_user(), CHILD)
            followed.register(ADDRESS, first)
            with Watcher(asked, f"www.{CHILD}") as watcher:
                child.control("zone-key-rollover", CHILD, "ksk")
                wait_until(lambda: child.ds_records() != first)
                _notify(service.dns)
                began = time.monotonic()
                wait_until(lambda: followed.ds_records() == child.ds_records(), 60)
                print("seconds from NOTIFY to the change:", time.monotonic() - began)
                wait_until(lambda: child.key_tags("ksk") == {each.key_tag for each in followed.ds_records()})
            assert watcher.faults(secure=True) == [], watcher.answers
            assert [each["source"] for each in followed.show()["ds_records"]] == ["cds"]

            with Watcher(asked, f"www.{CHILD}") as watcher:
                child.change_policy(cds_cdnskey_publish="delete-dnssec")
                followed.wait_for(lambda ds_records: not ds_records)
            assert watcher.faults(secure=False) == [], watcher.answers
        assert [each["by"] for each in followed.timeline("ds_followed")] == ["system", "system"]
        subjects = [each["subject"] for each in service.operator("mail", "list")]
        assert subjects == [f"The DS records of {CHILD} {done}" for done in ("were removed", "have changed")]
        assert service.doctor() == []


def _notify(server: tuple[str, int]) -> None:
    """Tell a name server that the child has new CDS records, as the child's primary does (RFC 9859)."""
    words = ["dig", f"@{server[0]}", "-p", str(server[1]), "+opcode=notify", CHILD, "CDS"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "opcode: NOTIFY, status: NOERROR" in said, said
