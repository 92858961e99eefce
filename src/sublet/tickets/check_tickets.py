"""Check the tickets: what `sublet doctor` asks of support."""

from sublet.db import Tx
from sublet.invariants import Violation
from sublet.tickets import check_store


def check_tickets(tx: Tx) -> list[Violation]:
    """Return every broken invariant of the tickets, their messages and the mails about them."""
    return [
        *check_store.list_foreign_subjects(tx),
        *check_store.list_unaudited(tx),
        *check_store.list_misdirected_mails(tx),
    ]
