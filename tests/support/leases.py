"""Leases for tests: let one run out at once, whichever clock it goes by, and tell who has it."""

from datetime import timedelta

from sqlalchemy import update

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import FOR_MAX
from sublet.processes.model import Lease


def run_out(tx: Tx, name: str, by: timedelta = 2 * FOR_MAX) -> None:
    """Let so much of a lease's time pass."""
    lease = find(tx, name)
    table = store.leases
    tx.connection.execute(update(table).where(table.c.name == name).values(expires_at=lease.expires_at - by))


def find(tx: Tx, name: str) -> Lease:
    """Return a lease that somebody has, or had."""
    lease, _ = store.find_lease(tx, name)
    assert lease is not None, f"nobody ever had {name}"
    return lease
