"""Share the addresses of nameservers between all looks of all processes: one look at a time for each address.

A look that finds an address taken books the next free time of that address, and comes again then. So a thousand names on one nameserver are
looked at one after the other, and each is put off once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sublet.db import Tx
from sublet.health import store
from sublet.health.targets import LOOK_SECONDS

HOLD = timedelta(seconds=LOOK_SECONDS + 5)
"""For how long an address is held at most: longer than a look, so that a process that died holds it no longer."""
HELD_MAX = 2 * HOLD
"""An address that is held for longer was claimed by a wrong clock. Not `HOLD`: a transaction's instant may be older than another's commit."""
REST = timedelta(seconds=1)
"""The rest of an address between two looks, so that both together keep to its queries a second."""
SLOT = timedelta(seconds=3)
"""The time that a booking takes of an address."""
BOOKED_AHEAD_MAX = timedelta(hours=12)
IDLE = timedelta(hours=1)


def claim_addresses(tx: Tx, addresses: Sequence[str], *, books: bool) -> datetime | None:
    """Hold these addresses for one look, and return None; or return when to come again, with `books` at a time of its own.

    Not audited: it changes no name.
    """
    if not addresses:
        return None
    found = store.lock_targets(tx, addresses)
    taken = [each for each, (held_until, _) in found.items() if tx.now < held_until <= tx.now + HELD_MAX]
    if not taken:
        store.set_targets(tx, addresses, held_until=tx.now + HOLD)
        return None
    booked = max(min(found[each][1], tx.now + BOOKED_AHEAD_MAX) for each in taken)
    at = max(booked, tx.now + SLOT)
    if books:
        store.set_targets(tx, taken, booked_until=at + SLOT)
    return at


def release_addresses(tx: Tx, addresses: Sequence[str]) -> None:
    """Free the addresses that a look held."""
    if addresses:
        store.set_targets(tx, addresses, held_until=tx.now + REST)


def forget_addresses(tx: Tx) -> None:
    """Delete addresses that no look used for a while."""
    store.delete_idle_targets(tx, tx.now - IDLE, 1000)
