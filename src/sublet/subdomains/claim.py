"""What stands in a rebuilt zone at names that were never published, and is ours all the same.

The first update of a name may be applied without anybody being told: its answer is lost, and so is the row that would tell it by the
fence (the registry was restored from a backup, or the server hung for longer than that row is kept). Then the name is in use,
by nobody that the registry knows of, and could never be published.
"""

from collections.abc import Collection, Iterable, Mapping

from sublet.db import Tx
from sublet.dns.names import is_below
from sublet.dns.records import delegation_records
from sublet.dns.types import Record
from sublet.dns.verify import SIGNER_TYPES, matches
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import former_store
from sublet.subdomains.model import PlacedName
from sublet.subdomains.naming import name_above


def find_claimed(
    tx: Tx,
    platform_domain: PlatformDomain,
    live: Iterable[Record],
    waiting: Mapping[str, PlacedName],
    known: Collection[str],
) -> dict[str, int]:
    """Return the owners of a rebuilt zone that are ours by what stands there, each with its row's id.

    Ours is a name that waits for its publication where exactly one delegation stands at and below it that this very row has or once
    had: every record of it, and nothing else of any type. So nothing that is served is changed by taking it for ours. Not ours
    is what an earlier check has noted as foreign, whatever it is, and nothing at all in a zone that was found without any fence, or is
    new to us: each update of ours would have set one. `known` are the names of which it is known anyway.
    """
    rebuilt_at = zone_state_store.find_zone_state(tx, platform_domain.id).rebuilt_at
    if rebuilt_at is None or not former_store.has_unknown_fence(tx, platform_domain.id, rebuilt_at):
        return {}
    zone = platform_domain.domain
    found: dict[str, set[Record]] = {}
    for record in live:
        if record.type not in SIGNER_TYPES and is_below(record.owner, zone):
            name = name_above(record.owner, zone)
            if name in waiting and name not in known:
                found.setdefault(name, set()).add(record)
    ttl_seconds = platform_domain.delegation_ttl_seconds
    delegations = former_store.list_delegations(tx, {waiting[name].id for name in found})
    claimed = {}
    for name, there in found.items():
        subdomain_id = waiting[name].id
        is_ours = any(
            matches(delegation_records(name, each, ttl_seconds), there) for each in delegations[subdomain_id]
        )
        if is_ours and not zone_store.has_names_at_or_below(tx, platform_domain.id, name):
            claimed.update(dict.fromkeys((record.owner for record in there), subdomain_id))
    return claimed
