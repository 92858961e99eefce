"""All SQL of subdomain rows: find, list, change and suspend them, their terms, and their owner names in the zone."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import chain, groupby, islice
from typing import Any, TypeVar

from msgspec.structs import replace
from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    column,
    delete,
    false,
    func,
    insert,
    literal,
    literal_column,
    not_,
    or_,
    select,
    table,
    true,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from sublet.accounts.store import users, within_names
from sublet.audit import Actor, AuditEvent, audit_events, list_events
from sublet.db import Pages, Prepared, Query, Tx
from sublet.dns.serial import served_serial, zone_seconds
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.ids import Position
from sublet.platform_domains.model import ADMIN, PlatformDomain
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, STREAMED, Instant, metadata, older, violates
from sublet.subdomains.lifecycle import RENEWAL_REST
from sublet.subdomains.milestones import dates_of
from sublet.subdomains.model import PlacedName, ShownSubdomain, Subdomain, SubdomainFilter, Term
from sublet.subdomains.naming import contains, needs_unicode, search_text

S = TypeVar("S", bound=ShownSubdomain)
T = TypeVar("T")

subdomains = Table(
    "subdomains",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("label", String(63), nullable=False),
    Column("fqdn", String(253), nullable=False),
    Column("registration_type", String(16), nullable=False),
    Column("registration_source", String(16), nullable=False),
    Column("nameservers", JSON, nullable=False),
    Column("glue", JSON, nullable=False),
    Column("ds_records", JSON, nullable=False),
    Column("nameserver_count", Integer, nullable=False),
    Column("ds_record_count", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("published_generation", Integer, nullable=False),
    Column("provision_error", Text),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Instant),
    Column("published_at", Instant),
    Column("published_serial", BIG_ID),
    Column("registered_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("last_renewed_at", Instant),
    Column("period_days", Integer, nullable=False),
    Column("suspended_at", Instant),
    Column("suspended_reason", Text),
    Column("trashed_at", Instant),
    Column("purged_at", Instant),
    Column("released_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("unsuspended_at", Instant),
    Column("due_at", Instant),
    Column("loss_at", Instant),
    Column("auto_renew_tried_at", Instant),
    Column("auto_renew_max_credits", BIG_ID),
    Column("generation_at", Instant),
    Column("held_with_user", Boolean, nullable=False, server_default=false()),
    Column("skeleton", String(253)),
    CheckConstraint("published_generation <= generation", name="generation"),
    CheckConstraint("purged_at IS NULL OR trashed_at IS NOT NULL", name="purged"),
    CheckConstraint("released_at IS NULL OR purged_at IS NOT NULL", name="released"),
    Index("ix_subdomains_user_id_created_at", "user_id", "created_at", "id"),
    sqlite_autoincrement=True,
)
Index(
    "uq_subdomains_fqdn_unreleased",
    subdomains.c.fqdn,
    unique=True,
    sqlite_where=subdomains.c.released_at.is_(None),
    postgresql_where=subdomains.c.released_at.is_(None),
)
_EVER_CHANGED = subdomains.c.generation_at.is_not(None)
# Only for `find_newest_change`: for other queries the index of a whole platform domain would be a bad choice.
Index(
    "ix_subdomains_platform_domain_id_generation_at",
    subdomains.c.platform_domain_id,
    subdomains.c.generation_at,
    sqlite_where=_EVER_CHANGED,
    postgresql_where=_EVER_CHANGED,
)
RELEASED = subdomains.c.released_at.is_not(None)
Index("ix_subdomains_fqdn_released", subdomains.c.fqdn, sqlite_where=RELEASED, postgresql_where=RELEASED)
_UNRELEASED_SKELETON = subdomains.c.released_at.is_(None) & subdomains.c.skeleton.is_not(None)
Index(
    "ix_subdomains_skeleton",
    subdomains.c.skeleton,
    sqlite_where=_UNRELEASED_SKELETON,
    postgresql_where=_UNRELEASED_SKELETON,
)
UNPUBLISHED = subdomains.c.generation != subdomains.c.published_generation
Index(
    "ix_subdomains_unpublished",
    subdomains.c.platform_domain_id,
    subdomains.c.generation_at,
    subdomains.c.id,
    sqlite_where=UNPUBLISHED,
    postgresql_where=UNPUBLISHED,
)

for _column in (subdomains.c.due_at, subdomains.c.loss_at):
    Index(
        f"ix_subdomains_{_column.name}",
        _column,
        sqlite_where=_column.is_not(None),
        postgresql_where=_column.is_not(None),
    )
FREE_AND_LIVE = and_(
    subdomains.c.registration_type == literal_column("'free'"), subdomains.c.trashed_at.is_(None)
)
Index(
    "ix_subdomains_user_id_free",
    subdomains.c.user_id,
    subdomains.c.registration_type,  # so that SQLite doesn't read the table for these two
    subdomains.c.trashed_at,
    sqlite_where=FREE_AND_LIVE,
    postgresql_where=FREE_AND_LIVE,
)
DATED_BY = frozenset(
    {
        "expires_at",
        "period_days",
        "last_renewed_at",
        "suspended_at",
        "unsuspended_at",
        "trashed_at",
        "purged_at",
        "released_at",
        "auto_renew_max_credits",
    }
)
"""The columns that `due_at` and `loss_at` depend on, beside the days of the platform domain (`edit_zone_settings.DAYS`)."""

_ELSEWHERE: dict[str, tuple[Column[Any], ...]] = {
    "domain": (platform_domains.c.domain,),
    "domain_public_name": (platform_domains.c.public_name,),
    "delegation": (subdomains.c.nameservers, subdomains.c.glue, subdomains.c.ds_records),
    "renewal_window_days": (platform_domains.c.renewal_window_days,),
    "grace_days": (platform_domains.c.grace_days,),
    "trash_days": (platform_domains.c.trash_days,),
    "cooling_off_days": (platform_domains.c.cooling_off_days,),
    "nameservers_min": (platform_domains.c.nameservers_min,),
    "nameservers_max": (platform_domains.c.nameservers_max,),
    "names_until": (platform_domains.c.names_until,),
}
_HEALTH = table("delegation_health", column("subdomain_id"), column("state"))
"""The table of `health/store.py`, which is above this folder."""
_DELEGATION = ShownSubdomain.__struct_fields__.index("delegation")
_NOT_RELEASED = subdomains.c.released_at.is_(None)
NOT_PURGED = subdomains.c.purged_at.is_(None)


def read_delegation(
    nameservers: list[str], glue: list[dict[str, Any]], ds_records: list[dict[str, Any]]
) -> Delegation:
    """Return the delegation from its three JSON columns."""
    return Delegation(
        tuple(nameservers),
        tuple(GlueEntry(**entry) for entry in glue),
        tuple(DsRecord(**entry) for entry in ds_records),
    )


def delegation_columns(delegation: Delegation) -> dict[str, Any]:
    """Return a delegation as its three JSON columns."""
    return {
        "nameservers": list(delegation.nameservers),
        "glue": [{"host": each.host, "ipv4": each.ipv4, "ipv6": each.ipv6} for each in delegation.glue],
        "ds_records": [
            {
                "key_tag": each.key_tag,
                "algorithm": each.algorithm,
                "digest_type": each.digest_type,
                "digest": each.digest,
            }
            for each in delegation.ds_records
        ],
    }


def _subdomain(row: Sequence[Any], of: type[S]) -> S:
    delegation = read_delegation(*row[_DELEGATION : _DELEGATION + 3])
    values = (*row[:_DELEGATION], delegation, *row[_DELEGATION + 3 :])
    return of(*values)


def select_subdomains(of: type[ShownSubdomain] = Subdomain) -> Select[Any]:
    """Return the query of all subdomains, with the columns of their platform domains that the rules need. Stores add conditions to it."""
    columns = (_ELSEWHERE.get(name) or (subdomains.c[name],) for name in of.__struct_fields__)
    return select(*chain.from_iterable(columns)).select_from(subdomains.join(platform_domains))


def read_subdomains(of: type[S], rows: Iterable[Sequence[Any]]) -> list[S]:
    """Return the subdomains from the rows of a query of `select_subdomains` with the same type."""
    return [_subdomain(row, of) for row in rows]


def stream(tx: Tx, query: Select[Any]) -> Iterator[Subdomain]:
    """Yield the subdomains that a query of `select_subdomains` finds, without holding all in memory."""
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield _subdomain(row, Subdomain)


# Built once, because nearly every request runs one: building a statement with this many columns takes longer than running it.
_BY_ID = Prepared(select_subdomains().where(subdomains.c.id == bindparam("subdomain_id")))
_UNRELEASED = Prepared(select_subdomains().where((subdomains.c.fqdn == bindparam("name")) & _NOT_RELEASED))
_OWN = (subdomains.c.user_id == bindparam("owner_id")) & NOT_PURGED
_OWN_BY_ID = _OWN & (subdomains.c.id == bindparam("subdomain_id"))
# A name that isn't purged isn't released. Without this condition the index of names isn't used, and all of the user's names are read.
_OWN_BY_NAME = _OWN & (subdomains.c.fqdn == bindparam("name")) & _NOT_RELEASED
_FIND_OWN_BY_ID = Prepared(select_subdomains().where(_OWN_BY_ID))
_FIND_OWN_BY_NAME = Prepared(select_subdomains().where(_OWN_BY_NAME))


def _shown(rows: Sequence[Sequence[Any]]) -> ShownSubdomain | None:
    return _subdomain(rows[0], ShownSubdomain) if rows else None


OWN_BY_ID = Query(select_subdomains(ShownSubdomain).where(_OWN_BY_ID), _shown)
"""The subdomain of the user `owner_id` with the id `subdomain_id`, live or in the trash."""
OWN_BY_NAME = Query(select_subdomains(ShownSubdomain).where(_OWN_BY_NAME), _shown)
"""The subdomain of the user `owner_id` with the fqdn `name`, live or in the trash."""


def _one(tx: Tx, query: Prepared, /, **parameters: object) -> Subdomain | None:
    row = query.one_or_none(tx, **parameters)
    return _subdomain(row, Subdomain) if row is not None else None


def find_subdomain(tx: Tx, subdomain_id: int) -> Subdomain | None:
    """Return the subdomain with this id in any state, or None."""
    return _one(tx, _BY_ID, subdomain_id=subdomain_id)


_BY_IDS = Prepared(select_subdomains().where(subdomains.c.id.in_(bindparam("subdomain_ids", expanding=True))))


def list_subdomains(tx: Tx, subdomain_ids: Iterable[int]) -> list[Subdomain]:
    """Return the subdomains with these ids, in any state."""
    return read_subdomains(Subdomain, _BY_IDS.all(tx, subdomain_ids=list(subdomain_ids)))


_LOCKED = Prepared(
    select(subdomains.c.id)
    .where(subdomains.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(subdomains.c.id)
    .with_for_update(key_share=True)
)


def lock_subdomains(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Lock these names in order of id, as every transaction does that changes several names (PostgreSQL)."""
    _LOCKED.lock(tx, ids=sorted(subdomain_ids))


