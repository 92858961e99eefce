"""The SQL of subdomain rows and their terms: find, lock, insert, change, publish and count.

Lists with filters are in `list_store`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby
from typing import Any, TypeVar

from msgspec import Struct
from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Label,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    false,
    func,
    insert,
    literal_column,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from sublet.accounts.store import users
from sublet.db import Prepared, Query, Tx, in_batches
from sublet.dns.records import delegation_records, records_of_sets
from sublet.dns.serial import served_serial, zone_seconds
from sublet.dns.types import Delegation, DsRecord, GlueEntry, Record, RecordSet
from sublet.platform_domains.model import ADMIN, PlatformDomain
from sublet.platform_domains.store import platform_domains
from sublet.schema import BIG_ID, STREAMED, Instant, metadata, violates
from sublet.structs import replace
from sublet.subdomains.lifecycle import dates_of
from sublet.subdomains.model import ShownSubdomain, Subdomain, Term

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
    Column("records", JSON, nullable=False, server_default="[]"),
    Column("record_count", Integer, nullable=False, server_default="0"),
    CheckConstraint("published_generation <= generation", name="generation"),
    CheckConstraint("nameserver_count = 0 OR record_count = 0", name="content"),
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
# A partial index, so that only `find_newest_change` uses it. Other queries would be slower with it.
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
    # The last two columns make the index covering on SQLite.
    subdomains.c.registration_type,
    subdomains.c.trashed_at,
    sqlite_where=FREE_AND_LIVE,
    postgresql_where=FREE_AND_LIVE,
)
DATES_DEPEND_ON = frozenset(
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
"""The columns that `due_at` and `loss_at` depend on, besides the platform domain's days
(`edit_zone_settings.DAYS`).
"""

_OTHER_COLUMNS: dict[str, tuple[Column[Any] | Label[Any], ...]] = {
    "domain": (platform_domains.c.domain,),
    "domain_public_name": (platform_domains.c.public_name,),
    "delegation": (subdomains.c.nameservers, subdomains.c.glue, subdomains.c.ds_records),
    "renewal_window_days": (platform_domains.c.renewal_window_days,),
    "grace_days": (platform_domains.c.grace_days,),
    "trash_days": (platform_domains.c.trash_days,),
    "cooling_off_days": (platform_domains.c.cooling_off_days,),
    "nameservers_min": (platform_domains.c.nameservers_min,),
    "nameservers_max": (platform_domains.c.nameservers_max,),
    "accepts_records": ((platform_domains.c.records == "on").label("accepts_records"),),
    "names_until": (platform_domains.c.names_until,),
}
_DELEGATION = ShownSubdomain.__struct_fields__.index("delegation")
_RECORDS = Subdomain.__struct_fields__.index("records")
_NOT_RELEASED = subdomains.c.released_at.is_(None)
NOT_PURGED = subdomains.c.purged_at.is_(None)


def read_delegation(
    nameservers: list[str], glue: list[dict[str, Any]], ds_records: list[dict[str, Any]]
) -> Delegation:
    """Return the delegation that is stored in these three JSON columns."""
    return Delegation(
        tuple(nameservers),
        tuple(GlueEntry(**entry) for entry in glue),
        tuple(DsRecord(**entry) for entry in ds_records),
    )


def delegation_columns(delegation: Delegation) -> dict[str, Any]:
    """Return the three JSON columns of a delegation."""
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


def read_records(stored: list[dict[str, Any]]) -> tuple[RecordSet, ...]:
    """Return the RRsets that are stored in the JSON column `records`."""
    return tuple(RecordSet(each["name"], each["type"], each["ttl"], tuple(each["values"])) for each in stored)


def records_columns(records: Sequence[RecordSet]) -> dict[str, Any]:
    """Return the columns of a name's RRsets. The members are those of the API."""
    stored = [
        {"name": each.name, "type": each.type, "ttl": each.ttl_seconds, "values": list(each.values)}
        for each in records
    ]
    return {"records": stored, "record_count": len(stored)}


