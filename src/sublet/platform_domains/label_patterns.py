"""Patterns of labels that nobody may register: what one says, and which labels it means (rules; no SQL).

`*` stands for any characters, also none; `?` for exactly one; all else for itself. No regular expressions: whatever somebody writes
into a pattern, and whatever somebody else asks for, a match takes at most the product of both lengths in steps.
"""

import re
from collections.abc import Collection
from functools import lru_cache

from sublet.dns.look_alikes import skeleton
from sublet.dns.names import InvalidName, map_part, shown, to_unicode
from sublet.errors import FieldError

PATTERN_CHARACTERS_MAX = 100
PATTERNS_MAX = 1000
"""For each platform domain, and beside them for all: each registration is held against these."""

_WILD = re.compile(r"([*?])")


def parse_pattern(text: str) -> tuple[str, list[FieldError]]:
    """Return a pattern as it is stored, mapped as labels are (lower case, full-width forms …), with what is wrong with it.

    `value_invalid`: too long, a character that no label has, no character of its own (it would block every label).
    """
    problem = None
    pattern = ""
    if len(text) > PATTERN_CHARACTERS_MAX:
        problem = f"The pattern is too long. Give at most {PATTERN_CHARACTERS_MAX} characters."
    else:
        try:
            pattern = "".join(
                each if each in ("", "*", "?") else map_part(each) for each in _WILD.split(text)
            )
        except InvalidName as error:
            problem = str(error)
    if problem is None and not pattern.strip("*?"):
        problem = f"`{shown(text)}` would block every label; give at least one character beside * and ?."
    if problem is not None:
        return text, [FieldError("pattern", "value_invalid", problem)]
    return re.sub(r"\*+", "*", pattern), []


def is_blocked(label: str, patterns: Collection[str]) -> bool:
    """Tell whether a canonical label is meant by one of these patterns: as A-label, in its Unicode form, or as it looks (UTS 39)."""
    if not patterns:
        return False
    forms = {label, to_unicode(label)}
    looks = skeleton(label)
    return any(_means(pattern, forms, looks) for pattern in patterns)


def _means(pattern: str, forms: Collection[str], looks: str) -> bool:
    needle, look, look_needle = _parts(pattern)
    # Nearly every label lacks what stands in a pattern, and is done with here.
    return (look_needle in looks and matches(look, looks)) or any(
        needle in form and matches(pattern, form) for form in forms
    )


@lru_cache(maxsize=2 * PATTERNS_MAX)
def _parts(pattern: str) -> tuple[str, str, str]:
    """Return the longest text that is in whatever a pattern means; and its look, in which * and ? stay, with that of this."""
    look = skeleton(pattern)
    needle, look_needle = (max(re.split(r"[*?]", each), key=len) for each in (pattern, look))
    return needle, look, look_needle


def matches(pattern: str, text: str) -> bool:
    """Tell whether a stored pattern means exactly this text."""
    first, *others = pattern.split("*")
    if not others:
        return len(first) == len(text) and _stands_at(first, text, 0)
    *middle, last = others
    end = len(text) - len(last)
    if end < len(first) or not _stands_at(first, text, 0) or not _stands_at(last, text, end):
        return False
    start = len(first)
    for piece in middle:
        # The leftmost place is the best one: it leaves the most for the pieces behind it, so none is ever tried again.
        place = _find(piece, text, start, end)
        if place is None:
            return False
        start = place + len(piece)
    return True


def _find(piece: str, text: str, start: int, end: int) -> int | None:
    """Return where a piece without `*` stands first within `text[start:end]`, or None."""
    if "?" not in piece:
        found = text.find(piece, start, end)
        return found if found >= 0 else None
    places = range(start, end - len(piece) + 1)
    return next((place for place in places if _stands_at(piece, text, place)), None)


def _stands_at(piece: str, text: str, place: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, place)
    part = text[place : place + len(piece)]
    return len(part) == len(piece) and all(
        wanted in ("?", char) for wanted, char in zip(piece, part, strict=True)
    )
