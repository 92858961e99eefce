import base64
import re
import zlib
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sublet.errors import InvalidCursor
from sublet.ids import (
    MAX_ID,
    Position,
    decode_cursor,
    encode_cursor,
    parse_id,
    parse_ticket_number,
    ticket_number,
)

NOW = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
LISTS = ("subdomains", "tickets", "payments", "messages")
positions = st.builds(Position, st.datetimes(timezones=st.just(UTC)), st.integers(0, MAX_ID))


@given(st.sampled_from(LISTS), positions)
def test_a_decoded_cursor_equals_the_encoded_position(list_name: str, position: Position) -> None:
    cursor = encode_cursor(list_name, position)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)
    assert decode_cursor(list_name, cursor) == position


@given(st.sampled_from(LISTS), st.sampled_from(LISTS), positions)
def test_a_cursor_of_another_list_is_refused(made_for: str, given_to: str, position: Position) -> None:
    assume(made_for != given_to)
    with pytest.raises(InvalidCursor):
        decode_cursor(given_to, encode_cursor(made_for, position))


@given(positions, st.data())
def test_a_cursor_with_a_changed_character_is_refused_or_equal(
    position: Position, data: st.DataObject
) -> None:
    cursor = encode_cursor("subdomains", position)
    index = data.draw(st.integers(0, len(cursor) - 1))
    garbled = cursor[:index] + data.draw(st.characters()) + cursor[index + 1 :]
    try:
        found = decode_cursor("subdomains", garbled)
    except InvalidCursor:
        return
    assert found == position  # base64 leaves some bits of the last character unused


def _forged(body: str) -> str:
    raw = body.encode()
    return base64.urlsafe_b64encode(zlib.crc32(raw).to_bytes(4, "big") + raw).decode().rstrip("=")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "subdomains:",
        f"subdomains:{NOW:%Y-%m-%d}",
        f"subdomains:{NOW.isoformat()}:",
        f"subdomains:{NOW.isoformat()}:-1",
        f"subdomains:{NOW.isoformat()}:{MAX_ID + 1}",
        "subdomains:2026-11-21T09:30:00:1",  # without a time zone
        "subdomains:2026-13-01T00:00:00+00:00:1",
        f"tickets:{NOW.isoformat()}:1",
    ],
)
def test_a_forged_cursor_is_refused(body: str) -> None:
    for text in (_forged(body), body, f"{body}é"):
        with pytest.raises(InvalidCursor):
            decode_cursor("subdomains", text)


@pytest.mark.parametrize(
    ("ticket_id", "number"),
    [(1, "T-000001"), (123, "T-000123"), (999_999, "T-999999"), (1_000_000, "T-1000000")],
)
def test_ticket_numbers(ticket_id: int, number: str) -> None:
    assert ticket_number(ticket_id) == number
    assert parse_ticket_number(number) == parse_ticket_number(number.lower()) == ticket_id


@pytest.mark.parametrize(
    "text", ["", "T-", "T-12345", "T-0000123", "T000123", "000123", "T-00012x", "T-000123\n", "T-٠٠٠١٢٣"]
)
def test_other_texts_are_not_ticket_numbers(text: str) -> None:
    assert parse_ticket_number(text) is None


def test_ids_are_digits_in_range() -> None:
    assert [parse_id(each) for each in ("1", "10", str(MAX_ID))] == [1, 10, MAX_ID]
    others = (
        "01",
        "0" * 18 + "7",
        str(MAX_ID + 1),
        "0",
        "-1",
        "+1",
        "1 ",
        "1_0",
        "\u0661",
        "²",
        "",
        "9" * 5000,
    )
    assert {parse_id(each) for each in others} == {None}
