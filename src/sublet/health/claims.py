"""Claim the addresses of nameservers for a check, so that at most one check of all processes asks an address
at a time.

A check that finds an address claimed books the next free time of the address, and is postponed to it. So the
checks of a thousand names on one nameserver run one after the other, and each is postponed only once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sublet.db import Tx
from sublet.health import store
from sublet.health.query_limits import CHECK_SECONDS

CLAIM_DURATION = timedelta(seconds=CHECK_SECONDS + 5)
"""The maximum duration of a claim. It is longer than a check, and ends the claims of processes that died."""
CLAIM_DURATION_MAX = 2 * CLAIM_DURATION
"""A claim that lasts longer is ignored, because a wrong clock made it. Twice `CLAIM_DURATION` allows for
small differences of clocks.
"""
PAUSE = timedelta(seconds=1)
"""The pause between two checks of an address, so that together they don't exceed `QUERIES_PER_SECOND`."""
BOOKING_DURATION = timedelta(seconds=3)
"""The duration of a booking."""
BOOKED_AHEAD_MAX = timedelta(hours=12)
IDLE_AFTER = timedelta(hours=1)


def claim_addresses(tx: Tx, addresses: Sequence[str], *, books: bool) -> datetime | None:
    """Claim these addresses for one check, and return None.

    If one is claimed already, return when to try again.

    With `books`, the returned time is booked for the caller. Not audited, because a claim changes no name.
    """
    if not addresses:
        return None
    found = store.lock_addresses(tx, addresses)
    claimed = [
        each for each, (held_until, _) in found.items() if tx.now < held_until <= tx.now + CLAIM_DURATION_MAX
    ]
    if not claimed:
        store.update_addresses(tx, addresses, held_until=tx.now + CLAIM_DURATION)
        return None
    booked = max(min(found[each][1], tx.now + BOOKED_AHEAD_MAX) for each in claimed)
    at = max(booked, tx.now + BOOKING_DURATION)
    if books:
        store.update_addresses(tx, claimed, booked_until=at + BOOKING_DURATION)
    return at


def release_addresses(tx: Tx, addresses: Sequence[str]) -> None:
    """End the claims of a check, after a pause."""
    if addresses:
        store.update_addresses(tx, addresses, held_until=tx.now + PAUSE)


def delete_idle_addresses(tx: Tx) -> None:
    """Delete addresses that no check has used for an hour, at most 1,000 of them at a time."""
    store.delete_idle_addresses(tx, tx.now - IDLE_AFTER, 1000)
