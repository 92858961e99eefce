"""Claim the addresses of nameservers for a check, so that only one check in all processes asks an address at a time.

A check that finds an address claimed books the address's next free time, and is postponed until then. So a thousand names on one nameserver
are checked one after the other, and each check is postponed only once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sublet.db import Tx
from sublet.health import store
from sublet.health.targets import CHECK_SECONDS

HOLD = timedelta(seconds=CHECK_SECONDS + 5)
"""The maximum duration of a claim. It is longer than a check, and ends the claims of processes that died."""
HELD_MAX = 2 * HOLD
"""A claim that lasts longer was made with a wrong clock, and is ignored. It is more than `HOLD`, because transactions' instants may differ."""
PAUSE = timedelta(seconds=1)
"""The pause between two checks of an address, so that both together don't exceed `QUERIES_PER_SECOND`."""
SLOT = timedelta(seconds=3)
"""The duration of a booking."""
BOOKED_AHEAD_MAX = timedelta(hours=12)
IDLE = timedelta(hours=1)


def claim_addresses(tx: Tx, addresses: Sequence[str], *, books: bool) -> datetime | None:
    """Claim these addresses for one check, and return None; if one is claimed already, return when to try again.

    With `books`, the returned time is booked for the caller. Not audited: it changes no name.
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
    """End the claims of a check, after a pause."""
    if addresses:
        store.set_targets(tx, addresses, held_until=tx.now + PAUSE)


def delete_idle_addresses(tx: Tx) -> None:
    """Delete the addresses that no check has used for an hour."""
    store.delete_idle_targets(tx, tx.now - IDLE, 1000)
