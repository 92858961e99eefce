"""Schedule a look at a child that says that it has new CDS or CDNSKEY records (RFC 9859)."""

from datetime import timedelta

from sublet.db import Tx
from sublet.health import store as health_store
from sublet.health.schedule import new_health

REST = timedelta(seconds=60)
"""The shortest time between two looks that such messages cause: anyone may send them."""


def schedule_check(tx: Tx, fqdn: str) -> bool:
    """Make a look due at a name that is followed, now or `REST` after the last one; return False if there is none.

    Not audited: it changes no name. Not checked: whether the name's user turned automatic DS off; the look finds that out.
    """
    found = health_store.find_followed(tx, fqdn)
    if found is None:
        return False
    subdomain_id, checked_at, due_at = found
    at = tx.now if checked_at is None else min(max(tx.now, checked_at + REST), tx.now + REST)
    if due_at is None:
        health_store.insert_health(tx, [new_health(subdomain_id, tx.now, at)])
    elif at < due_at:
        health_store.delay(tx, [subdomain_id], at)
    return True
