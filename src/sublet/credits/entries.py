"""Post ledger entries for the operator: grant, adjust, refund and record a payment (`sublet credits …`,
`sublet payment record`).
"""

from msgspec import Struct

from sublet import audit
from sublet.accounts.fields import check_reason
from sublet.accounts.find import lock_user
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits import store
from sublet.credits.ledger import (
    CREDITS_MAX,
    NewEntry,
    check_amount,
    check_credits,
    check_currency,
    check_reference,
)
from sublet.credits.model import EntryOfUser
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, NotFound, validation_failed


def next_reference(tx: Tx, user: User, kind: str) -> str:
    """Return the reference of a user's next ledger entry of a kind: `grant:7:3` is the third grant of user 7.

    Locks the balance, so that two transactions don't get the same number.
    """
    store.lock_balance(tx, user.id)
    return f"{kind}:{user.id}:{store.count_entries(tx, user.id, kind) + 1}"


def post_entry(tx: Tx, actor: Actor, user: User, action: str, entry: NewEntry) -> EntryOfUser:
    """Post a checked ledger entry, and record an audit event about it.

    Raises:
        Conflict: the balance would fall below 0; the reference was used before.
    """
    entry_id = store.post(tx, entry)
    posted = store.find_entry(tx, entry_id)
    assert posted is not None  # noqa: S101 - just posted
    stored = ("user_id", "credits", "balance_after", "amount", "currency", "description", "reference")
    after = {name: getattr(posted, name) for name in stored}
    audit.record(tx, actor, action, entry_id, object_type="transfer", after=after)
    return EntryOfUser(posted, user.email)


def grant_credits(tx: Tx, actor: Actor, identifier: str, credit_count: int, reason: str) -> EntryOfUser:
    """Give credits to a user. The reason is shown in the user's history.

    Raises, in this order:
        NotFound: there is no such user.
        ValidationFailed: all invalid fields: credits (1 or more), reason (required).
    """
    user = lock_user(tx, identifier)
    text, errors = check_reason(reason, required=True)
    errors = [*check_credits("credits", credit_count), *errors]
    if errors:
        raise validation_failed(errors)
    reference = next_reference(tx, user, "grant")
    entry = NewEntry(user.id, "grant", credit_count, reference, f"Grant: {text}")
    return post_entry(tx, actor, user, "credits.grant", entry)


def adjust_credits(
    tx: Tx, actor: Actor, identifier: str, credit_count: int, reason: str | None = None
) -> EntryOfUser:
    """Add credits to a user's balance, or deduct them if `credit_count` is negative.

    Raises, in this order:
        NotFound: there is no such user.
        ValidationFailed: all invalid fields: credits (not 0), reason.
        Conflict: the balance would fall below 0.
    """
    user = lock_user(tx, identifier)
    text, errors = check_reason(reason)
    if credit_count == 0 or abs(credit_count) > CREDITS_MAX:
        message = (
            f"Give the credits to add, or a negative number to deduct: 1 to {CREDITS_MAX}, or -1 to "
            f"-{CREDITS_MAX}."
        )
        errors = [FieldError("credits", "value_invalid", message), *errors]
    if errors:
        raise validation_failed(errors)
    balance = store.lock_balance(tx, user.id)
    if balance + credit_count < 0:
        raise Conflict(
            f"The balance of {user.email} is {counted(balance, 'credit')}, so {-credit_count} can't be "
            "deducted. Deduct less."
        )
    description = f"Adjustment: {text}" if text else "Adjustment"
    entry = NewEntry(user.id, "adjustment", credit_count, next_reference(tx, user, "adjustment"), description)
    return post_entry(tx, actor, user, "credits.adjust", entry)