def _subdomain(row: Sequence[Any], of: type[S]) -> S:
    delegation = read_delegation(*row[_DELEGATION : _DELEGATION + 3])
    values = [*row[:_DELEGATION], delegation, *row[_DELEGATION + 3 :]]
    if of is Subdomain:
        values[_RECORDS] = read_records(values[_RECORDS])
    return of(*values)


def select_subdomains(of: type[ShownSubdomain] = Subdomain) -> Select[Any]:
    """Return a query of all subdomains, with the columns of their platform domains that the rules need.

    Callers add conditions.
    """
    columns = (_OTHER_COLUMNS.get(name) or (subdomains.c[name],) for name in of.__struct_fields__)
    return select(*chain.from_iterable(columns)).select_from(subdomains.join(platform_domains))


def read_subdomains(of: type[S], rows: Iterable[Sequence[Any]]) -> list[S]:
    """Return the subdomains in the rows of a `select_subdomains(of)` query."""
    return [_subdomain(row, of) for row in rows]


def stream(tx: Tx, query: Select[Any]) -> Iterator[Subdomain]:
    """Yield the subdomains of a `select_subdomains` query, without reading all into memory."""
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield _subdomain(row, Subdomain)


# Prepared, because nearly every request runs one of these queries, and building it takes longer than running
# it.
_BY_ID = Prepared(select_subdomains().where(subdomains.c.id == bindparam("subdomain_id")))
_UNRELEASED = Prepared(select_subdomains().where((subdomains.c.fqdn == bindparam("name")) & _NOT_RELEASED))
_OWN = (subdomains.c.user_id == bindparam("owner_id")) & NOT_PURGED
_OWN_BY_ID = _OWN & (subdomains.c.id == bindparam("subdomain_id"))
# NOT_PURGED implies _NOT_RELEASED, but the database uses the index of names only with the explicit condition.
_OWN_BY_NAME = _OWN & (subdomains.c.fqdn == bindparam("name")) & _NOT_RELEASED
_FIND_OWN_BY_ID = Prepared(select_subdomains().where(_OWN_BY_ID))
_FIND_OWN_BY_NAME = Prepared(select_subdomains().where(_OWN_BY_NAME))


_OWN_AMONG = Prepared(
    select_subdomains().where(
        _OWN & subdomains.c.fqdn.in_(bindparam("names", expanding=True)) & _NOT_RELEASED
    )
)


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
    """Lock these names in order of id (PostgreSQL), so that transactions that change several names don't
    deadlock.
    """
    _LOCKED.lock(tx, ids=sorted(subdomain_ids))


def find_unreleased(tx: Tx, fqdn: str) -> Subdomain | None:
    """Return the subdomain with this name that is live, in the trash or cooling off, or None."""
    return _one(tx, _UNRELEASED, name=fqdn)


def find_subdomain_of_user(
    tx: Tx, user_id: int | None, *, subdomain_id: int | None, fqdn: str | None
) -> Subdomain | None:
    """Return a user's subdomain with this id, or else with this name, live or in the trash, or None.

    Not checked: the token's restrictions.
    """
    if subdomain_id is not None:
        return _one(tx, _FIND_OWN_BY_ID, owner_id=user_id, subdomain_id=subdomain_id)
    return _one(tx, _FIND_OWN_BY_NAME, owner_id=user_id, name=fqdn)


def list_own_subdomains(tx: Tx, user_id: int, fqdns: Iterable[str]) -> list[Subdomain]:
    """Return those of the given names that a user has, live or in the trash.

    Not checked: the token's restrictions.
    """
    return read_subdomains(Subdomain, _OWN_AMONG.all(tx, owner_id=user_id, names=list(fqdns)))


FREE_OF_USER = (
    select(func.count())
    .select_from(subdomains)
    .where((subdomains.c.user_id == bindparam("owner_id")) & FREE_AND_LIVE)
)
"""A query for the number of names in the mode `free` that a user holds outside the trash."""
_FREE = Prepared(FREE_OF_USER)


def count_free(tx: Tx, user_id: int) -> int:
    """Return the number of names in the mode `free` that a user holds outside the trash."""
    return int(_FREE.value(tx, owner_id=user_id))


