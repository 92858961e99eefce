"""All SQL of subdomains as the registrant and the operator see them; publishing has its own store."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import replace
from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    false,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from sublet.db import Prepared, Query, Tx
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, STREAMED, Instant, metadata, violates
from sublet.subdomains.milestones import dates_of
from sublet.subdomains.model import ShownSubdomain, Subdomain

S = TypeVar("S", bound=ShownSubdomain)

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
    subdomains.c.registration_type,  # SQLite asks the table for these two, unless they stand here
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
}
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
    """Return the query of all subdomains, with what the rules need of their platform domains; for the stores above."""
    columns = (_ELSEWHERE.get(name) or (subdomains.c[name],) for name in of.__struct_fields__)
    return select(*chain.from_iterable(columns)).select_from(subdomains.join(platform_domains))


def read_subdomains(of: type[S], rows: Iterable[Sequence[Any]]) -> list[S]:
    """Return the subdomains of rows that a query made from `select_subdomains` of this type gave."""
    return [_subdomain(row, of) for row in rows]


def stream(tx: Tx, query: Select[Any]) -> Iterator[Subdomain]:
    """Return the subdomains that a query made from `select_subdomains` finds, one after the other: not all are in memory at once."""
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield _subdomain(row, Subdomain)


# The questions of nearly every request are built once: building one of so many columns takes longer than asking it.
_BY_ID = Prepared(select_subdomains().where(subdomains.c.id == bindparam("subdomain_id")))
_UNRELEASED = Prepared(select_subdomains().where((subdomains.c.fqdn == bindparam("name")) & _NOT_RELEASED))
_OWN = (subdomains.c.user_id == bindparam("owner_id")) & NOT_PURGED
_OWN_BY_ID = _OWN & (subdomains.c.id == bindparam("subdomain_id"))
# Who isn't purged isn't released; said, since else the index of names is none for this, and all of the user's names are looked at.
_OWN_BY_NAME = _OWN & (subdomains.c.fqdn == bindparam("name")) & _NOT_RELEASED
_FIND_OWN_BY_ID = Prepared(select_subdomains().where(_OWN_BY_ID))
_FIND_OWN_BY_NAME = Prepared(select_subdomains().where(_OWN_BY_NAME))


def _shown(rows: Sequence[Sequence[Any]]) -> ShownSubdomain | None:
    return _subdomain(rows[0], ShownSubdomain) if rows else None


OWN_BY_ID = Query(select_subdomains(ShownSubdomain).where(_OWN_BY_ID), _shown)
"""Which subdomain of the user `owner_id` has the id `subdomain_id`, live or in the trash?"""
OWN_BY_NAME = Query(select_subdomains(ShownSubdomain).where(_OWN_BY_NAME), _shown)
"""Which subdomain of the user `owner_id` has the fqdn `name`, live or in the trash?"""


def _one(tx: Tx, query: Prepared, /, **parameters: object) -> Subdomain | None:
    row = query.one_or_none(tx, **parameters)
    return _subdomain(row, Subdomain) if row is not None else None


def find_subdomain(tx: Tx, subdomain_id: int) -> Subdomain | None:
    """Which subdomain has this id, whatever became of it?"""
    return _one(tx, _BY_ID, subdomain_id=subdomain_id)


_BY_IDS = Prepared(select_subdomains().where(subdomains.c.id.in_(bindparam("subdomain_ids", expanding=True))))


def list_subdomains(tx: Tx, subdomain_ids: Iterable[int]) -> list[Subdomain]:
    """Which subdomains have these ids, whatever became of them?"""
    return read_subdomains(Subdomain, _BY_IDS.all(tx, subdomain_ids=list(subdomain_ids)))


_LOCKED = Prepared(
    select(subdomains.c.id)
    .where(subdomains.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(subdomains.c.id)
    .with_for_update(key_share=True)
)


def lock_subdomains(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Lock these names in the one order in which whoever changes several of them locks them (PostgreSQL)."""
    _LOCKED.lock(tx, ids=sorted(subdomain_ids))


def find_unreleased(tx: Tx, fqdn: str) -> Subdomain | None:
    """Which subdomain holds this name: live, in the trash or cooling off?"""
    return _one(tx, _UNRELEASED, name=fqdn)


def find_own(
    tx: Tx, user_id: int, *, subdomain_id: int | None = None, fqdn: str | None = None
) -> Subdomain | None:
    """Which subdomain of this user has this id or this name, live or in the trash?"""
    if subdomain_id is not None:
        return _one(tx, _FIND_OWN_BY_ID, owner_id=user_id, subdomain_id=subdomain_id)
    return _one(tx, _FIND_OWN_BY_NAME, owner_id=user_id, name=fqdn)


_FREE = Prepared(
    select(func.count())
    .select_from(subdomains)
    .where((subdomains.c.user_id == bindparam("owner_id")) & FREE_AND_LIVE)
)


def count_free(tx: Tx, user_id: int) -> int:
    """How many free names does this user hold? Those in the trash do not count."""
    return int(_FREE.value(tx, owner_id=user_id))


_NAMESERVERS = Prepared(
    select(subdomains.c.fqdn, subdomains.c.nameservers).where(
        subdomains.c.fqdn.in_(bindparam("names", expanding=True)) & NOT_PURGED
    )
)


def list_nameservers(tx: Tx, fqdns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Which of these names are registered, live or in the trash (whence they may come back), and what are their nameservers?"""
    rows = _NAMESERVERS.all(tx, names=list(fqdns))
    return {row[0]: tuple(row[1]) for row in rows}


def list_names_held(tx: Tx, fqdns: Collection[str]) -> list[str]:
    """Which of these names are registered, in the trash or cooling off?"""
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
        "published_generation": 0,
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
    """Return the columns that count a delegation's records."""
    return {"nameserver_count": len(delegation.nameservers), "ds_record_count": len(delegation.ds_records)}


_CHANGE = update(subdomains).where(subdomains.c.id == bindparam("of"))
_CHANGED = Prepared(_CHANGE)
_NEXT_GENERATION = subdomains.c.generation + 1
_CHANGED_ANEW = Prepared(_CHANGE.values(generation=_NEXT_GENERATION))


def update_subdomain(tx: Tx, subdomain_id: int, **values: object) -> None:
    """Change columns of a subdomain, and its dates if they depend on one of these columns."""
    # A generation that is given is the next one (`next_generation`), which the statement counts.
    change = _CHANGED if values.pop("generation", None) is None else _CHANGED_ANEW
    change.run(tx, of=subdomain_id, updated_at=tx.now, **values)
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


def next_generation(now: datetime) -> dict[str, Any]:
    """Return the columns that tell the publisher that the DNS has to follow a change, made now.

    Counted by the database: a generation that two writers would both call the next one could pass for published.
    """
    return {
        "generation": _NEXT_GENERATION,
        "generation_at": now,
        "provision_error": None,
        "attempts": 0,
        "next_attempt_at": None,
    }


def followed_by_dns(subdomain: Subdomain, now: datetime) -> dict[str, Any]:
    """Return the columns of the next generation for a name that was, or may be, in the DNS; else none."""
    return next_generation(now) if subdomain.generation > 0 else {}
