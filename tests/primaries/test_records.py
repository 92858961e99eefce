"""Records of names on each kind of primary: published, changed, repaired after a change
by hand, and removed.
"""

import contextlib
import gc
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sublet.dns.types import RecordSet
from sublet.primaries.check_zone import CLOCK_MARGIN
from sublet.primaries.primary import IN_USE, NOT_APPLIED
from sublet.subdomains import store
from support.name_servers import KINDS
from support.primary_faults import changed
from support.repetitions import share
from support.running_service import Registrant
from support.service_on_primary import ZONE, ServiceOn, check_often, service_on
from support.turns import TURN_MAX_SECONDS, watched
from support.waiting import wait_until

pytestmark = pytest.mark.slow
NAME = f"shop.{ZONE}"
SETS = [
    {"name": "@", "type": "A", "values": ["8.8.4.4", "8.8.8.8"]},
    {"name": "@", "type": "AAAA", "values": ["2a00:1450::1"]},
    {"name": "@", "type": "CAA", "values": ['0 issue "letsencrypt.org"']},
    {"name": "@", "type": "HTTPS", "values": [r'1 . alpn="h2,a_b+c/1.1" key700="a\"\\\\ ,\255"']},
    {"name": "@", "type": "MX", "values": ["10 mail.provider.example.", f"20 nowhere.{NAME}."]},
    {"name": "@", "type": "SSHFP", "values": ["4 2 " + "ab" * 32]},
    {"name": "@", "type": "TXT", "values": ["v=spf1 -all", "x" * 300]},
    {"name": "_443._tcp", "type": "TLSA", "values": ["3 1 1 " + "cd" * 32]},
    {"name": "_imaps._tcp", "type": "SRV", "values": ["0 1 993 mail.provider.example."]},
    {"name": "_dns", "type": "SVCB", "values": ["1 dns.provider.example. alpn=dot"]},
    {"name": "www", "type": "CNAME", "values": ["example.github.io."]},
    {"name": "*.dev", "type": "CNAME", "values": [f"{NAME}."]},
]
"""A set of each type."""


@pytest.fixture(scope="module", params=share(("powerdns",), whole=KINDS))
def on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceOn]:
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        check_often(patch)
        folder = tmp_path_factory.mktemp(request.param)
        yield stack.enter_context(service_on(request.param, folder, records=True, publish_wait_ms=60_000))


@pytest.fixture(scope="module")
def ada(on: ServiceOn) -> Registrant:
    return on.service.add_user()


def served(on: ServiceOn) -> set[tuple[str, str]]:
    """Return the owners and types of the zone's records below its apex."""
    return {(owner, rdtype) for owner, rdtype, _ in on.records() if rdtype not in ("RRSIG", "NSEC", "NSEC3")}


def owners(*sets: Mapping[str, object]) -> set[tuple[str, str]]:
    return {(NAME if each["name"] == "@" else f"{each['name']}.{NAME}", str(each["type"])) for each in sets}


def attempts(on: ServiceOn, fqdn: str) -> int:
    found = on.service.read(lambda tx: store.find_unreleased(tx, fqdn))
    assert found is not None
    return found.attempts


