"""From rows to the zone: what the publisher does inside transactions (the sending lies between, outside any).

A: `begin_publication` reads what is desired now and writes ahead which owner names may get into the zone, and behind which fence.
Then the zone is changed and read back. B: `record_publication` records the outcome for exactly the generation that was sent. The
queue is a level, not a log: doing any of it again is harmless, and a crash anywhere is repaired by doing it again. Without the
write-ahead, a crash after sending would leave the old records in the zone for ever.

On PostgreSQL each of these transactions locks the zone first, then what is known of it (`zone_states`), then names, then their owners;
a worker has locked its lease before all of them (`worker/leased.py`).
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.dns.records import delegation_records
from sublet.dns.types import Record
from sublet.dns.update import new_fence
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.processes.model import Lease
from sublet.subdomains import publish_store, store
from sublet.subdomains.hand_over import hand_over
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.model import Placed

BATCH_MAX = 100
"""How many names one batch has at most, where the settings of the zone's primary don't say it."""
BACK_OFF_MAX_SECONDS = 60.0
ZONE_BACK_OFF_MAX_SECONDS = 10.0
"""How long a zone with a problem rests at most: all that waits goes on within this time of its return."""


@dataclass(frozen=True, slots=True)
class Item:
    """One name of a batch: the generation that is sent, the records desired, the owners that are or may be in the zone.

    `new_owners` are those at which nothing of ours was ever put, as far as is known: they must not be in use.
    `never_sent` were written ahead too, and are not wanted any more. What stands there isn't ours: no change of the zone had
    them, and behind this one none can that was sent earlier.
    """

    subdomain_id: int
    fqdn: str
    generation: int
    generation_at: datetime | None
    attempts: int
    desired: tuple[Record, ...]
    owners: frozenset[str]
    new_owners: frozenset[str]
    never_sent: frozenset[str]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one update of one zone carries; on a `primary` of one's own from its `fence` (None: it has none) to `next_fence`.

    `lease` is what the worker holds that has begun it; None: it was begun without one.
    """

    platform_domain_id: int
    zone: str
    items: tuple[Item, ...]
    primary: str = ""
    fence: str | None = None
    next_fence: str = ""
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one item: published with the zone's serial, or the sentence that says why not.

    `cause` is one of `dns.primary.CAUSES`. `nothing_sent` tells that the name was refused before any record of it could
    get into the zone.
    """

    item: Item
    serial: int | None = None
    error: str | None = None
    cause: str | None = None
    nothing_sent: bool = False


def desired_records(subdomain: Placed, ttl_seconds: int) -> tuple[Record, ...]:
    """Return the records that are to stand in the parent zone for a name: none when it is not delegated."""
    if not is_delegated(subdomain):
        return ()
    return delegation_records(subdomain.fqdn, subdomain.delegation, ttl_seconds)


def begin_publication(
    tx: Tx,
    platform_domain_id: int,
    batch_max: Mapping[str, int] = {},
    among: Collection[int] | None = None,
    besides: Collection[int] = (),
) -> Batch | None:
    """Return the names that wait under a platform domain, written ahead; None when none does.

    `batch_max` has by primary how many names one batch has at most; `BATCH_MAX` where it says nothing. On which primary the
    zone stands is known for certain only behind its lock. `among` are the ids of those that are meant, None for all; `besides` those
    that are under way already.
    """
    platform_domain = _lock_platform_domain(tx, platform_domain_id)
    if platform_domain is None:
        return None
    limit = batch_max.get(platform_domain.primary, BATCH_MAX)
    waiting = publish_store.list_waiting(tx, platform_domain_id, limit, among, besides)
    if hand_over(tx, waiting):
        waiting = publish_store.list_waiting(tx, platform_domain_id, limit, among, besides)
    if not waiting:
        return None
    owners = store.list_owners(tx, [subdomain.id for subdomain in waiting])
    items = []
    ahead: list[tuple[int, str]] = []
    for subdomain in waiting:
        before = owners[subdomain.id]
        desired = desired_records(subdomain, platform_domain.delegation_ttl_seconds)
        wanted = frozenset(record.owner for record in desired)
        ahead += [(subdomain.id, owner) for owner in wanted - before.keys()]
        once_sent = frozenset(owner for owner, was_sent in before.items() if was_sent)
        items.append(
            Item(
                subdomain_id=subdomain.id,
                fqdn=subdomain.fqdn,
                generation=subdomain.generation,
                generation_at=subdomain.generation_at,
                attempts=subdomain.attempts,
                desired=desired,
                owners=once_sent | wanted,
                new_owners=wanted - once_sent,
                never_sent=frozenset(before) - once_sent - wanted,
            )
        )
    store.insert_published_owners(tx, ahead)
    return _fenced(tx, platform_domain, tuple(items))


def begin_probe(tx: Tx, platform_domain_id: int) -> Batch | None:
    """Return an update that carries no name: it tells whether the zone takes any at all. None on the built-in name server."""
    platform_domain = _lock_platform_domain(tx, platform_domain_id)
    if platform_domain is None or not platform_domain.primary:
        return None
    return _fenced(tx, platform_domain, ())


def _lock_platform_domain(tx: Tx, platform_domain_id: int) -> PlatformDomain | None:
    """Read it once its zone is locked: two publishers don't write ahead the same, and nobody moves it to another server meanwhile."""
    zone_store.lock_zone(tx, platform_domain_id)
    return platform_domain_store.find_platform_domain(tx, platform_domain_id)


