"""Renew a lease: what it is for takes longer."""

from dataclasses import replace
from datetime import timedelta

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import is_fresh
from sublet.processes.model import Lease, LeaseLost


def renew_lease(tx: Tx, lease: Lease, lasts: timedelta) -> Lease:
    """Return the lease as it is held for as long as it `lasts` from now; nothing is written while it is fresh.

    Raises:
        LeaseLost: another process has had it since.
    """
    found, now = store.find_lease(tx, lease.name, lock=True)
    if found is None or (found.holder, found.epoch) != (lease.holder, lease.epoch):
        raise LeaseLost(lease.name)
    if is_fresh(found, now, lasts):
        return found
    renewed = replace(found, expires_at=now + lasts)
    store.update_lease(tx, renewed)
    return renewed
