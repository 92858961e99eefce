"""Have our records in a zone on a primary repaired (`sublet zone repair`, and the worker): the publisher publishes them again.

A large repair takes many transactions, so that other work goes on between them: `begin_repair`, then `republish` and `reclaim` with
a bounded number of names each, then `end_repair`. Each may be repeated.
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
from sublet.platform_domains import zone_state_store, zone_store
from sublet.primaries import store as publish_store
from sublet.primaries.check_process import Outcome
from sublet.primaries.check_zone import Leftover, Repairs
from sublet.primaries.plan import implausible_deletions
from sublet.processes.leased import under
from sublet.processes.model import Lease
from sublet.subdomains import store

T = TypeVar("T")
STEP_MAX = 500
"""Most rows in one transaction of a repair."""


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
    """Store what a check found and have it repaired; return why nothing is removed, if the brake stops that.

    After a crash in between the zone is checked again. `lease` is the worker's; the operator needs none.

    Raises:
        Conflict: the zone was moved to another server.
        LeaseLost: another worker has taken the lease.
    """
    repairs = found.repairs
    reason = await db.write(
        under, lease, begin_repair, actor, platform_domain_id, primary, repairs, force=force
    )
    for ids in _steps(repairs.wrong_ids):
        await db.write(under, lease, republish, platform_domain_id, ids)
    if reason is None:
        for leftovers in _steps((*repairs.leftovers, *repairs.reclaimed)):
            await db.write(under, lease, reclaim, platform_domain_id, leftovers)
    for gone in _steps(found.foreign_gone):
        await db.write(under, lease, note_foreign, platform_domain_id, primary, gone, ())
    for new in _steps(found.foreign_new):
        await db.write(under, lease, note_foreign, platform_domain_id, primary, (), new)
    serial = found.serial if repairs.is_settled else None
    await db.write(under, lease, end_repair, platform_domain_id, serial, found.rebuilt_at)
    return reason


def _steps(things: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(things), STEP_MAX):
        yield things[start : start + STEP_MAX]


def stop_reason(found: Repairs) -> str | None:
    """Return why a repair has to stop and ask the operator before it removes anything; None if it needn't."""
    count = len({each.fqdn for each in found.leftovers})  # a name with glue has several owners
    if not implausible_deletions(count, found.names):
        return None
    return (
        f"{counted(count, 'name')} would lose their records, which is implausible; look at `sublet zone check`, "
        "then repeat with --force if that is right."
    )


def begin_repair(
    tx: Tx, actor: Actor, platform_domain_id: int, primary: str, found: Repairs, *, force: bool = False
) -> str | None:
    """Store what a check of a zone found, and why nothing may be removed from it, if so; return the latter.

    Raises:
        Conflict: the zone stands on another server by now.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        raise Conflict("The zone was moved to another server while it was checked. Check it again.")
    reason = None if force else stop_reason(found)
    before = zone_state_store.find_zone_state(tx, platform_domain_id)
    zone_state_store.update_zone_state(
        tx,
        platform_domain_id,
        checked_at=tx.now,
        checked_serial=None,
        missing=found.missing,
        different=found.different,
        orphaned=len(found.leftovers),
        foreign_records=found.foreign_records,
        repair_stopped_at=None if reason is None else before.repair_stopped_at or tx.now,
        repair_stopped_reason=reason,
    )
    zone_store.replace_apex_keys(tx, platform_domain_id, platform_domain.domain, found.apex_keys)
    _record(tx, actor, platform_domain_id, found, stopped=reason is not None)
    if reason is not None and before.repair_stopped_at is None:
        after = {"reason": reason}
        audit.record(
            tx, actor, "zone.repair_stopped", platform_domain_id, object_type="platform_domain", after=after
        )
    return reason


def republish(tx: Tx, platform_domain_id: int, subdomain_ids: Collection[int]) -> None:
    """Have names of a zone published again, as they are stored."""
    zone_store.lock_zone(tx, platform_domain_id)
    store.republish(tx, subdomain_ids)


def reclaim(tx: Tx, platform_domain_id: int, leftovers: Collection[Leftover]) -> None:
    """Have the records at owners of ours removed by the row that holds their name now, or else by the row that last did.

    The same update adds what the holder wants there. A name that is being registered at the same moment is handled later, by
    `hand_over`.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    holders = publish_store.find_holders(tx, {each.fqdn for each in leftovers})
    again = set()
    for each in leftovers:
        to = holders.get(each.fqdn, each.subdomain_id)
        store.move_published_owner(tx, each.owner, each.subdomain_id, to)
        again.add(to)
    store.republish(tx, again)


def note_foreign(
    tx: Tx, platform_domain_id: int, primary: str, gone: Sequence[Record], new: Sequence[Record]
) -> None:
    """Store which records of a zone on a primary are not ours: names at or above them can't be registered."""
    zone_store.lock_zone(tx, platform_domain_id)
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        return  # the zone was moved to another server
    zone_store.delete_these_records(tx, platform_domain_id, gone)
    zone_store.insert_records(tx, platform_domain_id, new)


def end_repair(tx: Tx, platform_domain_id: int, serial: int | None, rebuilt_at: datetime | None) -> None:
    """Store that a check is over and its repair begun; `rebuilt_at` is the zone's as the check began.

    At `serial` the zone isn't checked again; None where another check may find something else. While the repair is stopped the zone
    stays marked as rebuilt, because which of its records are ours is not stored yet.
    """
    zone_store.lock_zone(
        tx, platform_domain_id
    )  # or a rebuild that is found at this moment would be forgotten
    state = zone_state_store.find_zone_state(tx, platform_domain_id)
    values: dict[str, object] = {"checked_serial": serial}
    if state.rebuilt_at == rebuilt_at and state.repair_stopped_at is None:
        values["rebuilt_at"] = None
    zone_state_store.update_zone_state(tx, platform_domain_id, **values)


def _record(tx: Tx, actor: Actor, platform_domain_id: int, found: Repairs, *, stopped: bool = False) -> None:
    leftovers = () if stopped else (*found.leftovers, *found.reclaimed)
    again = {*found.wrong_ids, *(each.subdomain_id for each in leftovers)}
    if again:
        orphaned = [each.owner for each in leftovers]
        after = {"republished": len(again), "orphaned": orphaned[:100]}
        audit.record(tx, actor, "zone.repair", platform_domain_id, object_type="platform_domain", after=after)
