"""The parts that the texts of mails share, and users' texts in them (rules)."""

import re
from typing import Final, NamedTuple

from sublet.mail.model import SIGNATURE

CHARACTERS_MAX: Final = 1000
"""The maximum number of quoted characters of a text."""

_DOT: Final = re.compile(r"(?<=[^\s.])[.\u3002\uff0e\uff61](?=[^\s.])")
"""A dot inside a word, also in the forms that IDNA treats as a dot."""
_COLON: Final = re.compile(r"(?<=[A-Za-z])[:\uff1a](?=\S)|[:\uff1a](?=//)")
"""A colon after the scheme of a URL."""
_AT: Final = re.compile(r"[@\uff20\ufe6b]")


def without_links(text: str) -> str:
    """Return a text without links: `https://a.example` becomes `https[:]//a[.]example`.

    Mail programs make links of URLs, of host names and of addresses, so all three get brackets. Unprintable
    characters become spaces, because they can reverse or hide text.
    """
    printable = "".join(char if char.isprintable() else " " for char in text)
    return _AT.sub("[at]", _COLON.sub("[:]", _DOT.sub("[.]", printable)))


def quoted(text: str) -> str:
    """Return a text without links, between quotation marks.

    It belongs in the text of a mail, never in the subject.
    """
    inner = without_links(text).replace("“", '"').replace("”", '"')
    return f"“{inner}”"


def quote_lines(text: str) -> str:
    """Return a text as quoted lines without links.

    A text of more than `CHARACTERS_MAX` characters is cut off.
    """
    kept = text.strip()[:CHARACTERS_MAX]
    lines = [without_links(each) for each in kept.splitlines()]
    if len(text.strip()) > CHARACTERS_MAX:
        lines.append("[…]")
    return "\n".join(f"> {each}".rstrip() for each in lines)


REMINDERS_FOOTER = (
    "You get this mail because reminders are on for your account. You can turn them off on the page Account."
)
CHANGES_ADVICE = (
    "You can make other changes, or turn these off, on the page of the name. If you didn't expect this "
    "change, replace the keys of your zone, and open a ticket on the page Help."
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
    """Return the text of a mail: a greeting with the user's name, then these paragraphs.

    The footer follows as a signature (RFC 3676, section 4.3).
    """
    text = "\n\n".join((f"Hello {without_links(user_name)},", *paragraphs))
    return f"{text}{SIGNATURE}{footer}\n" if footer else f"{text}\n"