_NAMESERVERS = Prepared(
    select(subdomains.c.fqdn, subdomains.c.nameservers).where(
        subdomains.c.fqdn.in_(bindparam("names", expanding=True)) & NOT_PURGED
    )
)


def list_nameservers(tx: Tx, fqdns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the nameservers of those of the given names that are live or in the trash."""
    rows = _NAMESERVERS.all(tx, names=list(fqdns))
    return {row[0]: tuple(row[1]) for row in rows}


_NEWEST_CHANGE = Prepared(
    select(func.max(subdomains.c.generation_at)).where(
        (subdomains.c.platform_domain_id == bindparam("of")) & _EVER_CHANGED
    )
)


def find_newest_change(tx: Tx, platform_domain_id: int) -> datetime | None:
    """Return when a name of this platform domain last got a new generation, or None."""
    return _NEWEST_CHANGE.one_or_none(tx, of=platform_domain_id)[0]  # type: ignore[no-any-return]


IS_IN_DNS = (
    (subdomains.c.platform_domain_id == bindparam("of"))
    & ((subdomains.c.nameserver_count > 0) | (subdomains.c.record_count > 0))
    & subdomains.c.trashed_at.is_(None)
    & subdomains.c.suspended_at.is_(None)
    & NOT_PURGED
    & _NOT_RELEASED
)
"""The rule `lifecycle.is_in_dns` in SQL, for the names of one platform domain."""
_IN_DNS = select(
    subdomains.c.fqdn,
    subdomains.c.nameservers,
    subdomains.c.glue,
    subdomains.c.ds_records,
    subdomains.c.records,
).where(IS_IN_DNS)
_IN_DNS_AMONG = Prepared(_IN_DNS.where(subdomains.c.fqdn.in_(bindparam("names", expanding=True))))


def find_published(
    tx: Tx, platform_domain: PlatformDomain, fqdns: Collection[str]
) -> dict[str, tuple[Record, ...]]:
    """Return what those of the given names publish that should be in the DNS (`lifecycle.is_in_dns`), by
    name.
    """
    if not fqdns:
        return {}
    rows = _IN_DNS_AMONG.all(tx, of=platform_domain.id, names=list(fqdns))
    return {row[0]: _published(row, platform_domain.delegation_ttl_seconds) for row in rows}


def stream_published(tx: Tx, platform_domain: PlatformDomain) -> Iterator[tuple[Record, ...]]:
    """Yield what each name of a platform domain publishes that should be in the DNS (`lifecycle.is_in_dns`),
    in order of the names.
    """
    query = _IN_DNS.order_by(subdomains.c.fqdn).execution_options(**STREAMED)
    for row in tx.connection.execute(query, {"of": platform_domain.id}):
        yield _published(row, platform_domain.delegation_ttl_seconds)


def _published(row: Sequence[Any], ttl_seconds: int) -> tuple[Record, ...]:
    fqdn, nameservers, glue, ds_records, records = row
    if nameservers:
        return delegation_records(fqdn, read_delegation(nameservers, glue, ds_records), ttl_seconds)
    return records_of_sets(fqdn, read_records(records))


_OF_NAME = subdomains.c.fqdn == bindparam("name")
_IDS_OF_NAME = Prepared(
    select(subdomains.c.id).where(
        (_OF_NAME & _NOT_RELEASED) | (_OF_NAME & RELEASED)
    )  # each half has its index
)


def list_ids_of_name(tx: Tx, fqdn: str) -> list[int]:
    """Return the ids of all rows of a name, including released rows."""
    return [row[0] for row in _IDS_OF_NAME.all(tx, name=fqdn)]


def list_unreleased_names(tx: Tx, fqdns: Collection[str]) -> list[str]:
    """Return those of the given names that are live, in the trash or cooling off."""
    query = select(subdomains.c.fqdn).where(subdomains.c.fqdn.in_(list(fqdns)) & _NOT_RELEASED)
    return [row[0] for row in tx.connection.execute(query.order_by(subdomains.c.fqdn))]


_ADDED = Prepared(insert(subdomains).returning(subdomains.c.id))


def insert_subdomain(
    tx: Tx,
    platform_domain: PlatformDomain,
    delegation: Delegation,
    records: tuple[RecordSet, ...] = (),
    **values: object,
) -> Subdomain | None:
    """Store a subdomain with its dates, and return it.

    Return None if the name is taken (`uq_subdomains_fqdn_unreleased`).
    """
    row = {
        **delegation_columns(delegation),
        **delegation_counts(delegation),
        **records_columns(records),
        **_publication(tx, platform_domain, values["generation"]),
        "attempts": 0,
        "created_at": tx.now,
        "updated_at": tx.now,
        "generation_at": tx.now,
        "platform_domain_id": platform_domain.id,
        **values,
    }
    added = _as_added(platform_domain, delegation, records, row)
    dates = dates_of(added, tx.now)
    try:
        subdomain_id = int(_ADDED.value(tx, **row, due_at=dates.due_at, loss_at=dates.loss_at))
    except IntegrityError as error:
        if violates(error, "uq_subdomains_fqdn_unreleased"):
            return None
        raise
    return replace(added, id=subdomain_id)


def _publication(tx: Tx, platform_domain: PlatformDomain, generation: object) -> dict[str, object]:
    """Return a new row's values of the publication columns.

    On the built-in name server the commit publishes the row.
    """
    if platform_domain.primary or not generation:
        return {"published_generation": 0}
    return {
        "published_generation": generation,
        "published_at": tx.now,
        "published_serial": served_serial(platform_domain.serial, zone_seconds(tx.now)),
    }


def _as_added(
    platform_domain: PlatformDomain,
    delegation: Delegation,
    records: tuple[RecordSet, ...],
    row: Mapping[str, Any],
) -> Subdomain:
    """Return the subdomain of a row that isn't stored yet, with the id 0. Fields without a value are None."""
    joined = {
        name: getattr(platform_domain, columns[0].name)
        for name, columns in _OTHER_COLUMNS.items()
        if name != "delegation"
    }
    known = {**row, **joined, "id": 0, "delegation": delegation, "records": records}
    values: list[Any] = [known.get(name) for name in Subdomain.__struct_fields__]
    return Subdomain(*values)


def delegation_counts(delegation: Delegation) -> dict[str, int]:
    """Return the values of `nameserver_count` and `ds_record_count`."""
    return {"nameserver_count": len(delegation.nameservers), "ds_record_count": len(delegation.ds_records)}


_CHANGE = update(subdomains).where(subdomains.c.id == bindparam("of"))
_CHANGED = Prepared(_CHANGE)


def update_subdomain(tx: Tx, subdomain_id: int, **values: object) -> None:
    """Change columns of a subdomain, and recompute its dates if one of the columns is in `DATES_DEPEND_ON`.

    `updated_at` becomes now unless it is in `values`: a step of the service that changes nothing a user set
    keeps the old instant.
    """
    values = {"updated_at": tx.now} | values
    if "generation" in values:  # the prepared statement contains the columns of `NEXT_GENERATION`
        others = {name: value for name, value in values.items() if name not in NEXT_GENERATION}
        _CHANGED_NEXT_GENERATION.run(tx, of=subdomain_id, **generation_parameters(tx.now), **others)
    else:
        _CHANGED.run(tx, of=subdomain_id, **values)
    if not DATES_DEPEND_ON.isdisjoint(values):
        recompute_dates(tx, [subdomain_id])


_SET_DATES = Prepared(_CHANGE.values(due_at=bindparam("due"), loss_at=bindparam("loss")))


def set_dates(tx: Tx, subdomain_id: int, *, due_at: datetime | None, loss_at: datetime | None) -> None:
    """Store when the sweep next processes a name, and when its user loses the name."""
    _SET_DATES.run(tx, of=subdomain_id, due=due_at, loss=loss_at)


def recompute_dates(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Compute and store the dates of these names. The caller must have locked the names."""
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
"""The values of the columns that change with a name's next generation. On the built-in name server, the
commit publishes this generation.

The database increments the generation. If writers computed it, two changes could get the same number, and
publishing one would mark both as published.
"""
_CHANGED_NEXT_GENERATION = Prepared(_CHANGE.values(NEXT_GENERATION))


def generation_parameters(now: datetime) -> dict[str, object]:
    """Return the parameters of `NEXT_GENERATION` for a change at `now`."""
    return {"changed_at": now, "zone_seconds": zone_seconds(now)}


def next_generation_if_in_dns(subdomain: Subdomain) -> dict[str, Any]:
    """Return `NEXT_GENERATION` if the name is, or may be, in the DNS. Otherwise return an empty dict."""
    return NEXT_GENERATION if subdomain.generation > 0 else {}


TRASHED = subdomains.c.trashed_at.is_not(None)


def stream_held(tx: Tx) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield the id, platform domain's id, label, fqdn and user's address of each name that is live or in the
    trash.
    """
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


# Prepared, because every registration or timeline runs these statements.
_TERM_ADDED = Prepared(insert(terms))
_NEWEST_TERMS = Prepared(
    select(*(terms.c[name] for name in Term.__struct_fields__))
    .where(terms.c.subdomain_id == bindparam("of"))
    .order_by(terms.c.id.desc())
    .limit(bindparam("at_most", type_=Integer))
)


def insert_term(tx: Tx, **values: object) -> None:
    """Store a term of a name.

    A unique index refuses a second term of the name that starts at the same instant.
    """
    _TERM_ADDED.run(tx, **{"created_at": tx.now, **values})


def list_terms(tx: Tx, subdomain_id: int, limit: int) -> list[Term]:
    """Return up to `limit` of the newest terms of a name, oldest first."""
    rows = _NEWEST_TERMS.all(tx, of=subdomain_id, at_most=limit)
    return [Term(*row) for row in rows][::-1]


def was_published(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """True if a released row of this name was ever published in the zone."""
    query = select(subdomains.c.id).where(
        RELEASED
        & (subdomains.c.fqdn == fqdn)
        & (subdomains.c.platform_domain_id == platform_domain_id)
        & (subdomains.c.published_generation > 0)
    )
    return tx.connection.execute(query.limit(1)).first() is not None


def mark_published_without_change(tx: Tx, subdomain_id: int, generation: int) -> None:
    """Store a generation as published, because it needs no change of the zone."""
    tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.id == subdomain_id) & (subdomains.c.generation == generation))
        .values(
            published_generation=generation,
            provision_error=None,
            attempts=0,
            next_attempt_at=None,
        )
    )


