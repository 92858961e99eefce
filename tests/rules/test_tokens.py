import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import PREFIX, check_token, digest, is_well_formed, new_token
from sublet.errors import TokenExpired, TokenInvalid, TokenRevoked

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
TICK = timedelta(microseconds=1)
# Computed outside of the service: 32 characters and their CRC-32 (zlib; base62 with digits, capitals, small
# letters).
KNOWN = "sublet_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123454UPjcZ"


def _token(*, revoked_at: datetime | None = None, expires_at: datetime | None = None) -> Token:
    return Token(1, 1, "test", ("account:read",), expires_at, revoked_at, None, NOW)


def test_a_token_has_a_form_that_secret_scanners_recognize() -> None:
    token = new_token().reveal()
    assert re.fullmatch(r"sublet_[0-9A-Za-z]{38}", token)
    assert is_well_formed(token)
    assert len({new_token() for _ in range(100)}) == 100


@given(st.integers(0, len(PREFIX) + 37), st.characters())
def test_a_changed_character_is_detected(position: int, other: str) -> None:
    assume(KNOWN[position] != other)
    assert is_well_formed(KNOWN)
    assert not is_well_formed(KNOWN[:position] + other + KNOWN[position + 1 :])


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            PREFIX,
            KNOWN[:-1],
            KNOWN + "0",
            " " + KNOWN,
            KNOWN + "\n",
            KNOWN.upper(),
            "Sublet_" + KNOWN[7:],
        ),
        *(PREFIX + "é" * 38, PREFIX + "0" * 37 + "\x00", PREFIX + "٣" * 38, PREFIX + "\ud800" * 38),
    ],
)
def test_other_texts_are_not_tokens(text: str) -> None:
    assert not is_well_formed(text)


def test_the_stored_digest_does_not_reveal_the_token() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", digest(KNOWN))
    assert digest(KNOWN) != digest(KNOWN[:-1] + "0")


def test_a_valid_token_is_returned() -> None:
    for token in (_token(), _token(expires_at=NOW + TICK)):
        assert check_token(token, NOW) is token


def test_reasons_to_refuse_a_token_are_checked_in_order() -> None:
    with pytest.raises(TokenInvalid):
        check_token(None, NOW)
    with pytest.raises(TokenRevoked):
        check_token(_token(revoked_at=NOW), NOW)
    with pytest.raises(TokenRevoked):
        check_token(_token(revoked_at=NOW, expires_at=NOW - TICK), NOW)
    with pytest.raises(TokenExpired):
        check_token(_token(expires_at=NOW), NOW)
