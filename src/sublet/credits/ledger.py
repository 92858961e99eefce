"""The rules of the ledger: double entry in credits. Ledger entries are inserted and never changed.

Every entry moves credits between a user's account and one of the registry's own accounts, so the balances of
all accounts sum to 0. A user's balance is never below 0. Entries are the rows of the table `transfers`. The
API calls them payments, the operator's commands movements. In the rest of the code, a transfer moves a name
to another user.
"""

import re
from decimal import Decimal

from msgspec import Struct

from sublet.dns.names import shown
from sublet.errors import FieldError

REGISTRY_ACCOUNTS = ("sales", "grants", "adjustments", "revenue")
"""The registry's own accounts. Purchases, grants and adjustments have one each. Charges go to `revenue`, and
refunds come from `revenue`.
"""

_REGISTRY_ACCOUNT_BY_KIND = {
    "purchase": "sales",
    "grant": "grants",
    "adjustment": "adjustments",
    "charge": "revenue",
    "refund": "revenue",
}
ADDS_CREDITS = {"charge": False, "purchase": True, "grant": True, "refund": True}
"""True if entries of a kind add credits to the user, False if they deduct. An adjustment may do either."""
KINDS = (*ADDS_CREDITS, "adjustment")


class NewEntry(Struct, frozen=True):
    """A ledger entry to post. `credits` is negative for a deduction. `reference` is unique among all entries.

    Only purchases have an `amount`, a decimal string in `currency`. `refunded_transfer_id` is the charge that
    a refund returns, `token_id` the token that made a charge.
    """

    user_id: int
    kind: str
    credits: int
    reference: str
    description: str
    amount: str | None = None
    currency: str | None = None
    subdomain_id: int | None = None
    subdomain: str | None = None
    refunded_transfer_id: int | None = None
    token_id: int | None = None


def registry_account(kind: str) -> str:
    """Return the kind of the registry's own account for ledger entries of this kind."""
    return _REGISTRY_ACCOUNT_BY_KIND[kind]


def check_entry(entry: NewEntry) -> None:
    """Raise ValueError if an entry has an unknown kind, 0 credits, or the wrong sign for its kind."""
    adds = entry.credits > 0
    if entry.credits == 0 or entry.kind not in KINDS or ADDS_CREDITS.get(entry.kind, adds) is not adds:
        raise ValueError(f"impossible ledger entry: {entry.kind} of {entry.credits} credits")


_CHARGE_REFERENCE = re.compile(r"(register|renew|restore):([0-9]+):[0-9]{8}T[0-9]{6}\.[0-9]{6}Z")


class EntryWithAccounts(Struct, frozen=True):
    """A stored ledger entry with the kinds and users of its two accounts, for the
    checks of `sublet doctor`.
    """

    id: int
    reference: str
    kind: str
    credits: int
    user_id: int
    debit_account_id: int
    credit_account_id: int
    debit_kind: str | None
    debit_user_id: int | None
    credit_kind: str | None
    credit_user_id: int | None
    amount: str | None
    currency: str | None
    subdomain_id: int | None
    refunded_transfer_id: int | None


def entry_problem(entry: EntryWithAccounts) -> str | None:
    """Return the fault in the accounts and the direction of an entry, or None."""
    if entry.debit_account_id == entry.credit_account_id:
        return "it moves credits from an account to itself"
    if entry.credits <= 0:
        return f"it moves {entry.credits} credits"
    if entry.kind not in KINDS:
        return f"there is no kind {entry.kind}"
    user = ("user", entry.user_id)
    registry = (registry_account(entry.kind), None)
    debit, credit = (entry.debit_kind, entry.debit_user_id), (entry.credit_kind, entry.credit_user_id)
    adds, deducts = (debit, credit) == (registry, user), (debit, credit) == (user, registry)
    if not (adds or deducts) or ADDS_CREDITS.get(entry.kind, adds) is not adds:
        return f"the accounts or the direction don't fit the kind {entry.kind}"
    if (entry.kind == "charge") and entry.subdomain_id is None:
        return "the charge has no name"
    return None


