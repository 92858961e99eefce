"""Hold a lease inside a transaction: the fence between who has it and who only thinks so."""

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.model import Lease, LeaseLost


def hold_lease(tx: Tx, lease: Lease) -> None:
    """Make sure that a lease is still ours, and stays so until this transaction ends.

    Called first in the transaction, before any other row is locked. By the epoch and not by a clock: while nobody else
    has taken it, it may well have run out.

    Raises:
        LeaseLost: another process has had it since.
    """
    found, _ = store.find_lease(tx, lease.name, lock=True)
    if found is None or (found.holder, found.epoch) != (lease.holder, lease.epoch):
        raise LeaseLost(lease.name)
