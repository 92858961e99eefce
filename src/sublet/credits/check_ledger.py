"""Check the ledger: what `sublet doctor` asks of credits."""

from sublet.credits import check_coupon_store, check_store
from sublet.db import Tx
from sublet.invariants import Violation


def check_ledger(tx: Tx) -> list[Violation]:
    """Return every broken invariant of the ledger, the coupons and packages; each charge's operation is checked with the terms."""
    return [
        *check_store.list_wrong_balances(tx),
        *check_store.list_unbalanced_ledger(tx),
        *check_store.list_broken_histories(tx),
        *check_store.list_wrong_transfers(tx),
        *check_store.list_repeated_references(tx),
        *check_store.list_wrong_refunds(tx),
        *check_store.list_wrong_packages(tx),
        *check_store.list_unaudited(tx),
        *check_coupon_store.list_wrong_counts(tx),
        *check_coupon_store.list_wrong_discounts(tx),
    ]
