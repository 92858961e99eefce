"""Work under a lease: each of its writes is made in a transaction that holds the lease first, and while it goes on it is renewed.

The order of locks is: the lease, then what the verb locks. Verbs know nothing of leases, so the operator's commands go on beside
whoever holds one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Concatenate, ParamSpec, TypeVar

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.processes import store
from sublet.processes.leases import hold_lease, is_fresh, is_over, renew_lease, take_lease
from sublet.processes.model import Lease, LeaseLost

P = ParamSpec("P")
R = TypeVar("R")
RENEWALS = 3
"""How often a lease is looked at while it lasts, by whoever works under it: two looks may fail."""
log = structlog.get_logger()


def under(
    tx: Tx, lease: Lease | None, verb: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Do what a verb does in a transaction that holds a lease; None where the work needs none, as the operator's.

    Raises:
        LeaseLost: another process has had it since; nothing was done.
    """
    if lease is not None:
        hold_lease(tx, lease)
    return verb(tx, *args, **kwargs)


async def take(db: Database, name: str, holder: str, lasts: timedelta) -> Lease | None:
    """Return the lease, for this holder; None while another holds it. Mostly it only reads."""
    found, now = await db.read(store.find_lease, name)
    if found is not None:
        if found.holder != holder and not is_over(found, now):
            return None
        if found.holder == holder and is_fresh(found, now, lasts):
            return found
    return await db.write(take_lease, name, holder, lasts)


async def renew(db: Database, lease: Lease, lasts: timedelta) -> None:
    """Renew a lease, if it is still ours and can be: whoever has lost it learns that where it writes."""
    try:
        await db.write(renew_lease, lease, lasts)
    except (LeaseLost, Unavailable):
        return


@asynccontextmanager
async def kept(db: Database, lease: Lease, lasts: timedelta) -> AsyncIterator[None]:
    """Renew a lease again and again, while something goes on that takes longer than it lasts."""

    async def renew_again() -> None:
        while True:
            await asyncio.sleep(lasts.total_seconds() / RENEWALS)
            try:
                await renew(db, lease, lasts)
            except Exception:
                log.exception("lease_fault", lease=lease.name)

    renewing = asyncio.create_task(renew_again())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
