"""One limit of the mails that other people's requests send to a mailbox, over all purposes
(docs/spec-choices.md, "Part 8: limits").

Counted are codes to sign up, sign in and change an address, invitations, and offers of names. Notices to
users don't count.
"""

from datetime import timedelta

from sublet.db import LockedKind, Tx, lock_text
from sublet.errors import RateLimited
from sublet.mail.store import count_requested

MAILS_PER_HOUR = 5
"""The maximum number of mails that a mailbox gets within an hour."""
SIGN_IN_MAILS_PER_HOUR = 20
"""The maximum for codes to sign in. Higher, so that a stranger's few requests don't keep a person from
signing in.
"""
HOUR = timedelta(hours=1)


def lock_and_count_mails(tx: Tx, email: str) -> int:
    """Return the number of mails that a mailbox got within an hour.

    No other request mails it until this transaction ends.

    `email` is in its canonical form. Lock users first.
    """
    lock_text(tx, LockedKind.MAILBOX, email)
    return count_requested(tx, email, tx.now - HOUR)


def refuse_full_mailbox(tx: Tx, email: str) -> None:
    """Raise `RateLimited` if a mailbox got the maximum number of mails within an hour, from all requests.

    Locks like `lock_and_count_mails`.
    """
    if lock_and_count_mails(tx, email) >= MAILS_PER_HOUR:
        raise RateLimited(
            f"This address got {MAILS_PER_HOUR} mails within an hour, which is the maximum. Wait an hour.",
            retry_after_seconds=int(HOUR.total_seconds()),
        )
