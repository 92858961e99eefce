"""The name server's answers, compared with those that dnspython builds from the same zone."""

import asyncio
from dataclasses import replace

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from long.fuzzing.packets import Packets, opt_record, query
from sublet.dns.answer import answer
from sublet.dns.nameserver import NameServer
from sublet.dns.query import read_query
from sublet.dns.types import Record
from support import reference_answer as by_dnspython
from support.in_memory_zone import DS_TEXT, RECORDS, ZONE, apex, many_nameservers, reader_of, view_at

ODD = [
    Record(r"a\.b.zone.example", "TXT", 300, '"a dot in a label"'),
    Record(r"b.zone.example", "NS", 300, r"ns\.1.B.zone.example."),
    Record(r"ns\.1.b.zone.example", "A", 300, "192.0.2.44"),
    Record("mail.zone.example", "MX", 300, "10 Mail.zone.example."),
    Record("mail.zone.example", "MX", 200, "20 elsewhere.example."),
    Record("mail.zone.example", "A", 300, "192.0.2.45"),
    Record("mail.zone.example", "A", 300, "192.0.2.45"),
    Record("mail.zone.example", "PTR", 300, "back.zone.example."),
    Record("mail.zone.example", "SRV", 300, "1 2 53 srv.zone.example."),
    Record("mail.zone.example", "TYPE65280", 300, r"\# 3 010203"),
    Record("two.zone.example", "CNAME", 300, "one.zone.example."),
    Record("two.zone.example", "CNAME", 200, "other.zone.example."),
    Record("twice.zone.example", "NS", 300, "NS.twice.zone.example."),
    Record("twice.zone.example", "NS", 200, "ns.Twice.zone.example."),
    Record("twice.zone.example", "DS", 100, DS_TEXT),
    Record("twice.zone.example", "DS", 100, f"1 13 250 {'ab' * 11}"),
    Record("ns.twice.zone.example", "AAAA", 100, "2001:DB8:0::5"),
    Record("atapex.zone.example", "NS", 300, "zone.example."),
    Record("zone.example", "A", 300, "192.0.2.46"),
    Record("root.zone.example", "NS", 300, "."),
    Record("*.cut.zone.example", "NS", 300, "ns.elsewhere.example."),
]
MANY = [
    record
    for count in (2, 5, 16)
    for name in (f"many{count}.zone.example",)
    for record in (
        *many_nameservers(count, name),
        Record(f"sibling{count}.zone.example", "NS", 300, f"a-rather-long-host-name-number-0.{name}."),
        *(
            Record(f"sibling{count}.zone.example", "NS", 300, each.rdata)
            for each in many_nameservers(count, name)
            if each.type == "NS"
        ),
        Record(f"long{count}.zone.example", "TXT", 300, " ".join(['"' + "x" * 100 + '"'] * count)),
    )
]
WHOLE = [*RECORDS, *ODD, *MANY]
Said = tuple[object, ...]


def replies(wires: list[bytes], records: list[Record] = WHOLE, *, over_tcp: bool) -> list[bytes | None]:
    return asyncio.run(NameServer(reader_of(records))._reply(wires, over_tcp=over_tcp))


def check(wire: bytes, reply: bytes | None, records: list[Record] = WHOLE, *, over_tcp: bool) -> None:
    """Check that the reply is equal to dnspython's, and as short."""
    read = by_dnspython.read(wire)
    if read is None:
        assert reply is None
        return
    assert reply is not None
    if not isinstance(read, dns.message.Message):
        assert reply == wire[:2] + bytes([0x80 | (wire[2] & 0x79), read]) + bytes(8)
        return
    expected = by_dnspython.answer(read, lambda name: view_at(apex(), records, name), over_tcp=over_tcp)
    found = dns.message.from_wire(reply, keyring=False)
    assert said(found) == said(expected)
    if read.tsig is None:
        assert len(reply) <= len(expected.to_wire(max_size=65535))
        return
    assert len(reply) <= len(wire)
    assert found.tsig is not None
    assert (found.tsig.name, found.tsig[0].mac, found.tsig[0].error) == (read.tsig.name, b"", 17)


