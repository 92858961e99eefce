"""Have what is ours in a zone repaired (`sublet zone repair`, and the worker by itself). The publisher does the work, as for any change.

A large repair is done in many transactions, so that the registry's other work goes on between them: `begin_repair`, then
`republish` and `reclaim` a bounded number at a time, then `end_repair`. Any of them may be done again.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sublet import audit
from sublet.audit import Actor
from sublet.counted import counted
from sublet.db import Tx
from sublet.dns.plan import implausible_deletions
from sublet.dns.types import Record
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import publish_store, store
from sublet.subdomains.check_zone import Leftover, Repairs, ZoneCheck, check_built_in_zone

STEP_MAX = 500
"""Most rows in one transaction of a repair."""


def repair_built_in_zone(
    tx: Tx, actor: Actor, platform_domain: PlatformDomain, *, force: bool = False
) -> ZoneCheck:
    """Have every name that is missing or different published again, and what is orphaned taken out; return what was found.

    Foreign records and the apex are never touched.

    Raises:
        Conflict: more names would lose their records than max(20, 1 %) and `force` is not given.
    """
    zone_store.lock_zone(tx, platform_domain.id)
    found = check_built_in_zone(tx, platform_domain)
    reason = stop_reason(found.repairs)
    if reason is not None and not force:
        raise Conflict(reason)
    publish_store.republish(tx, found.repairs.wrong_ids)
    reclaim(tx, platform_domain.id, found.repairs.leftovers)
    _record(tx, actor, platform_domain.id, found.repairs)
    return found


def stop_reason(found: Repairs) -> str | None:
    """Return why a repair has to stop and ask before it takes anything out; None where it needn't."""
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
    """Store what a check of a zone on a primary found; return why nothing may be taken out, if so, which is stored too.

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
    publish_store.republish(tx, subdomain_ids)


def reclaim(tx: Tx, platform_domain_id: int, leftovers: Collection[Leftover]) -> None:
    """Have what stands at owners of ours in a zone taken out by whoever holds their names now, or else by the row that last did.

    What the holder wants there is put there anew in the same update. A name that is being registered in this moment is seen later, by
    `hand_over`.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    holders = publish_store.find_holders(tx, {each.fqdn for each in leftovers})
    again = set()
    for each in leftovers:
        to = holders.get(each.fqdn, each.subdomain_id)
        store.move_published_owner(tx, each.owner, each.subdomain_id, to)
        again.add(to)
    publish_store.republish(tx, again)


def note_foreign(
    tx: Tx, platform_domain_id: int, primary: str, gone: Sequence[Record], new: Sequence[Record]
) -> None:
    """Note which records of a zone on a primary are not ours: names at or above which they stand can't be registered."""
    zone_store.lock_zone(tx, platform_domain_id)
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is None or platform_domain.primary != primary:
        return  # what stands there is the built-in name server's by now, or another one's
    zone_store.delete_these_records(tx, platform_domain_id, gone)
    zone_store.insert_records(tx, platform_domain_id, new)


def end_repair(tx: Tx, platform_domain_id: int, serial: int | None, rebuilt_at: datetime | None) -> None:
    """Store that a check is done with, and its repair under way; `rebuilt_at` is what was known as it began.

    `serial` is what the zone is not checked at again, None where another check might find something else.

    While the repair is stopped a rebuilt zone stays one: what of it is ours is not written down yet.
    """
    zone_store.lock_zone(
        tx, platform_domain_id
    )  # or it could forget a rebuilding that is found in this moment
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
