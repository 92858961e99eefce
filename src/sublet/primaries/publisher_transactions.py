"""The publisher's transactions, before and after it changes a zone on a primary.

1. `begin_publication` reads the desired records, and writes ahead which owner names the message may add and
  which fence it sets.
2. The publisher changes the zone and reads the changes back, outside a transaction.
3. `record_publication` records the outcome for exactly the generation that was sent.

Each step may be repeated, for example after a crash. Without writing ahead, a crash after step 2 would leave
records in the zone that no later change removes. On PostgreSQL each transaction locks the worker's lease
(`processes/leases.py`), the zone, its row in `zone_states`, names, and their owners, in this order.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.primaries import store as publish_store
from sublet.primaries.update import new_fence
from sublet.primaries.zone_notices import FAILURES_BEFORE_NOTICE, notify_of_zone_problem
from sublet.processes.model import Lease
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.lifecycle import desired_records, has_records
from sublet.subdomains.model import Subdomain

BATCH_MAX = 100
"""The maximum number of names in a batch, unless the settings of the primary have another number."""
BATCH_OCTETS = 60_000
"""The estimated octets of a message after which a batch gets no further name. Building a message that turns
out to be too long takes seconds.
"""
BACK_OFF_MAX_SECONDS = zone_store.BACK_OFF_MAX.total_seconds()
"""The maximum back-off of a name."""
ZONE_BACK_OFF_MAX_SECONDS = 10.0
"""The maximum back-off of a zone. Publication resumes within this time after a problem ends."""


class Item(Struct, frozen=True):
    """One name of a batch: the generation that is sent, the desired records, and the owners that are or may
    be in the zone.

    `owners_with_records` are those of `owners` that may have records of other types than those of a
    delegation. `new_owners` are owners at which the registry has added no record so far, so they must not be
    in use. `never_sent` are owners that were written ahead, never sent, and are no longer desired. Records at
    these owners are not ours, and after this message no earlier message can add any.
    """

    subdomain_id: int
    fqdn: str
    generation: int
    generation_at: datetime | None
    attempts: int
    desired: tuple[Record, ...]
    owners: frozenset[str]
    owners_with_records: frozenset[str]
    new_owners: frozenset[str]
    never_sent: frozenset[str]


class Batch(Struct, frozen=True):
    """One UPDATE message for a zone on `primary`.

    The message replaces the zone's `fence` (None: no fence) by `next_fence`.

    `lease` is the lease of the worker that began the batch, if any.
    """

    platform_domain_id: int
    zone: str
    items: tuple[Item, ...]
    primary: str
    fence: str | None
    next_fence: str
    lease: Lease | None = None


class Result(Struct, frozen=True):
    """The outcome of one item: the zone's `serial` if the item is published, otherwise `error`, a message for
    users.

    `cause` is one of `primaries.primary.CAUSES`. `nothing_applied` is True if the server applied no record of
    the name.
    """

    item: Item
    serial: int | None = None
    error: str | None = None
    cause: str | None = None
    nothing_applied: bool = False


def begin_publication(
    tx: Tx,
    platform_domain_id: int,
    batch_max: Mapping[str, int] = {},
    among: Collection[int] | None = None,
    besides: Collection[int] = (),
) -> Batch | None:
    """Write ahead the names that wait in a zone, and return them as a batch; None if no name waits.

    `batch_max` has the maximum number of names in a batch for each primary; the default is `BATCH_MAX`.
    `among` limits the batch to these ids. `besides` excludes the ids of names in progress.
    """
    platform_domain = _lock_platform_domain(tx, platform_domain_id)
    if platform_domain is None:
        return None
    if not platform_domain.primary:
        # The names changed while the zone moved to the built-in name server. The next generation is published
        # with its commit.
        store.republish(tx, store.list_unpublished_ids(tx, platform_domain_id))
        return None
    limit = batch_max.get(platform_domain.primary, BATCH_MAX)
    waiting = publish_store.list_waiting(tx, platform_domain_id, limit, among, besides)
    if _hand_over(tx, waiting):
        waiting = publish_store.list_waiting(tx, platform_domain_id, limit, among, besides)
    if not waiting:
        return None
    owners = published_owner_store.list_published_owners_by_subdomain(
        tx, [subdomain.id for subdomain in waiting]
    )
    items: list[Item] = []
    octets = 0
    ahead: list[tuple[int, str]] = []
    ahead_with_records: list[tuple[int, str]] = []
    for subdomain in waiting:
        before = owners[subdomain.id]
        desired = desired_records(subdomain, platform_domain.delegation_ttl_seconds)
        wanted = frozenset(record.owner for record in desired)
        once_sent = frozenset(owner for owner, state in before.items() if state.sent)
        with_records = frozenset(owner for owner, state in before.items() if state.has_records)
        octets += _estimate_octets(desired, once_sent, once_sent & with_records)
        if items and octets > BATCH_OCTETS:
            break
        ahead += [(subdomain.id, owner) for owner in wanted - before.keys()]
        if has_records(subdomain):
            ahead_with_records += [(subdomain.id, owner) for owner in wanted - with_records]
        items.append(
            Item(
                subdomain_id=subdomain.id,
                fqdn=subdomain.fqdn,
                generation=subdomain.generation,
                generation_at=subdomain.generation_at,
                attempts=subdomain.attempts,
                desired=desired,
                owners=once_sent | wanted,
                owners_with_records=with_records,
                new_owners=wanted - once_sent,
                never_sent=frozenset(before) - once_sent - wanted,
            )
        )
    published_owner_store.insert_published_owners(tx, ahead)
    published_owner_store.mark_owners_with_records(tx, ahead_with_records)
    return _write_ahead_batch(tx, platform_domain, tuple(items))


def _estimate_octets(
    desired: Collection[Record], delete_owners: Collection[str], with_records: Collection[str]
) -> int:
    """Return about how many octets of a message the changes of a name need, if its owners are short."""
    deletes = len(DELEGATION_TYPES) * len(delete_owners)
    deletes += (len(PUBLISHED_TYPES) - len(DELEGATION_TYPES)) * len(with_records)
    return 14 * deletes + sum(30 + len(record.rdata) for record in desired)


def _hand_over(tx: Tx, waiting: Sequence[Subdomain]) -> bool:
    """Move the owner names of waiting released rows to the rows that now hold their names.

    Return True if there were such rows.

    Both rows of a name wait on PostgreSQL if a registration and `reclaim` of the name run at the same time,
    so that neither transaction sees the other. The removal of the released row, when retried, would then
    remove the delegation of the newer row. The update of the newer row deletes the records at these owner
    names and adds the new records in one message. A released row whose name has no holder is published
    itself.
    """
    released = [each for each in waiting if each.released_at is not None]
    held_ids = publish_store.find_held_ids(tx, {each.fqdn for each in released}) if released else {}
    former = [each for each in released if each.fqdn in held_ids]
    moved: dict[int, dict[str, object]] = {}
    for each in former:
        newer_id = held_ids[each.fqdn]
        owners = published_owner_store.list_published_owners_by_subdomain(tx, [each.id])[each.id]
        sent = sorted(owner for owner, state in owners.items() if state.sent)
        for owner in sent:
            has_records = owners[owner].has_records
            published_owner_store.move_published_owner(tx, owner, each.id, newer_id, has_records=has_records)
        published_owner_store.delete_unsent_owners(tx, each.id)
        store.mark_published_without_change(tx, each.id, each.generation)
        moved[each.id] = {"holder_id": newer_id, "owners": sent}
    store.republish(tx, {held_ids[each.fqdn] for each in former if moved[each.id]["owners"]})
    audit.record_many(tx, SYSTEM, "subdomain.hand_over", moved)
    return bool(former)


def begin_probe(tx: Tx, platform_domain_id: int) -> Batch | None:
    """Return an update without names, to test if the zone accepts updates; None if the zone has left its
    primary.
    """
    platform_domain = _lock_platform_domain(tx, platform_domain_id)
    if platform_domain is None or not platform_domain.primary:
        return None
    return _write_ahead_batch(tx, platform_domain, ())


def _lock_platform_domain(tx: Tx, platform_domain_id: int) -> PlatformDomain | None:
    """Lock a zone, then return its platform domain.

    No other publisher can write ahead, and the zone can't move to another server.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    return platform_domain_store.find_platform_domain(tx, platform_domain_id)