def refund_charge(
    tx: Tx, actor: Actor, entry_id: int, credit_count: int | None = None, reason: str | None = None
) -> EntryOfUser:
    """Refund a charge in full or in part. A charge can be refunded once. The charge's name keeps its term.

    Raises, in this order:
        NotFound: there is no such ledger entry.
        Conflict: the entry is not a charge.
        ValidationFailed: all invalid fields: credits (1 to the charge), reason.
        Conflict: the charge was refunded before.
    """
    charge = store.find_entry(tx, entry_id)
    if charge is None:
        raise NotFound(f"There is no movement {entry_id}. See `sublet credits history`.")
    user = lock_user(tx, str(charge.user_id))
    if charge.kind != "charge":
        raise Conflict(
            f"The kind of movement {entry_id} is {charge.kind}. Only charges can be refunded. Give the id "
            "of a charge."
        )
    text, errors = check_reason(reason)
    charged = -charge.credits
    refunded = charged if credit_count is None else credit_count
    if not 1 <= refunded <= charged:
        message = (
            f"The charge was {counted(charged, 'credit')}. Refund from 1 to {counted(charged, 'credit')}."
        )
        errors = [FieldError("credits", "value_invalid", message), *errors]
    if errors:
        raise validation_failed(errors)
    reference = f"refund:{entry_id}"
    if store.has_reference(tx, reference):
        raise Conflict(f"The charge {entry_id} was refunded before. Use `sublet credits grant` to give more.")
    entry = NewEntry(
        user.id,
        "refund",
        refunded,
        reference,
        f"Refund: {text or charge.description}",
        subdomain_id=store.find_subdomain_id_of_entry(tx, entry_id),
        subdomain=charge.subdomain,
        refunded_transfer_id=entry_id,
    )
    return post_entry(tx, actor, user, "credits.refund", entry)


class ExternalPayment(Struct, frozen=True):
    """A payment made outside Sublet.

    Either `package_id` is set, or `credits`, `amount` and `currency` are.
    """

    reference: str
    package_id: int | None = None
    credits: int | None = None
    amount: str | None = None
    currency: str | None = None


class _Purchase(Struct, frozen=True):
    credits: int
    amount: str
    currency: str
    description: str


def record_payment(tx: Tx, actor: Actor, identifier: str, payment: ExternalPayment) -> EntryOfUser:
    """Give a user the credits of a payment. A reference can be recorded once.

    Raises, in this order:
        NotFound: there is no such user; there is no such package.
        ValidationFailed: all invalid fields.
        Conflict: the reference was recorded before.
    """
    user = lock_user(tx, identifier)
    reference, errors = check_reference(payment.reference)
    purchase, more_errors = _find_purchase(tx, payment)
    errors = [*errors, *more_errors]
    if purchase is None or errors:
        raise validation_failed(errors)
    if store.has_reference(tx, f"payment:{reference}"):
        raise Conflict(
            f"The payment {reference} was recorded before. Nothing was changed. If this is a different "
            "payment, give its own reference."
        )
    entry = NewEntry(
        user.id,
        "purchase",
        purchase.credits,
        f"payment:{reference}",
        purchase.description,
        amount=purchase.amount,
        currency=purchase.currency,
    )
    return post_entry(tx, actor, user, "payment.record", entry)


def _find_purchase(tx: Tx, payment: ExternalPayment) -> tuple[_Purchase | None, list[FieldError]]:
    """Return what a payment buys, and the errors in its fields."""
    without_package = {"credits": payment.credits, "amount": payment.amount, "currency": payment.currency}
    if payment.package_id is not None:
        package = store.find_package(tx, payment.package_id)
        if package is None:
            raise NotFound(f"There is no package {payment.package_id}. See `sublet package list`.")
        errors = [
            FieldError(field, "value_invalid", "The package determines this value. Omit it.")
            for field, value in without_package.items()
            if value is not None
        ]
        purchase = _Purchase(package.credits, package.price, package.currency, f"Purchase: {package.name}")
        return purchase, errors
    errors = [
        FieldError(field, "required", "Give a package, or credits, amount and currency.")
        for field, value in without_package.items()
        if value is None
    ]
    amount, amount_errors = check_amount("amount", payment.amount) if payment.amount is not None else ("", [])
    currency, currency_errors = check_currency(payment.currency) if payment.currency is not None else ("", [])
    credit_count = payment.credits if payment.credits is not None else 0
    credit_errors = check_credits("credits", credit_count) if payment.credits is not None else []
    errors = [*errors, *credit_errors, *amount_errors, *currency_errors]
    if errors:
        return None, errors
    return _Purchase(credit_count, amount, currency, f"Purchase of {counted(credit_count, 'credit')}"), []
