"""Serial number arithmetic, compared with the examples of RFC 1982 and with counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sublet.dns.serial import is_newer, lacks_since, next_serial, went_back

SERIALS = st.integers(0, 2**32 - 1)


def wide(serial: int) -> int:
    """Return an 8 bit serial of RFC 1982's section 5.2 in 32 bits, with the same distances to both ends."""
    return serial * 2**24


@pytest.mark.parametrize(
    ("newer", "older"),
    [(1, 0), (44, 0), (100, 0), (100, 44), (200, 100), (255, 200), (0, 255), (100, 255), (0, 200), (44, 200)],
)
def test_the_examples_of_the_rfc(newer: int, older: int) -> None:
    assert is_newer(wide(newer), wide(older))
    assert not is_newer(wide(older), wide(newer))


@given(SERIALS, st.integers(1, 2**31 - 1))
def test_an_incremented_serial_is_newer(serial: int, steps: int) -> None:
    assert is_newer((serial + steps) % 2**32, serial)
    assert not is_newer(serial, (serial + steps) % 2**32)


@given(SERIALS)
def test_a_serial_is_not_newer_than_itself_or_its_opposite(serial: int) -> None:
    opposite = (serial + 2**31) % 2**32
    assert not is_newer(serial, serial)
    assert not is_newer(serial, opposite)
    assert not is_newer(opposite, serial)


@pytest.mark.parametrize(
    ("before", "serial", "back"),
    [
        (7, 7, False),
        (7, 8, False),
        (8, 7, True),
        (4294967295, 0, False),
        (0, 4294967295, True),
        (0, 2**31, True),
        (2**31, 0, True),
    ],
)
def test_a_serial_that_went_back(before: int, serial: int, back: bool) -> None:
    assert went_back(serial, before) == back


def test_the_next_serial_is_newer_and_never_0() -> None:
    assert (next_serial(1), next_serial(4294967295)) == (2, 1)
    assert is_newer(1, than=4294967295)


@pytest.mark.parametrize(
    ("serial", "since"), [(5, 10.0), (6, 12.0), (4294967290, 10.0), (7, 15.0), (8, None), (9, None)]
)
def test_the_lag_counts_from_the_first_newer_serial(serial: int, since: float | None) -> None:
    assert lacks_since([], 1) is None
    assert lacks_since([(5, 1.0), (6, 10.0), (7, 12.0), (8, 15.0)][1:], serial) == since
