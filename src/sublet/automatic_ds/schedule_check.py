"""Schedule a check when a child announces new CDS, CDNSKEY or CSYNC records with a
NOTIFY message (RFC 9859).
"""

from datetime import timedelta

from sublet.db import Tx
from sublet.health import store as health_store
from sublet.health.schedule import new_health

PAUSE = timedelta(seconds=60)
"""The minimum time between two checks of a name because of NOTIFY messages, which anyone may send."""


def schedule_check(tx: Tx, fqdn: str) -> bool:
    """Make a check of a followed name due, now or `PAUSE` after its last check.

    Return False if the name isn't followed.

    Not audited, because it changes no name. Not checked: that automatic DS of the name is on. The check does
    that.
    """
    found = health_store.find_followed(tx, fqdn)
    if found is None:
        return False
    subdomain_id, checked_at, due_at = found
    at = tx.now if checked_at is None else min(max(tx.now, checked_at + PAUSE), tx.now + PAUSE)
    if due_at is None:
        health_store.insert_health(tx, [new_health(subdomain_id, tx.now, at)])
    elif at < due_at:
        health_store.reschedule(tx, [subdomain_id], at)
    return True
