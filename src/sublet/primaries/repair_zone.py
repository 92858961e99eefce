"""Repair our records in a zone on a primary, for `sublet zone repair` and the worker: the publisher publishes
the names again.

A repair runs in several transactions, so that a large one doesn't block other work: `begin_repair`, then
`republish`, `reclaim` and `store_foreign` with a bounded number of rows each, then `end_repair`. Each step
may be repeated.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from sublet import audit
from sublet.audit import Actor
from sublet.counted import counted
from sublet.db import Database, Tx
from sublet.dns.types import Record
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.primaries import store as publish_store
from sublet.primaries.check_process import Outcome
from sublet.primaries.check_zone import OrphanedOwner, Repairs
from sublet.primaries.zone_notices import notify_of_zone_problem
from sublet.processes.leases import under_lease
from sublet.processes.model import Lease
from sublet.subdomains import published_owner_store, store

T = TypeVar("T")
STEP_MAX = 500
"""The maximum number of rows in one transaction of a repair."""
DELETIONS_ALWAYS_PLAUSIBLE = 20


async def repair(
    db: Database,
    actor: Actor,
    platform_domain_id: int,
    primary: str,
    found: Outcome,
    *,
    force: bool = False,
    lease: Lease | None = None,
) -> str | None:
    """Store the results of a check and repair the zone. Return why removals were stopped, or None.

    After a crash the next check finds the remaining differences. `lease` is the worker's lease; the operator
    needs none.

    Raises, in this order:
        LeaseLost: another worker has taken the lease.
        Conflict: the zone has moved to another server.
    """
    repairs = found.repairs
    reason = await db.write(
        under_lease, lease, begin_repair, actor, platform_domain_id, primary, repairs, force=force
    )
    for ids in _steps(repairs.wrong_ids):
        await db.write(under_lease, lease, republish, platform_domain_id, ids)
    if reason is None:
        for orphaned in _steps((*repairs.orphaned, *repairs.reclaimed)):
            await db.write(under_lease, lease, reclaim, platform_domain_id, orphaned)
    for gone in _steps(found.foreign_gone):
        await db.write(under_lease, lease, store_foreign, platform_domain_id, primary, gone, ())
    for new in _steps(found.foreign_new):
        await db.write(under_lease, lease, store_foreign, platform_domain_id, primary, (), new)
    serial = found.serial if repairs.is_settled else None
    await db.write(under_lease, lease, end_repair, platform_domain_id, serial, found.rebuilt_at)
    return reason


def _steps(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), STEP_MAX):
        yield rows[start : start + STEP_MAX]


def implausible_deletions(deleting: int, total: int) -> bool:
    """True if deleting this many of `total` names needs the operator's confirmation: more than 20, and more
    than 1 %.
    """
    return deleting > DELETIONS_ALWAYS_PLAUSIBLE and deleting * 100 > total


def stop_reason(found: Repairs) -> str | None:
    """Return why the operator must confirm the removals of a repair; None if no confirmation is needed."""
    count = len({each.fqdn for each in found.orphaned})  # a name with glue has several owners
    if not implausible_deletions(count, found.names):
        return None
    return (
        f"{counted(count, 'name')} would lose their records, which is implausible. Run `sublet zone check`. "
        "If the registry is right, run `sublet zone repair --force`."
    )


def begin_repair(
    tx: Tx, actor: Actor, platform_domain_id: int, primary: str, found: Repairs, *, force: bool = False
) -> str | None:
    """Store the results of a check. Return why removals are stopped, or None.

    Raises:
        Conflict: the zone has moved to another server.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        raise Conflict("The zone moved to another server during the check. Check it again.")
    reason = None if force else stop_reason(found)
    before = zone_store.find_zone_state(tx, platform_domain_id)
    zone_store.update_zone_state(
        tx,
        platform_domain_id,
        checked_at=tx.now,
        checked_serial=None,
        missing=found.missing,
        different=found.different,
        orphaned=len(found.orphaned),
        foreign_records=found.foreign_records,
        repair_stopped_at=None if reason is None else before.repair_stopped_at or tx.now,
        repair_stopped_reason=reason,
    )
    zone_store.replace_apex_dnskeys(tx, platform_domain_id, platform_domain.domain, found.apex_dnskeys)
    _audit_repair(tx, actor, platform_domain_id, found, stopped=reason is not None)
    if reason is not None and before.repair_stopped_at is None:
        after = {"reason": reason}
        audit.record(
            tx, actor, "zone.repair_stopped", platform_domain_id, object_type="platform_domain", after=after
        )
        if actor.kind == "system":
            notify_of_zone_problem(
                tx, platform_domain_id, "repair_stopped", f"the repair has stopped: {reason}"
            )
    return reason


def republish(tx: Tx, platform_domain_id: int, subdomain_ids: Collection[int]) -> None:
    """Have the publisher publish these names of a zone again."""
    zone_store.lock_zone(tx, platform_domain_id)
    store.republish(tx, subdomain_ids)


def reclaim(tx: Tx, platform_domain_id: int, orphaned: Collection[OrphanedOwner]) -> None:
    """Assign orphaned owners to the row that holds their name, or to the last holder's row, and have these
    rows published again.

    The update of a row removes the orphaned records, and adds the records of the holder. `begin_publication`
    handles a name that is registered at the same time.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    held_ids = publish_store.find_held_ids(tx, {each.fqdn for each in orphaned})
    again = set()
    for each in orphaned:
        to = held_ids.get(each.fqdn, each.subdomain_id)
        published_owner_store.move_published_owner(
            tx, each.owner, each.subdomain_id, to, has_records=each.has_records
        )
        again.add(to)
    store.republish(tx, again)


def store_foreign(
    tx: Tx, platform_domain_id: int, primary: str, gone: Sequence[Record], new: Sequence[Record]
) -> None:
    """Update the stored foreign records of a zone on a primary.

    Names at or above their owners can't be registered.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        return  # the zone has moved to another server
    zone_store.delete_these_records(tx, platform_domain_id, gone)
    zone_store.insert_records(tx, platform_domain_id, new)


def end_repair(tx: Tx, platform_domain_id: int, serial: int | None, rebuilt_at: datetime | None) -> None:
    """Record that a check is complete. `rebuilt_at` is `ZoneState.rebuilt_at` at the start of the check.

    The next check skips the zone while the zone's serial is `serial`; with None the next check doesn't skip
    it. While the repair is stopped the zone stays marked as rebuilt, because the registry hasn't stored yet
    which records of the zone are ours.
    """
    # The publisher may set `rebuilt_at` at the same time. Without the lock, this transaction could overwrite
    # it with None.
    zone_store.lock_zone(tx, platform_domain_id)
    state = zone_store.find_zone_state(tx, platform_domain_id)
    values: dict[str, object] = {"checked_serial": serial}
    if state.rebuilt_at == rebuilt_at and state.repair_stopped_at is None:
        values["rebuilt_at"] = None
    zone_store.update_zone_state(tx, platform_domain_id, **values)


def _audit_repair(tx: Tx, actor: Actor, platform_domain_id: int, found: Repairs, *, stopped: bool) -> None:
    orphaned = () if stopped else (*found.orphaned, *found.reclaimed)
    again = {*found.wrong_ids, *(each.subdomain_id for each in orphaned)}
    if again:
        after = {"republished": len(again), "orphaned": [each.owner for each in orphaned[:100]]}
        audit.record(tx, actor, "zone.repair", platform_domain_id, object_type="platform_domain", after=after)
