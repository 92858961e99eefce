"""Check the outbox: what `sublet doctor` asks of mail."""

from datetime import timedelta

from sublet.db import Tx
from sublet.invariants import Violation
from sublet.mail import store

WAITING_MAX = timedelta(days=1)


def check_mail(tx: Tx) -> list[Violation]:
    """Return every mail that waits for longer than a day, with why.

    The table's constraints hold the rest: a mail waits, was sent or was given up, and no reference is there twice. One that
    was given up is no fault of the registry's; `sublet mail list` shows it.
    """
    return [
        Violation(
            "no_mail_waits",
            "mail",
            mail.id,
            f"{mail.reference} waits to be sent: {mail.error or 'is the service running?'}",
        )
        for mail in store.list_waiting_since(tx, tx.now - WAITING_MAX)
    ]
