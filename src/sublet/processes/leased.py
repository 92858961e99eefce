"""Work under a lease: each writing transaction locks the lease first, and long work renews the lease.

Verbs don't check leases, so the operator's commands can run while a worker holds a lease.
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
"""The number of renewals before a lease expires. The holder keeps the lease if one of them succeeds."""
log = structlog.get_logger()


def under_lease(
    tx: Tx, lease: Lease | None, verb: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Lock a lease, then call a verb in the same transaction and return the result. The operator's commands pass None as the lease.

    Raises:
        LeaseLost: another process has taken the lease; the verb was not called.
    """
    if lease is not None:
        hold_lease(tx, lease)
    return verb(tx, *args, **kwargs)


async def try_lease(db: Database, name: str, holder: str, duration: timedelta) -> Lease | None:
    """Return the lease for this holder, or None if another process holds it. Write only if the lease is new, expired or half over."""
    found, now = await db.read(store.find_lease, name)
    if found is not None:
        if found.holder != holder and not is_over(found, now):
            return None
        if found.holder == holder and is_fresh(found, now, duration):
            return found
    return await db.write(take_lease, name, holder, duration)


async def renew_best_effort(db: Database, lease: Lease, duration: timedelta) -> None:
    """Renew a lease, best effort: after a lost lease the holder's next write raises `LeaseLost`."""
    try:
        await db.write(renew_lease, lease, duration)
    except (LeaseLost, Unavailable):
        return


@asynccontextmanager
async def keep_lease(db: Database, lease: Lease, duration: timedelta) -> AsyncIterator[None]:
    """Renew a lease during the block, which may take longer than `duration`."""

    async def keep_renewing() -> None:
        while True:
            await asyncio.sleep(duration.total_seconds() / RENEWALS)
            try:
                await renew_best_effort(db, lease, duration)
            except Exception:
                log.exception("lease_fault", lease=lease.name)

    renewing = asyncio.create_task(keep_renewing())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
