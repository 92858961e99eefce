"""Look-alikes among labels (UTS 39): skeletons, mixed scripts, and the table of confusable characters."""

import re
from pathlib import Path

import pytest

from sublet.dns import confusables
from sublet.dns.look_alikes import _prototypes, looks_reserved, mixes_scripts, skeleton, stored_skeleton
from sublet.dns.names import RESERVED_LABELS, is_reserved, parse_label

ALIKE = [
    ("paypal", "p\u0430yp\u0430l"),  # Cyrillic a
    ("scope", "\u0455\u0441\u043e\u0440\u0435"),  # Cyrillic throughout
    ("google", "g\u043e\u043egle"),
    ("google", "g\u03bf\u03bfgle"),  # Greek omicron
    ("modern", "rnodern"),
    ("paypal", "paypa1"),
    ("b\u00fccher", "bu\u0308cher"),  # one and two code points, which the mapping makes equal
    ("nicht", "n\u0456cht"),  # Ukrainian i
    ("\u0441\u0430\u0445\u0430\u0440", "caxap"),  # sugar in Russian
]
DIFFERENT = [
    ("paypal", "paypai"),
    ("bucher", "b\u00fccher"),
    ("shop", "sh\u00f6p"),
    ("\u65e5\u672c", "\u65e5\u6728"),
]


def test_labels_that_look_alike() -> None:
    pairs = (*ALIKE, *DIFFERENT)
    assert [each for each in pairs if len({skeleton(parse_label(label)) for label in each}) == 1] == ALIKE


def test_joiners_are_ignored() -> None:
    label = parse_label(
        "\u0915\u094d\u200d\u0937"
    )  # Devanagari with a zero width joiner where IDNA allows one
    assert skeleton(label) == skeleton(parse_label("\u0915\u094d\u0937"))


def test_a_label_equal_to_its_skeleton_is_not_stored_twice() -> None:
    assert stored_skeleton("shop-24") is None
    assert stored_skeleton("modern") == "rnodern"
    assert stored_skeleton(parse_label("p\u0430ypal")) == "paypal"


@pytest.mark.parametrize(
    "label", ["\u0430buse", "m\u0430il", "\u0455ecurity", "n\u0455", "n\u04551", "n\u0455l2"]
)
def test_labels_that_look_reserved(label: str) -> None:
    assert looks_reserved(skeleton(parse_label(label)))


def test_reserved_labels_by_name_are_all_reserved() -> None:
    assert all(is_reserved(label) for label in RESERVED_LABELS)
    assert all(looks_reserved(skeleton(label)) for label in (*RESERVED_LABELS, "ns", "ns0", "ns42"))
    assert not looks_reserved(skeleton("shop"))


ONE_SCRIPT = [
    # UTS 39, section 5.1, "Examples of Mixed-Script Detection"; IDNA maps capital letters.
    "circle",
    "circ1e",
    "\u0441\u0456\u0433\u0441\u04cf\u0435",  # Cyrillic throughout
    "\u3006\u5207",  # a mark that Han alone uses
    "\u306d\u30ac",  # Hiragana and Katakana
    # Section 5.2, Highly Restrictive: Latin and Han with Kana, with Bopomofo, with Hangul.
    "t\u30b7\u30e3\u30c4",
    "\u6771\u4eac\u306e\u30bf\u30ef\u30fc-tower1",
    "abc\u4e2d\u6587\u3105\u3106",
    "k\ud55c\u56fd",
    # Characters of several scripts, of all, and marks.
    "l\u00b7l-2",
    "b\u00fccher",
    "\u03bb\u03cc\u03b3\u03bf\u03c2-24",
    "\u0915\u094d\u200d\u0937",
    "\u13a3\u13b3\u13a9",  # Cherokee, which is not recommended for identifiers
]
MIXED_SCRIPTS = [
    "\u0441ir\u0441l\u0435",  # the same table: Cyrillic and Latin
    "g\u043e\u043egle",
    "g\u03bf\u03bfgle",
    "\u03b1\u0430",  # Greek and Cyrillic
    "\u306d\ud55c",  # Hiragana and Hangul
    "\u306d\u3105",  # Hiragana and Bopomofo
    "a\u306d\ud55c",
    "\u4e2d\u0430",  # Han and Cyrillic
    "\u0939\u0b85",  # Devanagari and Tamil
]


def test_labels_that_mix_scripts() -> None:
    labels = (*ONE_SCRIPT, *MIXED_SCRIPTS)
    assert [each for each in labels if mixes_scripts(parse_label(each))] == MIXED_SCRIPTS


def test_the_table_is_complete_and_names_its_source() -> None:
    assert confusables.VERSION in (confusables.__doc__ or "")
    assert "Unicode License" in (confusables.__doc__ or "")
    assert (
        (Path(confusables.__file__).parent / "confusables-license.txt")
        .read_text()
        .startswith("UNICODE LICENSE")
    )
    assert len(_prototypes()) > 1400
    assert {chr(each) for each in _prototypes() if each < 128} == {"0", "1", "m"}
    assert re.fullmatch(r"[0-9a-f+=,\s]+", confusables.TABLE)