def reference_problem(entry: EntryWithAccounts) -> str | None:
    """Return the fault in an entry's reference, or None. The kind determines the form of the reference."""
    kind, _, rest = entry.reference.partition(":")
    if entry.kind == "charge":
        match = _CHARGE_REFERENCE.fullmatch(entry.reference)
        is_valid = match is not None and int(match[2]) == entry.subdomain_id
    elif entry.kind == "purchase":
        is_valid = kind == "payment" and not check_reference(rest)[1]
    elif entry.kind == "refund":
        is_valid = entry.reference == f"refund:{entry.refunded_transfer_id}"
    else:
        user_id, _, number = rest.partition(":")
        is_valid = kind == entry.kind and user_id == str(entry.user_id) and number.isdecimal()
    return None if is_valid else f"{entry.reference} is not a reference of this {entry.kind}"


def price_problem(entry: EntryWithAccounts) -> str | None:
    """Return the fault in the amount and currency of an entry, or None.

    Only purchases have an amount and a currency.
    """
    if entry.kind != "purchase":
        return None if entry.amount is entry.currency is None else f"the {entry.kind} has an amount of money"
    return money_problem(entry.amount, entry.currency)


def money_problem(amount: str | None, currency: str | None) -> str | None:
    """Return the fault if a stored amount or currency is missing or not in canonical form, or None."""
    if amount is None or currency is None:
        return "it has no amount or no currency"
    canonical, errors = check_amount("amount", amount)
    same_currency, more = check_currency(currency)
    if errors or more or (canonical, same_currency) != (amount, currency):
        return f"{amount} {currency} is not a canonical amount of money"
    return None


CREDITS_MAX = 10**12
"""The maximum number of credits in one ledger entry. It is far below the maximum of a stored integer, and
every JSON parser reads it exactly.
"""
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,4})?")
_CURRENCY = re.compile(r"[A-Z]{3}")
_REFERENCE = re.compile(r"[!-~]{1,100}")


def check_credits(field: str, credit_count: int, *, least: int = 1) -> list[FieldError]:
    """Return the errors in a number of credits to move or sell."""
    if least <= credit_count <= CREDITS_MAX:
        return []
    return [FieldError(field, "value_invalid", f"Give a whole number of credits, {least} to {CREDITS_MAX}.")]


def check_amount(field: str, text: str) -> tuple[str, list[FieldError]]:
    """Return an amount of money as a decimal string with at least two places, and its errors."""
    plain = text.strip()
    if not _AMOUNT.fullmatch(plain):
        message = f"`{shown(text)}` is not an amount. Give an amount such as 9.90."
        return plain, [FieldError(field, "value_invalid", message)]
    amount = Decimal(plain)
    places = max(2, -int(amount.as_tuple().exponent))
    return f"{amount:.{places}f}", []


def check_currency(text: str) -> tuple[str, list[FieldError]]:
    """Return a currency code in capitals, and its errors. Not checked: that ISO 4217 lists the code."""
    currency = text.strip().upper()
    if not _CURRENCY.fullmatch(currency):
        message = f"`{shown(text)}` is not a currency. Give three letters, such as EUR."
        return currency, [FieldError("currency", "value_invalid", message)]
    return currency, []


def check_reference(text: str) -> tuple[str, list[FieldError]]:
    """Return the reference of a payment (1 to 100 printable ASCII characters without
    spaces), and its errors.
    """
    reference = text.strip()
    if not reference:
        return reference, [FieldError("reference", "required", "Give the reference of the payment.")]
    if not _REFERENCE.fullmatch(reference):
        message = "The reference is invalid. Use 1 to 100 printable ASCII characters without spaces."
        return reference, [FieldError("reference", "value_invalid", message)]
    return reference, []
