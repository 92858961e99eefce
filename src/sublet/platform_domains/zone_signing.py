"""Decide whether the zone of a platform domain is signed, from what the registry has stored."""

from sublet.db import Tx
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.store import find_platform_domain


def is_zone_signed(tx: Tx, platform_domain_id: int) -> bool | None:
    """Return whether the zone is signed; None if the registry doesn't know.

    The built-in name server never signs. A zone on a primary is signed if the operator set `--dnssec-signed` (another server may sign
    behind the primary), or if the last check found a DNSKEY at the apex. This asks no server.
    """
    platform_domain = find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or not platform_domain.primary:
        return False
    if platform_domain.dnssec_signed:
        return True
    if zone_state_store.find_zone_state(tx, platform_domain_id).checked_at is None:
        return None
    return bool(zone_store.find_apex_keys(tx, platform_domain_id, platform_domain.domain))
