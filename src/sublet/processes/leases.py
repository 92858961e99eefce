"""Leases: the exclusive right of one process to do something, for example to publish a zone.

docs/decisions/0013-leases-by-epoch.md explains why leases have epochs.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Concatenate, ParamSpec, TypeVar

import structlog

from sublet.db import Database, Tx
from sublet.errors import Unavailable
from sublet.processes import store
from sublet.processes.model import Lease, LeaseLost
from sublet.structs import replace

PUBLISH_FOR = timedelta(seconds=10)
"""How long a worker may publish a zone without renewing the lease. After a killed worker a zone waits this
long for the next worker.
"""
SWEEP_FOR = timedelta(seconds=15)
"""How long a worker may run the sweep without renewing the lease."""
WATCH_FOR = timedelta(minutes=1)
"""How long a worker may check a zone without renewing the lease. Each renewal is a write, and checks aren't
urgent, so this is long.
"""
DURATION_MAX = timedelta(minutes=1)
"""The maximum duration of a lease. A lease that expires later was taken while the clock was wrong."""
SWEEP = "sweep"
PUBLISH = "publish:"


def publish_lease(platform_domain_id: int) -> str:
    """Return the name of the lease for publishing the zone of a platform domain."""
    return f"{PUBLISH}{platform_domain_id}"


def check_lease(platform_domain_id: int) -> str:
    """Return the name of the lease for watching and checking a zone on a primary."""
    return f"check:{platform_domain_id}"


def is_over(lease: Lease, now: datetime) -> bool:
    """True if any process may take the lease: the lease has expired, or was taken
    while the clock was wrong.
    """
    return lease.expires_at <= now or lease.expires_at > now + DURATION_MAX


def is_fresh(lease: Lease, now: datetime, duration: timedelta) -> bool:
    """True if less than half of `duration` has passed, so that the lease needs no renewal."""
    return now + duration / 2 < lease.expires_at <= now + DURATION_MAX


def take_lease(tx: Tx, name: str, holder: str, duration: timedelta) -> Lease | None:
    """Return the lease of this name for this holder, valid for `duration` from now; None if another process
    holds it.

    The last holder gets an expired lease back with the same epoch, because no other process held the lease in
    between. A fresh lease is not changed, so most calls write nothing. The row of the lease stays locked
    until the transaction ends.
    """
    found = store.lock_lease(tx, name)
    now = store.find_clock(tx)
    if found is None:
        first = Lease(name, holder, 1, now + duration)
        return first if store.insert_lease(tx, first) else None
    if found.holder != holder and not is_over(found, now):
        return None
    if found.holder == holder and is_fresh(found, now, duration):
        return found
    epoch = found.epoch if found.holder == holder else found.epoch + 1
    taken = replace(found, holder=holder, epoch=epoch, expires_at=now + duration)
    store.update_lease(tx, taken)
    return taken


def hold_lease(tx: Tx, lease: Lease) -> Lease:
    """Lock a lease, so that no other process takes the lease before this transaction ends.

    Return the lease as it is stored.

    Call this before the transaction locks any other row. An expired lease that no other process took is still
    held.

    Raises:
        LeaseLost: another process has taken the lease.
    """
    found = store.lock_lease(tx, lease.name)
    if found is None or (found.holder, found.epoch) != (lease.holder, lease.epoch):
        raise LeaseLost(lease.name)
    return found


def renew_lease(tx: Tx, lease: Lease, duration: timedelta) -> Lease:
    """Return the lease, valid for `duration` from now. If the lease is fresh, write nothing.

    Raises:
        LeaseLost: another process has taken the lease.
    """
    found, now = hold_lease(tx, lease), store.find_clock(tx)
    if is_fresh(found, now, duration):
        return found
    renewed = replace(found, expires_at=now + duration)
    store.update_lease(tx, renewed)
    return renewed


def give_back_lease(tx: Tx, lease: Lease) -> None:
    """End a lease now, unless another process has taken it.

    The row stays, because its epoch counts the holders.
    """
    with suppress(LeaseLost):
        store.update_lease(tx, replace(hold_lease(tx, lease), expires_at=store.find_clock(tx)))


def list_held_by_others(tx: Tx, names: Collection[str], holder: str) -> frozenset[str]:
    """Return which of the leases `names` are held by processes other than `holder`."""
    others = [each for each in store.find_leases(tx, names) if each.holder != holder]
    if not others:
        return frozenset()
    now = store.find_clock(tx)
    return frozenset(each.name for each in others if not is_over(each, now))


P = ParamSpec("P")
R = TypeVar("R")
RENEWALS = 3
"""The number of renewals before a lease expires. The holder keeps the lease if one of them succeeds."""
log = structlog.get_logger()


def under_lease(
    tx: Tx, lease: Lease | None, verb: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Lock a lease, then call a verb in the same transaction and return the result.

    The operator's commands pass None as the lease.

    Raises:
        LeaseLost: another process has taken the lease; the verb was not called.
    """
    if lease is not None:
        hold_lease(tx, lease)
    return verb(tx, *args, **kwargs)


async def try_lease(db: Database, name: str, holder: str, duration: timedelta) -> Lease | None:
    """Return the lease for this holder, or None if another process holds it.

    Write only if the lease is new, expired or half over.
    """
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
