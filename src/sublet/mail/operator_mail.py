"""Write the mail to the operator about one or several notices (rules)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sublet.mail.letter import Message, quote_lines
from sublet.mail.model import SIGNATURE

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


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice to the operator.

    `text` is the service's, `quoted` a user's. `user_id` is the holder whose deletion erases the notice, if
    any.
    """

    id: int
    kind: str
    text: str
    quoted: str
    user_id: int | None


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
