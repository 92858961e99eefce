"""Random queries to the built-in name server, Knot, NSD and BIND with the same zone: the response code, AA
and the answers must be equal.
"""

import asyncio
import os
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from long.fuzzing.packets import opt_record, query, wire_name
from sublet.dns.names import ancestors
from sublet.dns.nameserver import NameServer
from sublet.dns.records import apex_records
from sublet.dns.types import Apex, Record, RecordSetInput, ZoneView
from sublet.platform_domains import zone_store
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains.view_zone import export_zone, view_zones
from support.dns_world import Server, Zone, servers_running
from support.free_ports import free_address
from support.in_memory_zone import DS_TEXT
from support.registry import Registry
from support.repetitions import share

QUERY_COUNT, TOGETHER = share(1000, whole=5000), 50
ZONE = "example.test"
ADDRESS = "192.0.2.1"

OWNERS: dict[str, list[tuple[str, str]]] = {
    "": [("TXT", '"apex"'), ("MX", "10 mail.example.test."), ("A", "192.0.2.46"), ("CAA", '0 issue "ca.example"')],  # noqa: E501
    # delegations: with and without DS, glue of its own and of a sibling, a delegation and other records below
    "foo": [("NS", "ns1.foo.example.test."), ("NS", "ns.outside.example."), ("DS", DS_TEXT)],
    "ns1.foo": [("A", "192.0.2.11"), ("AAAA", "2001:db8::11")],
    "bar": [("NS", "ns1.foo.example.test.")],
    "deep.foo": [("NS", "ns.hidden.example.")],
    "ns.deep.in.bar": [("A", "192.0.2.12")],
    "a.b.cut": [("NS", "ns.outside.example."), ("DS", DS_TEXT)],
    # names of the zone's own, empty non-terminals above some
    "mail": [("A", "192.0.2.45"), ("AAAA", "2001:db8::45"), ("MX", "10 mail.example.test.")],
    "text": [("TXT", '"hello"')],
    "under.ent": [("TXT", '"below nothing"')],
    "a.b.c.d": [("A", "192.0.2.47")],
    "_sip._tcp": [("SRV", "1 2 5060 mail.example.test.")],
    # wildcards: with names beside and below, a delegation inside, one below an empty non-terminal, one that
    # is an alias
    "*.wild": [("TXT", '"any"'), ("MX", "10 mail.example.test.")],
    "there.wild": [("A", "192.0.2.77")],
    "x.y.wild": [("A", "192.0.2.78")],
    "cut.wild": [("NS", "ns.outside.example.")],
    "*.empty.ent": [("A", "192.0.2.79")],
    "sub.*.star": [("TXT", '"below an asterisk"')],
    "*.alias": [("CNAME", "text.example.test.")],
    "*.lost": [("CNAME", "nowhere.example.test.")],
    # aliases: to a record, to nothing, to an empty non-terminal, below and at a delegation, outside, in a
    # row, to a wildcard
    "to-text": [("CNAME", "text.example.test.")],
    "to-nothing": [("CNAME", "nowhere.example.test.")],
    "to-ent": [("CNAME", "ent.example.test.")],
    "to-foo": [("CNAME", "www.foo.example.test.")],
    "to-cut": [("CNAME", "foo.example.test.")],
    "to-outside": [("CNAME", "www.outside.example.")],
    "to-apex": [("CNAME", "example.test.")],
    "to-wild": [("CNAME", "any.wild.example.test.")],
    "to-to-text": [("CNAME", "to-text.example.test.")],
    "to-to-nothing": [("CNAME", "To-Nothing.example.test.")],
    "to-alias": [("CNAME", "any.alias.example.test.")],
}  # fmt: skip
RECORDS = [
    Record(f"{label}.{ZONE}".removeprefix("."), rdtype, 300, rdata)
    for label, held in OWNERS.items()
    for rdtype, rdata in held
]
TYPES = (1, 1, 28, 2, 2, 43, 43, 43, 6, 5, 15, 16, 16, 33, 12, 48, 52, 65, 99, 257, 255, 255, 666, 65280)
LABELS = ("www", "a", "x", "ns1", "foo", "*", "wild", "text", "_tcp", "deep", "0")


ANSWERS_NOT_COMPARED = {
    "ANY": "a server may give any of the RRsets (RFC 8482)",
    "truncated": "TC means that the client asks again over TCP",
    "alias loop": "BIND gives the aliases with SERVFAIL, the others with NOERROR",
}
"""Where the servers may differ, and why."""


class Reply(NamedTuple):
    """What is compared of a reply.

    `answers` are the records of the answer section, or the nameservers of a referral; None for
    ANY and a truncated reply.
    """

    rcode: int
    authoritative: bool
    answers: frozenset[tuple[str, int, int, str]] | None


