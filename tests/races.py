"""What must hold when many ask for the same thing at once: one check a guard, for the real service and for broken twins."""

import asyncio
import os
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
from sqlalchemy import func, select

import plain_http
from crashes import zone_is_right
from service import Registrant, RunningService
from serving import wait_until
from sublet.audit import Actor, audit_events
from sublet.credits.grant_credits import grant_credits
from sublet.credits.refund_charge import refund_charge
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains.store import subdomains
from sublet.subdomains.sweep.stop import resume_sweep
from sublet.subdomains.sweep.sweep import sweep

RACE_ROUNDS = int(os.environ.get("RACE_ROUNDS", "3"))
"""How often each race is run; more of them find what is rarer. No SUBLET_ before it: that would be an unknown setting."""
OPERATOR = Actor(kind="operator", name="olga")
Request = tuple[Registrant, dict[str, Any], dict[str, str]]
"""Who registers, the body, further headers."""
Contender = Callable[[httpx.AsyncClient, RunningService, Registrant, str], Awaitable[str]]
"""One who wants something of a name at the same time as others: it tells what came of it, "done" or the refusal's code."""


def register_at_once(service: RunningService, requests: Sequence[Request]) -> list[httpx.Response]:
    """Send all registrations at the same time, each over a connection of its own, and return the answers in order."""
    limits = httpx.Limits(max_connections=len(requests), max_keepalive_connections=0)

    async def run() -> list[httpx.Response]:
        async with plain_http.AsyncClient(timeout=60, limits=limits) as client:
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


def check_quota_is_used_once(service: RunningService, count: int = 100, rounds: int = 1) -> None:
    """With one free name left exactly one of `count` registrations gets it; in each of some rounds, each of another user."""
    service.add_domain("example.test")
    held = service.settings.free_quota - 1
    for turn in range(rounds):
        ada = service.add_user(f"ada{turn}@example.org")
        for number in range(held):
            service.register(ada, f"held{number}-{turn}.example.test")
        free = {"registration_mode": "free"}
        answers = register_at_once(
            service,
            [(ada, {"fqdn": f"n{number}-{turn}.example.test", **free}, {}) for number in range(count)],
        )
        assert _outcomes(answers) == {(201, ""): 1, (403, "free_quota_exceeded"): count - 1}
        assert len(service.call(ada, "GET", "/subdomains").json()["subdomains"]) == held + 1
        assert service.doctor() == []


def check_coupon_is_used_once(service: RunningService, count: int = 100, rounds: int = 1) -> None:
    """A coupon for one use lets one of `count` through, whoever's they are; in each of some rounds, each with another coupon."""
    service.add_domain("example.test")
    users = [service.add_user(f"user{number}@example.org") for number in range(2)]
    for turn in range(rounds):
        service.operator("coupon", "add", f"ONCE{turn}", "--percent", "100", "--max-uses", "1")
        members = {"registration_mode": "plus", "coupon_code": f"ONCE{turn}", "confirm": True}
        answers = register_at_once(
            service,
            [
                (users[number % 2], {"fqdn": f"n{number}-{turn}.example.test", **members}, {})
                for number in range(count)
            ],
        )
        assert _outcomes(answers) == {(201, ""): 1, (422, "validation_failed"): count - 1}
        assert [each["uses"] for each in service.operator("coupon", "list")] == [1] * (turn + 1)
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
        async with plain_http.AsyncClient(timeout=60) as client:
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


def _over_http(method: str, path: str, body: Any = None) -> Contender:
    async def run(client: httpx.AsyncClient, service: RunningService, who: Registrant, name: str) -> str:
        answer = await client.request(
            method,
            f"{service.base_url}/subdomains/{name}{path}",
            headers={"authorization": f"Bearer {who.token}"},
            **({} if body is None else {"json": body}),
        )
        return "done" if answer.status_code == 200 else str(answer.json()["error"])

    return run


async def _sweep(_client: httpx.AsyncClient, service: RunningService, _who: Registrant, name: str) -> str:
    """Let the sweep go on that the test's jump of the clock has stopped, and sweep beside the service's own worker."""

    def run() -> str:
        with suppress(Conflict):  # another one was faster
            service.write(lambda tx: resume_sweep(tx, OPERATOR))
        while service.write(sweep).more:
            pass
        trashed = (audit_events.c.action == "subdomain.trash") & (subdomains.c.fqdn == name)
        query = select(func.count()).where(trashed & (audit_events.c.object_id == subdomains.c.id))
        return "trashed" if service.read(lambda tx: tx.connection.execute(query).scalar_one()) else "left"

    return await asyncio.to_thread(run)


CONTENDERS: dict[str, Contender] = {
    "delete": _over_http("DELETE", ""),
    "renew": _over_http("POST", "/renew", {"confirm": True}),
    "change": _over_http("PUT", "/nameservers", {"nameservers": ["ns7.provider.example"]}),
    "sweep": _sweep,
}
"""Who contends for one name."""
SWEEPS = 3
GONE = "subdomain_not_found"
OUTCOMES = {
    "delete": {"done", GONE},
    "renew": {"done", GONE, "renewal_not_available"},
    "change": {"done", GONE},
    "sweep": {"trashed", "left"},
}
"""What may come of each."""


