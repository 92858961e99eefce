"""All SQL of publishing: which names wait, what of them is or may be in the zone, and what came of an attempt."""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    bindparam,
    func,
    or_,
    select,
    update,
)

from sublet.db import Prepared, Tx
from sublet.platform_domains.zone_state_store import REST_MAX, RESTING
from sublet.schema import STREAMED
from sublet.subdomains import store
from sublet.subdomains.model import PlacedName, Subdomain
from sublet.subdomains.store import (
    NEXT_GENERATION,
    RELEASED,
    UNPUBLISHED,
    change_moment,
    published_owners,
    read_delegation,
    read_subdomains,
    select_subdomains,
    subdomains,
)

T = TypeVar("T")

NAMED_MAX = 1000
"""How many rows one statement names at most, by their ids or names."""

# What is asked several times a second, or of each batch, is built once, as in `store.py`.
# A next attempt further away than the longest pause was set by a clock that was wrong.
_DUE = or_(
    subdomains.c.next_attempt_at.is_(None),
    subdomains.c.next_attempt_at <= bindparam("now"),
    subdomains.c.next_attempt_at > bindparam("now_and_longest"),
)
# From one platform domain with names that wait to the next, by the index: the many of which none does are not even looked at. In an
# order, since PostgreSQL takes nearly all names for unpublished, and would read them until it finds one.
_OF = subdomains.c.platform_domain_id
_FIRST = (
    select(_OF).where(UNPUBLISHED & _DUE).order_by(_OF, subdomains.c.generation_at, subdomains.c.id).limit(1)
)
_STEPS = select(_FIRST.scalar_subquery().label("id")).cte("waiting", recursive=True)
_NEXT = _FIRST.where(_STEPS.c.id < _OF).scalar_subquery()
_STEPS = _STEPS.union_all(select(_NEXT).where(_STEPS.c.id.is_not(None)))
_WAITING_PLATFORM_DOMAINS = Prepared(
    select(_STEPS.c.id).where(_STEPS.c.id.is_not(None) & _STEPS.c.id.not_in(RESTING))
)
_WAITING = (
    select_subdomains()
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED & _DUE)
    .order_by(subdomains.c.generation_at, subdomains.c.id)
    .limit(bindparam("at_most", type_=Integer))
)
_THESE: BindParameter[Sequence[int]] = bindparam("ids", expanding=True)
_WAITING_ALL = Prepared(_WAITING)
_WAITING_AMONG = Prepared(_WAITING.where(subdomains.c.id.in_(_THESE)))
_WAITING_BESIDES = Prepared(_WAITING.where(subdomains.c.id.not_in(_THESE)))


def _due(tx: Tx) -> dict[str, object]:
    return {"now": tx.now, "now_and_longest": tx.now + REST_MAX}


def list_waiting_platform_domain_ids(tx: Tx) -> list[int]:
    """Under which platform domains does a name wait whose time for an attempt has come, and whose zone doesn't rest?

    Asked several times a second: the first name of each ends the search, however many wait.
    """
    return sorted(row[0] for row in _WAITING_PLATFORM_DOMAINS.all(tx, **_due(tx)))


def list_waiting(
    tx: Tx,
    platform_domain_id: int,
    limit: int,
    among: Collection[int] | None = None,
    besides: Collection[int] = (),
) -> list[Subdomain]:
    """Which names of this platform domain wait for publication? Those longest unchanged first: a fair order.

    `among` are the ids of those that are asked about, None for all; `besides` of those that are not, where all are.
    """
    asked = {**_due(tx), "of": platform_domain_id, "at_most": limit}
    if among is not None:
        return read_subdomains(Subdomain, _WAITING_AMONG.all(tx, **asked, ids=list(among)))
    if besides:
        return read_subdomains(Subdomain, _WAITING_BESIDES.all(tx, **asked, ids=list(besides)))
    return read_subdomains(Subdomain, _WAITING_ALL.all(tx, **asked))