def draw_query(draws: random.Random, records: Sequence[Record]) -> bytes:
    """Draw a query about a name that exists, is near one, or is outside the zone."""
    name = draws.choice(records).owner
    if draws.random() < 0.3:  # one above, perhaps an empty non-terminal
        name = draws.choice([each for each in (name, *ancestors(name)) if each])
    if draws.random() < 0.5:  # below
        name = ".".join([*draws.choices(LABELS, k=draws.randrange(1, 4)), name])
    if draws.random() < 0.05:
        name = draws.choice(("test", "xexample.test", "example.test.example", "a.b.outside.example"))
    if draws.random() < 0.2:
        name = "".join(draws.choice((each.upper(), each)) for each in name)
    options = draws.choice(
        ((), (opt_record(),), (opt_record(flags=0x8000),), (opt_record(512, flags=0x8000),))
    )
    wire = query(wire_name(name), draws.choice(TYPES), records=options)
    flags = draws.choice((0, 0x0100, 0x0020, 0x0130))
    return struct.pack("!2H", 0, flags) + wire[4:]


def read_reply(wire: bytes, *, is_any: bool) -> Reply:
    """Return what is compared of a reply."""
    message = dns.message.from_wire(wire, one_rr_per_rrset=True)
    is_compared = not is_any and not message.flags & dns.flags.TC
    shown = message.answer or [each for each in message.authority if each.rdtype == dns.rdatatype.NS]
    answers = frozenset(
        (rrset.name.to_text().lower(), int(rrset.rdtype), rrset.ttl, rrset[0].to_text().lower())
        for rrset in shown
    )
    return Reply(wire[3] & 0xF, bool(wire[2] & 0x04), answers if is_compared else None)


def is_alias_loop(reply: Reply) -> bool:
    """True if the answers are aliases of each other."""
    answers = reply.answers or frozenset()
    targets = {rdata for _, rdtype, _, rdata in answers if rdtype == dns.rdatatype.CNAME}
    return bool(answers) and targets == {owner for owner, *_ in answers}


