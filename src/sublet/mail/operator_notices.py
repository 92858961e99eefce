"""Notices to the operator: store them with the event, and mail them together (docs/operating/mail.md)."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sublet.db import Tx
from sublet.mail import store
from sublet.mail.letter import CHARACTERS_MAX, Message, quote_lines
from sublet.mail.model import SIGNATURE, Notice

EVERY: Final = timedelta(minutes=15)
"""The minimum time between two mails to the operator. Notices of this time share the next mail."""

NOTICES_MAX: Final = 20
"""The maximum number of notices with their text in a mail. The others are only counted."""

KINDS: Final = {
    "sweep": ("stop of the sweep", "stops of the sweep", "sublet sweep status"),
    "zone": ("zone problem", "zone problems", "sublet zone status"),
    "health": ("notice about delegations", "notices about delegations", "sublet health list"),
    "mail": ("failed mail", "failed mails", "sublet mail list"),
    "ticket": ("new ticket", "new tickets", "sublet ticket list"),
    "reply": ("reply to a ticket", "replies to tickets", "sublet ticket list"),
}
"""The kinds of notices: the words for one and for several, and the command that lists what they are about.
The first kinds come first in a mail.
"""

ERASED: Final = (
    "A notice in this mail was about a user who has been deleted, so the text of the mail was erased. "
    "`sublet doctor` and `sublet ticket list` show what needs you.\n"
)
"""The text of a mail with a notice about a deleted user."""


OPERATOR_REFERENCE = "operator:"
"""The prefix of the references of mails to the operator."""
_AT_ONCE_MAX = 10_000
"""The maximum number of notices in a mail."""


def write_operator_mail(notices: Sequence[Notice], site_name: str) -> Message:
    """Return one mail about all these notices (at least one).

    Its subject has only their numbers, and no text of a user.
    """
    ranks = list(KINDS)
    ordered = sorted(notices, key=lambda each: (ranks.index(each.kind), each.id))
    counts = Counter(each.kind for each in notices)
    numbers = ", ".join(_counted(kind, counts[kind]) for kind in KINDS if counts[kind])
    paragraphs = []
    for each in ordered[:NOTICES_MAX]:
        paragraphs += [each.text, quote_lines(each.quoted)] if each.quoted else [each.text]
    left_off = Counter(each.kind for each in ordered[NOTICES_MAX:])
    paragraphs += [
        f"And {_counted(kind, left_off[kind])}: `{KINDS[kind][2]}`" for kind in KINDS if left_off[kind]
    ]
    minutes = int(EVERY.total_seconds() // 60)
    footer = (
        "You get this mail because the setting operator_mail or site_contact has your address. There is "
        f"at most one in {minutes} minutes."
    )
    text = "\n\n".join(paragraphs)
    return Message(f"[{site_name}] {numbers}", f"{text}{SIGNATURE}{footer}\n")


def _counted(kind: str, number: int) -> str:
    one, several, _ = KINDS[kind]
    return f"{number} {one if number == 1 else several}"


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
    mail_id = store.insert_mail(
        tx,
        user_id=None,
        recipient=address,
        reference=f"{OPERATOR_REFERENCE}{notices[0].id}",
        message=write_operator_mail(notices, site_name),
        page="",
    )
    store.record_mail(tx, [each.id for each in notices], mail_id)
    return mail_id
