"""Suggest labels in place of a text that is no label, or that is taken."""

import re
import unicodedata

LABEL_CHARACTERS_MAX = 63
_SPELLED = str.maketrans(
    {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i"}
)
"""Letters that have no decomposition in Unicode."""


def suggest_labels(text: str) -> list[str]:
    """Return labels like a text, the closest first, such as `my-cafe-bar` for `my café & bar`.

    Not checked: that names with these labels are available.
    """
    folded = unicodedata.normalize("NFKD", text[:1000].casefold()).translate(_SPELLED)
    words = re.findall(r"[a-z0-9]+", "".join(each for each in folded if not unicodedata.combining(each)))
    if not words:
        return []
    joined, close = "-".join(words), "".join(words)
    found = (joined, close, f"my-{joined}", f"{joined}-home", f"the-{joined}")
    return [
        each
        for each in dict.fromkeys(found)
        if len(each) <= LABEL_CHARACTERS_MAX and each != text and not each.startswith("xn-")
    ]
