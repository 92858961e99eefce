"""Whether a name is free, asked at once of all that it may be held by: it nearly always is."""

from sqlalchemy import bindparam, or_, select

from sublet.db import Prepared, Tx
from sublet.dns.names import owner_key
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.subdomains import dependent_store, publish_store
from sublet.subdomains.store import subdomains

_HELD = select(subdomains.c.id).where(
    (subdomains.c.fqdn == bindparam("name")) & subdomains.c.released_at.is_(None)
)
_IN_THE_WAY = (
    _HELD,
    publish_store.WAITS,
    platform_domain_store.AT_OR_BELOW,
    zone_store.AT_OR_BELOW,
    dependent_store.OF_OTHERS,
)
_SOMETHING_IN_THE_WAY = Prepared(select(or_(*(each.exists() for each in _IN_THE_WAY))))


def is_free(tx: Tx, platform_domain_id: int, fqdn: str, user_id: int) -> bool:
    """Is nothing in the way of this user's registration of a name?

    In the way are: a row that holds the name, or waits for its publication; a platform domain or a record at or below it; a
    nameserver at or below it that a name of another user has.
    """
    key = owner_key(fqdn)
    place = {"at": key, "below": key + ".", "end": key + "/"}
    return not _SOMETHING_IN_THE_WAY.value(
        tx, of=platform_domain_id, name=fqdn, besides_user=user_id, **place
    )
