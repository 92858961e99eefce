"""Find a lease, or make it expire."""

from datetime import timedelta

from sqlalchemy import update

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import DURATION_MAX
from sublet.processes.model import Lease


def run_out(tx: Tx, name: str, by: timedelta = 2 * DURATION_MAX) -> None:
    """Move the expiry of a lease into the past."""
    lease = find(tx, name)
    table = store.leases
    tx.connection.execute(update(table).where(table.c.name == name).values(expires_at=lease.expires_at - by))


def find(tx: Tx, name: str) -> Lease:
    """Return a lease, expired or not."""
    lease, _ = store.find_lease(tx, name)
    assert lease is not None, f"nobody ever had {name}"
    return lease
