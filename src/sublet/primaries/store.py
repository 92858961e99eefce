"""All SQL of publishing: the names that wait, and the outcomes of attempts."""

from collections.abc import Collection, Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    BindParameter,
    Integer,
    bindparam,
    func,
    or_,
    select,
    update,
)

from sublet.db import Prepared, Tx, in_batches
from sublet.platform_domains.zone_store import BACK_OFF_MAX, IN_BACK_OFF
from sublet.schema import STREAMED
from sublet.subdomains import published_owner_store
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import UNPUBLISHED, read_subdomains, select_subdomains, subdomains

# An attempt that is scheduled after the longest back-off was scheduled while the clock was wrong, so it is
# due now.
_DUE = or_(
    subdomains.c.next_attempt_at.is_(None),
    subdomains.c.next_attempt_at <= bindparam("now"),
    subdomains.c.next_attempt_at > bindparam("now_and_longest"),
)
# This recursive query steps by index from one platform domain with waiting names to the next, and reads no
# rows of others. Without the ORDER BY, PostgreSQL would scan the table, because it estimates that nearly all
# names are unpublished.
_OF = subdomains.c.platform_domain_id
_FIRST = (
    select(_OF).where(UNPUBLISHED & _DUE).order_by(_OF, subdomains.c.generation_at, subdomains.c.id).limit(1)
)
_STEPS = select(_FIRST.scalar_subquery().label("id")).cte("waiting", recursive=True)
_NEXT = _FIRST.where(_STEPS.c.id < _OF).scalar_subquery()
_STEPS = _STEPS.union_all(select(_NEXT).where(_STEPS.c.id.is_not(None)))
_WAITING_PLATFORM_DOMAINS = Prepared(
    select(_STEPS.c.id).where(_STEPS.c.id.is_not(None) & _STEPS.c.id.not_in(IN_BACK_OFF))
)
_WAITING = (
    select_subdomains()
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED & _DUE)
    .limit(bindparam("at_most", type_=Integer))
)
_OLDEST = _WAITING.order_by(subdomains.c.generation_at, subdomains.c.id)
_NEWEST = _WAITING.order_by(subdomains.c.generation_at.desc(), subdomains.c.id.desc())
_THESE: BindParameter[Sequence[int]] = bindparam("ids", expanding=True)
_WAITING_AMONG = Prepared(_OLDEST.where(subdomains.c.id.in_(_THESE)))
_OLDEST_BESIDES = Prepared(_OLDEST.where(subdomains.c.id.not_in(_THESE)))
_NEWEST_BESIDES = Prepared(_NEWEST.where(subdomains.c.id.not_in(_THESE)))


def _due_parameters(tx: Tx) -> dict[str, object]:
    return {"now": tx.now, "now_and_longest": tx.now + BACK_OFF_MAX}


def list_waiting_platform_domain_ids(tx: Tx) -> list[int]:
    """Return the sorted ids of the platform domains with a name that is due for publication, unless the zone
    is in back-off.

    The publisher calls this several times a second, so it reads only one waiting name of each platform
    domain.
    """
    return sorted(row[0] for row in _WAITING_PLATFORM_DOMAINS.all(tx, **_due_parameters(tx)))