def _fenced(tx: Tx, platform_domain: PlatformDomain, items: tuple[Item, ...]) -> Batch:
    if not platform_domain.primary:
        return Batch(platform_domain.id, platform_domain.domain, items)
    next_fence = new_fence()
    owners = tuple((item.subdomain_id, owner) for item in items for owner in sorted(item.new_owners))
    fence = zone_state_store.find_zone_state(tx, platform_domain.id).fence
    zone_state_store.insert_zone_update(tx, platform_domain.id, next_fence, owners)
    return Batch(
        platform_domain.id, platform_domain.domain, items, platform_domain.primary, fence, next_fence
    )


def settle_fence(tx: Tx, platform_domain_id: int, expected: str | None, found: str | None) -> str:
    """Learn from what stands at the fence of a zone which of our updates was applied; tell what that means.

    `expected` is what was known of it before it was asked. Where something else is known by now another publisher was faster, and
    what was `found` may be older than that: nothing is learned from it.

    - "moved": as told above.
    - "same": it is as we knew it. An update that was sent may still be applied.
    - "applied": it is what one of our updates sets: that one was applied, and none of the others ever can be.
    - "rebuilt": it is neither, so the zone is not as we left it. It is taken as it is, and has to be checked as a whole.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    state = zone_state_store.find_zone_state(tx, platform_domain_id)
    if state.fence != expected:
        return "moved"
    owners = None if found is None else zone_state_store.find_zone_update(tx, platform_domain_id, found)
    if owners is not None:
        store.mark_owners_sent(tx, owners)
        zone_state_store.delete_zone_updates(tx, platform_domain_id)
        zone_state_store.update_zone_state(tx, platform_domain_id, fence=found)
        return "applied"
    if found == state.fence:
        return "same"
    zone_state_store.delete_zone_updates(tx, platform_domain_id)
    zone_state_store.update_zone_state(tx, platform_domain_id, fence=found, rebuilt_at=tx.now)
    after = {"fence_expected": state.fence, "fence_found": found}
    audit.record(
        tx, SYSTEM, "zone.found_rebuilt", platform_domain_id, object_type="platform_domain", after=after
    )
    return "rebuilt"


def record_publication(tx: Tx, results: Mapping[int, Result], batch: Batch | None = None) -> list[timedelta]:
    """Record what came of names, by subdomain id; return for those newly published how long that took from their change.

    `batch` is what was applied; only one on a primary has anything to be recorded itself. One audit event for each name whose
    outcome is new.
    """
    if batch is not None:
        zone_store.lock_zone(tx, batch.platform_domain_id)
    if batch is not None and batch.primary:
        settle_fence(tx, batch.platform_domain_id, batch.fence, batch.next_fence)
        state = zone_state_store.find_zone_state(tx, batch.platform_domain_id)
        if state.problem is not None or state.next_attempt_at is not None:
            zone_state_store.update_zone_state(tx, batch.platform_domain_id, **NO_PROBLEM)
    store.lock_subdomains(tx, results)
    published = []
    for result in results.values():
        item = result.item
        if result.error is not None or result.serial is None:
            _record_failure(tx, result, tx.now + back_off(item.attempts))
        else:
            gone = item.never_sent | (item.owners - {record.owner for record in item.desired})
            published.append(publish_store.Published(item.subdomain_id, item.generation, result.serial, gone))
    newly = publish_store.record_successes(tx, published)
    told = [each for each in published if each.subdomain_id in newly]
    audit.record_many(
        tx,
        SYSTEM,
        "subdomain.publish",
        {
            each.subdomain_id: {"published_generation": each.generation, "serial": each.serial}
            for each in told
        },
    )
    return [tx.now - (results[each].item.generation_at or tx.now) for each in sorted(newly)]


NO_PROBLEM: dict[str, object] = {
    "problem": None,
    "problem_detail": None,
    "problem_at": None,
    "attempts": 0,
    "next_attempt_at": None,
}


def record_refusal(tx: Tx, platform_domain_id: int, result: Result) -> None:
    """Record that one name was refused alone, while the zone takes others."""
    zone_store.lock_zone(tx, platform_domain_id)
    _record_failure(tx, result, tx.now + back_off(result.item.attempts))


def record_zone_fault(
    tx: Tx, platform_domain_id: int, items: Sequence[Item], cause: str, detail: str, sentence: str
) -> None:
    """Record that nothing can be published in a zone now, and when it is tried again; the items are told the sentence."""
    zone_store.lock_zone(tx, platform_domain_id)
    state = zone_state_store.find_zone_state(tx, platform_domain_id)
    next_attempt_at = tx.now + back_off(state.attempts, ZONE_BACK_OFF_MAX_SECONDS)
    zone_state_store.update_zone_state(
        tx,
        platform_domain_id,
        problem=cause,
        problem_detail=detail,
        problem_at=state.problem_at if state.problem is not None else tx.now,
        attempts=state.attempts + 1,
        next_attempt_at=next_attempt_at,
    )
    store.lock_subdomains(tx, (each.subdomain_id for each in items))
    for item in items:
        _record_failure(tx, Result(item, error=sentence, cause=cause), next_attempt_at)


def _record_failure(tx: Tx, result: Result, next_attempt_at: datetime) -> None:
    item = result.item
    sentence = result.error or "The name server did not answer as asked."
    counts = publish_store.record_failure(tx, item.subdomain_id, item.generation, sentence, next_attempt_at)
    if result.nothing_sent:
        # What stands in the zone at these owners isn't ours, and must never be deleted as if it were.
        store.delete_unsent_owners(tx, item.subdomain_id)
    if counts and item.attempts == 0:
        failed = {"generation": item.generation, "provision_error": sentence}
        audit.record(tx, SYSTEM, "subdomain.publish_failed", item.subdomain_id, after=failed)


def back_off(attempts: int, seconds_max: float = BACK_OFF_MAX_SECONDS) -> timedelta:
    """Return how long to wait after so many failures before: doubling from 1 s up to a most, jittered."""
    seconds = min(seconds_max, 2.0 ** min(attempts, 10))
    return timedelta(seconds=seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
