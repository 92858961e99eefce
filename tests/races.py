"""What must hold when many ask for the same thing at once: one check a guard, for the real service and for broken twins."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from service import Registrant, RunningService

Request = tuple[Registrant, dict[str, Any], dict[str, str]]
"""Who registers, the body, further headers."""


def register_at_once(service: RunningService, requests: Sequence[Request]) -> list[httpx.Response]:
    """Send all registrations at the same time, each over a connection of its own, and return the answers in order."""
    limits = httpx.Limits(max_connections=len(requests), max_keepalive_connections=0)

    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            return await asyncio.gather(
                *(
                    client.post(
                        service.base_url + "/subdomains",
                        json=body,
                        headers={"authorization": f"Bearer {who.token}", **headers},
                    )
                    for who, body, headers in requests
                )
            )

    return asyncio.run(run())


def _outcomes(answers: Sequence[httpx.Response]) -> Counter[tuple[int, str]]:
    return Counter((each.status_code, str(each.json().get("error", ""))) for each in answers)


def check_credits_are_spent_once(service: RunningService, count: int = 100) -> None:
    """With credits for exactly one of `count` paid registrations exactly one is made; the others are told why not."""
    service.add_domain("example.test")
    ada = service.add_user(credit_count=10)
    paid = {"registration_mode": "plus", "confirm": True}
    answers = register_at_once(
        service, [(ada, {"fqdn": f"n{number}.example.test", **paid}, {}) for number in range(count)]
    )
    assert _outcomes(answers) == {(201, ""): 1, (402, "insufficient_credits"): count - 1}
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 0
    payments = service.call(ada, "GET", "/payments").json()["payments"]
    assert sorted(each["credits"] for each in payments) == [-10, 10]
    assert len(service.call(ada, "GET", "/subdomains").json()["subdomains"]) == 1
    assert service.doctor() == []


def check_quota_is_used_once(service: RunningService, count: int = 100) -> None:
    """With one free name left exactly one of `count` registrations gets it."""
    service.add_domain("example.test")
    ada = service.add_user()
    held = service.settings.free_quota - 1
    for number in range(held):
        service.register(ada, f"held{number}.example.test")
    answers = register_at_once(
        service,
        [
            (ada, {"fqdn": f"n{number}.example.test", "registration_mode": "free"}, {})
            for number in range(count)
        ],
    )
    assert _outcomes(answers) == {(201, ""): 1, (403, "free_quota_exceeded"): count - 1}
    assert len(service.call(ada, "GET", "/subdomains").json()["subdomains"]) == held + 1
    assert service.doctor() == []


def check_coupon_is_used_once(service: RunningService, count: int = 100) -> None:
    """A coupon for one use lets one of `count` through, whoever's they are."""
    service.add_domain("example.test")
    service.operator("coupon", "add", "ONCE", "--percent", "100", "--max-uses", "1")
    users = [service.add_user(f"user{number}@example.org") for number in range(2)]
    members = {"registration_mode": "plus", "coupon_code": "ONCE", "confirm": True}
    answers = register_at_once(
        service,
        [(users[number % 2], {"fqdn": f"n{number}.example.test", **members}, {}) for number in range(count)],
    )
    assert _outcomes(answers) == {(201, ""): 1, (422, "validation_failed"): count - 1}
    assert [each["uses"] for each in service.operator("coupon", "list")] == [1]
    assert service.doctor() == []


def check_name_goes_to_one(service: RunningService, other: RunningService | None = None) -> None:
    """Of two users who ask for one name (of two processes, when `other` serves the same database) one gets it and pays."""
    service.add_domain("example.test")
    ada, bob = (service.add_user(f"{name}@example.org", credit_count=100) for name in ("ada", "bob"))
    for number in range(5):
        body = {"fqdn": f"n{number}.example.test", "registration_mode": "plus", "confirm": True}
        body |= {"nameservers": ["ns1.provider.example", "ns2.provider.example"]}
        answers = _from_both(service, other or service, (ada, body, {}), (bob, body, {}))
        assert sorted(_outcomes(answers)) == [(201, ""), (409, "subdomain_unavailable")], [
            each.text for each in answers
        ]
    balances = [service.call(who, "GET", "/credits").json()["credit_balance"] for who in (ada, bob)]
    held = [len(service.call(who, "GET", "/subdomains").json()["subdomains"]) for who in (ada, bob)]
    assert sum(held) == 5
    assert balances == [100 - 10 * each for each in held]


def _from_both(
    one: RunningService, other: RunningService, first: Request, second: Request
) -> list[httpx.Response]:
    async def run() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=60) as client:
            return await asyncio.gather(
                *(
                    client.post(
                        service.base_url + "/subdomains",
                        json=body,
                        headers={"authorization": f"Bearer {who.token}"},
                    )
                    for service, (who, body, _) in ((one, first), (other, second))
                )
            )

    return asyncio.run(run())


def check_key_acts_once(service: RunningService, count: int = 20) -> None:
    """One `Idempotency-Key`, `count` times at once: one effect; every other answer is its replay or says that it runs."""
    service.add_domain("example.test")
    ada = service.add_user(credit_count=100)
    body = {"fqdn": "blog.example.test", "registration_mode": "plus", "confirm": True}
    answers = register_at_once(service, [(ada, body, {"idempotency-key": "k-1"})] * count)
    outcomes = _outcomes(answers)
    assert set(outcomes) <= {(201, ""), (409, "idempotency_in_progress")}, outcomes
    done = [each for each in answers if each.status_code == 201]
    assert len({each.json()["subdomain"]["id"] for each in done}) == 1
    assert sum("idempotent-replayed" not in each.headers for each in done) == 1
    later = service.call(ada, "POST", "/subdomains", body, idempotency_key="k-1")
    assert later.status_code == 201
    assert later.headers["idempotent-replayed"] == "true"
    assert later.json()["subdomain"]["id"] == done[0].json()["subdomain"]["id"]
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 90
    assert service.doctor() == []
