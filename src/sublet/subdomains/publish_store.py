"""All SQL of publishing: which names wait, what of them is or may be in the zone, and what came of an attempt."""

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from sublet.db import Tx
from sublet.platform_domains.store import platform_domains
from sublet.platform_domains.zone_state_store import REST_MAX
from sublet.schema import STREAMED, metadata
from sublet.subdomains.model import PlacedName, Subdomain
from sublet.subdomains.store import (
    RELEASED,
    UNPUBLISHED,
    fetch,
    next_generation,
    read_delegation,
    select_subdomains,
    subdomains,
)

IDS_MAX = 1000
"""How many ids one statement has at most."""

published_owners = Table(
    "published_owners",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("owner", String(253), nullable=False),
    Column("sent", Boolean, nullable=False),
    PrimaryKeyConstraint("subdomain_id", "owner"),
)
"""The owner names that are, or may be, in the zone by our hand: written ahead, before anything is sent.

`sent` tells that a change of the zone had them; until then what stands there is somebody else's.
"""


# What is asked several times a second, or of each batch, is built once, as in `store.py`.
# A next attempt further away than the longest pause was set by a clock that was wrong.
_DUE = or_(
    subdomains.c.next_attempt_at.is_(None),
    subdomains.c.next_attempt_at <= bindparam("now"),
    subdomains.c.next_attempt_at > bindparam("now_and_longest"),
)
# Not by `exists`: PostgreSQL takes nearly all names for unpublished, and would read them until it finds one. In an order, it asks the index.
_WAITING_PLATFORM_DOMAINS = select(platform_domains.c.id).where(
    select(subdomains.c.id)
    .where((subdomains.c.platform_domain_id == platform_domains.c.id) & UNPUBLISHED & _DUE)
    .order_by(subdomains.c.generation_at, subdomains.c.id)
    .limit(1)
    .scalar_subquery()
    .is_not(None)
)
_WAITING = (
    select_subdomains()
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED & _DUE)
    .order_by(subdomains.c.generation_at, subdomains.c.id)
    .limit(bindparam("at_most", type_=Integer))
)


def _due(tx: Tx) -> dict[str, object]:
    return {"now": tx.now, "now_and_longest": tx.now + REST_MAX}


def list_waiting_platform_domain_ids(tx: Tx) -> list[int]:
    """Under which platform domains does a name wait whose time for an attempt has come?

    Asked several times a second: the first name of each ends the search, however many wait.
    """
    rows = tx.connection.execute(_WAITING_PLATFORM_DOMAINS, _due(tx))
    return sorted(row[0] for row in rows)


def list_waiting(
    tx: Tx,
    platform_domain_id: int,
    limit: int,
    among: Collection[int] | None = None,
    besides: Collection[int] = (),
) -> list[Subdomain]:
    """Which names of this platform domain wait for publication? Those longest unchanged first: a fair order.

    `among` are the ids of those that are asked about, None for all; `besides` of those that are not.
    """
    query = _WAITING
    if among is not None:
        query = query.where(subdomains.c.id.in_(list(among)))
    if besides:
        query = query.where(subdomains.c.id.not_in(list(besides)))
    return fetch(tx, query, **_due(tx), of=platform_domain_id, at_most=limit)


_SETTLED = select(
    or_(
        subdomains.c.generation == subdomains.c.published_generation,
        subdomains.c.provision_error.is_not(None),
    )
).where(subdomains.c.id == bindparam("subdomain_id"))


def is_settled(tx: Tx, subdomain_id: int) -> bool:
    """Does the DNS follow this name's last change, or has it refused to? Asked often by those who wait for it."""
    return bool(tx.connection.execute(_SETTLED, {"subdomain_id": subdomain_id}).scalar_one())


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


def list_published_owners(tx: Tx, subdomain_id: int) -> frozenset[str]:
    """Which owner names of this subdomain are, or may be, in the zone?"""
    query = select(published_owners.c.owner).where(published_owners.c.subdomain_id == subdomain_id)
    return frozenset(row[0] for row in tx.connection.execute(query))


_OWNERS = select(published_owners.c.subdomain_id, published_owners.c.owner, published_owners.c.sent).where(
    published_owners.c.subdomain_id.in_(bindparam("ids", expanding=True))
)


def list_owners(tx: Tx, subdomain_ids: Collection[int]) -> dict[int, dict[str, bool]]:
    """Which owner names of these subdomains are, or may be, in the zone, and had a change of the zone them already?"""
    rows = tx.connection.execute(_OWNERS, {"ids": list(subdomain_ids)})
    found: dict[int, dict[str, bool]] = {each: {} for each in subdomain_ids}
    for subdomain_id, owner, sent in rows:
        found[subdomain_id][owner] = sent
    return found


def list_published_owners_of_zone(
    tx: Tx, platform_domain_id: int, *, only_sent: bool = False
) -> dict[str, int]:
    """Which owner names of this zone are ours, or may be? Each with its subdomain's id (the newest, of several).

    With `only_sent` those at which nothing was ever put are left out.
    """
    query = (
        select(published_owners.c.owner, published_owners.c.subdomain_id)
        .join(subdomains)
        .where(subdomains.c.platform_domain_id == platform_domain_id)
        .order_by(published_owners.c.subdomain_id)
    )
    if only_sent:
        query = query.where(published_owners.c.sent == true())
    return {row[0]: row[1] for row in tx.connection.execute(query)}


_WRITTEN_AHEAD = insert(published_owners)


