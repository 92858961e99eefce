"""Check the ledger: what `sublet doctor` asks of credits."""

from sublet.credits import check_store
from sublet.db import Tx
from sublet.invariants import Violation


def check_ledger(tx: Tx) -> list[Violation]:
    """Return every broken invariant of the ledger and the coupons; each charge's operation is checked with the terms."""
    return [
        *check_store.list_wrong_balances(tx),
        *check_store.list_unbalanced_ledger(tx),
        *check_store.list_broken_histories(tx),
        *check_store.list_wrong_refunds(tx),
        *check_store.list_wrong_coupons(tx),
    ]
