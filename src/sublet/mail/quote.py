"""Quote a user's text in a mail to the operator (rules)."""

import re
from typing import Final

CHARACTERS_MAX: Final = 1000
"""The maximum number of quoted characters of a text."""

_DOT: Final = re.compile(r"(?<=[^\s.])[.\u3002\uff0e\uff61](?=[^\s.])")
"""A dot inside a word, also in the forms that IDNA treats as a dot."""


def quote(text: str) -> str:
    """Return a text as quoted lines without links: `https://a.example` becomes `https[:]//a[.]example`.

    Mail programs make links of URLs, of host names and of addresses, so all three get brackets. Unprintable characters become spaces,
    because they can reverse or hide text. A text of more than `CHARACTERS_MAX` characters is cut off.
    """
    kept = text.strip()[:CHARACTERS_MAX]
    lines = [_without_links(each) for each in kept.splitlines()]
    if len(text.strip()) > CHARACTERS_MAX:
        lines.append("[…]")
    return "\n".join(f"> {each}".rstrip() for each in lines)


def _without_links(line: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in line)
    return _DOT.sub("[.]", printable.replace("://", "[:]//").replace("@", "[at]"))
