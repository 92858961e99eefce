"""The parts that the texts of mails to users share (rules)."""

from typing import NamedTuple

from sublet.mail.model import SIGNATURE
from sublet.mail.quote import without_links

REMINDERS_FOOTER = (
    "You get this mail because reminders are on for your account. You can turn them off on the page Account."
)
CHANGES_ADVICE = (
    "You can make other changes, or turn these off, on the page of the name. If you didn't expect this change, replace the keys of your "
    "zone, and open a ticket on the page Help."
)
"""For mails about changes that the child zone requested."""


class Message(NamedTuple):
    """The subject and the text of a mail."""

    subject: str
    text: str


def name_page(fqdn: str) -> str:
    """Return the path of a name's page in the console."""
    return f"/names/{fqdn}"


def letter(user_name: str, *paragraphs: str, footer: str = "") -> str:
    """Return the text of a mail: a greeting with the user's name, then these paragraphs. The footer follows as a signature (RFC 3676, section 4.3)."""
    text = "\n\n".join((f"Hello {without_links(user_name)},", *paragraphs))
    return f"{text}{SIGNATURE}{footer}\n" if footer else f"{text}\n"