_ANOTHERS = (subdomains.c.user_id != bindparam("asking")) & subdomains.c.released_at.is_(None)
# The index of `fqdn` finds the names that equal the skeleton. Only the skeletons of the other names are
# stored, which are few.
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
    """True if another user's name under the platform domain has this skeleton, live, in the trash or cooling
    off.
    """
    name = f"{skeleton}.{platform_domain.domain}"
    return bool(_HELD_LOOK_ALIKES.all(tx, asking=user_id, name=name, looks=skeleton, of=platform_domain.id))


def list_look_alikes(
    tx: Tx, platform_domain: PlatformDomain, skeleton: str, user_id: int, besides_id: int
) -> list[str]:
    """Return the labels of other users' unreleased names with this skeleton under the platform domain, except
    the name `besides_id`.
    """
    name = f"{skeleton}.{platform_domain.domain}"
    rows = _HELD_LOOK_ALIKES.all(tx, asking=user_id, name=name, looks=skeleton, of=platform_domain.id)
    ids = {row[0] for row in rows} - {besides_id}
    return [each.label for each in list_subdomains(tx, ids)] if ids else []


# Publication

_PUBLISHED_OR_FAILED = Prepared(
    select(subdomains.c.id).where(
        subdomains.c.id.in_(bindparam("ids", expanding=True))
        & or_(~UNPUBLISHED, subdomains.c.provision_error.is_not(None))
    )
)


