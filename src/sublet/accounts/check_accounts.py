"""Check accounts and the audit: what `sublet doctor` asks of users, tokens and what is written of everything."""

from datetime import timedelta

from sublet.accounts import check_audit_store, check_store
from sublet.db import Tx
from sublet.invariants import Violation

CLOCKS_APART = timedelta(minutes=1)
"""How far the clocks of two machines that serve one registry may be apart; and a look sees what is written after it began."""


def check_accounts(tx: Tx) -> list[Violation]:
    """Return every broken invariant of users, organizations and tokens."""
    return [*check_store.list_homeless(tx), *check_store.list_unaudited(tx)]


def check_audit(tx: Tx) -> list[Violation]:
    """Return every broken invariant of the audit itself, of the tables that are only added to, and of the rows' numbers.

    It stands with the accounts because the secrets that must not be in the audit are theirs.
    """
    return [
        *check_audit_store.list_missing_guards(tx),
        *check_audit_store.list_numbers_given_again(tx),
        *check_audit_store.list_events_to_come(tx, CLOCKS_APART),
        *check_audit_store.list_audited_secrets(tx),
    ]
