"""Limits by where a request comes from, address and network, over a socket; a trusted proxy says where that
is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.running_service import Registrant, RunningService, registry_address, running_service

ADA, HER_NEIGHBOUR, ELSEWHERE = "203.0.113.1", "203.0.113.200", "198.51.100.1"


@contextmanager
def limited(folder: Path, **limits: int) -> Iterator[tuple[RunningService, Registrant]]:
    chosen = {f"rate_limit_{name}_per_minute": limit for name, limit in limits.items()}
    with running_service(
        registry_address(folder),
        rate_limits=True,
        trusted_proxies="127.0.0.1",
        **chosen,
    ) as service:
        yield service, service.add_user()


def ask(service: RunningService, who: Registrant | str | None, address: str) -> httpx.Response:
    return service.call(who, "GET", "/me", x_forwarded_for=address)


def statuses(service: RunningService, who: Registrant | str | None, *addresses: str) -> list[int]:
    return [ask(service, who, address).status_code for address in addresses]


def test_an_address_has_one_limit_for_all_its_tokens(tmp_path_factory: pytest.TempPathFactory) -> None:
    with limited(tmp_path_factory.mktemp("address"), address=3) as (service, ada):
        other = service.add_user("bob@example.org")
        assert statuses(service, ada, ADA) + statuses(service, other, ADA) + statuses(service, None, ADA) == [
            200,
            200,
            401,
        ]
        refused = ask(service, ada, ADA)
        assert (refused.status_code, refused.json()["error"]) == (429, "rate_limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert refused.headers["ratelimit-policy"] == '"address";q=3;w=60'
        # Its token is not used up by that; and others are as they were.
        assert statuses(service, ada, HER_NEIGHBOUR, ELSEWHERE) == [200, 200]


@pytest.mark.parametrize(
    ("within", "outside"),
    [
        ([f"203.0.113.{number}" for number in (1, 99, 200, 255)], "203.0.112.255"),
        ([f"2001:db8:1:{number:x}::1" for number in (0, 1, 256, 65535)], "2001:db8:2::1"),
    ],
)
def test_a_network_has_one_limit_for_all_its_addresses(
    tmp_path_factory: pytest.TempPathFactory, within: list[str], outside: str
) -> None:
    with limited(tmp_path_factory.mktemp("network"), network=3) as (service, ada):
        assert statuses(service, ada, *within, outside) == [200, 200, 200, 429, 200]
        refused = ask(service, ada, within[0])
        assert refused.headers["ratelimit-policy"] == '"network";q=3;w=60'


def test_failed_authentications_are_limited_per_network(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each network has its own limit: guessing from many addresses of one ends there, and leaves the
    others their tries.
    """
    with limited(tmp_path_factory.mktemp("failed"), failed_auth=2, failed_auth_network=4) as (service, ada):
        guess = ada.token[:-1] + ("a" if ada.token[-1] != "a" else "b")
        first, second = (
            [f"203.0.113.{number}" for number in range(1, 7)],
            [f"198.51.100.{n}" for n in (1, 1, 1)],
        )
        assert statuses(service, guess, *first) == [401] * 4 + [429] * 2
        assert statuses(service, guess, *second) == [401, 401, 429]
        # Failures alone are limited: a valid token passes from everywhere, and uses none of the tries up.
        assert statuses(service, ada, first[-1], second[0], "192.0.2.1", "198.51.100.2") == [200] * 4
        assert statuses(service, guess, first[-1], second[0]) == [429, 429]


def test_unknown_paths_and_methods_count_for_the_address(tmp_path_factory: pytest.TempPathFactory) -> None:
    with limited(tmp_path_factory.mktemp("unknown"), address=4) as (service, ada):
        sent = [
            service.call(who, method, path, x_forwarded_for=ADA)
            for who, method, path in (
                (None, "GET", "/nowhere"),
                (ada, "GET", "/nowhere"),
                (None, "POST", "/me"),
                (None, "PATCH", "/subdomains/a"),
                (None, "GET", "/nowhere"),
                (None, "POST", "/me"),
                (ada, "GET", "/me"),
            )
        ]
        assert [each.status_code for each in sent] == [404, 404, 405, 405, 429, 429, 429]
        assert {each.json()["error"] for each in sent[4:]} == {"rate_limited"}
        assert sent[4].headers["ratelimit-policy"] == '"address";q=4;w=60'
        root = service.origin
        outside = service.client.get(f"{root}/favicon.ico", headers={"x-forwarded-for": ADA})
        assert outside.status_code == 429
        assert service.call(None, "GET", "/nowhere", x_forwarded_for=HER_NEIGHBOUR).status_code == 404


def test_requests_from_loopback_are_limited_by_token_only(tmp_path_factory: pytest.TempPathFactory) -> None:
    with limited(tmp_path_factory.mktemp("loopback"), address=1, network=1, read=5) as (service, ada):
        assert [service.call(ada, "GET", "/me").status_code for _ in range(6)] == [200] * 5 + [429]
