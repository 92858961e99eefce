"""Platform domains below other platform domains: the zone cut in the zone above (RFC 1034, section 4.2.1).

The built-in name server adds the cut to the zone above. If the zone above is on a primary, the operator adds
the cut.
"""

from collections.abc import Iterator

from sublet.db import Tx
from sublet.dns.addresses import address_record_type
from sublet.dns.names import ancestors
from sublet.dns.types import Record
from sublet.errors import Conflict
from sublet.platform_domains import store, zone_store
from sublet.platform_domains.model import PlatformDomain


def zone_cut(child: PlatformDomain) -> dict[str, tuple[Record, ...]]:
    """Return the delegation of a platform domain, by owner.

    The nameservers are the apex nameservers. Glue is only for secondaries, because Sublet knows no other
    addresses.
    """
    ttl_seconds = child.apex_ttl_seconds
    records = {
        child.domain: tuple(
            Record(child.domain, "NS", ttl_seconds, f"{host}.") for host in child.apex_nameservers
        )
    }
    for each in child.secondaries:
        if each.host in child.apex_nameservers:
            records[each.host] = (
                *records.get(each.host, ()),
                Record(each.host, address_record_type(each.address), ttl_seconds, each.address),
            )
    return records


def list_missing_cuts(tx: Tx) -> Iterator[tuple[PlatformDomain, PlatformDomain]]:
    """Yield pairs: a platform domain on a primary, and a platform domain below it whose delegation that
    primary's zone lacks.

    A zone lacks a delegation if the last check found no NS record. Not checked: the nameservers of a
    delegation.
    """
    by_domain = {each.domain: each for each in store.list_platform_domains(tx)}
    for child in by_domain.values():
        above = next((by_domain[each] for each in ancestors(child.domain) if each in by_domain), None)
        if above is not None and above.primary:
            found = zone_store.find_records(tx, above.id, [child.domain]).get(child.domain, ())
            if not any(record.type == "NS" for record in found):
                yield above, child


def refuse_missing_cuts(tx: Tx, changed: PlatformDomain) -> None:
    """Raise `Conflict` if the zone above lacks the delegation of a new or moved platform domain, or of one
    directly below it.
    """
    for above, child in list_missing_cuts(tx):
        if changed in (above, child):
            lines = "\n".join(
                f"{each.owner}. {each.ttl_seconds} IN {each.type} {each.rdata}"
                for records in zone_cut(child).values()
                for each in records
            )
            raise Conflict(
                f"{child.domain} is below {above.domain}, which is on the primary {above.primary}. Sublet "
                "doesn't write the "
                f"delegation of {child.domain} into this zone, and without the delegation resolvers find "
                f"no name of {child.domain}. "
                f"Add these records to the zone {above.domain} on {above.primary} first, then give "
                f"--force:\n{lines}"
            )
