"""`sublet credits`, `sublet package`, `sublet payment` and `sublet coupon`: the users' credits and their
payments.
"""

from datetime import UTC, datetime
from typing import Annotated

from typer import Argument, Option

from sublet.accounts.find import find_user
from sublet.accounts.model import User as FoundUser
from sublet.cli.options import (
    INSTANT_FORMATS,
    Limit,
    OnlyDomain,
    OnlyUser,
    ReasonForUser,
    User,
    id_argument,
)
from sublet.cli.output import Answer, Column, as_object, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.counted import counted
from sublet.credits import store
from sublet.credits.coupons import COUPON_ACTIONS, COUPON_MODES, CouponTerms, add_coupon, retire_coupon
from sublet.credits.entries import (
    ExternalPayment,
    adjust_credits,
    grant_credits,
    record_payment,
    refund_charge,
)
from sublet.credits.model import EntryOfUser, StoredEntry
from sublet.credits.packages import add_package, retire_package
from sublet.db import Tx
from sublet.ids import MAX_ID

credits_app = new_app("Grant, correct and refund credits.")
package_app = new_app("Add, list and retire packages of credits for sale.")
payment_app = new_app("Record and list payments made outside Sublet.")
coupon_app = new_app("Add, list and retire coupons.")


def _answer(posted: EntryOfUser) -> Answer:
    entry = posted.entry
    sign = "+" if entry.credits > 0 else "-"
    line = (
        f"{posted.email}: {sign}{counted(abs(entry.credits), 'credit')}. The balance is "
        f"{entry.balance_after}."
    )
    return Answer({**as_object(entry), "email": posted.email}, (line,))


@audited_command(credits_app, "grant", former_arguments=("user", "credit_count"))
def grant(
    session: Session,
    user: User,
    credit_count: Annotated[int, Option("--credits", metavar="N", help="The number of credits to add.")],
    reason: Annotated[str, Option(metavar="TEXT", help="The reason. The user sees it too.")],
) -> Answer:
    """Grant credits to a user."""
    return _answer(session.write(grant_credits, user, credit_count, reason))


@audited_command(credits_app, "adjust", former_arguments=("user", "credit_count"))
def adjust(
    session: Session,
    user: User,
    credit_count: Annotated[
        int,
        Option(
            "--credits",
            metavar="N",
            help="The number of credits to add, or a negative number to deduct (-5).",
        ),
    ],
    reason: ReasonForUser = None,
) -> Answer:
    """Correct a user's balance: add or deduct credits."""
    return _answer(session.write(adjust_credits, user, credit_count, reason))


@audited_command(credits_app, "refund")
def refund(
    session: Session,
    entry_id: Annotated[int, id_argument("The charge's id; see `sublet credits history`.")],
    credit_count: Annotated[
        int | None, Option("--credits", metavar="N", help="The number of credits; default: the whole charge.")
    ] = None,
    reason: ReasonForUser = None,
) -> Answer:
    """Refund a charge, or a part of it. A charge can be refunded once."""
    return _answer(session.write(refund_charge, entry_id, credit_count, reason))


@command(credits_app, "history")
def history(session: Session, user: User, limit: Limit = 100) -> Answer:
    """List the movements of a user's balance, newest first."""

    def query(tx: Tx) -> tuple[FoundUser, int, list[StoredEntry]]:
        found = find_user(tx, user)
        return found, store.find_balance(tx, found.id), store.list_entries(tx, found.id, limit)

    found, balance, entries = session.read(query)
    columns = (
        "id", ("at", "created_at"), "kind", "credits", ("balance", "balance_after"), "description",
        "reference",
    )  # fmt: skip
    value = {"email": found.email, "balance": balance, "payments": entries}
    lines = (f"{found.email}: {counted(balance, 'credit')}",)
    return Answer(value, lines, table_of(entries, columns, "There are no movements."))


Amount = Annotated[str, Option(metavar="AMOUNT", help="Such as 9.90.")]
Currency = Annotated[str, Option(metavar="CODE", help="Such as EUR (ISO 4217).")]


@audited_command(package_app, "add")
def add_package_(
    session: Session,
    name: Annotated[str, Argument(metavar="NAME", help="The package's name.")],
    credit_count: Annotated[int, Option("--credits", metavar="N", help="The number of credits.")],
    price: Amount,
    currency: Currency,
) -> Answer:
    """Add a package of credits for sale."""
    package = session.write(add_package, name, credit_count, price, currency)
    line = (
        f"Added the package {package.name} (id {package.id}): {counted(package.credits, 'credit')} for "
        f"{package.price} {package.currency}."
    )
    return Answer(package, (line,))


@command(package_app, "list")
def list_packages(
    session: Session, retired: Annotated[bool, Option("--retired", help="List retired packages too.")] = False
) -> Answer:
    """List the packages for sale."""
    packages = session.read(store.list_packages, retired=retired)
    columns = ("id", "name", "credits", "price", "currency", "retired_at")
    return Answer(packages, table=table_of(packages, columns, "There are no packages."))


