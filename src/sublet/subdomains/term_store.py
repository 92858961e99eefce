"""All SQL of terms: the stretches of time that a name was registered or renewed for, each with what it cost."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    bindparam,
    insert,
    select,
)

from sublet.db import Prepared, Tx
from sublet.schema import BIG_ID, Instant, metadata
from sublet.subdomains.model import Term

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


# Added to at every registration, and asked at every look at a name, so they are built once, as in `store.py`.
_ADDED = Prepared(insert(terms))
_NEWEST = Prepared(
    select(*(terms.c[name] for name in Term.__slots__))
    .where(terms.c.subdomain_id == bindparam("of"))
    .order_by(terms.c.id.desc())
    .limit(bindparam("at_most", type_=Integer))
)


def insert_term(tx: Tx, **values: object) -> None:
    """Add a term that a name was registered or renewed for; two of one name can't start at one instant."""
    _ADDED.run(tx, **{"created_at": tx.now, **values})


def list_terms(tx: Tx, subdomain_id: int, limit: int) -> list[Term]:
    """Which terms has this name? The newest up to a limit, oldest first."""
    rows = _NEWEST.all(tx, of=subdomain_id, at_most=limit)
    return [Term(*row) for row in rows][::-1]