def said(message: dns.message.Message) -> Said:
    """Return the content of a message: the question with its case, and the records in any order."""
    sections = (message.answer, message.authority, message.additional)
    return (
        message.id,
        message.flags,
        message.rcode(),
        message.edns,
        message.payload if message.edns >= 0 else None,
        message.ednsflags,
        [(each.name.labels, each.rdclass, each.rdtype) for each in message.question],
        *(
            {
                (rrset.name.to_text().lower(), rrset.rdclass, rrset.ttl, rdata.rdtype, rdata.to_digestable())
                for rrset in section
                for rdata in rrset
            }
            for section in sections
        ),
    )


@pytest.mark.parametrize("records", [(), (opt_record(flags=0x8000),)])
def test_ds_at_an_apex_comes_from_the_zone_above(records: tuple[bytes, ...]) -> None:
    """All other types come from the zone itself, also for names below it."""
    child = "foo.zone.example"
    below = [Record(f"www.{child}", "TXT", 300, '"below"')]
    parent = view_at(apex(), RECORDS, child)
    views = {
        name: view
        for name in (child, f"www.{child}")
        if (view := view_at(apex(zone=child), below, name)) is not None
    }
    views[child] = replace(views[child], parent=parent)

    def ask(name: str, rdtype: str) -> dns.message.Message:
        wire = query(
            dns.name.from_text(name).to_wire() or b"", dns.rdatatype.from_text(rdtype), records=records
        )
        return dns.message.from_wire(answer(read_query(wire), views, over_tcp=True).wire)

    found = ask(child, "DS")
    assert found.flags & dns.flags.AA
    assert [str(each[0]).lower().replace(" ", "") for each in found.answer] == [DS_TEXT.replace(" ", "")]
    assert [each.name.to_text() for each in ask(child, "MX").authority] == [f"{child}."]
    assert [each.name.to_text() for each in ask(f"www.{child}", "DS").authority] == [f"{child}."]
    assert ask(f"www.{child}", "TXT").answer


NAMES = sorted({record.owner for record in WHOLE if "\\" not in record.owner} | {"example", "other.example"})


