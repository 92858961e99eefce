"""The exact record sets of a delegation in the parent zone."""

from sublet.dns.types import Delegation, Record


def delegation_records(owner: str, delegation: Delegation, ttl_seconds: int) -> tuple[Record, ...]:
    """Return all records that stand in the parent zone for the canonical name `owner`, sorted; none without nameservers.

    NS and DS at `owner`, A and AAAA at the hosts with glue. The rdata is what dnspython prints for it with absolute names,
    so records read back from a server compare equal. Nothing is checked: a `Delegation` is valid.
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
    """Return every name at which `delegation_records` puts a record: `owner` and the hosts with glue; none without nameservers."""
    if not delegation.nameservers:
        return frozenset()
    return frozenset({owner, *(entry.host for entry in delegation.glue)})
