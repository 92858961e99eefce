"""Put mail into the outbox, in the transaction of what it tells of: it is sent if and only if that stands."""

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.mail import store


def enqueue(
    tx: Tx, user: User, *, reference: str, subject: str, text: str, recipient: str | None = None
) -> int:
    """Add a mail to a user, at its address of now or at another, and return the mail's id.

    `reference` is unique for ever: what is told twice is a fault of the caller's. Not checked: whether the user wants such mail.
    """
    return store.insert_mail(
        tx,
        user_id=user.id,
        recipient=recipient or user.email,
        reference=reference,
        subject=subject,
        text=text,
    )
