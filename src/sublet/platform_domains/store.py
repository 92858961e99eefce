"""All SQL of platform domains, their offers, grants, labels and label patterns."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import asdict
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
    UniqueConstraint,
    bindparam,
    delete,
    false,
    func,
    insert,
    literal_column,
    null,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import TypeEngine

from sublet.audit import Actor
from sublet.db import Pages, Prepared, Tx
from sublet.dns.names import owner_key
from sublet.dns.types import RECORD_TYPES, Secondary
from sublet.errors import Conflict
from sublet.ids import Position
from sublet.platform_domains.model import (
    PATTERN_CHARACTERS_MAX,
    SETTING_TYPES,
    SETTINGS,
    Label,
    LabelPattern,
    LabelRules,
    Offer,
    PlatformDomain,
)
from sublet.schema import (
    BIG_ID,
    OWNER_KEY,
    Instant,
    at_or_below,
    key_range,
    metadata,
    select_adjacent_keys,
    violates,
)

_TYPES: dict[object, TypeEngine[Any]] = {bool: Boolean(), int: Integer(), str: String()}
"""The column types of settings, by the types of their fields. All others are JSON."""
_OWN_TYPES: dict[str, TypeEngine[Any]] = {
    "description": Text(),
    "soa_mname": String(253),
    "soa_rname": String(253),
    "primary": String(63),
    "serial": BIG_ID,
}
_SERVER_DEFAULTS: dict[str, str | ColumnElement[Any]] = {
    "look_alike_check": true(),
    "delegation_check": "off",
    "automatic_ds": "off",
    "bootstrap_days": "0",
    "csync": false(),
    "broken_days": "0",
    "records": "off",
    "record_types": json.dumps(RECORD_TYPES),
    "record_sets_max": "50",
    "record_octets_max": "16384",
    "record_wildcards": true(),
    "record_private_addresses": false(),
}
"""The values of newer settings in rows that existed before the setting."""


def _setting_column(name: str) -> Column[Any]:
    column_type = _OWN_TYPES.get(name) or _TYPES.get(SETTING_TYPES[name]) or JSON()
    return Column(name, column_type, nullable=False, server_default=_SERVER_DEFAULTS.get(name))


platform_domains = Table(
    "platform_domains",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("domain", String(253), nullable=False, unique=True),
    *(_setting_column(name) for name in SETTINGS),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("owner_key", OWNER_KEY, nullable=False, server_default=""),
    Column("names_until", Instant),
    # The row of a removed platform domain stays, because its names and the audit refer to it.
    Column("removed_at", Instant),
    # Set after a change of days, while the sweep recomputes the dates of names. The names up to this id are
    # done.
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

label_patterns = Table(
    "label_patterns",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("platform_domain_id", ForeignKey("platform_domains.id")),
    Column("pattern", String(PATTERN_CHARACTERS_MAX), nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("platform_domain_id", "pattern"),
    sqlite_autoincrement=True,
)
_EVERYWHERE = label_patterns.c.platform_domain_id.is_(None)
Index(
    "uq_label_patterns_everywhere",
    label_patterns.c.pattern,
    unique=True,
    sqlite_where=_EVERYWHERE,
    postgresql_where=_EVERYWHERE,
)

_COLUMNS = tuple(platform_domains.c[name] for name in PlatformDomain.__struct_fields__)
_APEX_NAMESERVERS = PlatformDomain.__struct_fields__.index("apex_nameservers")
_SECONDARIES = PlatformDomain.__struct_fields__.index("secondaries")
_RECORD_TYPES = PlatformDomain.__struct_fields__.index("record_types")
_OFFER = tuple(offers.c[name] for name in Offer.__struct_fields__)
_PATTERN = tuple(label_patterns.c[name] for name in LabelPattern.__struct_fields__)


def _platform_domain(row: Iterable[object]) -> PlatformDomain:
    values: list[Any] = list(row)
    values[_APEX_NAMESERVERS] = tuple(values[_APEX_NAMESERVERS])  # JSON gives a list
    values[_SECONDARIES] = tuple(Secondary(*each) for each in values[_SECONDARIES])
    values[_RECORD_TYPES] = tuple(values[_RECORD_TYPES])
    return PlatformDomain(*values)


# Queries that nearly every request runs are built once, because building a query takes longer than running
# it.
_PRESENT = platform_domains.c.removed_at.is_(None)
_SELECTED = select(*_COLUMNS).where(_PRESENT)
_BY_ID = Prepared(_SELECTED.where(platform_domains.c.id == bindparam("platform_domain_id")))
_BY_NAME = Prepared(_SELECTED.where(platform_domains.c.domain == bindparam("name")))
_AMONG = Prepared(
    _SELECTED.where(
        platform_domains.c.domain.in_(bindparam("names", expanding=True))
        | (platform_domains.c.id == bindparam("platform_domain_id"))
    )
)


def find_platform_domain(tx: Tx, platform_domain_id: int) -> PlatformDomain | None:
    """Return the platform domain with this id, or None."""
    row = _BY_ID.one_or_none(tx, platform_domain_id=platform_domain_id)
    return _platform_domain(row) if row is not None else None


def find_platform_domain_by_name(tx: Tx, domain: str) -> PlatformDomain | None:
    """Return the platform domain with this canonical name, or None."""
    row = _BY_NAME.one_or_none(tx, name=domain)
    return _platform_domain(row) if row is not None else None


def find_platform_domains_among(
    tx: Tx, names: Iterable[str], platform_domain_id: int | None = None
) -> list[PlatformDomain]:
    """Return the platform domains with one of these names or this id, the longest name first."""
    rows = _AMONG.all(tx, names=list(names), platform_domain_id=platform_domain_id)
    return sorted((_platform_domain(row) for row in rows), key=lambda each: -len(each.domain))


def serialize_cross_zone_changes(tx: Tx) -> None:
    """Serialize the transactions that call this function: each waits here until the earlier one ends.

    Call this before changes that must see each other across zones. The lock is on the row of the oldest
    platform domain.
    """
    query = select(platform_domains.c.id).order_by(platform_domains.c.id).limit(1)
    tx.connection.execute(query.with_for_update(key_share=True)).one_or_none()


def list_platform_domains(tx: Tx) -> list[PlatformDomain]:
    """Return all platform domains, newest first."""
    query = _SELECTED.order_by(platform_domains.c.created_at.desc(), platform_domains.c.id.desc())
    return [_platform_domain(row) for row in tx.connection.execute(query)]


_GRANTED_TO = select(platform_domain_grants.c.platform_domain_id).where(
    platform_domain_grants.c.organization_id == bindparam("organization_id")
)
_VISIBLE = Pages(
    _SELECTED.where(
        ~platform_domains.c.hidden & (~platform_domains.c.restricted | platform_domains.c.id.in_(_GRANTED_TO))
    ),
    platform_domains.c.created_at,
    platform_domains.c.id,
    lambda rows: [_platform_domain(row) for row in rows],
)


def list_visible(
    tx: Tx, actor: Actor, organization_id: int, limit: int, after: Position | None
) -> list[PlatformDomain]:
    """Return a page of the platform domains that an organization sees and the actor's token may use, newest
    first.

    The SQL condition repeats the rule `model.is_visible`; a test compares the two.
    """
    found: list[PlatformDomain] = []
    while len(found) < limit:
        page = _VISIBLE.read(tx, limit, after, organization_id=organization_id)
        found += [each for each in page if actor.restrictions.allows_domain(each.domain)]
        if len(page) < limit:
            break
        after = Position(page[-1].created_at, page[-1].id)
    return found[:limit]


AT_OR_BELOW = select(platform_domains.c.id).where(_PRESENT & at_or_below(platform_domains.c.owner_key))
"""A query of the platform domains at or below the name of a `key_range`, for the stores of other tables."""
_AT_OR_BELOW = Prepared(AT_OR_BELOW.limit(1))


def has_platform_domain_at_or_below(tx: Tx, fqdn: str) -> bool:
    """True if the name, or a name below it, is a platform domain."""
    return _AT_OR_BELOW.one_or_none(tx, **key_range(owner_key(fqdn))) is not None


_NEXT_KEYS = Prepared(select_adjacent_keys(platform_domains.c.owner_key, _PRESENT))


def next_owner_keys(tx: Tx, fqdn: str) -> list[str]:
    """Return the owner keys of platform domains directly before and after the key `owner_key(fqdn) + "."`;
    fewer at an end.

    `zone_store.next_owner_keys` explains their use.
    """
    row = _NEXT_KEYS.one_or_none(tx, **key_range(owner_key(fqdn)))
    return [key for key in row or () if key is not None]


def insert_platform_domain(tx: Tx, domain: str, **values: object) -> int:
    """Insert a platform domain and return its id. Its name must be new (`uq_platform_domains_domain`)."""
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
    """Update columns of a platform domain."""
    tx.connection.execute(
        update(platform_domains)
        .where(platform_domains.c.id == platform_domain_id)
        .values(updated_at=tx.now, **values)
    )


def lock_against_registrations(tx: Tx, platform_domain_id: int) -> None:
    """Lock a platform domain until the transaction ends.

    Wait for the registrations under it that are not committed; new ones wait.
    """
    query = select(platform_domains.c.id).where(platform_domains.c.id == platform_domain_id)
    tx.connection.execute(query.with_for_update()).one()


def find_removed(tx: Tx, domain: str) -> tuple[int, int] | None:
    """Return the id and the serial of a removed platform domain with this name, or None."""
    removed = (platform_domains.c.domain == domain) & ~_PRESENT
    row = tx.connection.execute(
        select(platform_domains.c.id, platform_domains.c.serial).where(removed)
    ).one_or_none()
    return (row[0], row[1]) if row is not None else None


def remove_platform_domain(tx: Tx, platform_domain_id: int) -> None:
    """Mark a platform domain as removed, and delete its offers, grants, labels and patterns."""
    for table in (offers, platform_domain_grants, label_grants, labels, label_patterns):
        tx.connection.execute(delete(table).where(table.c.platform_domain_id == platform_domain_id))
    update_platform_domain(tx, platform_domain_id, removed_at=tx.now, names_until=None, redate_after_id=None)


_GRANTED = Prepared(
    select(platform_domain_grants.c.platform_domain_id).where(
        platform_domain_grants.c.organization_id == bindparam("of")
    )
)


def granted_platform_domain_ids(tx: Tx, organization_id: int) -> frozenset[int]:
    """Return the ids of the platform domains that are granted to an organization."""
    return frozenset(row[0] for row in _GRANTED.all(tx, of=organization_id))


def list_granted_organization_ids(tx: Tx, platform_domain_id: int) -> list[int]:
    """Return the ids of the organizations that a platform domain is granted to."""
    rows = tx.connection.execute(
        select(platform_domain_grants.c.organization_id)
        .where(platform_domain_grants.c.platform_domain_id == platform_domain_id)
        .order_by(platform_domain_grants.c.organization_id)
    )
    return [row[0] for row in rows]


def insert_grant(tx: Tx, platform_domain_id: int, organization_id: int) -> None:
    """Insert a grant of a platform domain to an organization."""
    tx.connection.execute(
        insert(platform_domain_grants).values(
            platform_domain_id=platform_domain_id, organization_id=organization_id
        )
    )


def delete_grant(tx: Tx, platform_domain_id: int, organization_id: int) -> bool:
    """Delete a grant. Return True if it existed."""
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
    """Return the offers of a platform domain, withdrawn ones too."""
    return [Offer(*row) for row in _OFFERS.all(tx, of=platform_domain_id)]


_RENEWAL = Prepared(
    select(*_OFFER, labels.c.renewal_price_credits)
    .select_from(
        offers.outerjoin(
            labels,
            (labels.c.platform_domain_id == offers.c.platform_domain_id)
            & (labels.c.label == bindparam("listed")),
        )
    )
    .where((offers.c.platform_domain_id == bindparam("of")) & (offers.c.mode == bindparam("chosen")))
)


def find_renewal(tx: Tx, platform_domain_id: int, mode: str, label: str) -> tuple[Offer, int | None]:
    """Return the offer of a mode, withdrawn or not, and the label's own renewal price, if it has one.

    Offers are never deleted.
    """
    row = _RENEWAL.one_or_none(tx, of=platform_domain_id, chosen=mode, listed=label)
    assert row is not None, "an offer is missing"  # noqa: S101
    return Offer(*row[:-1]), row[-1]


def list_offers_of(tx: Tx, platform_domain_ids: Sequence[int]) -> dict[int, list[Offer]]:
    """Return the offers of each of these platform domains, withdrawn ones too."""
    found: dict[int, list[Offer]] = {}
    for row in _OFFERS_OF.all(tx, among=platform_domain_ids):
        offer = Offer(*row)
        found.setdefault(offer.platform_domain_id, []).append(offer)
    return found


def replace_offer(tx: Tx, offer: Offer) -> None:
    """Store an offer in place of an earlier offer of the same mode."""
    same = (offers.c.platform_domain_id == offer.platform_domain_id) & (offers.c.mode == offer.mode)
    tx.connection.execute(delete(offers).where(same))
    tx.connection.execute(insert(offers).values(asdict(offer)))


def _rules_in(table: Table, kind: str, *columns: Column[Any]) -> Select[Any]:
    """Return a query for a platform domain, and for the label if the table has
    labels, as wide as an offer.
    """
    others = [null()] * (len(_OFFER) - 1 - len(columns))
    of = table.c.platform_domain_id == bindparam("of")
    if "label" in table.c:
        of &= table.c.label == bindparam("listed")
    return select(literal_column(f"'{kind}'"), *columns, *others).where(of)


_PRICES = (labels.c.price_credits, labels.c.renewal_price_credits)
# One query, because each registration needs all of them.
_LABEL_RULES = Prepared(
    union_all(
        _rules_in(offers, "offer", *_OFFER[1:]),
        _rules_in(labels, "label", labels.c.label_class, *_PRICES),
        _rules_in(label_grants, "grant", label_grants.c.label, label_grants.c.organization_id),
        _rules_in(label_patterns, "pattern", label_patterns.c.pattern),
        select(literal_column("'pattern'"), label_patterns.c.pattern, *[null()] * 4).where(_EVERYWHERE),
    )
)


def find_label_rules(tx: Tx, platform_domain_id: int, label: str) -> LabelRules:
    """Return what the operator has set for the registrations of a label under a platform domain."""
    found: dict[str, list[Any]] = {"offer": [], "label": [], "grant": [], "pattern": []}
    for kind, *values in _LABEL_RULES.all(tx, of=platform_domain_id, listed=label):
        found[kind].append(values)
    granted = tuple(sorted(values[1] for values in found["grant"]))
    listed = [
        Label(platform_domain_id, label, label_class, price, renewal_price, granted)
        for label_class, price, renewal_price, *_ in found["label"]
    ]
    return LabelRules(
        listed[0] if listed else None,
        tuple(values[0] for values in found["pattern"]),
        tuple(Offer(platform_domain_id, *values) for values in found["offer"]),
    )


def find_label(tx: Tx, platform_domain_id: int, label: str) -> Label | None:
    """Return the operator's entry for a label, with the grants, or None."""
    return find_label_rules(tx, platform_domain_id, label).listed


