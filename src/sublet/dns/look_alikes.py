"""Find labels that look alike, by their skeletons, and labels that mix scripts (UTS 39, sections 4 and 5.2).

Two labels look alike if their skeletons are equal. Skeletons are only compared, never shown. Not implemented:
the reordering of bidiSkeleton, which IDNA's rule for right-to-left labels (RFC 5893) makes mostly
unnecessary.
"""

import re
import unicodedata
from functools import cache

from fontTools.unicodedata import script_extension

from sublet.dns.confusables import TABLE
from sublet.dns.names import RESERVED_LABELS, is_idn, to_unicode

_JOINERS = (0x200C, 0x200D)
"""The characters of Default_Ignorable_Code_Point that labels may have (RFC 5892, appendix A). Skeletons omit
them.
"""

_COMBINED = {
    "Latn": {"Hanb", "Jpan", "Kore"},
    "Hani": {"Hanb", "Jpan", "Kore"},
    "Bopo": {"Hanb"},
    "Hira": {"Jpan"},
    "Kana": {"Jpan"},
    "Hang": {"Kore"},
}
"""The combinations of scripts that a label may have: Latin and Han with Bopomofo, with both Kana, or with
Hangul. Codes of ISO 15924.
"""


@cache
def _prototypes() -> dict[int, str]:
    """Return the prototype of each confusable character, for `str.translate`."""
    found = dict.fromkeys(_JOINERS, "")
    for group in TABLE.split():
        prototype, _, characters = group.partition("=")
        text = "".join(chr(int(each, 16)) for each in prototype.split("+"))
        found.update((int(each, 16), text) for each in characters.split(","))
    return found


def skeleton(label: str) -> str:
    """Return the skeleton of a canonical label, or of a pattern of labels, from its Unicode form."""
    if not is_idn(label) and label.isascii():
        return label.translate(_prototypes())
    text = unicodedata.normalize("NFD", to_unicode(label)).translate(_prototypes())
    return unicodedata.normalize("NFD", text)


def stored_skeleton(label: str) -> str | None:
    """Return the skeleton to store with a name; None if the skeleton equals the label, which is so for most
    ASCII labels.
    """
    found = skeleton(label)
    return found if found != label else None


def mixes_scripts(label: str) -> bool:
    """True if a canonical label mixes scripts, other than in a combination that the level "Highly
    Restrictive" allows (UTS 39, section 5.2).

    Common characters (digits, hyphens, most marks) don't count. Not checked: that a script is recommended for
    identifiers.
    """
    shared: set[str] | None = None
    for char in to_unicode(label):
        scripts = script_extension(char)
        if scripts.isdisjoint(("Zyyy", "Zinh")):  # Common, Inherited
            fitting = scripts.union(*(_COMBINED.get(script, ()) for script in scripts))
            shared = fitting if shared is None else shared & fitting
    return shared == set()


def looks_reserved(label_skeleton: str) -> bool:
    """True if this skeleton is the skeleton of a label that is reserved under all platform domains
    (`is_reserved`).
    """
    reserved, nameserver = _reserved()
    return label_skeleton in reserved or nameserver.fullmatch(label_skeleton) is not None


@cache
def _reserved() -> tuple[frozenset[str], re.Pattern[str]]:
    digits = "".join(skeleton(str(digit)) for digit in range(10))
    return frozenset(map(skeleton, RESERVED_LABELS)), re.compile(f"{skeleton('ns')}[{digits}]*")
