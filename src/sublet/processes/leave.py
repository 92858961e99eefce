"""Leave: a process ends, and what it held is free at once."""

from sublet.db import Tx
from sublet.processes import store


def leave(tx: Tx, process_id: str) -> None:
    """Forget a process, and let its leases be over."""
    store.end_leases(tx, store.find_clock(tx), holder=process_id)
    store.delete_process(tx, process_id)
