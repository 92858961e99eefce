"""Compute the records of a zone's apex, of a delegation in the parent zone, and of a name with records. TTLs
in zone-file text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from sublet.dns.types import Apex, Delegation, Record, RecordSet

_TTL: Final = re.compile(r"[0-9]{1,10}|([0-9]{1,10}[WDHMS])+", re.IGNORECASE | re.ASCII)


def is_ttl(word: str) -> bool:
    """True if a word is a TTL: seconds (RFC 1035, section 5.1), or numbers with the units of BIND, such as
    `1h30m` or `1W`.

    Not checked: that the TTL is at most 2^31-1 (RFC 2181, section 8).
    """
    return _TTL.fullmatch(word) is not None


def apex_records(apex: Apex) -> Iterator[Record]:
    """Yield the SOA and NS records of an apex."""
    numbers = (
        apex.serial,
        apex.refresh_seconds,
        apex.retry_seconds,
        apex.expire_seconds,
        apex.negative_ttl_seconds,
    )
    soa = f"{apex.soa_mname}. {apex.soa_rname}. {' '.join(str(number) for number in numbers)}"
    yield Record(apex.zone, "SOA", apex.ttl_seconds, soa)
    for host in apex.nameservers:
        yield Record(apex.zone, "NS", apex.ttl_seconds, f"{host}.")


def delegation_records(owner: str, delegation: Delegation, ttl_seconds: int) -> tuple[Record, ...]:
    """Return the sorted records of a delegation of the canonical name `owner`.

    Without nameservers return no records.

    NS and DS are at `owner`, A and AAAA at the hosts with glue. `read_back` returns the same form: rdata in
    dnspython's presentation form with absolute names.
    """
    if not delegation.nameservers:
        return ()
    records = {Record(owner, "NS", ttl_seconds, f"{host}.") for host in delegation.nameservers}
    for ds in delegation.ds_records:
        rdata = f"{ds.key_tag} {ds.algorithm} {ds.digest_type} {ds.digest}"
        records.add(Record(owner, "DS", ttl_seconds, rdata))
    for entry in delegation.glue:
        if entry.ipv4 is not None:
            records.add(Record(entry.host, "A", ttl_seconds, entry.ipv4))
        if entry.ipv6 is not None:
            records.add(Record(entry.host, "AAAA", ttl_seconds, entry.ipv6))
    return tuple(sorted(records))


def records_of_sets(fqdn: str, record_sets: Iterable[RecordSet]) -> tuple[Record, ...]:
    """Return the sorted records of the RRsets that are stored for the registered name `fqdn`."""
    return tuple(
        sorted(
            Record(owner_of(each.name, fqdn), each.type, each.ttl_seconds, value)
            for each in record_sets
            for value in each.values
        )
    )


def sets_of_records(fqdn: str, records: Iterable[Record]) -> tuple[RecordSet, ...]:
    """Return records at and below the registered name `fqdn` as sorted RRsets.

    An RRset has the TTL of its first record.
    """
    found: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records):
        name = record.owner.removesuffix(fqdn).removesuffix(".") or "@"
        found.setdefault((name, record.type), []).append(record)
    return tuple(
        RecordSet(name, rdtype, each[0].ttl_seconds, tuple(record.rdata for record in each))
        for (name, rdtype), each in sorted(found.items())
    )


def owner_of(name: str, fqdn: str) -> str:
    """Return the owner of an RRset whose `RecordSet.name` is relative to the registered name `fqdn`."""
    return fqdn if name == "@" else f"{name}.{fqdn}"