def ask(asker: socket.socket, wires: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the reply to each query, by its id; a datagram that is lost is sent again."""
    answers: dict[bytes, bytes] = {}
    ends_at = time.monotonic() + 60
    while len(answers) < len(wires):
        assert time.monotonic() < ends_at, "no answer within a minute"
        for query_id in wires.keys() - answers.keys():
            asker.send(wires[query_id])
        try:
            while len(answers) < len(wires):
                reply = asker.recv(65535)
                if reply[:2] in wires:  # else it answers a query that was sent twice
                    answers[reply[:2]] = reply
        except TimeoutError:
            continue
    return answers


def find_differences(
    servers: Mapping[str, tuple[str, int]], seed: int, records: Sequence[Record], count: int
) -> tuple[list[str], Counter[int]]:
    """Send the same queries to every server.

    Return those with different answers, and the number of answers by code.
    """
    draws = random.Random(seed)  # noqa: S311 - what is asked next, no secret
    codes: Counter[int] = Counter()
    different = []
    askers = {}
    try:
        for name, address in servers.items():
            askers[name] = socket.socket(type=socket.SOCK_DGRAM)
            askers[name].settimeout(5)
            askers[name].connect(address)
        for first in range(0, count, TOGETHER):
            ids = [struct.pack("!H", number) for number in range(first, first + TOGETHER)]
            wires = {query_id: query_id + draw_query(draws, records)[2:] for query_id in ids}
            replies = {name: ask(asker, wires) for name, asker in askers.items()}
            for query_id, wire in wires.items():
                question = dns.message.from_wire(wire).question[0]
                is_any = question.rdtype == dns.rdatatype.ANY
                answers = {name: read_reply(each[query_id], is_any=is_any) for name, each in replies.items()}
                if any(each.answers is None for each in answers.values()):
                    answers = {name: each._replace(answers=None) for name, each in answers.items()}
                if is_alias_loop(answers["Sublet"]) and answers["BIND"].rcode == dns.rcode.SERVFAIL:
                    answers["BIND"] = answers["BIND"]._replace(rcode=dns.rcode.NOERROR)
                codes[answers["Sublet"].rcode] += 1
                if len(set(answers.values())) > 1:
                    different.append(f"{question}: {answers}")
    finally:
        for asker in askers.values():
            asker.close()
    return different, codes


async def compare(
    registry: Registry, others: dict[str, tuple[str, int]], seed: int, records: Sequence[Record], count: int
) -> tuple[list[str], Counter[int]]:
    """Ask the built-in name server, which reads its zone from the registry's database, and the others."""

    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        return await registry.db.read(view_zones, names, (ADDRESS,))

    server = NameServer(read_zones)
    port = await server.start("127.0.0.1", 0)
    try:
        servers = {"Sublet": ("127.0.0.1", port), **others}
        return await asyncio.to_thread(find_differences, servers, seed, records, count)
    finally:
        await server.close()


def zone_text(apex: Apex, records: Sequence[Record]) -> str:
    """Return a zone as a file (RFC 1035, section 5)."""
    whole = [*apex_records(apex), *apex.addresses, *records]
    return "".join(f"{each.owner}. {each.ttl_seconds} IN {each.type} {each.rdata}\n" for each in whole)


@contextmanager
def others_running(
    folder: Path, apex: Apex, records: Sequence[Record]
) -> Iterator[dict[str, tuple[str, int]]]:
    """Run Knot, NSD and BIND with an unsigned zone, and yield their addresses by name."""
    zone = Zone(apex.zone, (), file=zone_text(apex, records))
    addresses = {name: free_address() for name in ("Knot", "NSD", "BIND")}
    servers = [Server(name.lower(), (host,), (zone,), port=port) for name, (host, port) in addresses.items()]
    with servers_running(folder, servers):
        yield addresses


def chosen_seed() -> int:
    """Return the seed of the queries. TESTS_SEED draws others."""
    seed = int(os.environ.get("TESTS_SEED", "26"))
    print(f"seed {seed}")  # noqa: T201 - pytest shows it with a failure
    return seed


@pytest.mark.uncovered
@pytest.mark.whole_on_postgresql
def test_random_queries_are_answered_like_knot_nsd_and_bind(registry: Registry, tmp_path: Path) -> None:
    seed = chosen_seed()
    registry.write(zone_store.insert_records, registry.domains[ZONE], RECORDS)
    apex = registry.read(view_zones, [ZONE], (ADDRESS,))[ZONE].apex
    with others_running(tmp_path / "others", apex, RECORDS) as others:
        different, codes = registry.run(compare(registry, others, seed, RECORDS, QUERY_COUNT))
    assert different == []
    assert codes.keys() == {dns.rcode.NOERROR, dns.rcode.NXDOMAIN, dns.rcode.REFUSED}
    assert min(codes.values()) > 10


def draw_records(draws: random.Random, fqdn: str, all_names: Sequence[str]) -> tuple[RecordSetInput, ...]:
    """Draw the records of a name: addresses, texts, aliases in and out of the zone, wildcards, empty
    non-terminals.
    """
    target = draws.choice([f"{draws.choice(PLACES)}{draws.choice(all_names)}.", "www.outside.example."])
    drawn = {
        ("@", "A"): ("8.8.4.4", "8.8.8.8"),
        ("@", "TXT"): ('"v=spf1 -all"', '"two" "strings"'),
        ("@", "MX"): (f"10 mail.{fqdn}.",),
        ("www", "CNAME"): (target,),
        ("*", "CNAME"): (f"www.{draws.choice(all_names)}.",),
        ("*.dev", "A"): ("8.8.4.4",),
        ("*.dev", "TXT"): ('"any"',),
        ("a.b.c", "AAAA"): ("2a00:1450::1",),
        ("b.c", "TXT"): ('"above"',),
        ("there.dev", "MX"): ("0 .",),
        ("_sip._tcp", "SRV"): (f"1 2 5060 {fqdn}.",),
        ("_443._tcp", "TLSA"): ("3 1 1 " + "ab" * 32,),
        ("@", "HTTPS"): ("1 . alpn=h2",),
        ("loop", "CNAME"): (f"back.{fqdn}.",),
        ("back", "CNAME"): (f"loop.{fqdn}.",),
    }
    keys = draws.sample(sorted(drawn), draws.randrange(1, len(drawn)))
    return tuple(RecordSetInput(name, rdtype, drawn[name, rdtype]) for name, rdtype in keys)


PLACES = ("", "www.", "a.b.c.", "else.", "x.dev.", "there.dev.")


@pytest.mark.uncovered
@pytest.mark.whole_on_postgresql
def test_random_queries_about_records_are_answered_alike(registry: Registry, tmp_path: Path) -> None:
    """A zone of registered names with records, or delegated. Knot, NSD and BIND serve the exported zone."""
    seed, (name_count, count) = chosen_seed(), share((60, 500), whole=(300, QUERY_COUNT))
    draws = random.Random(seed)  # noqa: S311 - what is registered, no secret
    zone = "records.test"
    registry.add_domain(zone, records="on")
    registry.add_user("zoe", free_quota=1000)
    names = [f"n{number}.{zone}" for number in range(name_count)]
    for fqdn in names:
        if draws.random() < 0.2:
            registry.register(fqdn, "zoe", nameservers=("ns1.outside.example", "ns2.outside.example"))
        else:
            registry.register(fqdn, "zoe", records=draw_records(draws, fqdn, names))
    platform_domain = registry.read(find_platform_domain, zone)
    exported = registry.read(lambda tx: list(export_zone(tx, platform_domain, (ADDRESS,))))
    apex = registry.read(view_zones, [zone], (ADDRESS,))[zone].apex
    records = [each for each in exported if each.owner != zone and each not in apex.addresses]
    with others_running(tmp_path / "others", apex, records) as others:
        different, codes = registry.run(compare(registry, others, seed, records, count))
    assert different == []
    assert min(codes[each] for each in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)) > 50
