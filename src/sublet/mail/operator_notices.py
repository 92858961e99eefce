"""Notices to the operator: store them with the event, and mail them together (docs/operating/mail.md)."""

from sublet.db import Tx
from sublet.mail import operator_notice_store as store
from sublet.mail.letter import CHARACTERS_MAX
from sublet.mail.operator_mail import EVERY, KINDS, write_operator_mail
from sublet.mail.store import insert_mail

OPERATOR_REFERENCE = "operator:"
"""The prefix of the references of mails to the operator."""

_AT_ONCE_MAX = 10_000
"""The maximum number of notices in a mail."""


def notify_operator(
    tx: Tx, kind: str, text: str, *, reference: str, quoted: str = "", user_id: int | None = None
) -> None:
    """Add a notice to the operator (a key of `KINDS`).

    The mailer sends it, together with the other notices of a quarter of an hour.

    Call this in the transaction of the event that the notice is about. A second notice with the same
    `reference` (at most 128 characters) is ignored. `text` says what happened and which command shows more.
    It must not contain text of a user: that is `quoted`, and is mailed as quoted lines without links.
    `user_id` is the user whose deletion erases the notice.

    Without an address for the operator, the notice is deleted.
    """
    assert kind in KINDS, kind  # noqa: S101 - callers give a constant
    store.insert_notice(
        tx, reference=reference, kind=kind, text=text, quoted=quoted[: CHARACTERS_MAX + 1], user_id=user_id
    )


def is_operator_mail_due(tx: Tx) -> bool:
    """True if notices wait, and the last mail to the operator is at least `EVERY` old."""
    if not store.is_any_waiting(tx):
        return False
    last = store.find_last_mailed_at(tx)
    # A mail in the future was enqueued while the clock was ahead.
    return last is None or not last <= tx.now < last + EVERY


def mail_notices(tx: Tx, address: str, site_name: str) -> int | None:
    """Enqueue one mail to the operator about the waiting notices.

    Return its id, or None if another worker did it.

    Without an `address`, delete the notices.
    """
    if not address:
        store.delete_waiting(tx)
        return None
    notices = store.lock_waiting(tx, _AT_ONCE_MAX)
    if not notices or not is_operator_mail_due(tx):
        return None
    mail_id = insert_mail(
        tx,
        user_id=None,
        recipient=address,
        reference=f"{OPERATOR_REFERENCE}{notices[0].id}",
        message=write_operator_mail(notices, site_name),
        page="",
    )
    store.record_mail(tx, [each.id for each in notices], mail_id)
    return mail_id
