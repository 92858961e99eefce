"""All SQL of the patterns of labels that nobody may register."""

from sqlalchemy import (
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from sublet.db import Prepared, Tx
from sublet.errors import Conflict
from sublet.platform_domains.label_patterns import PATTERN_CHARACTERS_MAX
from sublet.platform_domains.model import LabelPattern
from sublet.schema import BIG_ID, Instant, metadata, violates

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
_PATTERN = tuple(label_patterns.c[name] for name in LabelPattern.__slots__)

# Asked at every registration.
_FOR = Prepared(
    select(label_patterns.c.pattern).where(
        _EVERYWHERE | (label_patterns.c.platform_domain_id == bindparam("of"))
    )
)


def list_patterns_for(tx: Tx, platform_domain_id: int) -> list[str]:
    """Which patterns hold for labels of this platform domain: its own, and those of all?"""
    return [row[0] for row in _FOR.all(tx, of=platform_domain_id)]


def list_patterns(tx: Tx) -> list[LabelPattern]:
    """Which patterns are there? Those of all platform domains first, then in the order of the alphabet."""
    query = select(*_PATTERN).order_by(
        label_patterns.c.platform_domain_id.is_not(None),
        label_patterns.c.platform_domain_id,
        label_patterns.c.pattern,
    )
    return [LabelPattern(*row) for row in tx.connection.execute(query)]


def count_patterns(tx: Tx, platform_domain_id: int | None) -> int:
    """How many patterns does a platform domain have, or (None) all together?"""
    query = select(func.count()).select_from(label_patterns).where(_of(platform_domain_id))
    return int(tx.connection.execute(query).scalar_one())


def find_pattern(tx: Tx, platform_domain_id: int | None, pattern: str) -> LabelPattern | None:
    """Is there this pattern, of this platform domain or (None) of all?"""
    query = select(*_PATTERN).where(_of(platform_domain_id) & (label_patterns.c.pattern == pattern))
    row = tx.connection.execute(query).one_or_none()
    return LabelPattern(*row) if row is not None else None


def insert_pattern(tx: Tx, platform_domain_id: int | None, pattern: str) -> LabelPattern:
    """Add a pattern.

    Raises:
        Conflict: another process was faster with the same, which is the database's to hold.
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


def delete_pattern(tx: Tx, pattern_id: int) -> None:
    """Remove a pattern."""
    tx.connection.execute(delete(label_patterns).where(label_patterns.c.id == pattern_id))


def _of(platform_domain_id: int | None) -> ColumnElement[bool]:
    if platform_domain_id is None:
        return _EVERYWHERE
    return label_patterns.c.platform_domain_id == platform_domain_id
