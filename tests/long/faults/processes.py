"""Several `sublet serve` on one PostgreSQL: what must hold over all of them, as functions with a number of rounds.

The tests call them small, `make soak PART=processes` large. Each raises what is violated and returns a line of the report.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support import http_clients
from support.crash_checks import zone_is_right
from support.running_service import Registrant, RunningService
from support.serve_process import ServeProcess, serve_process, wait_until

PROCESSES = 3
AT_ONCE = 100
PRICE_CREDITS = 10
PAID = {"registration_mode": "plus", "confirm": True}
WINDOW_SECONDS = 60
TRIES = 5


@dataclass(frozen=True, slots=True)
class Sent:
    """One registration: at which process, whose, of what, and further headers."""

    at: RunningService
    who: Registrant
    body: dict[str, Any]
    headers: dict[str, str]


@contextmanager
def processes(
    database_url: str, folder: Path, count: int = PROCESSES, **environment: str
) -> Iterator[list[ServeProcess]]:
    """Run so many processes on one database with example.test; in the end zone and registry agree, and all end well."""
    with ExitStack() as stack:
        serving = [stack.enter_context(serve_process(database_url, folder)) for _ in range(count)]
        for each in serving:
            each.environment |= environment
            each.start()
        serving[0].service.add_domain("example.test")
        yield serving
        wait_until(lambda: zone_is_right(serving[0].service), 120)
        found = serving[0].service.doctor()
        assert found == [], found
        assert [each.stop() for each in serving] == [0] * count


def at_once(requests: Sequence[Sent]) -> list[httpx.Response]:
    """Send all registrations at the same time, each over a connection of its own, and return the answers in order.

    A refusal as `unavailable` left nothing behind: it is sent again, as its `Retry-After` says. On a loaded machine some wait too long for a row.
    """
    limits = httpx.Limits(max_connections=len(requests), max_keepalive_connections=0)

    async def send(client: httpx.AsyncClient, each: Sent) -> httpx.Response:
        headers = {"authorization": f"Bearer {each.who.token}", **each.headers}
        for _ in range(TRIES):
            answer = await client.post(each.at.base_url + "/subdomains", json=each.body, headers=headers)
            if answer.status_code != 503:
                break
            await asyncio.sleep(float(answer.headers["retry-after"]))
        return answer

    async def run() -> list[httpx.Response]:
        async with http_clients.AsyncClient(timeout=120, limits=limits) as client:
            return await asyncio.gather(*(send(client, each) for each in requests))

    return asyncio.run(run())


def outcomes(answers: Sequence[httpx.Response]) -> Counter[tuple[int, str]]:
    """Count the answers by status and code."""
    return Counter((each.status_code, str(each.json().get("error", ""))) for each in answers)


def _services(serving: Sequence[ServeProcess]) -> list[RunningService]:
    return [each.service for each in serving]


def _balance(service: RunningService, who: Registrant) -> int:
    return int(service.call(who, "GET", "/credits").json()["credit_balance"])


def credits_are_spent_once(serving: Sequence[ServeProcess], rounds: int, paid_for: int = 5) -> str:
    """With credits for five, of a hundred paid registrations over all processes exactly five are made and charged."""
    services = _services(serving)
    first = services[0]
    ada = first.add_user("spender@example.org")
    for turn in range(rounds):
        first.operator(
            "credits", "grant", ada.email, str(paid_for * PRICE_CREDITS), "--reason", f"round {turn}"
        )
        answers = at_once(
            [
                Sent(
                    services[number % len(services)],
                    ada,
                    {"fqdn": f"s{turn}-{number}.example.test", **PAID},
                    {},
                )
                for number in range(AT_ONCE)
            ]
        )
        assert outcomes(answers) == {
            (201, ""): paid_for,
            (402, "insufficient_credits"): AT_ONCE - paid_for,
        }, (turn, outcomes(answers))
        assert [_balance(each, ada) for each in services] == [0] * len(services)
        payments = first.call(ada, "GET", "/payments?limit=6").json()["payments"]
        assert sorted(each["credits"] for each in payments) == [
            *[-PRICE_CREDITS] * paid_for,
            paid_for * PRICE_CREDITS,
        ]
    return (
        f"double spend: {rounds} rounds of {AT_ONCE} paid registrations at once over {len(services)} processes, with credits for "
        f"{paid_for}: {paid_for} made and charged in each, {AT_ONCE - paid_for} refused as insufficient_credits; 0 violations"
    )


def name_goes_to_one(serving: Sequence[ServeProcess], rounds: int) -> str:
    """Of two users who ask two processes for one name one gets it and pays; the other one pays nothing."""
    services = _services(serving)
    users = [
        services[0].add_user(f"{name}@example.org", credit_count=PRICE_CREDITS * rounds)
        for name in ("ada", "bob")
    ]
    won: Counter[str] = Counter()
    for turn in range(rounds):
        body = {"fqdn": f"r{turn}.example.test", **PAID, "nameservers": ["ns1.provider.example"]}
        answers = at_once(
            [
                Sent(services[(turn + number) % len(services)], who, body, {})
                for number, who in enumerate(users)
            ]
        )
        assert outcomes(answers) == {(201, ""): 1, (409, "subdomain_unavailable"): 1}, (
            turn,
            outcomes(answers),
        )
        winner = users[[each.status_code for each in answers].index(201)]
        won[winner.email] += 1
        balances = {who.email: _balance(services[turn % len(services)], who) for who in users}
        assert balances == {who.email: PRICE_CREDITS * (rounds - won[who.email]) for who in users}, turn
    told = " and ".join(str(each) for each in sorted(won.values(), reverse=True))
    return f"one name, two users, two processes: {rounds} rounds, one winner in each ({told}), no charge to the loser; 0 violations"


def coupon_is_used_once(serving: Sequence[ServeProcess], rounds: int) -> str:
    """A coupon for one use lets one of a hundred through, whoever's they are and wherever they ask."""
    services = _services(serving)
    users = [services[0].add_user(f"saver{number}@example.org") for number in range(2)]
    for turn in range(rounds):
        services[0].operator("coupon", "add", f"ONLY{turn}", "--percent", "100", "--max-uses", "1")
        members = {**PAID, "coupon_code": f"ONLY{turn}"}
        answers = at_once(
            [
                Sent(
                    services[number % len(services)],
                    users[number % 2],
                    {"fqdn": f"c{turn}-{number}.example.test", **members},
                    {},
                )
                for number in range(AT_ONCE)
            ]
        )
        assert outcomes(answers) == {(201, ""): 1, (422, "validation_failed"): AT_ONCE - 1}, (
            turn,
            outcomes(answers),
        )
    uses = [each["uses"] for each in services[0].operator("coupon", "list")]
    assert uses == [1] * rounds
    return f"a coupon for one use: {rounds} rounds of {AT_ONCE} at once over {len(services)} processes, used once in each; 0 violations"