def insert_published_owners(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Write ahead that these owner names, each given with its subdomain's id, may be in the zone from now on."""
    rows = [
        {"subdomain_id": subdomain_id, "owner": owner, "sent": False}
        for subdomain_id, owner in sorted(owners)
    ]
    if rows:
        tx.connection.execute(_WRITTEN_AHEAD, rows)


_THIS_OWNER = (published_owners.c.subdomain_id == bindparam("of")) & (
    published_owners.c.owner == bindparam("at")
)
_SENT = update(published_owners).where(_THIS_OWNER).values(sent=True)


def mark_owners_sent(tx: Tx, owners: Collection[tuple[int, str]]) -> None:
    """Record that a change of the zone had these owner names, each given with its subdomain's id.

    Those that were forgotten as unsent, while it was not known that the change was applied after all, are known again.
    """
    known = list_owners(tx, {subdomain_id for subdomain_id, _ in owners})
    insert_published_owners(tx, ((of, at) for of, at in owners if at not in known[of]))
    rows = [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners]
    if rows:
        tx.connection.execute(_SENT, rows)


def mark_sent(tx: Tx, subdomain_ids: Collection[int]) -> None:
    """Record that a change of the zone has all owner names of these subdomains."""
    tx.connection.execute(
        update(published_owners)
        .where(
            published_owners.c.subdomain_id.in_(list(subdomain_ids)) & (published_owners.c.sent == false())
        )
        .values(sent=True)
    )


def delete_unsent_owners(tx: Tx, subdomain_id: int) -> None:
    """Forget the owner names of this subdomain that no change of the zone had: what stands there isn't ours."""
    tx.connection.execute(
        delete(published_owners).where(
            (published_owners.c.subdomain_id == subdomain_id) & (published_owners.c.sent == false())
        )
    )


def list_waiting_generations(tx: Tx, subdomain_ids: Collection[int]) -> dict[int, int]:
    """Which generation of these subdomains waits for its publication? Those of which none does are left out."""
    rows = tx.connection.execute(
        select(subdomains.c.id, subdomains.c.generation).where(
            subdomains.c.id.in_(list(subdomain_ids)) & UNPUBLISHED
        )
    )
    return {row[0]: row[1] for row in rows}


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
    rows = tx.connection.execute(_GENERATIONS, {"ids": list(by_id)}).all()
    newly = [by_id[row[0]] for row in rows if row[2] < by_id[row[0]].generation]
    current = [by_id[row[0]] for row in rows if row[1] == by_id[row[0]].generation]
    if newly:
        known = ((each.subdomain_id, each.generation, each.serial) for each in newly)
        facts = [{"of": of, "now": now, "by": by, "at": tx.now} for of, now, by in known]
        tx.connection.execute(_PUBLISHED, facts)
    if current:
        tx.connection.execute(_NOTHING_LEFT_TO_DO, [{"of": each.subdomain_id} for each in current])
    gone = [{"of": each.subdomain_id, "at": owner} for each in current for owner in sorted(each.gone)]
    if gone:
        tx.connection.execute(_GONE, gone)
    return frozenset(each.subdomain_id for each in newly)


_GENERATIONS = (
    select(subdomains.c.id, subdomains.c.generation, subdomains.c.published_generation)
    .where(subdomains.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(subdomains.c.id)
    .with_for_update(key_share=True)
)
_PUBLISHED = (
    update(subdomains)
    .where(subdomains.c.id == bindparam("of"))
    .values(
        published_generation=bindparam("now"), published_at=bindparam("at"), published_serial=bindparam("by")
    )
)
_NOTHING_LEFT_TO_DO = (
    update(subdomains)
    .where(subdomains.c.id == bindparam("of"))
    .values(provision_error=None, attempts=0, next_attempt_at=None)
)
_GONE = delete(published_owners).where(_THIS_OWNER)


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
    """Have these names published anew, as they are stored."""
    ids = sorted(subdomain_ids)
    for start in range(0, len(ids), IDS_MAX):  # a whole zone is more than one statement may have
        tx.connection.execute(
            update(subdomains)
            .where(subdomains.c.id.in_(ids[start : start + IDS_MAX]))
            .values(updated_at=tx.now, **next_generation(tx.now))
        )


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
    return fetch(tx, select_subdomains().where(_not_released_or_in_zone(platform_domain_id)))


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
    rows = tx.connection.execute(
        select(subdomains.c.fqdn, subdomains.c.id).where(
            subdomains.c.fqdn.in_(list(fqdns)) & subdomains.c.released_at.is_(None)
        )
    )
    return {row[0]: row[1] for row in rows}


_OF_NAME = subdomains.c.fqdn == bindparam("name")
_WAITS = (
    select(subdomains.c.id)
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED)
    .where((_OF_NAME & subdomains.c.released_at.is_(None)) | (_OF_NAME & RELEASED))  # each half has its index
    .limit(1)
)


def is_waiting(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """Does any row of this name wait for its publication?"""
    return tx.connection.execute(_WAITS, {"of": platform_domain_id, "name": fqdn}).first() is not None


def move_published_owner(tx: Tx, owner: str, of: int, to: int) -> None:
    """Record that what stands at an owner is this subdomain's to remove, by our hand, whoever had it before."""
    at_owner = published_owners.c.owner == owner
    tx.connection.execute(
        delete(published_owners).where(at_owner & published_owners.c.subdomain_id.in_([of, to]))
    )
    tx.connection.execute(insert(published_owners).values(subdomain_id=to, owner=owner, sent=True))