def find_unreleased(tx: Tx, fqdn: str) -> Subdomain | None:
    """Return the subdomain that holds this name: live, in the trash or cooling off; or None."""
    return _one(tx, _UNRELEASED, name=fqdn)


def find_own(
    tx: Tx, user_id: int | None, *, subdomain_id: int | None = None, fqdn: str | None = None
) -> Subdomain | None:
    """Return a user's subdomain with this id or name, live or in the trash, or None. Not checked: the restrictions of a token."""
    if subdomain_id is not None:
        return _one(tx, _FIND_OWN_BY_ID, owner_id=user_id, subdomain_id=subdomain_id)
    return _one(tx, _FIND_OWN_BY_NAME, owner_id=user_id, name=fqdn)


_FREE = Prepared(
    select(func.count())
    .select_from(subdomains)
    .where((subdomains.c.user_id == bindparam("owner_id")) & FREE_AND_LIVE)
)


def count_free(tx: Tx, user_id: int) -> int:
    """Return the number of free names that a user holds. Those in the trash don't count."""
    return int(_FREE.value(tx, owner_id=user_id))


_NAMESERVERS = Prepared(
    select(subdomains.c.fqdn, subdomains.c.nameservers).where(
        subdomains.c.fqdn.in_(bindparam("names", expanding=True)) & NOT_PURGED
    )
)


