"""The rules of the ledger: double entry in credits. Ledger entries are inserted and never changed.

Every entry moves credits from one account to another, so the balances of all accounts sum to 0. A user's balance is never below 0. The
house's accounts are the other side of each entry. An entry is a row of the table `transfers`. The contract shows it as a payment, the
commands as a movement. Elsewhere a transfer moves a name to another user.
"""

import re
from dataclasses import dataclass

from sublet.credits.fields import check_amount, check_currency, check_reference

REGISTRY_ACCOUNTS = ("sales", "grants", "adjustments", "revenue")
"""Purchases come from `sales`, grants from `grants`, adjustments from `adjustments`. Charges go to `revenue`, and refunds come from it."""

_REGISTRY_ACCOUNT_BY_KIND = {
    "purchase": "sales",
    "grant": "grants",
    "adjustment": "adjustments",
    "charge": "revenue",
    "refund": "revenue",
}
ADDS_CREDITS = {"charge": False, "purchase": True, "grant": True, "refund": True}
"""True if a kind adds credits to the user. An adjustment may do either."""
KINDS = (*ADDS_CREDITS, "adjustment")


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A ledger entry to post. `credits` is signed (a charge is negative), `reference` is unique among all entries.

    `refunded_transfer_id` is set for a refund, `token_id` for a charge by a token. Purchases have an `amount`, a decimal string in
    `currency`.
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
    """Return the house's account for entries of this kind."""
    return _REGISTRY_ACCOUNT_BY_KIND[kind]


def check_entry(entry: NewEntry) -> None:
    """Raise ValueError if an entry is impossible because of a bug in the caller.

    Charges deduct; purchases, grants and refunds add; adjustments add or deduct. No entry is 0.
    """
    gives = entry.credits > 0
    wanted = ADDS_CREDITS.get(entry.kind, gives)
    if entry.credits == 0 or gives is not wanted or entry.kind not in KINDS:
        raise ValueError(f"no such ledger entry: {entry.kind} of {entry.credits}")


_CHARGE_REFERENCE = re.compile(r"(register|renew|restore):([0-9]+):[0-9]{8}T[0-9]{6}\.[0-9]{6}Z")


@dataclass(frozen=True, slots=True)
class EntryWithAccounts:
    """A stored entry, with the kinds and users of its two accounts. `sublet doctor` checks it with the rules below."""

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
    users = ("user", entry.user_id)
    house = (registry_account(entry.kind), None)
    sides = ((entry.debit_kind, entry.debit_user_id), (entry.credit_kind, entry.credit_user_id))
    given, taken = sides == (house, users), sides == (users, house)
    if not (given or taken) or ADDS_CREDITS.get(entry.kind, given) is not given:
        return f"the accounts or the direction don't fit the kind {entry.kind}"
    if (entry.kind == "charge") and entry.subdomain_id is None:
        return "the charge has no name"
    return None


def reference_problem(entry: EntryWithAccounts) -> str | None:
    """Return the fault in an entry's reference (its form, or the user, name or charge in it), or None."""
    kind, _, rest = entry.reference.partition(":")
    if entry.kind == "charge":
        match = _CHARGE_REFERENCE.fullmatch(entry.reference)
        well = match is not None and int(match[2]) == entry.subdomain_id
    elif entry.kind == "purchase":
        well = kind == "payment" and not check_reference(rest)[1]
    elif entry.kind == "refund":
        well = entry.reference == f"refund:{entry.refunded_transfer_id}"
    else:
        user_id, _, number = rest.partition(":")
        well = kind == entry.kind and user_id == str(entry.user_id) and number.isdecimal()
    return None if well else f"{entry.reference} is not a reference of this {entry.kind}"


def price_problem(entry: EntryWithAccounts) -> str | None:
    """Return the fault in the money of an entry, or None. Only purchases have an amount and a currency."""
    if entry.kind != "purchase":
        return None if entry.amount is entry.currency is None else f"a {entry.kind} has an amount of money"
    return money_problem(entry.amount, entry.currency)


def money_problem(amount: str | None, currency: str | None) -> str | None:
    """Return the fault if a stored amount and currency are not canonical, or None."""
    if amount is None or currency is None:
        return "it has no amount or no currency"
    canonical, errors = check_amount("amount", amount)
    same_currency, more = check_currency(currency)
    if errors or more or (canonical, same_currency) != (amount, currency):
        return f"{amount} {currency} is not a canonical amount of money"
    return None
