"""Claim a mail before it is sent: of several workers one sends it, and after a crash it is sent again."""

from dataclasses import replace

from sublet.db import Tx
from sublet.mail import store
from sublet.mail.attempts import LEASE
from sublet.mail.model import Mail


def claim(tx: Tx) -> Mail | None:
    """Return the mail that is longest due, its attempt counted and nobody else's to send for `LEASE`; None when none is due.

    It is to be sent outside any transaction, then `record_delivery` tells of it. Until then nothing says that it was sent:
    whoever dies in between leaves it to be sent once more.
    """
    mail = store.lock_due(tx)
    if mail is None:
        return None
    claimed = replace(mail, attempts=mail.attempts + 1, next_attempt_at=tx.now + LEASE)
    store.record_attempt(tx, mail.id, claimed.attempts, tx.now + LEASE)
    return claimed
