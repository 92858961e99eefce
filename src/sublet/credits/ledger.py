"""The rules of the ledger: double entry in credits, transfers that are only ever added.

Every transfer takes credits from one account and gives them to another, so each sums to 0 and so do all accounts together.
A user's balance is what was given to its account less what was taken from it, and never below 0. The house's accounts say
where credits come from and where they go.
"""

from dataclasses import dataclass

HOUSE_ACCOUNTS = ("sales", "grants", "adjustments", "revenue")
"""Purchases come from sales, grants from grants, corrections from adjustments; charges go to revenue."""

_HOUSE_BY_KIND = {
    "purchase": "sales",
    "grant": "grants",
    "adjustment": "adjustments",
    "charge": "revenue",
    "refund": "revenue",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One movement of a user's balance: `credits` signed (a charge is negative), `reference` unique for ever.

    `refunded_transfer_id` names the charge that a refund gives back. `amount` is a decimal string in `currency`, of purchases.
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


def house_account(kind: str) -> str:
    """Return the house's account that stands on the other side of a user's movement of this kind."""
    return _HOUSE_BY_KIND[kind]


def check_entry(entry: Entry) -> None:
    """Assert that an entry makes sense: a fault of the caller's if not, no refusal.

    Charges take; purchases, grants and refunds give; an adjustment may do either; none moves nothing.
    """
    gives = entry.credits > 0
    wanted = {"charge": False, "purchase": True, "grant": True, "refund": True}.get(entry.kind, gives)
    if entry.credits == 0 or gives is not wanted or entry.kind not in _HOUSE_BY_KIND:
        raise ValueError(f"no such movement: {entry.kind} of {entry.credits}")