def _write_ahead_batch(tx: Tx, platform_domain: PlatformDomain, items: tuple[Item, ...]) -> Batch:
    """Write ahead an update with a new fence, and return the update as a batch."""
    next_fence = new_fence()
    owners = tuple((item.subdomain_id, owner) for item in items for owner in sorted(item.new_owners))
    fence = zone_store.find_zone_state(tx, platform_domain.id).fence
    zone_store.insert_zone_update(tx, platform_domain.id, next_fence, owners)
    return Batch(
        platform_domain.id, platform_domain.domain, items, platform_domain.primary, fence, next_fence
    )


def settle_fence(tx: Tx, platform_domain_id: int, expected: str | None, found: str | None) -> str:
    """Store and return what the fence `found` in a zone means for our updates.

    `expected` is the fence stored before the query.

    - "moved": another publisher has stored another fence meanwhile. `found` may be older, and is ignored.
    - "same": the fence is the expected one. The server may still apply an update that was sent.
    - "applied": one of our updates set the fence. The server can't apply the others any more.
    - "rebuilt": another program set the fence, or restored an old zone. The fence is stored, and the whole
      zone must be checked.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    state = zone_store.find_zone_state(tx, platform_domain_id)
    if state.fence != expected:
        return "moved"
    owners = None if found is None else zone_store.find_zone_update(tx, platform_domain_id, found)
    if owners is not None:
        zone = platform_domain_store.find_platform_domain(tx, platform_domain_id)
        may_have_records = zone is not None and zone.accepts_records
        published_owner_store.mark_owners_sent(tx, owners, may_have_records=may_have_records)
        zone_store.delete_zone_updates(tx, platform_domain_id)
        zone_store.update_zone_state(tx, platform_domain_id, fence=found)
        return "applied"
    if found == state.fence:
        return "same"
    zone_store.delete_zone_updates(tx, platform_domain_id)
    zone_store.update_zone_state(tx, platform_domain_id, fence=found, rebuilt_at=tx.now)
    after = {"fence_expected": state.fence, "fence_found": found}
    audit.record(
        tx, SYSTEM, "zone.found_rebuilt", platform_domain_id, object_type="platform_domain", after=after
    )
    return "rebuilt"


def record_publication(tx: Tx, results: Mapping[int, Result], batch: Batch) -> list[timedelta]:
    """Record the outcomes (by subdomain id) of an applied batch, with an audit event for each newly published
    name.

    Return the times from the change to the publication of the newly published names.
    """
    zone_store.lock_zone(tx, batch.platform_domain_id)
    settle_fence(tx, batch.platform_domain_id, batch.fence, batch.next_fence)
    state = zone_store.find_zone_state(tx, batch.platform_domain_id)
    if state.problem is not None or state.next_attempt_at is not None:
        zone_store.update_zone_state(tx, batch.platform_domain_id, **_NO_PROBLEM)
    store.lock_subdomains(tx, results)
    published = []
    for result in results.values():
        item = result.item
        if result.error is not None or result.serial is None:
            _record_failure(tx, result, tx.now + backoff_delay(item.attempts))
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


_NO_PROBLEM: dict[str, object] = {
    "problem": None,
    "problem_detail": None,
    "problem_at": None,
    "attempts": 0,
    "next_attempt_at": None,
}


def record_refusal(tx: Tx, platform_domain_id: int, result: Result) -> None:
    """Record that one name was refused, although the zone accepts others."""
    zone_store.lock_zone(tx, platform_domain_id)
    _record_failure(tx, result, tx.now + backoff_delay(result.item.attempts))


def record_zone_fault(
    tx: Tx, platform_domain_id: int, items: Sequence[Item], cause: str, detail: str, sentence: str
) -> None:
    """Record that nothing can be published in a zone now, and when the next attempt is.

    The sentence becomes the error of the items.

    After `FAILURES_BEFORE_NOTICE` failed attempts in a row, notify the operator.
    """
    zone_store.lock_zone(tx, platform_domain_id)
    state = zone_store.find_zone_state(tx, platform_domain_id)
    next_attempt_at = tx.now + backoff_delay(state.attempts, ZONE_BACK_OFF_MAX_SECONDS)
    zone_store.update_zone_state(
        tx,
        platform_domain_id,
        problem=cause,
        problem_detail=detail,
        problem_at=state.problem_at if state.problem is not None else tx.now,
        attempts=state.attempts + 1,
        next_attempt_at=next_attempt_at,
    )
    if state.attempts + 1 == FAILURES_BEFORE_NOTICE:
        notify_of_zone_problem(tx, platform_domain_id, cause, detail)
    store.lock_subdomains(tx, (each.subdomain_id for each in items))
    for item in items:
        _record_failure(tx, Result(item, error=sentence, cause=cause), next_attempt_at)


def _record_failure(tx: Tx, result: Result, next_attempt_at: datetime) -> None:
    item = result.item
    sentence = result.error or "The name server did not answer as asked."
    is_recorded = publish_store.record_failure(
        tx, item.subdomain_id, item.generation, sentence, next_attempt_at
    )
    if result.nothing_applied:
        # The records at these owners are not ours, so no later change may delete them.
        published_owner_store.delete_unsent_owners(tx, item.subdomain_id)
    if is_recorded and item.attempts == 0:
        failed = {"generation": item.generation, "provision_error": sentence}
        audit.record(tx, SYSTEM, "subdomain.publish_failed", item.subdomain_id, after=failed)


def backoff_delay(attempts: int, seconds_max: float = BACK_OFF_MAX_SECONDS) -> timedelta:
    """Return the delay before the attempt after this many failures: 1 s, doubled by each failure up to
    `seconds_max`, with jitter.
    """
    seconds = min(seconds_max, 2.0 ** min(attempts, 10))
    return timedelta(seconds=seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
