"""The SQL of credits: the ledger with its entries, coupons and their uses, packages."""

from datetime import datetime
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Select,
    String,
    Table,
    Text,
    bindparam,
    case,
    func,
    insert,
    literal,
    select,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from sublet.accounts.store import tokens, users, within_names
from sublet.audit import Actor
from sublet.credits.ledger import NewEntry, check_entry, registry_account
from sublet.credits.model import Coupon, EntryOfUser, Package, StoredEntry
from sublet.db import Prepared, Tx
from sublet.errors import Conflict
from sublet.ids import Position
from sublet.schema import BIG_ID, Instant, metadata, recent, violates

ledger_accounts = Table(
    "ledger_accounts",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("user_id", ForeignKey("users.id"), unique=True),
    Column("balance", BIG_ID, nullable=False),
    CheckConstraint("kind <> 'user' OR balance >= 0", name="balance"),
    CheckConstraint("(kind = 'user') = (user_id IS NOT NULL)", name="kind"),
    sqlite_autoincrement=True,
)

ledger_entries = Table(
    "transfers",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("reference", String(128), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("debit_account_id", ForeignKey("ledger_accounts.id"), nullable=False),
    Column("credit_account_id", ForeignKey("ledger_accounts.id"), nullable=False),
    Column("credits", BIG_ID, nullable=False),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("balance_after", BIG_ID, nullable=False),
    Column("amount", String(32)),
    Column("currency", String(3)),
    Column("description", Text, nullable=False),
    Column("subdomain_id", BIG_ID),
    Column("subdomain", String(253)),
    Column("refunded_transfer_id", ForeignKey("transfers.id"), unique=True),
    Column("created_at", Instant, nullable=False),
    Column("token_id", BIG_ID),
    CheckConstraint("credits > 0", name="credits"),
    CheckConstraint("debit_account_id <> credit_account_id", name="accounts"),
    CheckConstraint("balance_after >= 0", name="balance_after"),
    CheckConstraint("(amount IS NULL) = (currency IS NULL)", name="amount"),
    Index("ix_transfers_user_id_created_at", "user_id", "created_at", "id"),
    Index("ix_transfers_user_id_id", "user_id", "id"),
    sqlite_autoincrement=True,
)


_OF_USER = select(ledger_accounts.c.balance).where(ledger_accounts.c.user_id == bindparam("of"))
_BALANCE = Prepared(_OF_USER)
_BALANCE_LOCKED = Prepared(_OF_USER.with_for_update(key_share=True))


def lock_balance(tx: Tx, user_id: int) -> int:
    """Lock and return a user's balance in credits. Insert the user's account if it is missing."""
    found = _BALANCE_LOCKED.one_or_none(tx, of=user_id)
    if found is None:
        tx.connection.execute(insert(ledger_accounts).values(kind="user", user_id=user_id, balance=0))
        return 0
    return int(found[0])


def find_balance(tx: Tx, user_id: int) -> int:
    """Return a user's balance in credits, without a lock."""
    found = _BALANCE.one_or_none(tx, of=user_id)
    return int(found[0]) if found is not None else 0


_MOVE = update(ledger_accounts).values(balance=ledger_accounts.c.balance + bindparam("moved"))
_MOVED_OF_USER = Prepared(
    _MOVE.where(ledger_accounts.c.user_id == bindparam("of")).returning(
        ledger_accounts.c.id, ledger_accounts.c.balance
    )
)
_MOVED_OF_REGISTRY = Prepared(
    _MOVE.where(
        (ledger_accounts.c.kind == bindparam("account")) & ledger_accounts.c.user_id.is_(None)
    ).returning(ledger_accounts.c.id)
)
_ADDED = Prepared(insert(ledger_entries).returning(ledger_entries.c.id))


def post(tx: Tx, entry: NewEntry) -> int:
    """Move credits between a user's account and one of the registry's own accounts, and return the entry's
    id.

    Raises:
        Conflict: the balance would fall below 0; the reference was used before; the charge was refunded
            before.
    """
    check_entry(entry)
    try:
        moved = _MOVED_OF_USER.one_or_none(tx, of=entry.user_id, moved=entry.credits)
        if moved is None:
            lock_balance(tx, entry.user_id)  # inserts the account
            moved = _MOVED_OF_USER.one_or_none(tx, of=entry.user_id, moved=entry.credits)
        user_account_id, balance_after = moved
        registry_account_id = _MOVED_OF_REGISTRY.value(
            tx, account=registry_account(entry.kind), moved=-entry.credits
        )
        adds = entry.credits > 0
        row = asdict(entry) | {
            "debit_account_id": registry_account_id if adds else user_account_id,
            "credit_account_id": user_account_id if adds else registry_account_id,
            "credits": abs(entry.credits),
            "balance_after": balance_after,
            "created_at": tx.now,
        }
        return int(_ADDED.value(tx, **row))
    except IntegrityError as error:
        if violates(error, "ck_ledger_accounts_balance"):
            raise Conflict("The balance is too low. Nothing was changed. Deduct less.") from error
        if violates(error, "uq_transfers_reference"):
            raise Conflict(
                f"The reference {entry.reference} was used before. Nothing was changed. Give another "
                "reference."
            ) from error
        if violates(error, "uq_transfers_refunded_transfer_id"):
            raise Conflict(
                "This charge was refunded before. Nothing was changed. Use `sublet credits grant` to give "
                "more."
            ) from error
        raise


# Stored credits are positive. If the credited account is the registry's (it has no user), the user paid, so
# the sign is negative.
_SIGNED = case(
    (ledger_accounts.c.user_id.is_(None), -ledger_entries.c.credits), else_=ledger_entries.c.credits
)
_ENTRIES = select(
    *(_SIGNED if name == "credits" else ledger_entries.c[name] for name in StoredEntry.__struct_fields__)
).join_from(ledger_entries, ledger_accounts, ledger_accounts.c.id == ledger_entries.c.credit_account_id)


def _newest_entries(user_id: int | None, limit: int) -> Select[Any]:
    """Return the query of a user's entries, newest first: by id, because `balance_after` follows the ids. The
    instants needn't: on PostgreSQL a transaction may begin before another one, and wait for its balance.
    """
    query = _ENTRIES.where(ledger_entries.c.user_id == user_id)
    return query.order_by(ledger_entries.c.id.desc()).limit(limit)


def list_entries(tx: Tx, user_id: int, limit: int) -> list[StoredEntry]:
    """Return up to `limit` of the newest ledger entries of a user, newest first."""
    return [StoredEntry(*row) for row in tx.connection.execute(_newest_entries(user_id, limit))]


def list_payments(tx: Tx, user_id: int | None, limit: int) -> list[EntryOfUser]:
    """Return up to `limit` of the newest payments of a user, or of all users, newest first."""
    query = _ENTRIES.add_columns(users.c.email).join(users, users.c.id == ledger_entries.c.user_id)
    query = query.where(ledger_entries.c.kind == "purchase")
    if user_id is not None:
        query = query.where(ledger_entries.c.user_id == user_id)
    rows = tx.connection.execute(query.order_by(ledger_entries.c.id.desc()).limit(limit))
    return [EntryOfUser(StoredEntry(*row[:-1]), row[-1]) for row in rows]


def list_own_entries(tx: Tx, actor: Actor, limit: int, after: Position | None) -> list[StoredEntry]:
    """Return the ledger entries of the user, newest first, without entries for names outside the token's
    restrictions.
    """
    query = _newest_entries(actor.holder_id, limit)
    if not actor.restrictions.allows_all_names:
        name = ledger_entries.c.subdomain
        query = query.where(name.is_(None) | within_names(actor.restrictions, name))
    if after is not None:
        query = query.where(ledger_entries.c.id < after.id)
    return [StoredEntry(*row) for row in tx.connection.execute(query)]


def sum_charges(tx: Tx, token_id: int, since: datetime) -> int:
    """Return the credits charged since an instant with a token, and with all tokens that share its budget."""
    budget = func.coalesce(tokens.c.budget_token_id, tokens.c.id)
    user_id, budget_id = tx.connection.execute(
        select(tokens.c.user_id, budget).where(tokens.c.id == token_id)
    ).one()
    sharing = select(tokens.c.id).where((tokens.c.user_id == user_id) & (budget == budget_id))
    organizations = select(tokens.c.organization_id).where(tokens.c.id.in_(sharing))
    accounts = select(users.c.id).where(users.c.is_organization & users.c.organization_id.in_(organizations))
    query = select(func.coalesce(func.sum(ledger_entries.c.credits), 0)).where(
        ledger_entries.c.user_id.in_(union_all(select(literal(user_id)), accounts))
        & recent(ledger_entries.c.created_at, since, tx.now)
        & (ledger_entries.c.kind == "charge")
        & ledger_entries.c.token_id.in_(sharing)
    )
    return int(tx.connection.execute(query).scalar_one())


def find_entry(tx: Tx, entry_id: int) -> StoredEntry | None:
    """Return the ledger entry with this id, or None."""
    row = tx.connection.execute(_ENTRIES.where(ledger_entries.c.id == entry_id)).one_or_none()
    return StoredEntry(*row) if row is not None else None


def has_reference(tx: Tx, reference: str) -> bool:
    """True if a ledger entry has this reference."""
    query = select(ledger_entries.c.id).where(ledger_entries.c.reference == reference)
    return tx.connection.execute(query).first() is not None


def count_entries(tx: Tx, user_id: int, kind: str) -> int:
    """Return the number of a user's ledger entries of this kind."""
    query = select(func.count()).where(
        (ledger_entries.c.user_id == user_id) & (ledger_entries.c.kind == kind)
    )
    return int(tx.connection.execute(query).scalar_one())


def find_subdomain_id_of_entry(tx: Tx, entry_id: int) -> int | None:
    """Return the id of a ledger entry's subdomain, or None."""
    query = select(ledger_entries.c.subdomain_id).where(ledger_entries.c.id == entry_id)
    return tx.connection.execute(query).scalar_one_or_none()


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


_COUPON = tuple(coupons.c[name] for name in Coupon.__struct_fields__)


def lock_coupon(tx: Tx, code: str) -> Coupon | None:
    """Lock and return the coupon with this code, or None. The lock serializes uses of the coupon."""
    query = select(*_COUPON).where(coupons.c.code == code).with_for_update(key_share=True)
    row = tx.connection.execute(query).one_or_none()
    return Coupon(*row) if row is not None else None


def list_coupons(tx: Tx) -> list[Coupon]:
    """Return all coupons, newest first."""
    return [Coupon(*row) for row in tx.connection.execute(select(*_COUPON).order_by(coupons.c.id.desc()))]


def count_uses_by_user(tx: Tx, coupon_id: int, user_id: int) -> int:
    """Return the number of a user's uses of a coupon."""
    uses = (coupon_uses.c.coupon_id == coupon_id) & (coupon_uses.c.user_id == user_id)
    return int(tx.connection.execute(select(func.count()).where(uses)).scalar_one())


def insert_coupon_use(
    tx: Tx, coupon_id: int, user_id: int, subdomain_id: int, entry_id: int | None, discount_credits: int
) -> None:
    """Store a use of a coupon, and increment the coupon's `uses`.

    The constraint `ck_coupons_uses` enforces the maximum.
    """
    tx.connection.execute(update(coupons).where(coupons.c.id == coupon_id).values(uses=coupons.c.uses + 1))
    row = {
        "coupon_id": coupon_id,
        "user_id": user_id,
        "subdomain_id": subdomain_id,
        "transfer_id": entry_id,
        "discount_credits": discount_credits,
        "created_at": tx.now,
    }
    tx.connection.execute(insert(coupon_uses), row)


def insert_coupon(tx: Tx, **values: object) -> Coupon:
    """Store a coupon, and return it. The constraint `uq_coupons_code` keeps codes unique."""
    added = insert(coupons).values(uses=0, created_at=tx.now, **values).returning(*_COUPON)
    return Coupon(*tx.connection.execute(added).one())


def retire_coupon(tx: Tx, coupon_id: int) -> Coupon:
    """Mark a coupon as retired, and return it."""
    changed = update(coupons).where(coupons.c.id == coupon_id).values(retired_at=tx.now)
    return Coupon(*tx.connection.execute(changed.returning(*_COUPON)).one())


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

_PACKAGE = tuple(packages.c[name] for name in Package.__struct_fields__)
_NEWEST_FIRST = select(*_PACKAGE).order_by(packages.c.id.desc())
_ALL = Prepared(_NEWEST_FIRST)
_ON_SALE = Prepared(_NEWEST_FIRST.where(packages.c.retired_at.is_(None)))


def list_packages(tx: Tx, *, retired: bool = False) -> list[Package]:
    """Return the packages for sale, newest first. With `retired`, include retired packages."""
    return [Package(*row) for row in (_ALL if retired else _ON_SALE).all(tx)]


def find_package(tx: Tx, package_id: int) -> Package | None:
    """Return the package with this id, or None."""
    row = tx.connection.execute(select(*_PACKAGE).where(packages.c.id == package_id)).one_or_none()
    return Package(*row) if row is not None else None


def insert_package(tx: Tx, name: str, credit_count: int, price: str, currency: str) -> Package:
    """Store a package, and return it."""
    row = {"name": name, "credits": credit_count, "price": price, "currency": currency, "created_at": tx.now}
    return Package(*tx.connection.execute(insert(packages).values(**row).returning(*_PACKAGE)).one())


def retire_package(tx: Tx, package_id: int) -> Package | None:
    """Mark a package as retired, and return it. Return None if it is retired already."""
    offered = (packages.c.id == package_id) & packages.c.retired_at.is_(None)
    changed = update(packages).where(offered).values(retired_at=tx.now).returning(*_PACKAGE)
    row = tx.connection.execute(changed).one_or_none()
    return Package(*row) if row is not None else None