def test_records_of_every_type_are_published_changed_repaired_and_removed(
    on: ServiceOn, ada: Registrant
) -> None:
    service, path = on.service, f"/subdomains/{NAME}"
    added = service.register(ada, NAME, records=SETS)
    assert added["provisioning"]["status"] == "published", added
    assert served(on) == owners(*SETS)
    seen = service.call(ada, "GET", f"{path}/delegation").json()["delegation"]
    assert seen["in_agreement"], seen
    assert seen["servers"][0]["records"] == seen["stored"]["records"]

    gone = [{"name": "www", "type": "CNAME", "values": []}, {"name": "@", "type": "MX", "values": []}]
    new = {"name": "www", "type": "A", "values": ["8.8.4.4"]}
    edited = service.call(ada, "PATCH", f"{path}/records", {"records": [*gone, new]}).json()
    assert edited["provisioning"]["status"] == "published", edited
    left = [each for each in SETS if each["type"] != "MX" and each["name"] != "www"]
    assert served(on) == owners(*left, new)

    # A change by hand is found and repaired; a record that names can't have stays.
    on.primary.nsupdate(
        [f"delete {NAME}. TXT", f"add by-hand.{NAME}. 60 TXT left", f"add www.{NAME}. 60 TXT hand"]
    )
    service.clock.advance(seconds=CLOCK_MARGIN.total_seconds())
    wait_until(lambda: served(on) == owners(*left, new) | {(f"by-hand.{NAME}", "TXT")})

    below = service.call(ada, "PUT", f"{path}/records", {"records": [{**SETS[-1], "name": "*"}]}).json()
    assert below["provisioning"]["status"] == "published", (
        "nothing at the name itself, and a wildcard below it"
    )
    cleared = service.call(ada, "PUT", f"{path}/records", {"records": []}).json()
    assert cleared["provisioning"]["status"] == "none", cleared
    assert served(on) == {(f"by-hand.{NAME}", "TXT")}
    on.primary.nsupdate([f"delete by-hand.{NAME}."])
    nameservers = {"nameservers": ["ns1.provider.example"]}
    assert service.call(ada, "PUT", f"{path}/nameservers", nameservers).status_code == 200
    assert served(on) == {(NAME, "NS")}
    assert service.call(ada, "PUT", f"{path}/nameservers", {"nameservers": []}).status_code == 200
    restored = service.call(ada, "PUT", f"{path}/records", {"records": SETS[:1]}).json()
    assert restored["provisioning"]["status"] == "published", restored
    service.call(ada, "DELETE", path)
    wait_until(lambda: served(on) == set())


def test_aliases_that_the_server_cannot_follow_are_published(on: ServiceOn, ada: Registrant) -> None:
    """BIND and PowerDNS answer SERVFAIL to them."""
    fqdn = f"loop.{ZONE}"
    on.service.register(ada, fqdn)
    for aliases in {"a": f"b.{fqdn}.", "b": f"a.{fqdn}."}, {"*": f"x.y.{fqdn}."}:
        sets = [{"name": name, "type": "CNAME", "values": [target]} for name, target in aliases.items()]
        answer = on.service.call(ada, "PUT", f"/subdomains/{fqdn}/records", {"records": sets}).json()
        assert answer["provisioning"]["status"] == "published"
        assert on.state().problem is None
    on.service.call(ada, "DELETE", f"/subdomains/{fqdn}")
    wait_until(lambda: not {each for each in on.records() if each[0].endswith(fqdn)})


def test_more_records_than_fit_into_a_message_are_changed_and_removed(on: ServiceOn, ada: Registrant) -> None:
    """The update deletes each type at each owner. A record at the last owner that isn't ours stays."""
    fqdn = f"long.{ZONE}"
    on.service.operator("domain", "edit", ZONE, "--record-sets-max", "120")
    on.service.register(ada, fqdn)
    for first in (0, 60):
        owners = [".".join([f"{number:060}"] * 3) for number in range(first, first + 120)]
        sets = [{"name": each, "type": "CNAME", "values": ["host.example."]} for each in owners]
        foreign = (f"{owners[-1]}.{fqdn}", "A", "8.8.4.4")
        before = on.records()
        on.primary.nsupdate([f"add {foreign[0]}. 60 A 8.8.4.4"])
        on.service.call(ada, "PUT", f"/subdomains/{fqdn}/records", {"records": sets})
        wait_until(lambda: attempts(on, fqdn) > 1 or on.shown(ada, fqdn)["status"] == "active")
        assert on.records() == before | {foreign}
        assert on.shown(ada, fqdn)["provision_error"] == IN_USE
        on.primary.nsupdate([f"delete {foreign[0]}. A"])
        on.wait_until_active(ada, fqdn)
        published = {owner for owner, _, _ in on.records() if owner.endswith(fqdn)}
        assert published == {f"{each}.{fqdn}" for each in owners}
    on.service.call(ada, "DELETE", f"/subdomains/{fqdn}")
    wait_until(lambda: not {each for each in on.records() if each[0].endswith(fqdn)})


