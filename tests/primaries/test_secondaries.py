"""Secondaries follow the primary by NOTIFY and transfer: each name server of the zone serves what the API
shows.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import dns.flags
import dns.rcode
import dns.rdatatype
import pytest

from sublet.dns.types import Secondary
from support.free_ports import free_address
from support.name_servers import KINDS, NameServerProcess, secondary, validate
from support.repetitions import share
from support.running_service import DS
from support.service_on_primary import ZONE, ServiceOn, service_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow
NAME = f"blog.{ZONE}"
HOST = f"ns1.{NAME}"
NEIGHBOUR = f"wiki.{ZONE}"
DELEGATION = {
    "nameservers": [HOST, "ns.provider.example"],
    "glue": [{"host": HOST, "ipv4": "9.9.9.9", "ipv6": "2620:fe::9"}],
    "ds_records": [DS],
}
WHOLE = {
    (NAME, "NS", f"{HOST}."),
    (NAME, "NS", "ns.provider.example."),
    (NAME, "DS", DS.lower()),
    (HOST, "A", "9.9.9.9"),
    (HOST, "AAAA", "2620:fe::9"),
}


@pytest.fixture(params=share(("bind",), whole=KINDS))
def all_servers(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ServiceOn, list[NameServerProcess]]]:
    """A service on a primary, and all name servers of its zone: the primary, NSD and Knot."""
    kind: str = request.param
    places = {"nsd": free_address("127.0.0.2"), "knot": free_address("127.0.0.3")}
    known = [Secondary(f"ns-{each}.{ZONE}", *place) for each, place in places.items()]
    with ExitStack() as stack:
        on = stack.enter_context(service_on(kind, tmp_path, secondaries=known, publish_wait_ms=1500))
        followers = [
            stack.enter_context(secondary(each, tmp_path / f"of-{each}", of=on.primary, address=place))
            for each, place in places.items()
        ]
        yield on, [on.primary, *followers]


def referral(server: NameServerProcess, name: str) -> set[tuple[str, str, str]] | None:
    """Return a server's records of a name without signatures: none if the name doesn't exist.

    None if the server has no zone yet.
    """
    reply = server.ask(name, "A", want_dnssec=True)
    if reply.rcode() == dns.rcode.SERVFAIL:
        return None
    if reply.rcode() != dns.rcode.NOERROR:
        assert reply.rcode() == dns.rcode.NXDOMAIN
        return set()
    assert not reply.flags & dns.flags.AA, reply
    return {
        (rrset.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(rrset.rdtype), rdata.to_text())
        for rrset in (*reply.authority, *reply.additional)
        if rrset.rdtype not in (dns.rdatatype.RRSIG, dns.rdatatype.NSEC3)
        for rdata in rrset
    }


def says(server: NameServerProcess, name: str, expected: set[tuple[str, str, str]]) -> bool:
    try:
        return referral(server, name) == expected
    except ConnectionError:  # a server that starts, or reads the zone again, may abort connections
        return False


def test_all_secondaries_follow_the_primary(
    all_servers: tuple[ServiceOn, list[NameServerProcess]], tmp_path: Path
) -> None:
    on, servers = all_servers
    ada = on.service.add_user()

    def all_say(expected: set[tuple[str, str, str]]) -> None:
        for server in servers:
            for asked in (NAME, HOST):  # a resolver continues with the referral's glue alone
                wait_until(partial(says, server, asked, expected))

    def all_are_believed(name: str, rcode: str) -> None:
        for server in servers:
            question = (name, "DS")
            stubs = {ZONE: (server.address, server.port)}
            found = validate(tmp_path / "unbound", stubs, [on.primary.trust_anchor()], question)
            assert found == [(rcode, True)], server.kind

    on.service.register(ada, NEIGHBOUR, nameservers=["ns.provider.example"])
    on.service.register(ada, NAME, **DELEGATION)
    all_say(WHOLE)
    all_are_believed(NAME, "NOERROR")
    all_are_believed(NEIGHBOUR, "NOERROR")  # the proof that it has no DS record is signed here

    changed = {"nameservers": [HOST], "glue": [{"host": HOST, "ipv6": "2620:fe::10"}], "ds_records": []}
    answer = on.service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", changed)
    assert answer.status_code == 200, answer.text
    all_say({(NAME, "NS", f"{HOST}."), (HOST, "AAAA", "2620:fe::10")})
    all_are_believed(NAME, "NOERROR")

    on.service.call(ada, "DELETE", f"/subdomains/{NAME}")
    all_say(set())
    all_are_believed(NAME, "NXDOMAIN")
    all_are_believed(HOST, "NXDOMAIN")
    all_are_believed(NEIGHBOUR, "NOERROR")

    on.service.call(ada, "POST", f"/subdomains/{NAME}/restore")
    all_say({(NAME, "NS", f"{HOST}."), (HOST, "AAAA", "2620:fe::10")})


def test_a_stopped_secondary_catches_up(
    all_servers: tuple[ServiceOn, list[NameServerProcess]],
) -> None:
    on, (first, *followers) = all_servers
    ada = on.service.add_user()
    on.service.register(ada, NEIGHBOUR, nameservers=["ns.provider.example"])
    for follower in followers:
        before = {(NEIGHBOUR, "NS", "ns.provider.example.")}
        wait_until(partial(says, follower, NEIGHBOUR, before))
        follower.kill()
    on.service.register(ada, NAME, **DELEGATION)
    on.service.call(ada, "DELETE", f"/subdomains/{NEIGHBOUR}")
    wait_until(lambda: on.records() == WHOLE)
    for follower in followers:
        follower.start()
        wait_until(partial(says, follower, NAME, WHOLE))
        wait_until(partial(says, follower, NEIGHBOUR, set()))
        assert follower.serial() == first.serial()


def test_the_answer_to_a_change_counts_the_servers_that_have_it(tmp_path: Path) -> None:
    second, address = f"ns-nsd.{ZONE}", free_address("127.0.0.2")
    known = [Secondary(second, *address)]
    with (
        service_on("knot", tmp_path, secondaries=known, publish_wait_ms=1500) as on,
        secondary("nsd", tmp_path / "of-nsd", of=on.primary, address=address) as follower,
    ):
        ada = on.service.add_user()

        def change(name: str) -> tuple[str, int, int, bool]:
            """Set the stored delegation again, which changes nothing.

            Return the status, the servers, those with the change, and a warning.
            """
            body = {"nameservers": ["ns.provider.example"]}
            answer = on.service.call(ada, "PUT", f"/subdomains/{name}/nameservers", body).json()
            shape = answer["provisioning"]
            warned = any(second in each for each in shape["warnings"])
            return answer["subdomain"]["status"], shape["servers"], shape["servers_current"], warned

        on.service.register(ada, NEIGHBOUR, nameservers=["ns.provider.example"])
        wait_until(lambda: change(NEIGHBOUR) == ("active", 2, 2, False))
        follower.kill()
        on.service.register(ada, NAME, nameservers=["ns.provider.example"])
        wait_until(lambda: change(NAME) == ("active", 2, 1, True))
        assert change(NEIGHBOUR) == ("active", 2, 1, True)
        shown = on.service.call(ada, "GET", f"/subdomains/{NAME}/delegation").json()["provisioning"]
        assert (shown["servers"], shown["servers_current"]) == (2, 1)
        follower.start()
        for name in (NAME, NEIGHBOUR):
            wait_until(lambda: change(name) == ("active", 2, 2, False))  # noqa: B023 - waits at once
