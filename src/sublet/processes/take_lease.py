"""Take a lease: from then on this process does alone what the lease is for."""

from dataclasses import replace
from datetime import timedelta

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import is_fresh, is_over
from sublet.processes.model import Lease


def take_lease(tx: Tx, name: str, holder: str, lasts: timedelta) -> Lease | None:
    """Return the lease of this name, for this holder and for as long as it `lasts` from now; None while another holds it.

    Whoever held it last gets it back in the same epoch: nobody wrote in between. One that is held and fresh is left as it is, so
    most calls write nothing. The lease is locked until the transaction ends.
    """
    found, now = store.find_lease(tx, name, lock=True)
    if found is None:
        first = Lease(name, holder, 1, now + lasts)
        return first if store.insert_lease(tx, first) else None
    if found.holder != holder and not is_over(found, now):
        return None
    if found.holder == holder and is_fresh(found, now, lasts):
        return found
    epoch = found.epoch if found.holder == holder else found.epoch + 1
    taken = replace(found, holder=holder, epoch=epoch, expires_at=now + lasts)
    store.update_lease(tx, taken)
    return taken
