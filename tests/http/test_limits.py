"""Rate limits: windows of a minute, in bounded memory; and whose address a request counts for."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from sublet.config import Settings
from sublet.http import limits
from sublet.http.limits import (
    Limits,
    address_key,
    borrow_whole,
    client_address,
    limit_headers,
    network_key,
    trusted_addresses,
)
from sublet.http.rate_store import Loan

R = TypeVar("R")

PROXIES = trusted_addresses("10.0.0.1, 2001:DB8::1")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(**settings: int) -> tuple[Limits, Clock]:
    clock = Clock()
    return Limits(Settings(**settings), borrow_whole, clock), clock  # type: ignore[arg-type]


def at_once(asked: Coroutine[Any, Any, R]) -> R:
    """Run what must not wait for anything."""
    with pytest.raises(StopIteration) as stopped:
        asked.send(None)
    result: R = stopped.value.value
    return result


def taken(some: Limits, key: str = "token 1", policy: str = "read") -> bool:
    allowance = at_once(some.take(policy, key))
    assert allowance is not None
    return allowance.allowed


def test_as_many_as_the_limit_and_then_none_until_the_window_ends() -> None:
    some, clock = make(rate_limit_read_per_minute=3)
    assert [taken(some) for _ in range(5)] == [True, True, True, False, False]
    clock.now += 59.9
    assert not taken(some)
    clock.now += 0.1
    assert taken(some)


def test_keys_and_classes_are_counted_apart() -> None:
    some, _ = make(rate_limit_read_per_minute=1, rate_limit_write_per_minute=1)
    assert taken(some)
    assert taken(some, "token 2")
    assert taken(some, policy="write")
    assert not taken(some)


def test_what_was_given_back_may_be_taken_again_in_its_window() -> None:
    some, clock = make(rate_limit_ticket_per_minute=2)
    first = at_once(some.take(limits.TICKET, "a"))
    assert first is not None
    some.give_back(first, "a")
    assert [taken(some, "a", limits.TICKET) for _ in range(3)] == [True, True, False]
    some.give_back(first, "a")
    assert [taken(some, "a", limits.TICKET) for _ in range(2)] == [True, False]
    clock.now += 61
    assert taken(some, "a", limits.TICKET)
    late = first._replace(reset_seconds=1)
    some.give_back(late, "a")  # that window is over, and this one is another
    assert [taken(some, "a", limits.TICKET) for _ in range(2)] == [True, False]


def test_the_headers_count_down() -> None:
    some, clock = make(rate_limit_read_per_minute=3)
    taken(some, "a")
    clock.now += 20.5
    allowance = at_once(some.take("read", "a"))
    assert allowance is not None
    assert limit_headers(allowance) == {
        "ratelimit": '"read";r=1;t=40',
        "ratelimit-policy": '"read";q=3;w=60',
    }


def test_off_is_off() -> None:
    some = Limits(Settings(rate_limits=False, rate_limit_read_per_minute=1))
    assert [at_once(some.take("read", "a")), at_once(some.take("read", "a"))] == [None] * 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEYS_MAX", 10)
    some, clock = make(rate_limit_read_per_minute=1)
    for number in range(1000):
        taken(some, str(number))
    assert len(some._windows) == 10
    clock.now += 60
    taken(some, "another")
    assert len(some._windows) == 1


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # not from a trusted proxy: may be invented
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),  # the client wrote the first
        ("10.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 2001:db8:0::1"], "198.51.100.1"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1, nonsense"], "10.0.0.1"),
        ("2001:db8::1", ["198.51.100.1"], "198.51.100.1"),
    ],
)
def test_only_trusted_proxies_are_believed(peer: str, forwarded: list[str], address: str) -> None:
    assert client_address(peer, forwarded, PROXIES) == address


def test_a_customer_of_ipv6_is_one_key() -> None:
    assert address_key("2001:db8:1:2::5") == address_key("2001:db8:1:2:ffff::9%eth0")
    assert address_key("2001:db8:1:2::5") != address_key("2001:db8:1:3::5")
    assert address_key("::ffff:192.0.2.1") == address_key("192.0.2.1") != address_key("192.0.2.2")
    assert address_key("") == ""


def test_address_and_network_ask_nobody() -> None:
    """They are counted before the token is: on PostgreSQL, too, in this process alone."""

    async def not_asked(*_: object) -> Loan:
        raise AssertionError("the database is asked")

    some = Limits(Settings(rate_limit_address_per_minute=2, rate_limit_network_per_minute=2), not_asked)
    for policy in (limits.ADDRESS, limits.NETWORK):
        assert [taken(some, "a", policy) for _ in range(3)] == [True, True, False]
    with pytest.raises(AssertionError):
        taken(some, "a", limits.FAILED_OF_NETWORK)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.0/24"),
        ("::ffff:192.0.2.1", "192.0.2.0/24"),
        ("2001:db8:1:2::5%eth0", "2001:db8:1::/48"),
        ("127.0.0.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("", None),
    ],
)
def test_networks(address: str, network: str | None) -> None:
    assert network_key(address) == network
