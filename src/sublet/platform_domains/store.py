"""All SQL of platform domains, their offers, labels and grants."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    true,
    update,
)

from sublet.db import Pages, Prepared, Tx
from sublet.dns.names import owner_key
from sublet.dns.types import Secondary
from sublet.ids import Position
from sublet.platform_domains.model import Label, Offer, PlatformDomain
from sublet.schema import BIG_ID, OWNER_KEY, Instant, metadata

platform_domains = Table(
    "platform_domains",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("domain", String(253), nullable=False, unique=True),
    Column("public_name", String, nullable=False),
    Column("description", Text, nullable=False),
    Column("hidden", Boolean, nullable=False),
    Column("restricted", Boolean, nullable=False),
    Column("registration_open", Boolean, nullable=False),
    Column("idn", Boolean, nullable=False),
    Column("dnssec_signed", Boolean, nullable=False),
    Column("nameservers_min", Integer, nullable=False),
    Column("nameservers_max", Integer, nullable=False),
    Column("label_length_min", Integer, nullable=False),
    Column("premium_length_max", Integer, nullable=False),
    Column("renewal_window_days", Integer, nullable=False),
    Column("grace_days", Integer, nullable=False),
    Column("trash_days", Integer, nullable=False),
    Column("cooling_off_days", Integer, nullable=False),
    Column("apex_nameservers", JSON, nullable=False),
    Column("soa_mname", String(253), nullable=False),
    Column("soa_rname", String(253), nullable=False),
    Column("serial", BIG_ID, nullable=False),
    Column("refresh_seconds", Integer, nullable=False),
    Column("retry_seconds", Integer, nullable=False),
    Column("expire_seconds", Integer, nullable=False),
    Column("negative_ttl_seconds", Integer, nullable=False),
    Column("apex_ttl_seconds", Integer, nullable=False),
    Column("delegation_ttl_seconds", Integer, nullable=False),
    Column("primary", String(63), nullable=False),
    Column("secondaries", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("look_alike_check", Boolean, nullable=False, server_default=true()),
    Column("owner_key", OWNER_KEY, nullable=False, server_default=""),
    # While the dates of its names are recomputed, after a change of its days: those up to this id are done.
    Column("redate_after_id", BIG_ID),
    Index("ix_platform_domains_owner_key", "owner_key"),
    sqlite_autoincrement=True,
)

_TO_BE_REDATED = platform_domains.c.redate_after_id.is_not(None)
Index(
    "ix_platform_domains_redate_after_id",
    platform_domains.c.id,
    sqlite_where=_TO_BE_REDATED,
    postgresql_where=_TO_BE_REDATED,
)

offers = Table(
    "offers",
    metadata,
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("mode", String(16), nullable=False),
    Column("price_credits", BIG_ID, nullable=False),
    Column("renewal_price_credits", BIG_ID, nullable=False),
    Column("period_days", Integer, nullable=False),
    Column("withdrawn_at", Instant),
    PrimaryKeyConstraint("platform_domain_id", "mode"),
    CheckConstraint("price_credits >= 0 AND renewal_price_credits >= 0", name="prices"),
    CheckConstraint("period_days > 0", name="period"),
)

platform_domain_grants = Table(
    "platform_domain_grants",
    metadata,
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    PrimaryKeyConstraint("platform_domain_id", "organization_id"),
)

labels = Table(
    "labels",
    metadata,
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("label", String(63), nullable=False),
    Column("label_class", String(16), nullable=False),
    Column("price_credits", BIG_ID),
    Column("renewal_price_credits", BIG_ID),
    PrimaryKeyConstraint("platform_domain_id", "label"),
)

label_grants = Table(
    "label_grants",
    metadata,
    Column("platform_domain_id", ForeignKey("platform_domains.id"), nullable=False),
    Column("label", String(63), nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    PrimaryKeyConstraint("platform_domain_id", "label", "organization_id"),
)

_COLUMNS = tuple(platform_domains.c[name] for name in PlatformDomain.__struct_fields__)
_APEX_NAMESERVERS = PlatformDomain.__struct_fields__.index("apex_nameservers")
_SECONDARIES = PlatformDomain.__struct_fields__.index("secondaries")
_OFFER = tuple(offers.c[name] for name in Offer.__slots__)


def _platform_domain(row: Iterable[object]) -> PlatformDomain:
    values: list[Any] = list(row)
    values[_APEX_NAMESERVERS] = tuple(values[_APEX_NAMESERVERS])  # JSON gives a list
    values[_SECONDARIES] = tuple(Secondary(*each) for each in values[_SECONDARIES])
    return PlatformDomain(*values)


# The questions of nearly every request are built once, as in `subdomains/store.py`.
_BY_ID = Prepared(select(*_COLUMNS).where(platform_domains.c.id == bindparam("platform_domain_id")))
_BY_NAME = Prepared(select(*_COLUMNS).where(platform_domains.c.domain == bindparam("name")))
_AMONG = Prepared(select(*_COLUMNS).where(platform_domains.c.domain.in_(bindparam("names", expanding=True))))


def find_platform_domain(tx: Tx, platform_domain_id: int) -> PlatformDomain | None:
    """Which platform domain has this id?"""
    row = _BY_ID.one_or_none(tx, platform_domain_id=platform_domain_id)
    return _platform_domain(row) if row is not None else None


def find_platform_domain_by_name(tx: Tx, domain: str) -> PlatformDomain | None:
    """Which platform domain is this one (canonical name)?"""
    row = _BY_NAME.one_or_none(tx, name=domain)
    return _platform_domain(row) if row is not None else None


def find_platform_domains_among(tx: Tx, names: Iterable[str]) -> list[PlatformDomain]:
    """Which of these names are platform domains? The longest name first."""
    rows = _AMONG.all(tx, names=list(names))
    return sorted((_platform_domain(row) for row in rows), key=lambda each: -len(each.domain))


def lock_across_zones(tx: Tx) -> None:
    """Let changes that must see each other across all zones follow one another, until the transaction ends.

    The row of the oldest platform domain stands for all; where there is none there is no zone.
    """
    query = select(platform_domains.c.id).order_by(platform_domains.c.id).limit(1)
    tx.connection.execute(query.with_for_update(key_share=True)).one_or_none()


def list_platform_domains(tx: Tx) -> list[PlatformDomain]:
    """Which platform domains are there? Newest first."""
    query = select(*_COLUMNS).order_by(platform_domains.c.created_at.desc(), platform_domains.c.id.desc())
    return [_platform_domain(row) for row in tx.connection.execute(query)]


_GRANTED_TO = select(platform_domain_grants.c.platform_domain_id).where(
    platform_domain_grants.c.organization_id == bindparam("organization_id")
)
_VISIBLE = Pages(
    select(*_COLUMNS).where(
        ~platform_domains.c.hidden & (~platform_domains.c.restricted | platform_domains.c.id.in_(_GRANTED_TO))
    ),
    platform_domains.c.created_at,
    platform_domains.c.id,
)


def list_visible(tx: Tx, organization_id: int, limit: int, after: Position | None) -> list[PlatformDomain]:
    """Which platform domains does this organization see (`visibility.is_visible` in SQL; a test holds the two together)? Newest first."""
    return [_platform_domain(row) for row in _VISIBLE.rows(tx, limit, after, organization_id=organization_id)]


_key = platform_domains.c.owner_key
AT_OR_BELOW = select(platform_domains.c.id).where(
    (_key == bindparam("at")) | ((_key > bindparam("below")) & (_key < bindparam("end")))
)
"""The platform domains at or below the name whose `owner_key` is given, as in `zone_store`; for the stores above."""
_AT_OR_BELOW = Prepared(AT_OR_BELOW.limit(1))


def has_platform_domain_at_or_below(tx: Tx, fqdn: str) -> bool:
    """Is this name, or one below it, a platform domain itself?"""
    key = owner_key(fqdn)
    return _AT_OR_BELOW.one_or_none(tx, at=key, below=key + ".", end=key + "/") is not None


_NEXT_KEYS = Prepared(
    select(
        select(func.max(_key)).where(_key < bindparam("below")).scalar_subquery(),
        select(func.min(_key)).where(_key >= bindparam("below")).scalar_subquery(),
    )
)


def next_owner_keys(tx: Tx, fqdn: str) -> list[str]:
    """Which owner keys of platform domains stand right before and right behind where everything below this name begins?

    What follows from them: `zone_store.next_owner_keys`.
    """
    row = _NEXT_KEYS.one_or_none(tx, below=owner_key(fqdn) + ".")
    return [key for key in row or () if key is not None]


def insert_platform_domain(tx: Tx, domain: str, **values: object) -> int:
    """Add a platform domain; the unique name is the database's to hold (`uq_platform_domains_domain`)."""
    return int(
        tx.connection.execute(
            insert(platform_domains)
            .values(
                domain=domain, owner_key=owner_key(domain), created_at=tx.now, updated_at=tx.now, **values
            )
            .returning(platform_domains.c.id)
        ).scalar_one()
    )


