"""Compute the records of a zone's apex, and of a delegation in the parent zone."""

from collections.abc import Iterator

from sublet.dns.types import Apex, Delegation, Record


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
    """Return the sorted records of a delegation of the canonical name `owner`. Without nameservers return no records.

    NS and DS are at `owner`, A and AAAA at the hosts with glue. `read_back` returns the same form: rdata in dnspython's presentation form
    with absolute names.
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


def owners_of(owner: str, delegation: Delegation) -> frozenset[str]:
    """Return the owners of the `delegation_records`: `owner` and the hosts with glue. Without nameservers return no owners."""
    if not delegation.nameservers:
        return frozenset()
    return frozenset({owner, *(entry.host for entry in delegation.glue)})