def list_labels(tx: Tx, platform_domain_id: int) -> list[Label]:
    """Return the labels that the operator listed for a platform domain, in alphabetical order."""
    granted: dict[str, list[int]] = defaultdict(list)
    grants = select(label_grants.c.label, label_grants.c.organization_id).where(
        label_grants.c.platform_domain_id == platform_domain_id
    )
    for label, organization_id in tx.connection.execute(grants.order_by(label_grants.c.organization_id)):
        granted[label].append(organization_id)
    listed = select(labels.c.label, labels.c.label_class, *_PRICES).where(
        labels.c.platform_domain_id == platform_domain_id
    )
    rows = tx.connection.execute(listed.order_by(labels.c.label))
    return [Label(platform_domain_id, *row, tuple(granted[row[0]])) for row in rows]


def list_guarded_labels(tx: Tx, platform_domain_id: int) -> list[str]:
    """Return the listed labels that not all users may register: reserved, blocked and special ones."""
    guarded = labels.c.label_class.in_(("reserved", "blocked", "special"))
    query = select(labels.c.label).where((labels.c.platform_domain_id == platform_domain_id) & guarded)
    return [row[0] for row in tx.connection.execute(query)]


def replace_label(tx: Tx, label: Label) -> None:
    """Store a listed label with its grants in place of an earlier entry."""
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
    """Delete a label from the list, with its grants. Return True if it was listed."""
    for table in (label_grants, labels):
        deleted = tx.connection.execute(
            delete(table).where((table.c.platform_domain_id == platform_domain_id) & (table.c.label == label))
        )
    return deleted.rowcount > 0