def update_platform_domain(tx: Tx, platform_domain_id: int, **values: object) -> None:
    """Change columns of a platform domain."""
    tx.connection.execute(
        update(platform_domains)
        .where(platform_domains.c.id == platform_domain_id)
        .values(updated_at=tx.now, **values)
    )


_GRANTED = Prepared(
    select(platform_domain_grants.c.platform_domain_id).where(
        platform_domain_grants.c.organization_id == bindparam("of")
    )
)


def granted_platform_domain_ids(tx: Tx, organization_id: int) -> frozenset[int]:
    """Which platform domains were granted to this organization?"""
    return frozenset(row[0] for row in _GRANTED.all(tx, of=organization_id))


def list_granted_organization_ids(tx: Tx, platform_domain_id: int) -> list[int]:
    """To which organizations was this platform domain granted?"""
    rows = tx.connection.execute(
        select(platform_domain_grants.c.organization_id)
        .where(platform_domain_grants.c.platform_domain_id == platform_domain_id)
        .order_by(platform_domain_grants.c.organization_id)
    )
    return [row[0] for row in rows]


def insert_grant(tx: Tx, platform_domain_id: int, organization_id: int) -> None:
    """Grant a platform domain to an organization."""
    tx.connection.execute(
        insert(platform_domain_grants).values(
            platform_domain_id=platform_domain_id, organization_id=organization_id
        )
    )


