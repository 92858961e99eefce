"""NOTIFY messages about CDS records, and the DSYNC records that say where to send them (RFC 9859)."""

import asyncio
from collections.abc import Collection

import dns.message
import dns.opcode
import dns.rcode
import dns.tsig

from sublet.dns.nameserver import NameServer
from sublet.limits import NOTIFIES_PER_SECOND
from support.in_memory_zone import RECORDS, reader_of
from support.running_service import RunningService


def notify(name: str, rdtype: str = "CDS") -> bytes:
    """Return a NOTIFY message."""
    message = dns.message.make_query(name, rdtype)
    message.set_opcode(dns.opcode.NOTIFY)
    return message.to_wire()


def send(*wires: bytes, takes: bool = True) -> tuple[list[str], list[str]]:
    """Send messages to a name server.

    Return the codes of its responses, and the children whose check it scheduled.
    """
    acted: list[str] = []

    async def on_notify(child: str) -> None:
        acted.append(child)

    async def run() -> list[bytes | None]:
        server = NameServer(reader_of(RECORDS), on_notify=on_notify if takes else None)
        replies = [await server._reply([wire], over_tcp=True) for wire in wires]
        await asyncio.sleep(0)
        return [each for (each,) in replies]

    codes = []
    for reply in asyncio.run(run()):
        assert reply is not None
        response = dns.message.from_wire(reply)
        assert response.opcode() == dns.opcode.NOTIFY
        assert response.edns < 0 or response.payload == 1_232
        codes.append(dns.rcode.to_text(response.rcode()))
    return codes, acted


def test_a_notify_message_about_cds_schedules_a_check() -> None:
    assert send(notify("Blog.Example.test.")) == (["NOERROR"], ["blog.example.test"])
    asked = dns.message.from_wire(notify("blog.example.test."))
    assert dns.message.make_response(asked).question == asked.question


def test_other_messages_have_no_effect() -> None:
    soa, broken = notify("example.test.", "SOA"), notify("blog.example.test.")[:20]
    signed = dns.message.from_wire(notify("blog.example.test."))
    signed.use_tsig(dns.tsig.Key("unknown", "eA==", "hmac-sha256"))
    later = dns.message.from_wire(notify("blog.example.test."))
    later.use_edns(1)
    wires = (soa, broken, notify("a." * 100 + "test.") + bytes(500), signed.to_wire(), later.to_wire())
    assert send(*wires) == (["NOTIMP", "FORMERR", "FORMERR", "NOTAUTH", "BADVERS"], [])
    assert send(notify("blog.example.test."), takes=False) == (["NOTIMP"], [])


def test_messages_beyond_the_limit_are_refused() -> None:
    names = [f"n{number}.example.test" for number in range(3 * NOTIFIES_PER_SECOND)]
    codes, acted = send(*(notify(each + ".") for each in names))
    assert codes.count("NOERROR") == len(acted) <= 2 * NOTIFIES_PER_SECOND  # a new second may begin meanwhile
    assert set(codes) == {"NOERROR", "REFUSED"}


def test_only_followed_names_count_against_the_limits_of_zone_and_network() -> None:
    acted: list[str] = []

    async def on_notify(child: str) -> None:
        acted.append(child)

    async def find_followed(children: Collection[str]) -> dict[str, str]:
        return {each: each.partition(".")[2] for each in children if not each.startswith("unknown")}

    many = range(3 * NOTIFIES_PER_SECOND)
    sent = [  # in one batch, so in one second
        *(("192.0.2.1", f"unknown{number}.a.test") for number in many),
        *(("192.0.2.2", f"n{number}.b{number}.test") for number in many),
        *((f"198.51.{number}.1", f"n{number}.c.test") for number in many),
        ("192.0.2.3", "shop.d.test"),
        ("203.0.113.1", "shop.d.test"),
    ]

    async def run() -> list[str]:
        server = NameServer(reader_of(RECORDS), on_notify=on_notify, find_followed=find_followed)
        wires, hosts = [notify(name + ".") for _, name in sent], [host for host, _ in sent]
        replies = await server._reply(wires, over_tcp=False, hosts=hosts)
        await asyncio.sleep(0)
        return [dns.rcode.to_text(dns.message.from_wire(each or b"").rcode()) for each in replies]

    codes = asyncio.run(run())
    limited = ["NOERROR"] * NOTIFIES_PER_SECOND + ["REFUSED"] * 2 * NOTIFIES_PER_SECOND
    assert codes == [*(["NOERROR"] * len(many)), *limited, *limited, "REFUSED", "NOERROR"]
    assert len(acted) == 2 * NOTIFIES_PER_SECOND + 1


def test_a_zone_that_follows_its_children_has_dsync_records(service: RunningService) -> None:
    service.add_domain("example.test")
    assert service.dig("blog._dsync.example.test", "TYPE66", "+short") == ""
    service.operator("domain", "edit", "example.test", "--automatic-ds", "rollover")
    assert "NOTIFY 53 ns1.example.test." in service.dig("blog._dsync.example.test", "DSYNC", "+short")
    assert "status: NOERROR" in service.dig("_dsync.example.test", "A")
    assert "status: NXDOMAIN" in service.dig("other.example.test", "A")
    exported = service.operator("zone", "export", "example.test")["zone_file"]
    assert r"*._dsync.example.test. 3600 IN TYPE66 \# 23 003b010035" in exported
