"""Record a payment that was made outside (the operator's `sublet payment record`)."""

from dataclasses import dataclass

from sublet.accounts.find import lock_user
from sublet.audit import Actor
from sublet.counted import counted
from sublet.credits import package_store, store
from sublet.credits.fields import check_amount, check_credits, check_currency, check_reference
from sublet.credits.ledger import Entry
from sublet.credits.model import Movement
from sublet.credits.movement import move
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, NotFound, validation_failed


@dataclass(frozen=True, slots=True)
class PaymentMade:
    """A payment outside: its reference there, and either the package that was bought or credits, amount and currency."""

    reference: str
    package_id: int | None = None
    credits: int | None = None
    amount: str | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class _Bought:
    credits: int
    amount: str
    currency: str
    description: str


def record_payment(tx: Tx, actor: Actor, identifier: str, made: PaymentMade) -> Movement:
    """Give a user the credits that it paid for. The same reference counts once, whoever records it again.

    Raises, in this order:
        NotFound: no such user; no such package.
        ValidationFailed: all wrong fields: reference; both a package and credits, amount or currency, or neither whole.
        Conflict: the reference was recorded before.
    """
    user = lock_user(tx, identifier)
    reference, errors = check_reference(made.reference)
    bought, more = _bought(tx, made)
    errors = [*errors, *more]
    if bought is None or errors:
        raise validation_failed(errors)
    if store.has_reference(tx, f"payment:{reference}"):
        raise Conflict(
            f"The payment {reference} was recorded before; nothing was changed. Give another reference, if this is another payment."
        )
    entry = Entry(
        user.id,
        "purchase",
        bought.credits,
        f"payment:{reference}",
        bought.description,
        amount=bought.amount,
        currency=bought.currency,
    )
    return move(tx, actor, user, "payment.record", entry)


def _bought(tx: Tx, made: PaymentMade) -> tuple[_Bought | None, list[FieldError]]:
    alone = {"credits": made.credits, "amount": made.amount, "currency": made.currency}
    if made.package_id is not None:
        package = package_store.find_package(tx, made.package_id)
        if package is None:
            raise NotFound(f"There is no package {made.package_id}. See `sublet package list`.")
        errors = [
            FieldError(field, "value_invalid", "The package says this already; leave one of them out.")
            for field, value in alone.items()
            if value is not None
        ]
        bought = _Bought(package.credits, package.price, package.currency, f"Purchase: {package.name}")
        return bought, errors
    errors = [
        FieldError(field, "required", "Give a package, or credits, amount and currency.")
        for field, value in alone.items()
        if value is None
    ]
    amount, amount_errors = check_amount("amount", made.amount) if made.amount is not None else ("", [])
    currency, currency_errors = check_currency(made.currency) if made.currency is not None else ("", [])
    credit_count = made.credits if made.credits is not None else 0
    credit_errors = check_credits("credits", credit_count) if made.credits is not None else []
    errors = [*errors, *credit_errors, *amount_errors, *currency_errors]
    if errors:
        return None, errors
    return _Bought(credit_count, amount, currency, f"Purchase of {counted(credit_count, 'credit')}"), []
