"""Leave: a process ends, and what it held is free at once."""

from sublet.db import Tx
from sublet.processes import store


def leave(tx: Tx, process_id: str, *, may_hold: bool = True) -> None:
    """Forget a process, and let its leases be over.

    `may_hold` is False for one whose role never holds any: under least privilege it may not even look at them.
    """
    if may_hold:
        store.end_leases(tx, store.find_clock(tx), holder=process_id)
    store.delete_process(tx, process_id)
