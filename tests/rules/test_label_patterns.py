"""Label patterns: the labels that they block, and the texts that are patterns."""

import pytest

from sublet.dns.names import parse_label
from sublet.platform_domains.labels import is_blocked, parse_pattern

MEANT = [
    ("*paypal*", "paypal", True),
    ("*paypal*", "my-paypal-login", True),
    ("*paypal*", "paypa", False),
    ("paypal", "paypal", True),
    ("paypal", "paypal1", False),
    ("login-*", "login-x", True),
    ("login-*", "my-login-x", False),
    ("*-login", "x-login", True),
    ("a*a", "a", False),
    ("a*a", "aa", True),
    ("*ab*ba*", "aba", False),
    ("*ab*ba*", "abba", True),
    ("ab?", "abc", True),
    ("ab?", "ab", False),
    ("ab?", "abcd", False),
    ("*b?nk*", "onlinebank24", True),
    ("*?a", "a", False),
    ("xn--*", "xn--bcher-kva", True),
    # A matcher that backtracks takes exponential time for this.
    ("*a?" * 33 + "b", "a" * 63, False),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), MEANT)
def test_a_pattern_matches_these_labels_only(pattern: str, text: str, expected: bool) -> None:
    assert is_blocked(text, [pattern]) is expected


def test_patterns_are_mapped_like_labels() -> None:
    assert parse_pattern("*PayPal**") == ("*paypal*", [])
    assert parse_pattern("*\uff42ank*") == ("*bank*", [])  # full-width b
    assert parse_pattern("B\u00dcCHER*") == ("b\u00fccher*", [])


@pytest.mark.parametrize("text", ["", "*", "?*?", "a.b", "a b", "a_b", "[ab]", "a" * 101, "\0", "*\u200b*"])
def test_invalid_patterns_are_refused(text: str) -> None:
    _, errors = parse_pattern(text)
    assert [(each.field, each.code) for each in errors] == [("pattern", "value_invalid")]


def test_a_pattern_matches_the_unicode_form_too() -> None:
    label = parse_label("meine-b\u00fccher")
    assert is_blocked(label, ["*b\u00fccher*"])
    assert is_blocked(label, ["xn--*"])
    assert not is_blocked(label, ["*bucher"])


@pytest.mark.parametrize("label", ["paypa1", "p\u0430ypal", "my-p\u0430y\u0440al-login", "paypal"])
def test_a_pattern_matches_look_alikes(label: str) -> None:
    assert is_blocked(parse_label(label), ["*paypal*"])
    assert is_blocked(parse_label(label), ["*pa?pal*"])


def test_a_pattern_in_other_letters_matches_labels_in_those_letters() -> None:
    assert is_blocked("modern", ["rn?dern"])
    assert is_blocked("modern", ["mod*"])
    assert not is_blocked("model", ["*modern"])