def list_published_or_failed(tx: Tx, subdomain_ids: Collection[int]) -> list[int]:
    """Return the given ids of names whose last change is published, or could not be published."""
    return [row[0] for row in _PUBLISHED_OR_FAILED.all(tx, ids=list(subdomain_ids))]


def list_unpublished_ids(tx: Tx, platform_domain_id: int) -> list[int]:
    """Return the ids of this platform domain's names whose last change is not published."""
    query = select(subdomains.c.id).where(
        (subdomains.c.platform_domain_id == platform_domain_id) & UNPUBLISHED
    )
    return [row[0] for row in tx.connection.execute(query)]


def republish(tx: Tx, subdomain_ids: Iterable[int]) -> None:
    """Give these names their next generation without other changes, so that they are published again.

    `updated_at` stays.
    """
    for ids in in_batches(sorted(subdomain_ids)):
        tx.connection.execute(
            update(subdomains).where(subdomains.c.id.in_(ids)).values(NEXT_GENERATION),
            generation_parameters(tx.now),
        )


_LOCK_IN_DNS = Prepared(
    select(subdomains.c.id).where(IS_IN_DNS).order_by(subdomains.c.id).with_for_update(key_share=True)
)


def republish_zone(tx: Tx, platform_domain_id: int) -> None:
    """Do `republish` for all names of a platform domain that should be in the DNS."""
    _LOCK_IN_DNS.lock(tx, of=platform_domain_id)
    tx.connection.execute(
        update(subdomains).where(IS_IN_DNS).values(NEXT_GENERATION),
        {"of": platform_domain_id, **generation_parameters(tx.now)},
    )