def list_patterns(tx: Tx) -> list[LabelPattern]:
    """Return all patterns in alphabetical order, first the patterns for all platform domains."""
    query = select(*_PATTERN).order_by(
        label_patterns.c.platform_domain_id.is_not(None),
        label_patterns.c.platform_domain_id,
        label_patterns.c.pattern,
    )
    return [LabelPattern(*row) for row in tx.connection.execute(query)]


def count_patterns(tx: Tx, platform_domain_id: int | None) -> int:
    """Return the number of patterns of a platform domain.

    With None, count the patterns for all platform domains.
    """
    query = select(func.count()).select_from(label_patterns).where(_of(platform_domain_id))
    return int(tx.connection.execute(query).scalar_one())


def find_pattern(tx: Tx, platform_domain_id: int | None, pattern: str) -> LabelPattern | None:
    """Return a pattern of a platform domain, or None.

    With None as the id, find a pattern for all platform domains.
    """
    query = select(*_PATTERN).where(_of(platform_domain_id) & (label_patterns.c.pattern == pattern))
    row = tx.connection.execute(query).one_or_none()
    return LabelPattern(*row) if row is not None else None


def insert_pattern(tx: Tx, platform_domain_id: int | None, pattern: str) -> LabelPattern:
    """Insert a pattern.

    Raises:
        Conflict: another process has just inserted the same pattern.
    """
    added = insert(label_patterns).values(
        platform_domain_id=platform_domain_id, pattern=pattern, created_at=tx.now
    )
    try:
        pattern_id = tx.connection.execute(added.returning(label_patterns.c.id)).scalar_one()
    except IntegrityError as error:
        names = ("uq_label_patterns_everywhere", "uq_label_patterns_platform_domain_id_pattern")
        if any(violates(error, name) for name in names):
            raise Conflict(f"The pattern {pattern} is blocked already. No action needed.") from error
        raise
    return LabelPattern(pattern_id, pattern, platform_domain_id, tx.now)


def delete_pattern(tx: Tx, pattern_id: int) -> bool:
    """Delete a pattern. Return True if it existed."""
    return tx.connection.execute(delete(label_patterns).where(label_patterns.c.id == pattern_id)).rowcount > 0


def _of(platform_domain_id: int | None) -> ColumnElement[bool]:
    if platform_domain_id is None:
        return _EVERYWHERE
    return label_patterns.c.platform_domain_id == platform_domain_id
