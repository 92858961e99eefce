"""The name server's answers at a zone cut and at the limits of a message's size."""

import asyncio

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import pytest

from long.fuzzing.packets import opt_record, query
from sublet.dns.answer import answer
from sublet.dns.nameserver import NameServer
from sublet.dns.query import read_query
from sublet.dns.types import Record
from sublet.structs import replace
from support.in_memory_zone import DS_TEXT, RECORDS, apex, many_nameservers, reader_of, view_at


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


def replies(wires: list[bytes], records: list[Record], *, over_tcp: bool) -> list[bytes]:
    found = asyncio.run(NameServer(reader_of(records))._reply(wires, over_tcp=over_tcp))
    return [each or b"" for each in found]


MANY = [
    record
    for count in (5, 16)
    for record in (
        *many_nameservers(count, f"many{count}.zone.example"),
        *(
            Record(f"sibling{count}.zone.example", "NS", 300, each.rdata)
            for each in many_nameservers(count, f"many{count}.zone.example")
            if each.type == "NS"
        ),
        Record(f"long{count}.zone.example", "TXT", 300, " ".join(['"' + "x" * 100 + '"'] * count)),
    )
]


@pytest.mark.parametrize("name", ["many5", "sibling5", "many16", "sibling16", "long5", "long16"])
@pytest.mark.parametrize("rdtype", ["NS", "TXT"])
def test_answers_of_every_size_over_udp(name: str, rdtype: str) -> None:
    """A truncated answer has no records. An answer that is whole has its glue, and as many addresses of
    siblings as fit.
    """
    asked = dns.name.from_text(f"{name}.zone.example.").to_wire() or b""
    payloads = [*range(0, 520, 40), *range(508, 1240, 7), 1232, 4096, 65535]
    wires = [query(asked, dns.rdatatype.from_text(rdtype), records=(opt_record(each),)) for each in payloads]
    before = 0
    for payload, reply in zip(payloads, replies(wires, [*RECORDS, *MANY], over_tcp=False), strict=True):
        assert len(reply) <= min(max(payload, 512), 1232)
        found = dns.message.from_wire(reply)
        records = sum(len(each) for section in found.sections[1:] for each in section)
        if found.flags & dns.flags.TC:
            assert records == 0
        elif name.startswith("many"):
            assert records == 3 * int(name.removeprefix("many"))
        assert records >= before, "a larger message has at least as many records"
        before = records


@pytest.mark.uncovered
@pytest.mark.parametrize(("octets", "length"), [(0, 65534), (1, 65535), (2, 46)])
def test_the_largest_answers_over_tcp(octets: int, length: int) -> None:
    """Names beyond the reach of a compression pointer, and records too long for any message."""
    records = many_nameservers(200, "huge.zone.example")
    text = " ".join(['"' + "x" * 255 + '"'] * 255 + ['"' + "x" * (195 + octets) + '"'])
    records.append(Record("text.zone.example", "TXT", 300, text))
    huge, long = (dns.name.from_text(f"{each}.zone.example.").to_wire() or b"" for each in ("huge", "text"))
    wires = [query(huge, dns.rdatatype.NS), query(long, dns.rdatatype.TXT, records=(opt_record(),))]
    referral, answered = replies(wires, records, over_tcp=True)
    assert len(answered) == length
    found = dns.message.from_wire(referral)
    assert sum(map(len, found.authority)) == 200
    assert sum(map(len, found.additional)) == 400
