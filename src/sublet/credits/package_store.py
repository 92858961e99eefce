"""All SQL of packages of credits."""

from sqlalchemy import CheckConstraint, Column, String, Table, insert, select, update

from sublet.credits.model import Package
from sublet.db import Prepared, Tx
from sublet.schema import BIG_ID, Instant, metadata

packages = Table(
    "packages",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("name", String, nullable=False),
    Column("credits", BIG_ID, nullable=False),
    Column("price", String(32), nullable=False),
    Column("currency", String(3), nullable=False),
    Column("retired_at", Instant),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("credits > 0", name="credits"),
    sqlite_autoincrement=True,
)

_PACKAGE = tuple(packages.c[name] for name in Package.__slots__)


_NEWEST_FIRST = select(*_PACKAGE).order_by(packages.c.id.desc())
_ALL = Prepared(_NEWEST_FIRST)
_ON_SALE = Prepared(_NEWEST_FIRST.where(packages.c.retired_at.is_(None)))


def list_packages(tx: Tx, *, retired: bool = False) -> list[Package]:
    """Which packages can be purchased (or, with `retired`, could ever be)? Newest first."""
    return [Package(*row) for row in (_ALL if retired else _ON_SALE).all(tx)]


def find_package(tx: Tx, package_id: int) -> Package | None:
    """Which package has this id?"""
    row = tx.connection.execute(select(*_PACKAGE).where(packages.c.id == package_id)).one_or_none()
    return Package(*row) if row is not None else None


def insert_package(tx: Tx, name: str, credit_count: int, price: str, currency: str) -> int:
    """Add a package."""
    return int(
        tx.connection.execute(
            insert(packages)
            .values(name=name, credits=credit_count, price=price, currency=currency, created_at=tx.now)
            .returning(packages.c.id)
        ).scalar_one()
    )


def retire_package(tx: Tx, package_id: int) -> None:
    """Mark a package as no longer offered."""
    tx.connection.execute(update(packages).where(packages.c.id == package_id).values(retired_at=tx.now))
