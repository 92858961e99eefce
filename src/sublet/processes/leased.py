"""Work under a lease: each write locks the lease first in its transaction, and long work renews the lease.

A transaction locks the lease first, then the rows of its verb. Verbs don't know leases, so the operator's commands run while a worker
holds one.
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
"""The number of renewals before a lease expires. All but one may fail."""
log = structlog.get_logger()


def under(
    tx: Tx, lease: Lease | None, verb: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call a verb in a transaction that holds a lease, and return its result. The operator's commands pass None.

    Raises:
        LeaseLost: another process has taken the lease; the verb was not called.
    """
    if lease is not None:
        hold_lease(tx, lease)
    return verb(tx, *args, **kwargs)


async def take(db: Database, name: str, holder: str, lasts: timedelta) -> Lease | None:
    """Return the lease for this holder, or None if another process holds it. Write only if the lease is new, expired or half over."""
    found, now = await db.read(store.find_lease, name)
    if found is not None:
        if found.holder != holder and not is_over(found, now):
            return None
        if found.holder == holder and is_fresh(found, now, lasts):
            return found
    return await db.write(take_lease, name, holder, lasts)


async def renew(db: Database, lease: Lease, lasts: timedelta) -> None:
    """Renew a lease, best effort: a holder that has lost it gets `LeaseLost` at its next write."""
    try:
        await db.write(renew_lease, lease, lasts)
    except (LeaseLost, Unavailable):
        return


@asynccontextmanager
async def kept(db: Database, lease: Lease, lasts: timedelta) -> AsyncIterator[None]:
    """Renew a lease during the block, which may take longer than the lease lasts."""

    async def keep_renewing() -> None:
        while True:
            await asyncio.sleep(lasts.total_seconds() / RENEWALS)
            try:
                await renew(db, lease, lasts)
            except Exception:
                log.exception("lease_fault", lease=lease.name)

    renewing = asyncio.create_task(keep_renewing())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
