"""Give a lease back before it has run out: the next may take it at once."""

from dataclasses import replace

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.model import Lease


def give_back_lease(tx: Tx, lease: Lease) -> None:
    """Let a lease be over, if it is still ours. Its row stays, for the count of its holders."""
    found, now = store.find_lease(tx, lease.name, lock=True)
    if found is not None and (found.holder, found.epoch) == (lease.holder, lease.epoch):
        store.update_lease(tx, replace(found, expires_at=now))