def list_waiting(
    tx: Tx,
    platform_domain_id: int,
    limit: int,
    among: Collection[int] | None = None,
    besides: Collection[int] = (),
) -> list[Subdomain]:
    """Return at most `limit` names of a platform domain that are due for publication.

    If more are due, half of the result has the oldest changes, and half the newest. So a new change doesn't
    wait while all names of a large zone are published again.

    `among` limits the result to these ids. `besides` excludes ids, and is ignored with `among`.
    """
    asked = {**_due_parameters(tx), "of": platform_domain_id}
    if among is not None:
        return read_subdomains(Subdomain, _WAITING_AMONG.all(tx, **asked, at_most=limit, ids=list(among)))
    asked["ids"] = list(besides)
    oldest = read_subdomains(Subdomain, _OLDEST_BESIDES.all(tx, **asked, at_most=limit))
    if len(oldest) < limit or limit == 1:
        return oldest
    newest = read_subdomains(Subdomain, _NEWEST_BESIDES.all(tx, **asked, at_most=(limit + 1) // 2))
    # By id, because another transaction may have committed between the two queries.
    by_turns = {each.id: each for pair in zip(oldest, newest, strict=False) for each in pair}
    return list(by_turns.values())[:limit]


def is_any_waiting(tx: Tx, platform_domain_id: int, besides: Collection[int]) -> bool:
    """True if a name of the platform domain is due for publication. `besides` excludes ids."""
    return bool(list_waiting(tx, platform_domain_id, 1, besides=besides))


class Waiting(Struct, frozen=True):
    """The number of names that wait for publication, and the time of the oldest change; None if no name
    waits.
    """

    names: int = 0
    oldest_at: datetime | None = None


# A name with the generation 0 was never in the DNS. The zone may have records of others there.
_CHANGED = (
    (subdomains.c.platform_domain_id == bindparam("of"))
    & subdomains.c.released_at.is_(None)
    & (subdomains.c.generation > 0)
)
_CHANGED_AFTER = (subdomains.c.generation_at > bindparam("at")) | (
    (subdomains.c.generation_at == bindparam("at")) & (subdomains.c.id > bindparam("last"))
)
_AT_MOST = bindparam("at_most", type_=Integer)
_NEWEST_CHANGES = Prepared(
    select_subdomains()
    .where(_CHANGED & subdomains.c.generation_at.is_not(None))
    .order_by(subdomains.c.generation_at.desc(), subdomains.c.id.desc())
    .limit(_AT_MOST)
)
_FURTHER_CHANGES = Prepared(
    select_subdomains()
    .where(_CHANGED & (subdomains.c.generation_at >= bindparam("at")) & _CHANGED_AFTER)
    .order_by(subdomains.c.generation_at, subdomains.c.id)
    .limit(_AT_MOST)
)


def list_newest_changes(tx: Tx, platform_domain_id: int, limit: int) -> list[Subdomain]:
    """Return the names of a platform domain whose delegations changed last, newest change first, without
    released names.
    """
    return read_subdomains(Subdomain, _NEWEST_CHANGES.all(tx, of=platform_domain_id, at_most=limit))


def list_changes_after(
    tx: Tx, platform_domain_id: int, after: tuple[datetime, int] | None, limit: int
) -> list[Subdomain]:
    """Return the names of a platform domain whose delegations changed after a time (then by id), oldest
    change first; None for all.
    """
    at, last = after or (datetime(2000, 1, 1, tzinfo=UTC), 0)
    rows = _FURTHER_CHANGES.all(tx, of=platform_domain_id, at=at, last=last, at_most=limit)
    return read_subdomains(Subdomain, rows)


def count_waiting(tx: Tx) -> dict[int, Waiting]:
    """Return the waiting names of each platform domain that has any."""
    rows = tx.connection.execute(
        select(subdomains.c.platform_domain_id, func.count(), func.min(subdomains.c.generation_at))
        .where(UNPUBLISHED)
        .group_by(subdomains.c.platform_domain_id)
    )
    return {row[0]: Waiting(row[1], row[2]) for row in rows}


class Published(Struct, frozen=True):
    """A generation of a subdomain that the zone has since `serial`.

    The owners in `gone` have left the zone.
    """

    subdomain_id: int
    generation: int
    serial: int
    gone: frozenset[str]


def record_successes(tx: Tx, published: Iterable[Published]) -> frozenset[int]:
    """Record published generations. Return the ids of the subdomains whose recorded generation was older.

    The owners in `gone` are deleted only if the generation is still current: a newer generation may have
    added them again.
    """
    by_id = {each.subdomain_id: each for each in published}
    rows = _GENERATIONS.all(tx, ids=list(by_id))
    newly = frozenset(row[0] for row in rows if row[2] < by_id[row[0]].generation)
    current = frozenset(row[0] for row in rows if row[1] == by_id[row[0]].generation)
    for change, ids in ((_PUBLISHED_WITHOUT_ERROR, newly & current), (_PUBLISHED, newly - current)):
        known = (by_id[each] for each in sorted(ids))
        change.run_many(
            tx,
            [
                {
                    "of": each.subdomain_id,
                    "generation_now": each.generation,
                    "serial": each.serial,
                    "at": tx.now,
                }
                for each in known
            ],
        )
    _WITHOUT_ERROR.run_many(tx, [{"of": each} for each in sorted(current - newly)])
    published_owner_store.delete_published_owners(
        tx, ((each, owner) for each in sorted(current) for owner in sorted(by_id[each].gone))
    )
    return newly


_GENERATIONS = Prepared(
    select(subdomains.c.id, subdomains.c.generation, subdomains.c.published_generation)
    .where(subdomains.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(subdomains.c.id)
    .with_for_update(key_share=True)
)
_OF_ONE = update(subdomains).where(subdomains.c.id == bindparam("of"))
_PUBLISHED_VALUES: dict[str, BindParameter[Any]] = {
    "published_generation": bindparam("generation_now"),
    "published_at": bindparam("at"),
    "published_serial": bindparam("serial"),
}
_NO_ERROR_VALUES = {"provision_error": None, "attempts": 0, "next_attempt_at": None}
_PUBLISHED = Prepared(_OF_ONE.values(_PUBLISHED_VALUES))
_WITHOUT_ERROR = Prepared(_OF_ONE.values(_NO_ERROR_VALUES))
_PUBLISHED_WITHOUT_ERROR = Prepared(_OF_ONE.values({**_PUBLISHED_VALUES, **_NO_ERROR_VALUES}))


def record_failure(
    tx: Tx, subdomain_id: int, generation: int, sentence: str, next_attempt_at: datetime
) -> bool:
    """Record why a generation can't be published, and return True.

    For an outdated or published generation only return False.
    """
    recorded = tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.id == subdomain_id) & (subdomains.c.generation == generation) & UNPUBLISHED)
        .values(provision_error=sentence, attempts=subdomains.c.attempts + 1, next_attempt_at=next_attempt_at)
    )
    return recorded.rowcount > 0


def find_ever_published(tx: Tx, platform_domain_id: int, fqdns: Container[str]) -> dict[str, int]:
    """Return which of these names were ever published in the zone, each with the id of its newest row."""
    rows = tx.connection.execute(
        select(subdomains.c.id, subdomains.c.fqdn, subdomains.c.published_generation)
        .where(subdomains.c.platform_domain_id == platform_domain_id)
        .order_by(subdomains.c.id)
        .execution_options(**STREAMED)
    )
    newest: dict[str, int] = {}
    published: set[str] = set()
    for subdomain_id, fqdn, published_generation in rows:
        if fqdn in fqdns:
            newest[fqdn] = subdomain_id
            if published_generation > 0:
                published.add(fqdn)
    return {fqdn: subdomain_id for fqdn, subdomain_id in newest.items() if fqdn in published}


def find_held_ids(tx: Tx, fqdns: Collection[str]) -> dict[str, int]:
    """Return the names among `fqdns` that a registrant holds, each with the id of its row."""
    found: dict[str, int] = {}
    for some in in_batches(sorted(fqdns)):
        held = subdomains.c.fqdn.in_(some) & subdomains.c.released_at.is_(None)
        rows = tx.connection.execute(select(subdomains.c.fqdn, subdomains.c.id).where(held))
        found |= {row[0]: row[1] for row in rows}
    return found
