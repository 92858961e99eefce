"""Skeletons of labels (UTS 39): what looks alike and what doesn't, and the table that they are made by."""

import re
from pathlib import Path

import pytest

from sublet.dns import confusables
from sublet.dns.look_alikes import _prototypes, looks_reserved, skeleton, stored_skeleton
from sublet.dns.names import parse_label, reserved_labels, reserved_reason

ALIKE = [
    ("paypal", "p\u0430yp\u0430l"),  # Cyrillic a
    ("scope", "\u0455\u0441\u043e\u0440\u0435"),  # Cyrillic throughout
    ("google", "g\u043e\u043egle"),
    ("google", "g\u03bf\u03bfgle"),  # Greek omicron
    ("modern", "rnodern"),
    ("paypal", "paypa1"),
    ("b\u00fccher", "bu\u0308cher"),  # one and two code points; the mapping makes them the same label
    ("nicht", "n\u0456cht"),  # Ukrainian i
    ("\u0441\u0430\u0445\u0430\u0440", "caxap"),  # sugar in Russian
]
DIFFERENT = [
    ("paypal", "paypai"),
    ("bucher", "b\u00fccher"),
    ("shop", "sh\u00f6p"),
    ("\u65e5\u672c", "\u65e5\u6728"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_labels_that_look_alike(one: str, other: str) -> None:
    assert skeleton(parse_label(one)) == skeleton(parse_label(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_labels_that_do_not_look_alike(one: str, other: str) -> None:
    assert skeleton(parse_label(one)) != skeleton(parse_label(other))


def test_joiners_are_ignored() -> None:
    label = parse_label(
        "\u0915\u094d\u200d\u0937"
    )  # Devanagari with a zero width joiner where IDNA takes one
    assert skeleton(label) == skeleton(parse_label("\u0915\u094d\u0937"))


def test_most_labels_are_their_own_skeleton_and_not_stored_twice() -> None:
    assert stored_skeleton("shop-24") is None
    assert stored_skeleton("modern") == "rnodern"
    assert stored_skeleton(parse_label("p\u0430ypal")) == "paypal"


def test_a_skeleton_is_its_own_skeleton_where_it_is_a_label() -> None:
    for label in ("modern", "10", parse_label("\u0455\u0441\u043e\u0440\u0435")):
        assert skeleton(skeleton(label)) == skeleton(label)


@pytest.mark.parametrize(
    "label", ["\u0430buse", "m\u0430il", "\u0455ecurity", "n\u0455", "n\u04551", "n\u0455l2"]
)
def test_labels_that_look_reserved(label: str) -> None:
    assert looks_reserved(skeleton(parse_label(label)))


def test_reserved_labels_by_name_are_all_reserved() -> None:
    assert all(reserved_reason(label) for label in reserved_labels())
    assert all(looks_reserved(skeleton(label)) for label in (*reserved_labels(), "ns", "ns0", "ns42"))
    assert not looks_reserved(skeleton("shop"))


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