def count_unreleased(tx: Tx, platform_domain_id: int) -> tuple[int, int, int]:
    """Return the numbers of a platform domain's names that are live, in the trash, and cooling off."""
    state = case((~TRASHED, "live"), (NOT_PURGED, "trash"), else_="cooling_off")
    query = (
        select(state, func.count())
        .where((subdomains.c.platform_domain_id == platform_domain_id) & _NOT_RELEASED)
        .group_by(state)
    )
    found = {row[0]: int(row[1]) for row in tx.connection.execute(query)}
    return found.get("live", 0), found.get("trash", 0), found.get("cooling_off", 0)


class PaidNames(Struct, frozen=True):
    """The number of paid names, and the last expiry among them."""

    count: int
    last_expires_at: datetime


def find_paid_names_after(tx: Tx, platform_domain_id: int, until: datetime) -> PaidNames | None:
    """Return the platform domain's paid names that expire after an instant, or None.

    Names that only the operator renews aren't paid for.
    """
    query = select(func.count(), func.max(subdomains.c.expires_at)).where(
        (subdomains.c.platform_domain_id == platform_domain_id)
        & NOT_PURGED
        & (subdomains.c.expires_at > until)
        & subdomains.c.registration_type.not_in(("free", ADMIN))
    )
    count, last = tx.connection.execute(query).one()
    return PaidNames(int(count), last) if count else None


def stream_holders(tx: Tx, platform_domain_id: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each user with names under a platform domain, live or in the trash, and these names."""
    query = (
        select(subdomains.c.user_id, subdomains.c.fqdn)
        .where((subdomains.c.platform_domain_id == platform_domain_id) & NOT_PURGED)
        .order_by(subdomains.c.user_id, subdomains.c.fqdn)
        .execution_options(**STREAMED)
    )
    for user_id, rows in groupby(tx.connection.execute(query), key=lambda row: row[0]):
        yield user_id, [row[1] for row in rows]


UNPUBLISHED_OF_NAME = (
    select(subdomains.c.id)
    .where((subdomains.c.platform_domain_id == bindparam("of")) & UNPUBLISHED)
    .where((_OF_NAME & subdomains.c.released_at.is_(None)) | (_OF_NAME & RELEASED))  # each half has its index
)
"""A query for the rows of a name under a platform domain whose last change is not published."""
_UNPUBLISHED_OF_NAME = Prepared(UNPUBLISHED_OF_NAME.limit(1))


def has_unpublished_row(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """True if the last change of a row of this name is not published."""
    return _UNPUBLISHED_OF_NAME.one_or_none(tx, of=platform_domain_id, name=fqdn) is not None