@audited_command(package_app, "retire")
def retire_package_(
    session: Session,
    package_id: Annotated[int, id_argument("See `sublet package list`.")],
) -> Answer:
    """Stop offering a package."""
    package = session.write(retire_package, package_id)
    return Answer(package, (f"The package {package.name} is retired.",))


@audited_command(payment_app, "record")
def record(
    session: Session,
    user: User,
    reference: Annotated[
        str, Option(metavar="REF", help="The payment's reference. Each reference can be recorded once.")
    ],
    package: Annotated[int | None, Option(metavar="ID", min=1, max=MAX_ID, help="The package's id.")] = None,
    credit_count: Annotated[
        int | None, Option("--credits", metavar="N", help="The number of credits.")
    ] = None,
    amount: Annotated[str | None, Option(metavar="AMOUNT", help="Such as 9.90.")] = None,
    currency: Annotated[str | None, Option(metavar="CODE", help="Such as EUR (ISO 4217).")] = None,
) -> Answer:
    """Record a payment for a package, or for --credits at --amount and --currency."""
    made = ExternalPayment(reference, package, credit_count, amount, currency)
    return _answer(session.write(record_payment, user, made))


@command(payment_app, "list")
def list_payments(session: Session, user: OnlyUser = None, limit: Limit = 100) -> Answer:
    """List recorded payments, newest first."""

    def query(tx: Tx) -> list[EntryOfUser]:
        return store.list_payments(tx, find_user(tx, user).id if user is not None else None, limit)

    payments = [{**as_object(each.entry), "email": each.email} for each in session.read(query)]
    reference: Column = ("reference", lambda each: each["reference"].removeprefix("payment:"))
    columns = ("id", ("at", "created_at"), ("user", "email"), "credits", "amount", "currency", reference)
    return Answer(payments, table=table_of(payments, columns, "There are no such payments."))


@audited_command(coupon_app, "add")
def add_coupon_(
    session: Session,
    code: Annotated[str, Argument(metavar="CODE", help="The code that users send, in any case.")],
    percent: Annotated[int | None, Option(metavar="N", help="Percent off, rounded down.")] = None,
    fixed: Annotated[int | None, Option(metavar="CREDITS", help="Credits off.")] = None,
    max_uses: Annotated[int | None, Option(metavar="N", help="The maximum number of uses in total.")] = None,
    max_uses_per_user: Annotated[
        int | None, Option(metavar="N", help="The maximum number of uses per user.")
    ] = None,
    valid_from: Annotated[
        datetime | None, Option(formats=INSTANT_FORMATS, help="The start, inclusive, in UTC.")
    ] = None,
    valid_until: Annotated[
        datetime | None, Option(formats=INSTANT_FORMATS, help="The end, exclusive, in UTC.")
    ] = None,
    action: Annotated[
        str | None, Option(metavar="ACTION", help=f"Only for: {', '.join(COUPON_ACTIONS)}.")
    ] = None,
    domain: OnlyDomain = None,
    mode: Annotated[str | None, Option(metavar="MODE", help=f"Only for: {', '.join(COUPON_MODES)}.")] = None,
) -> Answer:
    """Add a coupon for a discount in percent or credits."""
    terms = CouponTerms(
        percent=percent,
        fixed_credits=fixed,
        max_uses=max_uses,
        max_uses_per_user=max_uses_per_user,
        valid_from=valid_from.replace(tzinfo=UTC) if valid_from else None,
        valid_until=valid_until.replace(tzinfo=UTC) if valid_until else None,
        action=action,
        domain=domain,
        registration_mode=mode,
    )
    coupon = session.write(add_coupon, code, terms)
    return Answer(coupon, (f"Added the coupon {coupon.code}.",))


@command(coupon_app, "list")
def list_coupons(session: Session) -> Answer:
    """List all coupons, newest first."""
    coupons = session.read(store.list_coupons)
    columns: list[Column] = [
        "code",
        (
            "discount",
            lambda each: f"{each.value} %" if each.kind == "percent" else counted(each.value, "credit"),
        ),
        ("used", lambda each: each.uses if each.max_uses is None else f"{each.uses} of {each.max_uses}"),
        "valid_from",
        "valid_until",
        "retired_at",
    ]
    return Answer(coupons, table=table_of(coupons, columns, "There are no coupons."))


@audited_command(coupon_app, "retire")
def retire_coupon_(
    session: Session, code: Annotated[str, Argument(metavar="CODE", help="See `sublet coupon list`.")]
) -> Answer:
    """Stop accepting a coupon."""
    coupon = session.write(retire_coupon, code)
    return Answer(coupon, (f"The coupon {coupon.code} is retired.",))
