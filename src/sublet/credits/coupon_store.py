"""All SQL of coupons and their uses."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    func,
    insert,
    select,
    update,
)

from sublet.credits.model import Coupon
from sublet.db import Tx
from sublet.schema import BIG_ID, Instant, metadata

coupons = Table(
    "coupons",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("code", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("value", BIG_ID, nullable=False),
    Column("max_uses", Integer),
    Column("max_uses_per_user", Integer),
    Column("uses", Integer, nullable=False),
    Column("valid_from", Instant),
    Column("valid_until", Instant),
    Column("action", String(16)),
    Column("platform_domain_id", ForeignKey("platform_domains.id")),
    Column("registration_mode", String(16)),
    Column("retired_at", Instant),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("max_uses IS NULL OR uses <= max_uses", name="uses"),
    CheckConstraint("value > 0 AND (kind <> 'percent' OR value <= 100)", name="value"),
    sqlite_autoincrement=True,
)

coupon_uses = Table(
    "coupon_uses",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("coupon_id", ForeignKey("coupons.id"), nullable=False),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("subdomain_id", BIG_ID, nullable=False),
    Column("transfer_id", ForeignKey("transfers.id")),
    Column("discount_credits", BIG_ID, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_coupon_uses_coupon_id_user_id", "coupon_id", "user_id"),
    sqlite_autoincrement=True,
)


_COUPON = tuple(coupons.c[name] for name in Coupon.__slots__)


def lock_coupon(tx: Tx, code: str) -> Coupon | None:
    """Which coupon has this code? Locked, so that its uses are counted one after the other."""
    row = tx.connection.execute(
        select(*_COUPON).where(coupons.c.code == code).with_for_update(key_share=True)
    ).one_or_none()
    return Coupon(*row) if row is not None else None


def find_coupon_by_id(tx: Tx, coupon_id: int) -> Coupon | None:
    """Which coupon has this id?"""
    row = tx.connection.execute(select(*_COUPON).where(coupons.c.id == coupon_id)).one_or_none()
    return Coupon(*row) if row is not None else None


def list_coupons(tx: Tx) -> list[Coupon]:
    """Which coupons are there? Newest first."""
    return [Coupon(*row) for row in tx.connection.execute(select(*_COUPON).order_by(coupons.c.id.desc()))]


def count_uses_by_user(tx: Tx, coupon_id: int, user_id: int) -> int:
    """How often has this user used this coupon?"""
    return int(
        tx.connection.execute(
            select(func.count())
            .select_from(coupon_uses)
            .where((coupon_uses.c.coupon_id == coupon_id) & (coupon_uses.c.user_id == user_id))
        ).scalar_one()
    )


def insert_coupon_use(
    tx: Tx, coupon_id: int, user_id: int, subdomain_id: int, transfer_id: int | None, discount_credits: int
) -> None:
    """Count one use; the CHECK `ck_coupons_uses` holds the limit whatever the code thinks."""
    tx.connection.execute(update(coupons).where(coupons.c.id == coupon_id).values(uses=coupons.c.uses + 1))
    tx.connection.execute(
        insert(coupon_uses).values(
            coupon_id=coupon_id,
            user_id=user_id,
            subdomain_id=subdomain_id,
            transfer_id=transfer_id,
            discount_credits=discount_credits,
            created_at=tx.now,
        )
    )


def insert_coupon(tx: Tx, **values: object) -> int:
    """Add a coupon; the unique code is the database's to hold (`uq_coupons_code`)."""
    return int(
        tx.connection.execute(
            insert(coupons).values(uses=0, created_at=tx.now, **values).returning(coupons.c.id)
        ).scalar_one()
    )


def retire_coupon(tx: Tx, coupon_id: int) -> None:
    """Mark a coupon as no longer to be used."""
    tx.connection.execute(update(coupons).where(coupons.c.id == coupon_id).values(retired_at=tx.now))