_ANY_WAITING = Prepared(
    select(subdomains.c.id)
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED & _DUE)
    .where(subdomains.c.id.not_in(_THESE))
    .order_by(subdomains.c.generation_at, subdomains.c.id)
    .limit(1)
)


def is_any_waiting(tx: Tx, platform_domain_id: int, besides: Collection[int]) -> bool:
    """Does any name of this platform domain wait for publication, besides those with these ids?"""
    return bool(_ANY_WAITING.all(tx, **_due(tx), of=platform_domain_id, ids=list(besides)))


_SETTLED = Prepared(
    select(subdomains.c.id).where(
        subdomains.c.id.in_(_THESE)
        & or_(
            subdomains.c.generation == subdomains.c.published_generation,
            subdomains.c.provision_error.is_not(None),
        )
    )
)


def list_settled(tx: Tx, subdomain_ids: Collection[int]) -> list[int]:
    """Of which of these names does the DNS follow the last change, or has refused to? Asked often, for those who wait for it."""
    return [row[0] for row in _SETTLED.all(tx, ids=list(subdomain_ids))]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many names wait for their publication, and since when the one that waits longest; None when none does."""

    names: int = 0
    oldest_at: datetime | None = None


def count_waiting(tx: Tx) -> dict[int, Waiting]:
    """How much waits for publication, by platform domain? Those where nothing does are left out."""
    rows = tx.connection.execute(
        select(subdomains.c.platform_domain_id, func.count(), func.min(subdomains.c.generation_at))
        .where(UNPUBLISHED)
        .group_by(subdomains.c.platform_domain_id)
    )
    return {row[0]: Waiting(row[1], row[2]) for row in rows}


def list_waiting_ids(tx: Tx, platform_domain_id: int) -> list[int]:
    """Return all names of this platform domain that wait for publication, due or not."""
    query = select(subdomains.c.id).where(
        (subdomains.c.platform_domain_id == platform_domain_id) & UNPUBLISHED
    )
    return [row[0] for row in tx.connection.execute(query)]


@dataclass(frozen=True, slots=True)
class Published:
    """That a generation of a subdomain stands in the zone, whose serial was this; the owners that are `gone` don't any more."""

    subdomain_id: int
    generation: int
    serial: int
    gone: frozenset[str]


def record_successes(tx: Tx, published: Iterable[Published]) -> frozenset[int]:
    """Record what stands in the zone; tell of which subdomains that is news (another publisher may have told it).

    The owners that are gone are forgotten only while the generation is still the current one: a newer one may have put
    them into the zone again.
    """
    by_id = {each.subdomain_id: each for each in published}
    rows = _GENERATIONS.all(tx, ids=list(by_id))
    newly = frozenset(row[0] for row in rows if row[2] < by_id[row[0]].generation)
    current = frozenset(row[0] for row in rows if row[1] == by_id[row[0]].generation)
    for change, ids in ((_PUBLISHED_AT_REST, newly & current), (_PUBLISHED, newly - current)):
        known = (by_id[each] for each in sorted(ids))
        change.run_many(
            tx,
            [
                {"of": each.subdomain_id, "now": each.generation, "by": each.serial, "at": tx.now}
                for each in known
            ],
        )
    _AT_REST.run_many(tx, [{"of": each} for each in sorted(current - newly)])
    store.delete_owners(tx, ((each, owner) for each in sorted(current) for owner in sorted(by_id[each].gone)))
    return newly


