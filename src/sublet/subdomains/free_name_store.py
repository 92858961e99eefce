"""Whether a name is free, asked at once of all that it may be held by: it nearly always is."""

from sqlalchemy import bindparam, or_, select

from sublet.db import Prepared, Tx
from sublet.dns.names import owner_key
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.subdomains import publish_store
from sublet.subdomains.store import subdomains

_HELD = select(subdomains.c.id).where(
    (subdomains.c.fqdn == bindparam("name")) & subdomains.c.released_at.is_(None)
)
_IN_THE_WAY = (_HELD, publish_store.WAITS, platform_domain_store.AT_OR_BELOW, zone_store.AT_OR_BELOW)
_SOMETHING_IN_THE_WAY = Prepared(select(or_(*(each.exists() for each in _IN_THE_WAY))))


def is_free(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """Does nobody hold this name, does no row of it wait for its publication, and is there no platform domain or record at or below it?"""
    key = owner_key(fqdn)
    place = {"at": key, "below": key + ".", "end": key + "/"}
    return not _SOMETHING_IN_THE_WAY.value(tx, of=platform_domain_id, name=fqdn, **place)
