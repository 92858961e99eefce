"""The rate limiter of one process: windows of a minute, in bounded memory."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from sublet.config import Settings
from sublet.operations import rate_limiter
from sublet.operations.rate_limit_store import Reservation
from sublet.operations.rate_limiter import (
    RateLimiter,
    limit_headers,
    reserve_whole,
)

R = TypeVar("R")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(**settings: int) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    return RateLimiter(Settings(**settings), reserve_whole, clock), clock  # type: ignore[arg-type]


def at_once(asked: Coroutine[Any, Any, R]) -> R:
    """Return the result of a coroutine that must not wait for anything."""
    with pytest.raises(StopIteration) as stopped:
        asked.send(None)
    result: R = stopped.value.value
    return result


def taken(some: RateLimiter, key: str = "token 1", policy: str = "read") -> bool:
    allowance = at_once(some.take(policy, key))
    assert allowance is not None
    return allowance.allowed


def test_requests_over_the_limit_are_refused_until_the_window_ends() -> None:
    some, clock = make(rate_limit_read_per_minute=3)
    assert [taken(some) for _ in range(5)] == [True, True, True, False, False]
    clock.now += 59.9
    assert not taken(some)
    clock.now += 0.1
    assert taken(some)


def test_a_released_request_is_available_again_in_its_window() -> None:
    some, clock = make(rate_limit_ticket_per_minute=2)
    first = at_once(some.take(rate_limiter.TICKET, "a"))
    assert first is not None
    some.release(first, "a")
    assert [taken(some, "a", rate_limiter.TICKET) for _ in range(3)] == [True, True, False]
    some.release(first, "a")
    assert [taken(some, "a", rate_limiter.TICKET) for _ in range(2)] == [True, False]
    clock.now += 61
    assert taken(some, "a", rate_limiter.TICKET)
    late = first._replace(reset_seconds=1)
    some.release(late, "a")  # its window has ended, so this changes nothing
    assert [taken(some, "a", rate_limiter.TICKET) for _ in range(2)] == [True, False]


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


def test_no_request_is_limited_if_rate_limits_are_off() -> None:
    some = RateLimiter(Settings(rate_limits=False, rate_limit_read_per_minute=1))
    assert [at_once(some.take("read", "a")), at_once(some.take("read", "a"))] == [None] * 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "WINDOWS_MAX", 10)
    some, clock = make(rate_limit_read_per_minute=1)
    for number in range(1000):
        taken(some, str(number))
    assert len(some._windows) == 10
    clock.now += 60
    taken(some, "another")
    assert len(some._windows) == 1


def test_addresses_and_networks_need_no_database() -> None:
    """They are counted before the token is looked up, by each process alone, on PostgreSQL too."""

    async def not_asked(*_: object) -> Reservation:
        raise AssertionError("the database is asked")

    some = RateLimiter(Settings(rate_limit_address_per_minute=2, rate_limit_network_per_minute=2), not_asked)
    for policy in (rate_limiter.ADDRESS, rate_limiter.NETWORK):
        assert [taken(some, "a", policy) for _ in range(3)] == [True, True, False]
    with pytest.raises(AssertionError):
        taken(some, "a", rate_limiter.FAILED_OF_NETWORK)