def delete_grant(tx: Tx, platform_domain_id: int, organization_id: int) -> bool:
    """Take a grant back; tell whether there was one."""
    return (
        tx.connection.execute(
            delete(platform_domain_grants).where(
                (platform_domain_grants.c.platform_domain_id == platform_domain_id)
                & (platform_domain_grants.c.organization_id == organization_id)
            )
        ).rowcount
        > 0
    )


_OFFERS = Prepared(select(*_OFFER).where(offers.c.platform_domain_id == bindparam("of")))
_OFFERS_OF = Prepared(
    select(*_OFFER).where(offers.c.platform_domain_id.in_(bindparam("among", expanding=True)))
)


def list_offers(tx: Tx, platform_domain_id: int) -> list[Offer]:
    """What does this platform domain offer, or has it offered?"""
    return [Offer(*row) for row in _OFFERS.all(tx, of=platform_domain_id)]


def list_offers_of(tx: Tx, platform_domain_ids: Sequence[int]) -> dict[int, list[Offer]]:
    """What does each of these platform domains offer, or has it offered?"""
    found: dict[int, list[Offer]] = {}
    for row in _OFFERS_OF.all(tx, among=platform_domain_ids):
        offer = Offer(*row)
        found.setdefault(offer.platform_domain_id, []).append(offer)
    return found


def replace_offer(tx: Tx, offer: Offer) -> None:
    """Store an offer in the place of the one of the same mode."""
    same = (offers.c.platform_domain_id == offer.platform_domain_id) & (offers.c.mode == offer.mode)
    tx.connection.execute(delete(offers).where(same))
    tx.connection.execute(insert(offers).values({name: getattr(offer, name) for name in Offer.__slots__}))


_LABEL = Prepared(
    select(labels.c.label_class, labels.c.price_credits, labels.c.renewal_price_credits).where(
        (labels.c.platform_domain_id == bindparam("of")) & (labels.c.label == bindparam("listed"))
    )
)
_LABEL_GRANTED = Prepared(
    select(label_grants.c.organization_id)
    .where(
        (label_grants.c.platform_domain_id == bindparam("of")) & (label_grants.c.label == bindparam("listed"))
    )
    .order_by(label_grants.c.organization_id)
)


def find_label(tx: Tx, platform_domain_id: int, label: str) -> Label | None:
    """How did the operator list this label, if at all, and to whom was it granted?"""
    row = _LABEL.one_or_none(tx, of=platform_domain_id, listed=label)
    if row is None:
        return None
    granted = _LABEL_GRANTED.all(tx, of=platform_domain_id, listed=label)
    return Label(platform_domain_id, label, row[0], row[1], row[2], tuple(each[0] for each in granted))


def list_labels(tx: Tx, platform_domain_id: int) -> list[Label]:
    """Which labels did the operator list here? In the order of the alphabet."""
    rows = tx.connection.execute(
        select(labels.c.label)
        .where(labels.c.platform_domain_id == platform_domain_id)
        .order_by(labels.c.label)
    )
    found = (find_label(tx, platform_domain_id, row[0]) for row in rows.all())
    return [label for label in found if label is not None]


def list_guarded_labels(tx: Tx, platform_domain_id: int) -> list[str]:
    """Which labels did the operator list here that not everybody may register: reserved, blocked, special?"""
    guarded = labels.c.label_class.in_(("reserved", "blocked", "special"))
    query = select(labels.c.label).where((labels.c.platform_domain_id == platform_domain_id) & guarded)
    return [row[0] for row in tx.connection.execute(query)]


def replace_label(tx: Tx, label: Label) -> None:
    """Store a listed label, with its grants, in the place of what was listed."""
    delete_label(tx, label.platform_domain_id, label.label)
    tx.connection.execute(
        insert(labels).values(
            platform_domain_id=label.platform_domain_id,
            label=label.label,
            label_class=label.label_class,
            price_credits=label.price_credits,
            renewal_price_credits=label.renewal_price_credits,
        )
    )
    for organization_id in label.organization_ids:
        tx.connection.execute(
            insert(label_grants).values(
                platform_domain_id=label.platform_domain_id,
                label=label.label,
                organization_id=organization_id,
            )
        )


def delete_label(tx: Tx, platform_domain_id: int, label: str) -> bool:
    """Take a label from the list; tell whether it was there."""
    for table in (label_grants, labels):
        removed = tx.connection.execute(
            delete(table).where((table.c.platform_domain_id == platform_domain_id) & (table.c.label == label))
        ).rowcount
    return removed > 0