@pytest.mark.parametrize("on", share(("powerdns",), whole=("bind", "powerdns")), indirect=True)
def test_a_later_message_that_is_refused_is_told(
    on: ServiceOn, ada: Registrant, capfd: pytest.CaptureFixture[str]
) -> None:
    server, fqdn = on.primary, f"parts.{ZONE}"
    owners = [".".join([f"{number:060}"] * 3) for number in range(120)]
    sets = [{"name": each, "type": "TXT", "values": ["text"]} for each in owners]
    key, last = server.key.name, f"{owners[-1]}.{fqdn}"
    change = {
        "bind": (f"grant {key} wildcard", f"deny {key} name {last} ANY;\n grant {key} wildcard"),
        "powerdns": ("if name == zone", f"if name == newDN('{last}.') or name == zone"),
    }[server.kind]
    on.service.operator("domain", "edit", ZONE, "--record-sets-max", "120")
    on.service.register(ada, fqdn, records=sets[:60])
    on.wait_until_active(ada, fqdn)
    with changed(server, change, all_files=server.kind == "powerdns"):
        on.service.call(ada, "PUT", f"/subdomains/{fqdn}/records", {"records": sets[60:]})
        wait_until(lambda: on.shown(ada, fqdn)["provision_error"] == NOT_APPLIED)
        assert "zone_change_refused_in_part" in capfd.readouterr().out
    on.wait_until_active(ada, fqdn)
    on.service.call(ada, "DELETE", f"/subdomains/{fqdn}")
    wait_until(lambda: not {each for each in on.records() if each[0].endswith(fqdn)})


@pytest.mark.parametrize("kind", share(("knot",), whole=KINDS))
def test_the_event_loop_has_other_turns_while_records_are_published(kind: str, tmp_path: Path) -> None:
    with service_on(kind, tmp_path, records=True, publish_wait_ms=60_000) as on:
        ada = on.service.add_user()
        on.service.register(ada, NAME)
        assert on.service.loop is not None
        values = [f"{'long' * 15}{number}" for number in range(4)]
        # A collection of all that the tests have made would count as a turn.
        gc.collect()
        gc.freeze()
        with watched(on.service.loop) as turns:
            for letter in "ab":
                sets = [{"name": f"{letter}{at}", "type": "TXT", "values": values} for at in range(50)]
                answer = on.service.call(ada, "PUT", f"/subdomains/{NAME}/records", {"records": sets}).json()
                assert answer["provisioning"]["status"] == "published", answer
        gc.unfreeze()
        assert turns.longest_seconds <= TURN_MAX_SECONDS


@pytest.mark.parametrize("kind", share(("knot",), whole=KINDS))
def test_a_cname_takes_the_place_of_other_records(kind: str, tmp_path: Path) -> None:
    """Knot loses a CNAME that is added by the message that deletes the others."""
    with service_on(kind, tmp_path, records=True, publish_wait_ms=60_000) as on:
        ada = on.service.add_user()
        www = {"name": "www", "type": "A", "values": ["8.8.4.4"]}
        on.service.register(ada, NAME, records=[www])
        entries = [{**www, "values": []}, {**www, "type": "CNAME", "values": ["example.github.io."]}]
        edited = on.service.call(ada, "PATCH", f"/subdomains/{NAME}/records", {"records": entries}).json()
        assert edited["provisioning"]["status"] == "published", edited
        assert served(on) == {(f"www.{NAME}", "CNAME")}


def test_a_record_that_the_server_cannot_read_stops_no_other_name(tmp_path: Path) -> None:
    """BIND answers FORMERR without a signature. An older version accepted the record."""
    with service_on("bind", tmp_path, records=True, publish_wait_ms=0) as on:
        ada = on.service.add_user()
        bad = on.service.register(ada, NAME)["subdomain"]
        unreadable = store.records_columns([RecordSet("@", "HTTPS", 300, ('1 . dohpath="/x"',))])
        on.service.write(
            lambda tx: store.update_subdomain(tx, bad["id"], **unreadable, **store.NEXT_GENERATION)
        )
        good = f"good.{ZONE}"
        on.service.register(ada, good, records=[SETS[0]])
        on.wait_until_active(ada, good)
        wait_until(lambda: on.shown(ada, NAME)["provision_error"] == NOT_APPLIED)
        assert on.state().problem is None