_GENERATIONS = Prepared(
    select(subdomains.c.id, subdomains.c.generation, subdomains.c.published_generation)
    .where(subdomains.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(subdomains.c.id)
    .with_for_update(key_share=True)
)
_OF_ONE = update(subdomains).where(subdomains.c.id == bindparam("of"))
_STANDS_IN_ZONE: dict[str, BindParameter[Any]] = {
    "published_generation": bindparam("now"),
    "published_at": bindparam("at"),
    "published_serial": bindparam("by"),
}
_NOTHING_LEFT_TO_DO = {"provision_error": None, "attempts": 0, "next_attempt_at": None}
_PUBLISHED = Prepared(_OF_ONE.values(_STANDS_IN_ZONE))
_AT_REST = Prepared(_OF_ONE.values(_NOTHING_LEFT_TO_DO))
_PUBLISHED_AT_REST = Prepared(_OF_ONE.values({**_STANDS_IN_ZONE, **_NOTHING_LEFT_TO_DO}))


def record_failure(
    tx: Tx, subdomain_id: int, generation: int, sentence: str, next_attempt_at: datetime
) -> bool:
    """Record why this generation could not be published; tell whether that counts: a newer one is left alone."""
    recorded = tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.id == subdomain_id) & (subdomains.c.generation == generation) & UNPUBLISHED)
        .values(provision_error=sentence, attempts=subdomains.c.attempts + 1, next_attempt_at=next_attempt_at)
    )
    return recorded.rowcount > 0


def republish(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Have these names published again, as they are stored: on a primary by the publisher, on the built-in name server at once."""
    for ids in _in_pieces(sorted(subdomain_ids)):
        tx.connection.execute(
            update(subdomains)
            .where(subdomains.c.id.in_(ids))
            .values(NEXT_GENERATION | {"updated_at": tx.now}),
            change_moment(tx.now),
        )


def _in_pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return items in the order that they have, so many at a time as one statement may name: a whole zone is more."""
    for start in range(0, len(items), NAMED_MAX):
        yield items[start : start + NAMED_MAX]


_SHORT = (
    *(subdomains.c[name] for name in PlacedName.__slots__ if name != "delegation"),
    subdomains.c.nameservers,
    subdomains.c.glue,
    subdomains.c.ds_records,
)


def stream_published(tx: Tx, platform_domain_id: int) -> Iterator[PlacedName]:
    """Which subdomains of this platform domain are not released, or still have something in the zone? One after the other."""
    query = select(*_SHORT).where(_not_released_or_in_zone(platform_domain_id)).execution_options(**STREAMED)
    for row in tx.connection.execute(query):
        *own, nameservers, glue, ds_records = row
        yield PlacedName(*own, read_delegation(nameservers, glue, ds_records))  # type: ignore[call-arg] # by its slots


def list_published(tx: Tx, platform_domain_id: int) -> list[Subdomain]:
    """The same as whole subdomains, all at once."""
    query = select_subdomains().where(_not_released_or_in_zone(platform_domain_id))
    return read_subdomains(Subdomain, tx.connection.execute(query))


def _not_released_or_in_zone(platform_domain_id: int) -> ColumnElement[bool]:
    owned = select(published_owners.c.subdomain_id)
    return (subdomains.c.platform_domain_id == platform_domain_id) & or_(
        subdomains.c.released_at.is_(None), subdomains.c.id.in_(owned)
    )


def find_ever_published(tx: Tx, platform_domain_id: int, fqdns: Container[str]) -> dict[str, int]:
    """Which of these names ever stood in the zone, under whatever row? Each with the id of its newest row."""
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


def find_holders(tx: Tx, fqdns: Collection[str]) -> dict[str, int]:
    """Which of these names are held, and by which row?"""
    found: dict[str, int] = {}
    for some in _in_pieces(sorted(fqdns)):
        held = subdomains.c.fqdn.in_(some) & subdomains.c.released_at.is_(None)
        rows = tx.connection.execute(select(subdomains.c.fqdn, subdomains.c.id).where(held))
        found |= {row[0]: row[1] for row in rows}
    return found


_OF_NAME = subdomains.c.fqdn == bindparam("name")
WAITS = (
    select(subdomains.c.id)
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED)
    .where((_OF_NAME & subdomains.c.released_at.is_(None)) | (_OF_NAME & RELEASED))  # each half has its index
)
"""The rows of a name of a platform domain that wait for their publication; for `free_name_store`."""
_WAITS = Prepared(WAITS.limit(1))


def is_waiting(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """Does any row of this name wait for its publication?"""
    return _WAITS.one_or_none(tx, of=platform_domain_id, name=fqdn) is not None