def check_one_life_is_lived(service: RunningService, count: int = 100, rounds: int = 1) -> None:
    """Of `count` who delete, renew and change a name whose grace is over, while it is swept, one takes it: into the trash, once.

    At most one renews it before, which is paid once, and keeps it from the sweep.
    """
    service.add_domain("example.test")
    ada = service.add_user(credit_count=1000)
    order = random.Random(7)  # noqa: S311 - so that a failure can be repeated
    for turn in range(rounds):
        name = f"n{turn}.example.test"
        service.register(
            ada, name, registration_mode="plus", confirm=True, nameservers=["ns1.provider.example"]
        )
        wait_until(lambda: zone_is_right(service))
        service.clock.advance(days=365 + 30, seconds=1)
        wait_until(lambda: service.operator("sweep", "status")["stopped"])
        before = service.call(ada, "GET", "/credits").json()["credit_balance"]
        by_users = [each for each in CONTENDERS if each != "sweep"] * count
        whose = [*by_users[: count - SWEEPS], *["sweep"] * SWEEPS]
        order.shuffle(whose)
        came = _contend(service, ada, name, whose)
        for each, outcomes in OUTCOMES.items():
            assert {outcome for who, outcome in came if who == each} <= outcomes, came
        swept = bool(came["sweep", "trashed"])
        assert came["delete", "done"] + swept == 1, came
        renewed = came["renew", "done"]
        assert renewed <= 1, came
        spent = before - service.call(ada, "GET", "/credits").json()["credit_balance"]
        assert spent == 10 * renewed
        assert service.call(ada, "GET", f"/subdomains/{name}").json()["details"]["in_trash"] is True
        wait_until(lambda: zone_is_right(service))
        assert service.doctor() == []


def _contend(
    service: RunningService, who: Registrant, name: str, whose: Sequence[str]
) -> Counter[tuple[str, str]]:
    limits = httpx.Limits(max_connections=len(whose), max_keepalive_connections=0)

    async def run() -> list[str]:
        async with plain_http.AsyncClient(timeout=60, limits=limits) as client:
            return await asyncio.gather(*(CONTENDERS[each](client, service, who, name) for each in whose))

    return Counter(zip(whose, asyncio.run(run()), strict=True))


def check_refund_and_spending(service: RunningService, count: int = 100, rounds: int = 1) -> None:
    """While a user spends what it has, ten operators refund one charge: once, and no credit is spent that is not there."""
    service.add_domain("example.test")
    operators = 10
    for turn in range(rounds):
        ada = service.add_user(f"ada{turn}@example.org", credit_count=20)
        members = {"registration_mode": "plus", "confirm": True}
        service.register(ada, f"first{turn}.example.test", **members)
        charge_id = service.call(ada, "GET", "/payments").json()["payments"][0]["id"]

        def refund(_number: int, charge_id: int = charge_id) -> str:
            try:
                service.write(lambda tx: refund_charge(tx, OPERATOR, charge_id))
            except Conflict as refusal:
                return refusal.code
            return "done"

        with ThreadPoolExecutor(operators) as threads:
            refunds = threads.map(refund, range(operators))
            answers = register_at_once(
                service,
                [
                    (ada, {"fqdn": f"n{number}-{turn}.example.test", **members}, {})
                    for number in range(count - operators)
                ],
            )
            refunded = Counter(refunds)
        assert refunded == {"done": 1, "conflict": operators - 1}
        outcomes = _outcomes(answers)
        spent = outcomes.pop((201, ""))
        assert set(outcomes) <= {(402, "insufficient_credits")}, outcomes
        assert spent in (1, 2)  # the second is paid with what was given back, where it came early enough
        assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 20 - 10 * spent
        assert service.doctor() == []


def check_renewal_is_charged_once(service: RunningService, count: int = 100) -> None:
    """Of `count` renewals of one name at once one is made and charged."""
    service.add_domain("example.test")
    ada = service.add_user(credit_count=1000)
    service.register(ada, "shop.example.test", registration_mode="plus", confirm=True)
    service.clock.advance(days=330)
    came = _contend(service, ada, "shop.example.test", ["renew"] * count)
    assert came["renew", "done"] == 1, came
    assert {outcome for _, outcome in came} <= {"done", "renewal_not_available", "conflict"}, came
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 1000 - 20
    assert service.doctor() == []


def check_writers_take_turns(service: RunningService) -> None:
    """What a writing transaction has read nobody else changes until it is over, or it is at least not lost."""
    ada = service.add_user(credit_count=10)
    done = threading.Event()

    def grant(tx: Tx, credit_count: int) -> None:
        grant_credits(tx, OPERATOR, ada.email, credit_count, "test")

    def second() -> None:
        service.write(lambda tx: grant(tx, 1))
        done.set()

    other = threading.Thread(target=second)

    def first(tx: Tx) -> None:
        find_balance(tx, ada.id)
        other.start()
        done.wait(0.5)  # where writers take turns it can't be done before this one is
        grant(tx, 2)

    service.write(first)
    other.join(30)
    assert done.is_set()
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 13
    assert service.doctor() == []
