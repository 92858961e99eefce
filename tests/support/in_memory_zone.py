"""A zone as a list of records for the built-in name server, and the server in a thread of its own."""

import asyncio
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from sublet.dns.nameserver import NameServer, ReadZones
from sublet.dns.types import Apex, Record, ZoneView

ZONE = "zone.example"


def apex(**changes: object) -> Apex:
    fields: dict[str, object] = {
        "zone": ZONE,
        "nameservers": ("ns1.zone.example", "ns.elsewhere.example"),
        "soa_mname": "ns1.zone.example",
        "soa_rname": "hostmaster.zone.example",
        "serial": 2026,
        "refresh_seconds": 7200,
        "retry_seconds": 900,
        "expire_seconds": 1209600,
        "negative_ttl_seconds": 60,
        "ttl_seconds": 3600,
        "addresses": (Record("ns1.zone.example", "A", 3600, "192.0.2.1"),),
        **changes,
    }
    return Apex(**fields)  # type: ignore[arg-type]


def view_at(zone_apex: Apex, records: list[Record], name: str) -> ZoneView | None:
    """Return exactly the records that the docstring of `ZoneView` promises."""
    zone = zone_apex.zone
    if name != zone and not name.endswith(f".{zone}"):
        return None
    path = [name]
    while path[-1] != zone:
        path.append(path[-1].split(".", 1)[1])
    owners = {*path, *(f"*.{above}" for above in path[1:])}
    at_path = [record for record in records if record.owner in owners]
    owners |= {record.rdata.rstrip(".") for record in at_path if record.type == "NS"}
    by_owner: dict[str, tuple[Record, ...]] = {}
    for record in records:
        if record.owner in owners:
            by_owner[record.owner] = (*by_owner.get(record.owner, ()), record)
    existing = {
        step
        for step in (*path, *(f"*.{above}" for above in path[1:]))
        if any(record.owner == step or record.owner.endswith(f".{step}") for record in records)
    }
    return ZoneView(zone_apex, by_owner, frozenset(existing))


def reader_of(records: list[Record], zone_apex: Apex | None = None) -> ReadZones:
    async def read_zones(names: Collection[str]) -> Mapping[str, ZoneView]:
        views = {name: view_at(zone_apex or apex(), records, name) for name in names}
        return {name: view for name, view in views.items() if view is not None}

    return read_zones


@contextmanager
def serving(read_zones: ReadZones, codes: list[str] | None = None, host: str = "127.0.0.1") -> Iterator[int]:
    """Run the built-in name server on a free port until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = NameServer(read_zones, on_answer=([] if codes is None else codes).append)
    try:
        yield asyncio.run_coroutine_threadsafe(server.start(host, 0), loop).result(60)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


DS_TEXT = "2371 13 2 684a1f049d7d082b7f98691657da5a65764913df7f065f6f8c36edf62d66ca03"

RECORDS = [
    # in-domain glue, DS
    Record("foo.zone.example", "NS", 300, "ns1.foo.zone.example."),
    Record("foo.zone.example", "NS", 300, "ns.outside.example."),
    Record("foo.zone.example", "DS", 300, DS_TEXT),
    Record("ns1.foo.zone.example", "A", 300, "192.0.2.11"),
    Record("ns1.foo.zone.example", "AAAA", 300, "2001:db8::11"),
    # a sibling's host, no DS
    Record("bar.zone.example", "NS", 300, "ns1.foo.zone.example."),
    # a delegation that hides the records below it, also another delegation
    Record("deep.foo.zone.example", "NS", 300, "ns.hidden.example."),
    Record("text.foo.zone.example", "TXT", 300, '"occluded"'),
    # data of the zone itself
    Record("text.zone.example", "TXT", 300, '"hello"'),
    Record("under.ent.zone.example", "TXT", 300, '"below nothing"'),
    Record("alias.zone.example", "CNAME", 300, "text.zone.example."),
    Record("*.wild.zone.example", "TXT", 300, '"any"'),
    Record("there.wild.zone.example", "A", 300, "192.0.2.77"),
    Record("cut.wild.zone.example", "NS", 300, "ns.outside.example."),
    Record("zone.example", "TXT", 300, '"apex"'),
]


def many_nameservers(count: int, name: str) -> list[Record]:
    """Return a delegation to many hosts below the name, which requires all of their glue."""
    hosts = [f"a-rather-long-host-name-number-{number}.{name}" for number in range(count)]
    return [Record(name, "NS", 300, f"{host}.") for host in hosts] + [
        Record(host, rdtype, 300, address)
        for number, host in enumerate(hosts)
        for rdtype, address in (
            ("A", f"192.0.{2 + number // 256}.{number % 256}"),
            ("AAAA", f"2001:db8::{number + 1:x}"),
        )
    ]
