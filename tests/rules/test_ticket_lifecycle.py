import pytest

from sublet.errors import TicketClosed, check_one_of
from sublet.tickets.lifecycle import (
    MESSAGE_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    check_line,
    check_message,
    default_priority,
    status_after_message,
)
from sublet.tickets.model import AUTHOR_TYPES, PRIORITIES, TICKET_TYPES


@pytest.mark.parametrize(
    ("status", "author_type", "after"),
    [
        ("open", "user", "open"),
        ("open", "staff", "answered"),
        ("answered", "user", "open"),
        ("answered", "staff", "answered"),
    ],
)
def test_a_message_changes_the_status(status: str, author_type: str, after: str) -> None:
    assert status_after_message(status, author_type) == after


@pytest.mark.parametrize("author_type", AUTHOR_TYPES)
def test_closed_is_final(author_type: str) -> None:
    with pytest.raises(TicketClosed):
        status_after_message("closed", author_type)


def test_abuse_tickets_start_with_high_priority_and_others_with_normal() -> None:
    assert {each: default_priority(each) for each in TICKET_TYPES} == {
        "contact": "normal",
        "abuse": "high",
        "support": "normal",
    }
    assert {default_priority(each) for each in TICKET_TYPES} <= set(PRIORITIES)


BLANK = ["", " ", "\t\n \r\n", "\u00a0\u3000"]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (None, ["required"]),
        ("", ["required"]),
        ("\n", ["required", "value_invalid"]),
        ("x", []),
        ("x" * SUBJECT_CHARACTERS_MAX, []),
        ("🙂" * SUBJECT_CHARACTERS_MAX, []),
        ("x" * (SUBJECT_CHARACTERS_MAX + 1), ["too_long"]),
        ("a\nBcc: b@example.org", ["value_invalid"]),
        ("a\u2028b", ["value_invalid"]),
        ("a\0b", ["value_invalid"]),
        ("a\ud800b", ["value_invalid"]),
        ("\n" + "x" * SUBJECT_CHARACTERS_MAX, ["too_long", "value_invalid"]),
    ],
)
def test_a_subject_is_one_line_of_at_most_200_characters(text: str | None, codes: list[str]) -> None:
    errors = check_line("subject", text, SUBJECT_CHARACTERS_MAX)
    assert [(each.field, each.code) for each in errors] == [("subject", code) for code in codes]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (None, ["required"]),
        *((blank, ["required"]) for blank in BLANK),
        ("x", []),
        ("two\nlines\r\n\tand a tab", []),
        ("x" * MESSAGE_CHARACTERS_MAX, []),
        ("🙂" * MESSAGE_CHARACTERS_MAX, []),
        ("x" * (MESSAGE_CHARACTERS_MAX + 1), ["too_long"]),
        ("a\0b", ["value_invalid"]),
        ("a\udfffb", ["value_invalid"]),
    ],
)
def test_a_message_has_at_most_20000_characters(text: str | None, codes: list[str]) -> None:
    errors = check_message(text)
    assert [(each.field, each.code) for each in errors] == [("message", code) for code in codes]


def test_values_are_none_or_one_of_a_list() -> None:
    assert [check_one_of("type", each, TICKET_TYPES) for each in (None, *TICKET_TYPES)] == [[], [], [], []]
    for value in ("", "Support", "billing"):
        errors = check_one_of("type", value, TICKET_TYPES)
        assert [(each.field, each.code) for each in errors] == [("type", "value_invalid")]