@pytest.mark.uncovered
@pytest.mark.parametrize("over_tcp", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_answers_to_random_packets(seed: int, over_tcp: bool) -> None:
    packets = Packets(seed, NAMES)
    wires = [packets.draw()[1] for _ in range(250)]
    for wire, reply in zip(wires, replies(wires, over_tcp=over_tcp), strict=True):
        check(wire, reply, over_tcp=over_tcp)


OWNERS = [
    *sorted({record.owner for record in WHOLE if "-number-" not in record.owner}),
    "a-rather-long-host-name-number-1.many2.zone.example",
    *(
        "x.b.zone.example",
        "no.such.zone.example",
        r"x\.b.zone.example",
        r"x\.zone.example",
        "cut.zone.example",
    ),
    *("x.cut.zone.example", "x.wild.zone.example", "ent.zone.example", "x.there.wild.zone.example", ""),
]


@pytest.mark.uncovered
@pytest.mark.parametrize("over_tcp", [False, True])
@pytest.mark.parametrize("owner", OWNERS)
def test_answers_for_every_name_and_type(owner: str, over_tcp: bool) -> None:
    name = dns.name.from_text(f"{owner}.").to_wire() or b""
    options = ((), (opt_record(),), (opt_record(flags=0x8000),), (opt_record(700, flags=0x8000),))
    wires = [
        query(case, dns.rdatatype.from_text(rdtype), records=records)
        for rdtype in ("NS", "DS", "A", "AAAA", "TXT", "MX", "PTR", "SRV", "SOA", "CNAME", "ANY", "TYPE65280")
        for records, case in zip(options, (name, name.swapcase()) * 2, strict=True)
    ]
    for wire, reply in zip(wires, replies(wires, over_tcp=over_tcp), strict=True):
        check(wire, reply, over_tcp=over_tcp)


@pytest.mark.uncovered
@pytest.mark.parametrize("name", ["many5", "sibling5", "many16", "sibling16", "long5", "long16"])
@pytest.mark.parametrize("rdtype", ["NS", "TXT"])
def test_answers_of_every_size_over_udp(name: str, rdtype: str) -> None:
    asked = dns.name.from_text(f"{name}.zone.example.").to_wire()
    assert asked is not None
    payloads = [*range(0, 520, 40), *range(508, 1240), 4096, 65535]
    wires = [
        query(asked, dns.rdatatype.from_text(rdtype), records=(opt_record(payload),)) for payload in payloads
    ]
    lengths = set()
    for payload, wire, reply in zip(payloads, wires, replies(wires, over_tcp=False), strict=True):
        assert reply is not None
        assert len(reply) <= min(max(payload, 512), 1232)
        lengths.add(len(reply))
        if payload % 29 == 0:
            check(wire, reply, over_tcp=False)
    assert lengths


@pytest.mark.uncovered
@pytest.mark.parametrize(("count", "octets"), [(200, 0), (700, 1), (1100, 2)])
def test_the_largest_answers_over_tcp(count: int, octets: int) -> None:
    """Names beyond the reach of a compression pointer, and records too long for any message."""
    records = many_nameservers(count, "huge.zone.example")
    text = " ".join(['"' + "x" * 255 + '"'] * 255 + ['"' + "x" * (195 + octets) + '"'])
    records.append(Record("text.zone.example", "TXT", 300, text))
    huge, long = (dns.name.from_text(f"{each}.zone.example.").to_wire() or b"" for each in ("huge", "text"))
    wires = [query(huge, dns.rdatatype.NS), query(long, dns.rdatatype.TXT, records=(opt_record(),))]
    answers = replies(wires, records, over_tcp=True)
    for wire, reply in zip(wires, answers, strict=True):
        check(wire, reply, records, over_tcp=True)
    assert len(answers[1] or b"") == (65534, 65535, 12 + 23 + 11)[octets]


LABELS = st.sampled_from(["a", "b", "*", "ns", "A-b"])
UNDER = st.lists(LABELS, max_size=3).map(lambda labels: ".".join([*labels, ZONE]))
VALUES = st.one_of(
    st.tuples(st.just("NS"), UNDER.map(lambda host: f"{host}.")),
    st.tuples(st.just("NS"), st.sampled_from(["ns.elsewhere.example.", "NS.A.zone.example."])),
    st.tuples(st.just("A"), st.sampled_from(["192.0.2.1", "192.0.2.2"])),
    st.tuples(st.just("AAAA"), st.just("2001:db8::1")),
    st.tuples(st.just("TXT"), st.just('"text"')),
    st.tuples(st.just("CNAME"), UNDER.map(lambda host: f"{host}.")),
    st.tuples(st.just("DS"), st.just(DS_TEXT)),
)
ZONES = st.lists(
    st.builds(
        lambda owner, value, ttl: Record(owner.lower(), value[0], ttl, value[1]),
        UNDER,
        VALUES,
        st.sampled_from([300, 300, 60]),
    ),
    max_size=12,
)


@pytest.mark.uncovered
@settings(max_examples=300, deadline=None)
@given(records=ZONES, names=st.lists(UNDER, min_size=1, max_size=5), data=st.data())
def test_answers_from_random_zones(records: list[Record], names: list[str], data: st.DataObject) -> None:
    over_tcp = data.draw(st.booleans())
    wires = []
    for name in names:
        rdtype = data.draw(st.sampled_from([1, 2, 5, 6, 16, 28, 43, 255]))
        behind = data.draw(st.sampled_from([(), (opt_record(flags=0x8000),), (opt_record(512),)]))
        wires.append(query(dns.name.from_text(f"{name}.").to_wire() or b"", rdtype, records=behind))
    for wire, reply in zip(wires, replies(wires, records, over_tcp=over_tcp), strict=True):
        check(wire, reply, records, over_tcp=over_tcp)