def key_acts_once(serving: Sequence[ServeProcess], rounds: int, count: int = 50) -> str:
    """One `Idempotency-Key` fifty times at once over all processes: one effect; the others replay it or are told that it runs."""
    services = _services(serving)
    ada = services[0].add_user("keys@example.org", credit_count=PRICE_CREDITS * rounds)
    replayed = running = 0
    for turn in range(rounds):
        body = {"fqdn": f"k{turn}.example.test", **PAID}
        headers = {"idempotency-key": f"k-{turn}"}
        answers = at_once(
            [Sent(services[number % len(services)], ada, body, headers) for number in range(count)]
        )
        came = outcomes(answers)
        assert set(came) <= {(201, ""), (409, "idempotency_in_progress")}, came
        done = [each for each in answers if each.status_code == 201]
        assert len({each.json()["subdomain"]["id"] for each in done}) == 1
        assert sum("idempotent-replayed" not in each.headers for each in done) == 1
        replayed, running = replayed + len(done) - 1, running + came[409, "idempotency_in_progress"]
        for service in services:
            later = service.call(ada, "POST", "/subdomains", body, idempotency_key=f"k-{turn}")
            assert (later.status_code, later.headers["idempotent-replayed"]) == (201, "true")
            assert later.json()["subdomain"]["id"] == done[0].json()["subdomain"]["id"]
        assert _balance(services[0], ada) == PRICE_CREDITS * (rounds - turn - 1)
    return (
        f"one Idempotency-Key: {rounds} rounds, {count} at once over {len(services)} processes: one effect in each; of the others "
        f"{replayed} were answered with it and {running} told that it runs; 0 violations"
    )


def limit_holds(services: Sequence[RunningService], who: Registrant, limit: int) -> None:
    """Changing requests of a token, sent in turn to all processes, are let through up to the limit, and none beyond it."""
    statuses = [
        services[number % len(services)].call(who, "POST", "/subdomains", {}).status_code
        for number in range(limit + 2 * len(services))
    ]
    assert statuses == [*[422] * limit, *[429] * 2 * len(services)], statuses
    began = time.monotonic()
    answers = [service.call(who, "POST", "/subdomains", {}) for service in services]
    took = time.monotonic() - began
    for answer in answers:
        assert answer.headers["ratelimit"].startswith('"write";r=0;t='), answer.headers
        assert 1 <= int(answer.headers["retry-after"]) <= WINDOW_SECONDS
    ends = [int(answer.headers["retry-after"]) for answer in answers]
    assert max(ends) - min(ends) <= 1 + took, ends


def failures_are_counted(services: Sequence[RunningService], who: Registrant, limit: int) -> None:
    """Bad tokens, sent in turn to all processes, get as many 401s as the limit says, then 429; a good one passes all the same."""
    guess = who.token[:-1] + ("a" if who.token[-1] != "a" else "b")
    statuses = [
        services[number % len(services)].call(guess, "GET", "/me").status_code
        for number in range(limit + len(services))
    ]
    assert statuses == [*[401] * limit, *[429] * len(services)], statuses
    assert [service.call(who, "GET", "/me").status_code for service in services] == [200] * len(services)