def list_nameservers(tx: Tx, fqdns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the nameservers of those names that are registered, live or in the trash (from which they may be restored)."""
    rows = _NAMESERVERS.all(tx, names=list(fqdns))
    return {row[0]: tuple(row[1]) for row in rows}


_NEWEST_CHANGE = Prepared(
    select(func.max(subdomains.c.generation_at)).where(
        (subdomains.c.platform_domain_id == bindparam("of")) & _EVER_CHANGED
    )
)


def find_newest_change(tx: Tx, platform_domain_id: int) -> datetime | None:
    """Return when a name of this platform domain was last changed in the DNS."""
    return _NEWEST_CHANGE.one_or_none(tx, of=platform_domain_id)[0]  # type: ignore[no-any-return]


_DELEGATED = select(
    subdomains.c.fqdn, subdomains.c.nameservers, subdomains.c.glue, subdomains.c.ds_records
).where(
    (subdomains.c.platform_domain_id == bindparam("of"))
    & (subdomains.c.nameserver_count > 0)
    & subdomains.c.trashed_at.is_(None)
    & subdomains.c.suspended_at.is_(None)
    & NOT_PURGED
    & _NOT_RELEASED
)
_DELEGATIONS = Prepared(_DELEGATED.where(subdomains.c.fqdn.in_(bindparam("names", expanding=True))))


def find_delegations(tx: Tx, platform_domain_id: int, fqdns: Collection[str]) -> dict[str, Delegation]:
    """Return the delegations of those of these names that `is_delegated`."""
    if not fqdns:
        return {}
    rows = _DELEGATIONS.all(tx, of=platform_domain_id, names=list(fqdns))
    return {row[0]: read_delegation(*row[1:]) for row in rows}


def stream_delegations(tx: Tx, platform_domain_id: int) -> Iterator[tuple[str, Delegation]]:
    """Yield all names of a platform domain that `is_delegated`, in alphabetical order, each with its delegation."""
    query = _DELEGATED.order_by(subdomains.c.fqdn).execution_options(**STREAMED)
    for row in tx.connection.execute(query, {"of": platform_domain_id}):
        yield row[0], read_delegation(*row[1:])


_OF_NAME = subdomains.c.fqdn == bindparam("name")
_IDS_OF_NAME = Prepared(
    select(subdomains.c.id).where(
        (_OF_NAME & _NOT_RELEASED) | (_OF_NAME & RELEASED)
    )  # each half has its index
)


def list_ids_of_name(tx: Tx, fqdn: str) -> list[int]:
    """Return the ids of all rows of a name, of former holders too."""
    return [row[0] for row in _IDS_OF_NAME.all(tx, name=fqdn)]


def list_names_held(tx: Tx, fqdns: Collection[str]) -> list[str]:
    """Return those names that are registered, in the trash or cooling off."""
    query = select(subdomains.c.fqdn).where(subdomains.c.fqdn.in_(list(fqdns)) & _NOT_RELEASED)
    return [row[0] for row in tx.connection.execute(query.order_by(subdomains.c.fqdn))]


_ADDED = Prepared(insert(subdomains).returning(subdomains.c.id))


def insert_subdomain(
    tx: Tx, platform_domain: PlatformDomain, delegation: Delegation, **values: object
) -> Subdomain | None:
    """Add a subdomain, with its dates, and return it; None if another row holds the name (`uq_subdomains_fqdn_unreleased`)."""
    row = {
        **delegation_columns(delegation),
        **delegation_counts(delegation),
        **_publication(tx, platform_domain, values["generation"]),
        "attempts": 0,
        "created_at": tx.now,
        "updated_at": tx.now,
        "generation_at": tx.now,
        "platform_domain_id": platform_domain.id,
        **values,
    }
    added = _as_added(platform_domain, delegation, row)
    dates = dates_of(added, tx.now)
    try:
        subdomain_id = int(_ADDED.value(tx, **row, due_at=dates.due_at, loss_at=dates.loss_at))
    except IntegrityError as error:
        if violates(error, "uq_subdomains_fqdn_unreleased"):
            return None
        raise
    return replace(added, id=subdomain_id)


def _publication(tx: Tx, platform_domain: PlatformDomain, generation: object) -> dict[str, object]:
    """Return the columns of a new row's publication: with its commit on the built-in name server, later on a primary."""
    if platform_domain.primary or not generation:
        return {"published_generation": 0}
    return {
        "published_generation": generation,
        "published_at": tx.now,
        "published_serial": served_serial(platform_domain.serial, zone_seconds(tx.now)),
    }


def _as_added(platform_domain: PlatformDomain, delegation: Delegation, row: Mapping[str, Any]) -> Subdomain:
    """Return the subdomain that a new row stores, without its id: columns that are not given are null."""
    joined = {
        name: getattr(platform_domain, columns[0].name)
        for name, columns in _ELSEWHERE.items()
        if name != "delegation"
    }
    known = {**row, **joined, "id": 0, "delegation": delegation}
    values: list[Any] = [known.get(name) for name in Subdomain.__struct_fields__]
    return Subdomain(*values)


def delegation_counts(delegation: Delegation) -> dict[str, int]:
    """Return the columns with the number of a delegation's records."""
    return {"nameserver_count": len(delegation.nameservers), "ds_record_count": len(delegation.ds_records)}


_CHANGE = update(subdomains).where(subdomains.c.id == bindparam("of"))
_CHANGED = Prepared(_CHANGE)


def update_subdomain(tx: Tx, subdomain_id: int, **values: object) -> None:
    """Change columns of a subdomain, and its dates if they depend on one of these columns."""
    if "generation" in values:  # those of `NEXT_GENERATION`, which the prepared statement has
        given = {name: value for name, value in values.items() if name not in NEXT_GENERATION}
        _CHANGED_NEXT_GENERATION.run(tx, of=subdomain_id, updated_at=tx.now, **change_moment(tx.now), **given)
    else:
        _CHANGED.run(tx, of=subdomain_id, updated_at=tx.now, **values)
    if not DATED_BY.isdisjoint(values):
        redate(tx, [subdomain_id])


_SET_DATES = Prepared(_CHANGE.values(due_at=bindparam("due"), loss_at=bindparam("loss")))


def set_dates(tx: Tx, subdomain_id: int, *, due_at: datetime | None, loss_at: datetime | None) -> None:
    """Store when the sweep next looks at a name, and when the name is lost."""
    _SET_DATES.run(tx, of=subdomain_id, due=due_at, loss=loss_at)


def redate(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Compute and store the dates of these names, which the transaction has locked."""
    found = [(each.id, dates_of(each, tx.now)) for each in list_subdomains(tx, subdomain_ids)]
    _SET_DATES.run_many(
        tx, [{"of": each, "due": dates.due_at, "loss": dates.loss_at} for each, dates in found]
    )


_GENERATION = subdomains.c.generation + 1
_ZONE = platform_domains.c.id == subdomains.c.platform_domain_id
_IS_BUILT_IN = select(platform_domains.c.primary == "").where(_ZONE).scalar_subquery()
_SERIAL = (
    select(served_serial(platform_domains.c.serial, bindparam("zone_seconds", type_=BIG_ID)))
    .where(_ZONE)
    .scalar_subquery()
)
_AT = bindparam("changed_at", type_=Instant)
NEXT_GENERATION: dict[str, Any] = {
    "generation": _GENERATION,
    "generation_at": _AT,
    "published_generation": case((_IS_BUILT_IN, _GENERATION), else_=subdomains.c.published_generation),
    "published_at": case((_IS_BUILT_IN, _AT), else_=subdomains.c.published_at),
    "published_serial": case((_IS_BUILT_IN, _SERIAL), else_=subdomains.c.published_serial),
    "provision_error": None,
    "attempts": 0,
    "next_attempt_at": None,
}
"""The columns of the next generation. On a primary the publisher publishes it; on the built-in name server its commit does.

The database increments the generation: if two writers computed the same next one, one of their changes would count as published.
"""
_CHANGED_NEXT_GENERATION = Prepared(_CHANGE.values(NEXT_GENERATION))


def change_moment(now: datetime) -> dict[str, object]:
    """Return the parameters of `NEXT_GENERATION`, of a change made now."""
    return {"changed_at": now, "zone_seconds": zone_seconds(now)}


def followed_by_dns(subdomain: Subdomain) -> dict[str, Any]:
    """Return the columns of the next generation if the name is, or may be, in the DNS; else none."""
    return NEXT_GENERATION if subdomain.generation > 0 else {}


_TRASHED = subdomains.c.trashed_at.is_not(None)
_IN_TRASH, _LIVE = NOT_PURGED & _TRASHED, NOT_PURGED & ~_TRASHED
_OWN_PAGES = Pages(
    select_subdomains(ShownSubdomain).where((subdomains.c.user_id == bindparam("owner_id")) & _LIVE),
    subdomains.c.created_at,
    subdomains.c.id,
    lambda rows: read_subdomains(ShownSubdomain, rows),
)


def own_pages(actor: Actor, wanted: SubdomainFilter) -> Pages[ShownSubdomain] | None:
    """Return the list of the live subdomains of the user `owner_id`, newest first; None if filters or the token leave some out."""
    return _OWN_PAGES if wanted.is_empty and actor.restrictions.allows_all_names else None


def list_own(
    tx: Tx, actor: Actor, wanted: SubdomainFilter, limit: int, after: Position | None
) -> list[ShownSubdomain]:
    """Return the user's subdomains that match the filters and that the token is for, the newest first.

    Those in the trash only if the filter asks for them.
    """
    if (pages := own_pages(actor, wanted)) is not None:
        return pages.read(tx, limit, after, owner_id=actor.holder_id)
    query = _filtered(tx, select_subdomains(ShownSubdomain), wanted, actor.holder_id)
    query = query.where(within_names(actor.restrictions, subdomains.c.fqdn))
    if wanted.status == "trashed":
        query = query.where(_restorable_condition(tx))
    if after is not None:
        query = query.where(older(subdomains.c.created_at, subdomains.c.id, after))
    return _newest(tx, ShownSubdomain, query, wanted, limit)


def list_all(tx: Tx, wanted: SubdomainFilter, limit: int, *, user_id: int | None = None) -> list[Subdomain]:
    """Return the subdomains of all users, or of one, that match the filters, the newest first."""
    return _newest(tx, Subdomain, _filtered(tx, select_subdomains(), wanted, user_id), wanted, limit)


def _newest(tx: Tx, of: type[S], query: Select[Any], wanted: SubdomainFilter, limit: int) -> list[S]:
    """Return the newest names of a query. A search that needs Unicode forms, which the database doesn't have, filters the rows here."""
    query = query.order_by(subdomains.c.created_at.desc(), subdomains.c.id.desc())
    text = search_text(wanted.q or "")
    if not needs_unicode(text):
        return read_subdomains(of, tx.connection.execute(query.limit(limit)))
    with closing(tx.connection.execute(query.execution_options(**STREAMED))) as rows:
        found = (row for row in rows if contains(row.fqdn, text))
        return read_subdomains(of, islice(found, limit))


def stream_held(tx: Tx) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield the names that are held, live or in the trash: id, platform domain's id, label, fqdn and user's address."""
    query = (
        select(
            subdomains.c.id,
            subdomains.c.platform_domain_id,
            subdomains.c.label,
            subdomains.c.fqdn,
            users.c.email,
        )
        .select_from(subdomains.join(users))
        .where(NOT_PURGED)
        .order_by(subdomains.c.fqdn)
    )
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield row[0], row[1], row[2], row[3], row[4]


def _filtered(tx: Tx, query: Select[Any], wanted: SubdomainFilter, user_id: int | None) -> Select[Any]:
    if user_id is not None:
        query = query.where(subdomains.c.user_id == user_id)
    query = query.where(_IN_TRASH if wanted.status == "trashed" else _LIVE)
    if wanted.status not in (None, "trashed"):
        query = query.where(_status_condition(tx, str(wanted.status)))
    if wanted.domain is not None:
        query = query.where(platform_domains.c.domain == wanted.domain)
    if wanted.q is not None:
        text = search_text(wanted.q)
        found = subdomains.c.fqdn.contains(text, autoescape=True)
        query = query.where(found | subdomains.c.fqdn.contains("xn--") if needs_unicode(text) else found)
    query = query.where(*_own_conditions(wanted))
    if wanted.renewal_available is not None:
        renewable = false() if wanted.user_suspended else _renewal_condition(tx, user_id)
        query = query.where(renewable if wanted.renewal_available else not_(renewable))
    return query


def _own_conditions(wanted: SubdomainFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of the filters that depend on the name alone, and on no clock."""
    if wanted.registration_type is not None:
        yield subdomains.c.registration_type == wanted.registration_type
    if wanted.expires_before is not None:
        yield subdomains.c.expires_at < wanted.expires_before
    if wanted.expires_after is not None:
        yield subdomains.c.expires_at > wanted.expires_after
    if wanted.dnssec_enabled is not None:
        signed = subdomains.c.ds_record_count > 0
        yield signed if wanted.dnssec_enabled else ~signed
    if wanted.health is not None:
        yield _health_condition(wanted.health)


def _health_condition(state: str) -> ColumnElement[bool]:
    """Return the condition for a state of `delegation_health`; names that were never looked at are unknown."""
    known = select(_HEALTH.c.subdomain_id).where(_HEALTH.c.subdomain_id == subdomains.c.id)
    if state == "unknown":
        return ~known.where(_HEALTH.c.state != "unknown").exists()
    return known.where(_HEALTH.c.state == state).exists()


def _restorable_condition(tx: Tx) -> ColumnElement[bool]:
    """Return `lifecycle.is_restorable` in SQL, for names in the trash."""
    days = platform_domains.c.trash_days
    since = _instants(days, tx.connection.execute(select(days).distinct()).scalars(), lambda of: tx.now - of)
    return or_(
        subdomains.c.suspended_at.is_not(None),
        subdomains.c.trashed_at > since,
        subdomains.c.unsuspended_at > since,
    )


def _renewal_condition(tx: Tx, user_id: int | None) -> ColumnElement[bool]:
    """Return `lifecycle.renewal_available` in SQL, for filtering. A test compares the two."""
    window, period = platform_domains.c.renewal_window_days, subdomains.c.period_days
    days = case((window < period, window), else_=period)
    of_these = true() if user_id is None else subdomains.c.user_id == user_id
    in_use = select(days).select_from(subdomains.join(platform_domains)).where(of_these).distinct()
    open_until = _instants(days, tx.connection.execute(in_use).scalars(), lambda of: tx.now + of)
    rested = or_(
        subdomains.c.last_renewed_at.is_(None), subdomains.c.last_renewed_at <= tx.now - RENEWAL_REST
    )
    return and_(
        subdomains.c.registration_type != ADMIN,
        subdomains.c.suspended_at.is_(None),
        subdomains.c.trashed_at.is_(None),
        platform_domains.c.names_until.is_(None),
        rested,
        subdomains.c.expires_at <= open_until,
    )


def _instants(
    days: ColumnElement[int], in_use: Iterable[int], instant: Callable[[timedelta], datetime]
) -> ColumnElement[datetime]:
    """Return the instant for each row's number of days. The databases differ in date arithmetic, so it is computed here for each number in use.

    One CASE instead of a condition for each number, of which SQLite does not allow a thousand.
    """
    of_days = {each: literal(instant(timedelta(days=each)), Instant()) for each in in_use}
    return case(of_days, value=days) if of_days else literal(None, Instant())


def _status_condition(tx: Tx, status: str) -> ColumnElement[bool]:
    """Return `lifecycle.derive_status` in SQL, for filtering. A test compares the two."""
    suspended = subdomains.c.suspended_at.is_not(None)
    expired = subdomains.c.expires_at <= tx.now
    failed = UNPUBLISHED & subdomains.c.provision_error.is_not(None)
    inactive = subdomains.c.nameserver_count == 0
    chain = [("suspended", suspended), ("expired", expired), ("failed", failed)]
    chain += [("provisioning", UNPUBLISHED), ("inactive", inactive), ("active", ~inactive)]
    names = [name for name, _ in chain]
    position = names.index(status)
    return and_(chain[position][1], *(~condition for _, condition in chain[:position]))


terms = Table(
    "terms",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("action", String(16), nullable=False),
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    Column("charged_credits", BIG_ID, nullable=False),
    Column("transfer_id", ForeignKey("transfers.id"), unique=True),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("ends_at > starts_at", name="order"),
    CheckConstraint("(charged_credits > 0) = (transfer_id IS NOT NULL)", name="charge"),
    Index("uq_terms_subdomain_id_starts_at", "subdomain_id", "starts_at", unique=True),
    sqlite_autoincrement=True,
)


# Built once, because they run at every registration or timeline.
_TERM_ADDED = Prepared(insert(terms))
_NEWEST_TERMS = Prepared(
    select(*(terms.c[name] for name in Term.__slots__))
    .where(terms.c.subdomain_id == bindparam("of"))
    .order_by(terms.c.id.desc())
    .limit(bindparam("at_most", type_=Integer))
)


def insert_term(tx: Tx, **values: object) -> None:
    """Add a term of a name. Two terms of a name can't start at the same instant."""
    _TERM_ADDED.run(tx, **{"created_at": tx.now, **values})


def list_terms(tx: Tx, subdomain_id: int, limit: int) -> list[Term]:
    """Return the newest terms of a name up to a limit, the oldest first."""
    rows = _NEWEST_TERMS.all(tx, of=subdomain_id, at_most=limit)
    return [Term(*row) for row in rows][::-1]


published_owners = Table(
    "published_owners",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("owner", String(253), nullable=False),
    Column("sent", Boolean, nullable=False),
    PrimaryKeyConstraint("subdomain_id", "owner"),
)
"""The owner names that are, or may be, in the zone because of us. Written before anything is sent.

`sent` is true once a change of the zone had them. Until then, records at the owner name are not ours.
"""


def list_published_owners(tx: Tx, subdomain_id: int) -> frozenset[str]:
    """Return the owner names of a subdomain that are, or may be, in the zone."""
    return frozenset(list_owners(tx, [subdomain_id])[subdomain_id])


_OWNERS = Prepared(
    select(published_owners.c.subdomain_id, published_owners.c.owner, published_owners.c.sent).where(
        published_owners.c.subdomain_id.in_(bindparam("ids", expanding=True))
    )
)


def list_owners(tx: Tx, subdomain_ids: Collection[int]) -> dict[int, dict[str, bool]]:
    """Return the owner names of these subdomains that are, or may be, in the zone, each with `sent`."""
    rows = _OWNERS.all(tx, ids=list(subdomain_ids))
    found: dict[int, dict[str, bool]] = {each: {} for each in subdomain_ids}
    for subdomain_id, owner, sent in rows:
        found[subdomain_id][owner] = sent
    return found


def list_published_owners_of_zone(
    tx: Tx, platform_domain_id: int, *, only_sent: bool = False
) -> dict[str, int]:
    """Return the owner names in a zone that are, or may be, ours, each with its subdomain's id (the newest of several).

    With `only_sent` those that no change of the zone had are left out.
    """
    query = (
        select(published_owners.c.owner, published_owners.c.subdomain_id)
        .join(subdomains)
        .where(subdomains.c.platform_domain_id == platform_domain_id)
        .order_by(published_owners.c.subdomain_id)
        .execution_options(**STREAMED)
    )
    if only_sent:
        query = query.where(published_owners.c.sent == true())
    return {row[0]: row[1] for row in tx.connection.execute(query)}


_WRITTEN_AHEAD = Prepared(insert(published_owners))


def insert_published_owners(tx: Tx, owners: Iterable[tuple[int, str]], *, sent: bool = False) -> None:
    """Record in advance that these owner names, each with its subdomain's id, may be in the zone from now on."""
    rows = [
        {"subdomain_id": subdomain_id, "owner": owner, "sent": sent} for subdomain_id, owner in sorted(owners)
    ]
    _WRITTEN_AHEAD.run_many(tx, rows)


_THIS_OWNER = (published_owners.c.subdomain_id == bindparam("of")) & (
    published_owners.c.owner == bindparam("at")
)
_OWNER_SENT = Prepared(update(published_owners).where(_THIS_OWNER).values(sent=True))


def mark_owners_sent(tx: Tx, owners: Collection[tuple[int, str]]) -> None:
    """Record that a change of the zone had these owner names, each with its subdomain's id.

    Adds those that were deleted as unsent before it was known that the change had been applied.
    """
    known = list_owners(tx, {subdomain_id for subdomain_id, _ in owners})
    insert_published_owners(tx, ((of, at) for of, at in owners if at not in known[of]))
    _OWNER_SENT.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def delete_unsent_owners(tx: Tx, subdomain_id: int) -> None:
    """Delete the owner names of a subdomain that no change of the zone had. Records there are not ours."""
    tx.connection.execute(
        delete(published_owners).where(
            (published_owners.c.subdomain_id == subdomain_id) & (published_owners.c.sent == false())
        )
    )


_OWNER_GONE = Prepared(delete(published_owners).where(_THIS_OWNER))


def delete_owners(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Delete these owner names, each with its subdomain's id, which are no longer in the zone."""
    _OWNER_GONE.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def delete_owners_of_zone(tx: Tx, platform_domain_id: int) -> None:
    """Delete all owner names of a zone, which is on the built-in name server from now on."""
    of_zone = select(subdomains.c.id).where(subdomains.c.platform_domain_id == platform_domain_id)
    tx.connection.execute(delete(published_owners).where(published_owners.c.subdomain_id.in_(of_zone)))


def move_published_owner(tx: Tx, owner: str, of: int, to: int) -> None:
    """Record that this subdomain has to remove the records at an owner name, instead of the subdomain `of`."""
    at_owner = published_owners.c.owner == owner
    tx.connection.execute(
        delete(published_owners).where(at_owner & published_owners.c.subdomain_id.in_([of, to]))
    )
    tx.connection.execute(insert(published_owners).values(subdomain_id=to, owner=owner, sent=True))


def was_published(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """True if the zone had this name under a row that is released now."""
    query = select(subdomains.c.id).where(
        RELEASED
        & (subdomains.c.fqdn == fqdn)
        & (subdomains.c.platform_domain_id == platform_domain_id)
        & (subdomains.c.published_generation > 0)
    )
    return tx.connection.execute(query.limit(1)).first() is not None


def settle_generation(tx: Tx, subdomain_id: int, generation: int) -> None:
    """Record that a generation needs no publishing, without an attempt."""
    tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.id == subdomain_id) & (subdomains.c.generation == generation))
        .values(
            published_generation=generation,
            provision_error=None,
            attempts=0,
            next_attempt_at=None,
            updated_at=tx.now,
        )
    )


_ANOTHERS = (subdomains.c.user_id != bindparam("asking")) & subdomains.c.released_at.is_(None)
# A skeleton that equals the label, as most do, is not stored: the index of names finds it.
_HELD_LOOK_ALIKES = Prepared(
    union_all(
        select(subdomains.c.id).where((subdomains.c.fqdn == bindparam("name")) & _ANOTHERS),
        select(subdomains.c.id).where(
            (subdomains.c.skeleton == bindparam("looks"))
            & (subdomains.c.platform_domain_id == bindparam("of"))
            & _ANOTHERS
        ),
    )
)


def is_look_alike_held(tx: Tx, platform_domain: PlatformDomain, skeleton: str, user_id: int) -> bool:
    """True if another user holds a name with this skeleton under the platform domain: live, in the trash or cooling off."""
    name = f"{skeleton}.{platform_domain.domain}"
    return bool(_HELD_LOOK_ALIKES.all(tx, asking=user_id, name=name, looks=skeleton, of=platform_domain.id))


def list_look_alikes(
    tx: Tx, platform_domain: PlatformDomain, skeleton: str, user_id: int, besides_id: int
) -> list[str]:
    """Return the labels of other users' names with this skeleton under the platform domain, besides one name."""
    name = f"{skeleton}.{platform_domain.domain}"
    rows = _HELD_LOOK_ALIKES.all(tx, asking=user_id, name=name, looks=skeleton, of=platform_domain.id)
    ids = {row[0] for row in rows} - {besides_id}
    return [each.label for each in list_subdomains(tx, ids)] if ids else []


_SUSPENSION_ACTIONS = ("suspend", "unsuspend")
_TRANSFER = "subdomain.transfer"


def _suspendable(user_id: int) -> ColumnElement[bool]:
    return (subdomains.c.user_id == user_id) & NOT_PURGED & subdomains.c.suspended_at.is_(None)


def _held_with(user_id: int) -> ColumnElement[bool]:
    return (subdomains.c.user_id == user_id) & NOT_PURGED & subdomains.c.held_with_user


def list_suspendable(tx: Tx, user_id: int) -> Iterator[Subdomain]:
    """Return a user's names, live or in the trash, that are not suspended, locked and in order of id."""
    return _locked(tx, _suspendable(user_id))


def list_held_with(tx: Tx, user_id: int) -> Iterator[Subdomain]:
    """Return a user's names, live or in the trash, that were suspended with the user, locked and in order of id."""
    return _locked(tx, _held_with(user_id))


def _locked(tx: Tx, wanted: ColumnElement[bool]) -> Iterator[Subdomain]:
    # First the locks, in order of id as always; then the rows as they are under the locks.
    order = select(subdomains.c.id).where(wanted).order_by(subdomains.c.id)
    tx.connection.execute(order.with_for_update(key_share=True)).all()
    return stream(tx, select_subdomains().where(wanted).order_by(subdomains.c.id))


def suspend_all(tx: Tx, user_id: int, reason: str) -> None:
    """Suspend the names of `list_suspendable` with their user."""
    _change_suspension(
        tx, _suspendable(user_id), suspended_at=tx.now, suspended_reason=reason, held_with_user=True
    )


def unsuspend_all(tx: Tx, user_id: int) -> None:
    """Lift the suspension of the names of `list_held_with`."""
    _change_suspension(
        tx,
        _held_with(user_id),
        suspended_at=None,
        suspended_reason=None,
        held_with_user=False,
        unsuspended_at=tx.now,
    )


def keep_suspended(tx: Tx, user_id: int) -> None:
    """Keep the names of `list_held_with` suspended on their own."""
    tx.connection.execute(update(subdomains).where(_held_with(user_id)).values(held_with_user=False))


def _change_suspension(tx: Tx, wanted: ColumnElement[bool], **values: Any) -> None:
    """Change names, and have the sweep check their dates. Those that are or may be in the DNS get their next generation."""
    changed = values | {"updated_at": tx.now, "due_at": tx.now}
    in_dns = subdomains.c.generation > 0
    next_ones = update(subdomains).where(wanted & in_dns).values(**changed, **NEXT_GENERATION)
    tx.connection.execute(next_ones, change_moment(tx.now))
    tx.connection.execute(update(subdomains).where(wanted & ~in_dns).values(**changed))


def list_suspensions(tx: Tx, user_id: int) -> list[AuditEvent]:
    """Return the audit events of suspensions of a user, and of names in any state while they were the user's, the oldest first."""
    once_held = (subdomains.c.user_id == user_id) | subdomains.c.id.in_(_moved_from(user_id))
    found = list_events(tx, "user", [user_id], [f"user.{each}" for each in _SUSPENSION_ACTIONS])
    of_names = list_events(
        tx,
        "subdomain",
        select(subdomains.c.id).where(once_held),
        [_TRANSFER, *(f"subdomain.{each}" for each in _SUSPENSION_ACTIONS)],
    )
    query = select(subdomains.c.id, subdomains.c.user_id).where(once_held)
    holders = {row[0]: row[1] for row in tx.connection.execute(query)}
    # Backwards from the present user, because each transfer tells who held the name before it.
    for event in reversed(of_names):
        if event.action == _TRANSFER and event.before is not None:
            holders[event.object_id] = event.before["user_id"]
        elif holders[event.object_id] == user_id:
            found.append(event)
    return sorted(found, key=lambda event: event.id)


def _moved_from(user_id: int) -> Select[tuple[int]]:
    """Return the query of the ids of names that were transferred from a user. It reads all transfers."""
    events = audit_events.c
    is_transfer = (events.object_type == "subdomain") & (events.action == _TRANSFER)
    return select(events.object_id).where(is_transfer & (events.before["user_id"].as_integer() == user_id))


# Publication

NAMED_MAX = 1000
"""How many rows one statement names at most, by their ids or names."""


def in_pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in their order, at most `NAMED_MAX` at a time: a whole zone is too many for one statement."""
    for start in range(0, len(items), NAMED_MAX):
        yield items[start : start + NAMED_MAX]


_SETTLED = Prepared(
    select(subdomains.c.id).where(
        subdomains.c.id.in_(bindparam("ids", expanding=True))
        & or_(
            subdomains.c.generation == subdomains.c.published_generation,
            subdomains.c.provision_error.is_not(None),
        )
    )
)


def list_settled(tx: Tx, subdomain_ids: Collection[int]) -> list[int]:
    """Return those of these names whose last change is published or has failed."""
    return [row[0] for row in _SETTLED.all(tx, ids=list(subdomain_ids))]


def list_waiting_ids(tx: Tx, platform_domain_id: int) -> list[int]:
    """Return all names of this platform domain that wait for publication, due or not."""
    query = select(subdomains.c.id).where(
        (subdomains.c.platform_domain_id == platform_domain_id) & UNPUBLISHED
    )
    return [row[0] for row in tx.connection.execute(query)]


def republish(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Have these names published again, as they are stored: on a primary by the publisher, on the built-in name server at once."""
    for ids in in_pieces(sorted(subdomain_ids)):
        tx.connection.execute(
            update(subdomains)
            .where(subdomains.c.id.in_(ids))
            .values(NEXT_GENERATION | {"updated_at": tx.now}),
            change_moment(tx.now),
        )


_SHORT = (
    *(subdomains.c[name] for name in PlacedName.__slots__ if name != "delegation"),
    subdomains.c.nameservers,
    subdomains.c.glue,
    subdomains.c.ds_records,
)


def stream_published(tx: Tx, platform_domain_id: int) -> Iterator[PlacedName]:
    """Yield the names of a platform domain that are not released, or may still have records in its zone on a primary."""
    query = select(*_SHORT).where(_not_released_or_in_zone(platform_domain_id)).execution_options(**STREAMED)
    for row in tx.connection.execute(query):
        *own, nameservers, glue, ds_records = row
        yield PlacedName(*own, read_delegation(nameservers, glue, ds_records))  # type: ignore[call-arg] # by its slots


def list_published(tx: Tx, platform_domain_id: int) -> list[Subdomain]:
    """Return the same as a list of whole subdomains."""
    query = select_subdomains().where(_not_released_or_in_zone(platform_domain_id))
    return read_subdomains(Subdomain, tx.connection.execute(query))


def _not_released_or_in_zone(platform_domain_id: int) -> ColumnElement[bool]:
    owned = select(published_owners.c.subdomain_id)
    return (subdomains.c.platform_domain_id == platform_domain_id) & or_(
        subdomains.c.released_at.is_(None), subdomains.c.id.in_(owned)
    )


def count_held(tx: Tx, platform_domain_id: int) -> tuple[int, int, int]:
    """Return how many names of a platform domain are live, in the trash, and cooling off."""
    state = case((~_TRASHED, "live"), (NOT_PURGED, "trash"), else_="cooling_off")
    query = (
        select(state, func.count())
        .where((subdomains.c.platform_domain_id == platform_domain_id) & _NOT_RELEASED)
        .group_by(state)
    )
    found = {row[0]: int(row[1]) for row in tx.connection.execute(query)}
    return found.get("live", 0), found.get("trash", 0), found.get("cooling_off", 0)


def count_paid_beyond(tx: Tx, platform_domain_id: int, until: datetime) -> tuple[int, datetime | None]:
    """Return how many names of a platform domain cost credits and expire after an instant, and the last expiry."""
    query = select(func.count(), func.max(subdomains.c.expires_at)).where(
        (subdomains.c.platform_domain_id == platform_domain_id)
        & NOT_PURGED
        & (subdomains.c.expires_at > until)
        & (subdomains.c.registration_type != "free")
    )
    count, last = tx.connection.execute(query).one()
    return int(count), last


def stream_holders(tx: Tx, platform_domain_id: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each user who holds names of a platform domain, live or in the trash, with these names."""
    query = (
        select(subdomains.c.user_id, subdomains.c.fqdn)
        .where((subdomains.c.platform_domain_id == platform_domain_id) & NOT_PURGED)
        .order_by(subdomains.c.user_id, subdomains.c.fqdn)
        .execution_options(**STREAMED)
    )
    for user_id, rows in groupby(tx.connection.execute(query), key=lambda row: row[0]):
        yield user_id, [row[1] for row in rows]


WAITS = (
    select(subdomains.c.id)
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED)
    .where((_OF_NAME & subdomains.c.released_at.is_(None)) | (_OF_NAME & RELEASED))  # each half has its index
)
"""The rows of a name of a platform domain that wait for publication."""
_WAITS = Prepared(WAITS.limit(1))


def is_waiting(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """True if a row of this name waits for publication."""
    return _WAITS.one_or_none(tx, of=platform_domain_id, name=fqdn) is not None
