"""From rows to a zone on a primary: the publisher's transactions, between which it sends and reads back.

First `begin_publication` reads what is desired now, and writes ahead which owner names may get into the zone and which fence the
message sets. Then the zone is changed and read back. Last `record_publication` records the outcome for exactly the generation that
was sent. The queue is a level, not a log: every step may be repeated, and after a crash it is. Without writing ahead, a crash after
sending would leave records in the zone that no later change removes.

On PostgreSQL each transaction locks the zone first, then its row in `zone_states`, then names, then their owners; a worker locks
its lease before all of them (`processes/leased.py`).
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.dns.types import Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries import store as publish_store
from sublet.primaries.hand_over import hand_over
from sublet.primaries.update import new_fence
from sublet.processes.model import Lease
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.lifecycle import desired_records

BATCH_MAX = 100
"""How many names one batch has at most, where the settings of the zone's primary don't say it."""
BACK_OFF_MAX_SECONDS = 60.0
ZONE_BACK_OFF_MAX_SECONDS = 10.0
"""How long a zone with a problem rests at most: all that waits goes on within this time of its return."""


@dataclass(frozen=True, slots=True)
class Item:
    """One name of a batch: the generation that is sent, the desired records, the owners that are or may be in the zone.

    `new_owners` are those at which the registry never put a record, as far as it knows: they must not be in use.
    `never_sent` were written ahead and are no longer wanted. Records there are not ours: no change of the zone had these owners,
    and after this one no earlier change can be applied.
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
    """One UPDATE message of a zone on `primary`, which replaces its `fence` (None: it has none) by `next_fence`.

    `lease` is the worker's; None: the batch was begun without one.
    """

    platform_domain_id: int
    zone: str
    items: tuple[Item, ...]
    primary: str
    fence: str | None
    next_fence: str
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one item: published with the zone's serial, or the sentence that says why not.

    `cause` is one of `primaries.primary.CAUSES`. `nothing_sent`: the name was refused before any record of it could get into the zone.
    """

    item: Item
    serial: int | None = None
    error: str | None = None
    cause: str | None = None
    nothing_sent: bool = False


def begin_publication(
    tx: Tx,
    platform_domain_id: int,
    batch_max: Mapping[str, int] = {},
    among: Collection[int] | None = None,
    besides: Collection[int] = (),
) -> Batch | None:
    """Return the names that wait in a zone, written ahead; None when none does.

    `batch_max` has the most names of a batch by primary, `BATCH_MAX` where it has none: which primary has the zone is certain only
    after the zone is locked. `among` limits it to these ids (None: all), `besides` leaves out those that are under way.
    """
    platform_domain = _lock_platform_domain(tx, platform_domain_id)
    if platform_domain is None:
        return None
    if not platform_domain.primary:
        # Changed while the zone was moved to the built-in name server, which serves what is committed.
        store.republish(tx, store.list_waiting_ids(tx, platform_domain_id))
        return None
    limit = batch_max.get(platform_domain.primary, BATCH_MAX)
    waiting = publish_store.list_waiting(tx, platform_domain_id, limit, among, besides)
    if hand_over(tx, waiting):
        waiting = publish_store.list_waiting(tx, platform_domain_id, limit, among, besides)
    if not waiting:
        return None
    owners = published_owner_store.list_owners(tx, [subdomain.id for subdomain in waiting])
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
    published_owner_store.insert_published_owners(tx, ahead)
    return _fenced(tx, platform_domain, tuple(items))


def begin_probe(tx: Tx, platform_domain_id: int) -> Batch | None:
    """Return an update without names, which shows whether the zone takes any; None when the zone is not on a primary any more."""
    platform_domain = _lock_platform_domain(tx, platform_domain_id)
    if platform_domain is None or not platform_domain.primary:
        return None
    return _fenced(tx, platform_domain, ())


def _lock_platform_domain(tx: Tx, platform_domain_id: int) -> PlatformDomain | None:
    """Lock a zone, then read it: no second publisher writes ahead the same, and the zone isn't moved meanwhile."""
    zone_store.lock_zone(tx, platform_domain_id)
    return platform_domain_store.find_platform_domain(tx, platform_domain_id)


def _fenced(tx: Tx, platform_domain: PlatformDomain, items: tuple[Item, ...]) -> Batch:
    next_fence = new_fence()
    owners = tuple((item.subdomain_id, owner) for item in items for owner in sorted(item.new_owners))
    fence = zone_state_store.find_zone_state(tx, platform_domain.id).fence
    zone_state_store.insert_zone_update(tx, platform_domain.id, next_fence, owners)
    return Batch(
        platform_domain.id, platform_domain.domain, items, platform_domain.primary, fence, next_fence
    )


def settle_fence(tx: Tx, platform_domain_id: int, expected: str | None, found: str | None) -> str:
    """Derive from the fence that was `found` in a zone which of our updates was applied.

    `expected` is the fence that was known when the question was sent.

    - "moved": another fence is known by now, so another publisher was faster, and the answer may be older: it is ignored.
    - "same": the fence is the expected one. An update that was sent may still be applied.
    - "applied": one of our updates set it: that one was applied, and none of the others can be any more.
    - "rebuilt": neither, so the zone is not as we left it. The fence is stored, and the whole zone has to be checked.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    state = zone_state_store.find_zone_state(tx, platform_domain_id)
    if state.fence != expected:
        return "moved"
    owners = None if found is None else zone_state_store.find_zone_update(tx, platform_domain_id, found)
    if owners is not None:
        published_owner_store.mark_owners_sent(tx, owners)
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


def record_publication(tx: Tx, results: Mapping[int, Result], batch: Batch) -> list[timedelta]:
    """Record the outcomes of an applied batch, by subdomain id; return how long each newly published name took from its change.

    Writes one audit event for each name whose outcome is new.
    """
    zone_store.lock_zone(tx, batch.platform_domain_id)
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
    events = [each for each in published if each.subdomain_id in newly]
    audit.record_many(
        tx,
        SYSTEM,
        "subdomain.publish",
        {
            each.subdomain_id: {"published_generation": each.generation, "serial": each.serial}
            for each in events
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
    """Record that nothing can be published in a zone now, and when it is tried again; the items get the sentence as their error."""
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
        # The records at these owners are not ours, so no later change may delete them.
        published_owner_store.delete_unsent_owners(tx, item.subdomain_id)
    if counts and item.attempts == 0:
        failed = {"generation": item.generation, "provision_error": sentence}
        audit.record(tx, SYSTEM, "subdomain.publish_failed", item.subdomain_id, after=failed)


def back_off(attempts: int, seconds_max: float = BACK_OFF_MAX_SECONDS) -> timedelta:
    """Return how long to wait after this many failures: doubled from 1 s up to the maximum, with jitter."""
    seconds = min(seconds_max, 2.0 ** min(attempts, 10))
    return timedelta(seconds=seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
