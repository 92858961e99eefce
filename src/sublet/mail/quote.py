"""Users' texts in mails (rules)."""

import re
from typing import Final

CHARACTERS_MAX: Final = 1000
"""The maximum number of quoted characters of a text."""

_DOT: Final = re.compile(r"(?<=[^\s.])[.\u3002\uff0e\uff61](?=[^\s.])")
"""A dot inside a word, also in the forms that IDNA treats as a dot."""
_COLON: Final = re.compile(r"(?<=[A-Za-z])[:\uff1a](?=\S)|[:\uff1a](?=//)")
"""A colon after the scheme of a URL."""
_AT: Final = re.compile(r"[@\uff20\ufe6b]")


def without_links(text: str) -> str:
    """Return a text without links: `https://a.example` becomes `https[:]//a[.]example`.

    Mail programs make links of URLs, of host names and of addresses, so all three get brackets. Unprintable characters become spaces,
    because they can reverse or hide text.
    """
    printable = "".join(char if char.isprintable() else " " for char in text)
    return _AT.sub("[at]", _COLON.sub("[:]", _DOT.sub("[.]", printable)))


def quoted(text: str) -> str:
    """Return a text without links, between quotation marks. It belongs in the text of a mail, never in the subject."""
    inner = without_links(text).replace("“", '"').replace("”", '"')
    return f"“{inner}”"


def quote_lines(text: str) -> str:
    """Return a text as quoted lines without links. A text of more than `CHARACTERS_MAX` characters is cut off."""
    kept = text.strip()[:CHARACTERS_MAX]
    lines = [without_links(each) for each in kept.splitlines()]
    if len(text.strip()) > CHARACTERS_MAX:
        lines.append("[…]")
    return "\n".join(f"> {each}".rstrip() for each in lines)
