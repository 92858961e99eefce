"""Mail about changes of an account, so that its user notices changes by other people."""

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.ids import new_request_id
from sublet.mail.letter import render
from sublet.mail.outbox import enqueue


def notify(
    tx: Tx,
    user: User,
    event: str,
    object_id: int,
    sentence: str,
    public_url: str,
    *,
    recipient: str | None = None,
    page: str = "/account",
) -> None:
    """Mail a sentence to a user, or to `recipient`, a former address of the user.

    `event` and `object_id` form the mail's reference.

    The mail has a link to the console's `page`.
    """
    message = render(
        "account_event",
        name=user.name,
        sentence=sentence,
        at=f"{tx.now:%Y-%m-%d %H:%M} UTC",
        public_url=public_url,
    )
    reference = f"account:{event}:{object_id}:{new_request_id()}"
    enqueue(tx, user, message, reference=reference, page=page, recipient=recipient)
