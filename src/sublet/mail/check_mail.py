"""Check the outbox: what `sublet doctor` asks of mail."""

from datetime import timedelta

from sublet.accounts.check_accounts import CLOCKS_APART
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.mail import store

WAITING_MAX = timedelta(days=1)


def check_mail(tx: Tx) -> list[Violation]:
    """Return every mail that waits for longer than a day, with why; and every one that was put in at an instant to come.

    The table's constraints hold the rest: a mail waits, was sent, logged or given up, and no reference is there twice. One that
    was given up is no fault of the registry's; `sublet mail list` shows it.
    """
    late = [
        Violation(
            "no_mail_waits",
            "mail",
            mail.id,
            f"{mail.reference} waits to be sent: {mail.error or 'is the service running?'}",
        )
        for mail in store.list_waiting_since(tx, tx.now - WAITING_MAX)
    ]
    to_come = [
        Violation(
            "mail_is_past",
            "mail",
            mail.id,
            f"{mail.reference} is of {mail.created_at:%Y-%m-%d %H:%M} UTC, which is to come",
        )
        for mail in store.list_to_come(tx, tx.now + CLOCKS_APART)
    ]
    return late + to_come
