"""Which of some leases are held by others: what they are for is left to those."""

from collections.abc import Collection

from sublet.db import Tx
from sublet.processes import store
from sublet.processes.leases import is_over


def list_held_by_others(tx: Tx, names: Collection[str], holder: str) -> frozenset[str]:
    """Return those of these leases that somebody else than this holder has now."""
    found = store.find_leases(tx, names)
    others = [each for each in found if each.holder != holder]
    if not others:
        return frozenset()
    now = store.find_clock(tx)
    return frozenset(each.name for each in others if not is_over(each, now))
