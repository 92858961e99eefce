"""Races: many clients want one thing at once, from one service or from several on one database.

Each check raises AssertionError if credits, quota, coupons, names or keys are given out more than once. The
platform domain example.test must exist. `RACES` and `PROCESSES` run the checks at length.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from sqlalchemy import func, select

from long.scenario import POSTGRESQL, SOAK, SQLITE, Outcome, Scenario, Trial, registry_on
from sublet.audit import Actor, audit_events
from sublet.credits.entries import grant_credits, refund_charge
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.subdomains.store import subdomains
from sublet.subdomains.sweep.brake import resume_sweep
from sublet.subdomains.sweep.sweep import sweep
from support import http_clients
from support.crash_checks import zone_is_right
from support.repetitions import share
from support.running_service import Registrant, RunningService, running_service
from support.serve_process import ServeProcess, serve_process
from support.waiting import wait_until

ROUNDS = share(1, whole=3)
"""How many rounds of each race the tests run; more rounds find rarer faults."""
COUNT = 100
PROCESS_COUNT = 3
TRIES = 5
PRICE_CREDITS = 10
PAID = {"registration_mode": "plus", "confirm": True}
OPERATOR = Actor(kind="operator", name="olga")
Services = Sequence[RunningService]
"""The services of one database; requests go to each in turn."""
Request = tuple[Registrant, dict[str, Any], dict[str, str]]
"""The registrant, the body, further headers."""
Contender = Callable[[httpx.AsyncClient, RunningService, Registrant, str], Awaitable[str]]
"""An action on a name that competes with others; returns "done" or the code of the refusal."""


def register_at_once(services: Services, requests: Sequence[Request]) -> list[httpx.Response]:
    """Send all registrations at the same time, each on its own connection, and return the answers in order.

    A request that is answered `unavailable` is sent again after its `Retry-After`: on a busy machine some
    wait too long for a row.
    """
    limits = httpx.Limits(max_connections=len(requests), max_keepalive_connections=0)

    async def send(client: httpx.AsyncClient, number: int, request: Request) -> httpx.Response:
        who, body, headers = request
        url = services[number % len(services)].base_url + "/subdomains"
        for _ in range(TRIES):
            answer = await client.post(
                url, json=body, headers={"authorization": f"Bearer {who.token}", **headers}
            )
            if answer.status_code != 503:
                break
            await asyncio.sleep(float(answer.headers["retry-after"]))
        return answer

    async def run() -> list[httpx.Response]:
        async with http_clients.AsyncClient(timeout=120, limits=limits) as client:
            return await asyncio.gather(*(send(client, *each) for each in enumerate(requests)))

    return asyncio.run(run())


def _outcomes(answers: Sequence[httpx.Response]) -> Counter[tuple[int, str]]:
    return Counter((each.status_code, str(each.json().get("error", ""))) for each in answers)


def _balance(service: RunningService, who: Registrant) -> int:
    return int(service.call(who, "GET", "/credits").json()["credit_balance"])


def check_credits_are_spent_once(
    services: Services, count: int = COUNT, *, rounds: int = 1, paid_for: int = 1
) -> None:
    """With credits for `paid_for` of `count` paid registrations, exactly that many
    succeed and are charged.
    """
    first = services[0]
    ada = first.add_user("spender@example.org")
    granted = paid_for * PRICE_CREDITS
    for turn in range(rounds):
        first.operator("credits", "grant", ada.email, "--credits", str(granted), "--reason", f"round {turn}")
        answers = register_at_once(
            services,
            [(ada, {"fqdn": f"s{turn}-{number}.example.test", **PAID}, {}) for number in range(count)],
        )
        expected = {(201, ""): paid_for, (402, "insufficient_credits"): count - paid_for}
        assert _outcomes(answers) == expected, (turn, _outcomes(answers))
        assert [_balance(each, ada) for each in services] == [0] * len(services)
        payments = first.call(ada, "GET", f"/payments?limit={paid_for + 1}").json()["payments"]
        assert sorted(each["credits"] for each in payments) == [*[-PRICE_CREDITS] * paid_for, granted]
    assert len(first.list_all(ada, "/subdomains", "subdomains")) == paid_for * rounds
    assert first.doctor() == []


def check_quota_is_used_once(services: Services, count: int = COUNT, *, rounds: int = 1) -> None:
    """With one free name left, exactly one of `count` registrations gets it."""
    first = services[0]
    held = first.settings.free_quota - 1
    for turn in range(rounds):
        ada = first.add_user(f"free{turn}@example.org")
        for number in range(held):
            first.register(ada, f"held{number}-{turn}.example.test")
        free = {"registration_mode": "free"}
        answers = register_at_once(
            services,
            [(ada, {"fqdn": f"f{number}-{turn}.example.test", **free}, {}) for number in range(count)],
        )
        assert _outcomes(answers) == {(201, ""): 1, (403, "free_quota_exceeded"): count - 1}
        assert len(first.list_all(ada, "/subdomains", "subdomains")) == held + 1
        assert first.doctor() == []


def check_coupon_is_used_once(services: Services, count: int = COUNT, *, rounds: int = 1) -> None:
    """Of `count` registrations by two users with a coupon for one use, exactly one succeeds."""
    first = services[0]
    users = [first.add_user(f"saver{number}@example.org") for number in range(2)]
    for turn in range(rounds):
        first.operator("coupon", "add", f"ONCE{turn}", "--percent", "100", "--max-uses", "1")
        members = {**PAID, "coupon_code": f"ONCE{turn}"}
        answers = register_at_once(
            services,
            [
                (users[number % 2], {"fqdn": f"c{number}-{turn}.example.test", **members}, {})
                for number in range(count)
            ],
        )
        expected = {(201, ""): 1, (422, "validation_failed"): count - 1}
        assert _outcomes(answers) == expected, (turn, _outcomes(answers))
        assert [each["uses"] for each in first.operator("coupon", "list")] == [1] * (turn + 1)
    assert first.doctor() == []


def check_name_goes_to_one(services: Services, *, rounds: int = 5) -> None:
    """Of two users who register one name at once, one gets it and pays; the other pays nothing."""
    first = services[0]
    budget = PRICE_CREDITS * rounds
    users = [first.add_user(f"{name}@example.org", credit_count=budget) for name in ("one", "other")]
    won: Counter[str] = Counter()
    for turn in range(rounds):
        body = {"fqdn": f"r{turn}.example.test", **PAID, "nameservers": ["ns1.provider.example"]}
        turned = [services[(turn + number) % len(services)] for number in range(len(users))]
        answers = register_at_once(turned, [(who, body, {}) for who in users])
        expected = {(201, ""): 1, (409, "subdomain_unavailable"): 1}
        assert _outcomes(answers) == expected, (turn, _outcomes(answers))
        won[users[[each.status_code for each in answers].index(201)].email] += 1
        balances = {who.email: _balance(services[turn % len(services)], who) for who in users}
        assert balances == {who.email: budget - PRICE_CREDITS * won[who.email] for who in users}, turn
    held = [len(first.list_all(who, "/subdomains", "subdomains")) for who in users]
    assert held == [won[who.email] for who in users]


def check_key_acts_once(services: Services, count: int = 20, *, rounds: int = 1) -> None:
    """Of `count` requests with one `Idempotency-Key`, one acts; the others replay its answer, or get
    `idempotency_in_progress`.
    """
    first = services[0]
    ada = first.add_user("keys@example.org", credit_count=PRICE_CREDITS * rounds)
    for turn in range(rounds):
        body = {"fqdn": f"k{turn}.example.test", **PAID}
        answers = register_at_once(services, [(ada, body, {"idempotency-key": f"k-{turn}"})] * count)
        outcomes = _outcomes(answers)
        assert set(outcomes) <= {(201, ""), (409, "idempotency_in_progress")}, outcomes
        done = [each for each in answers if each.status_code == 201]
        assert len({each.json()["subdomain"]["id"] for each in done}) == 1
        assert sum("idempotent-replayed" not in each.headers for each in done) == 1
        for service in services:
            later = service.call(ada, "POST", "/subdomains", body, idempotency_key=f"k-{turn}")
            assert (later.status_code, later.headers["idempotent-replayed"]) == (201, "true")
            assert later.json()["subdomain"]["id"] == done[0].json()["subdomain"]["id"]
        assert _balance(first, ada) == PRICE_CREDITS * (rounds - turn - 1)
    assert first.doctor() == []


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
    """Resume the sweep, which the jump of the clock has stopped, and sweep beside the
    service's own worker.
    """

    def run() -> str:
        with suppress(Conflict):  # another contender was faster
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
"""The actions that compete for one name."""
SWEEPS = 3
GONE = "subdomain_not_found"
OUTCOMES = {
    "delete": {"done", GONE},
    "renew": {"done", GONE, "renewal_not_available"},
    "change": {"done", GONE},
    "sweep": {"trashed", "left"},
}
"""The possible outcomes of each."""


def check_one_life_is_lived(service: RunningService, count: int = 100, rounds: int = 1) -> None:
    """Delete, renew, change and sweep a name after its grace, `count` times at once: it goes to the trash
    once.

    At most one renewal succeeds before that; it is charged once, and the sweep leaves the name.
    """
    ada = service.add_user(credit_count=1000)
    order = random.Random(7)  # noqa: S311 - so that a failure can be repeated
    for turn in range(rounds):
        name = f"n{turn}.example.test"
        service.register(ada, name, **PAID, nameservers=["ns1.provider.example"])
        wait_until(lambda: zone_is_right(service))
        service.clock.advance(days=365 + 30, seconds=1)
        wait_until(lambda: service.operator("sweep", "status")["stopped"])
        before = _balance(service, ada)
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
        spent = before - _balance(service, ada)
        assert spent == 10 * renewed
        assert service.call(ada, "GET", f"/subdomains/{name}").json()["details"]["in_trash"] is True
        wait_until(lambda: zone_is_right(service))
        assert service.doctor() == []


def _contend(
    service: RunningService, who: Registrant, name: str, whose: Sequence[str]
) -> Counter[tuple[str, str]]:
    limits = httpx.Limits(max_connections=len(whose), max_keepalive_connections=0)

    async def run() -> list[str]:
        async with http_clients.AsyncClient(timeout=60, limits=limits) as client:
            return await asyncio.gather(*(CONTENDERS[each](client, service, who, name) for each in whose))

    return Counter(zip(whose, asyncio.run(run()), strict=True))


def check_refund_and_spending(service: RunningService, count: int = 100, rounds: int = 1) -> None:
    """Ten operators refund one charge while its user spends: the refund is made once, and the balance is
    never negative.
    """
    operators = 10
    for turn in range(rounds):
        ada = service.add_user(f"ada{turn}@example.org", credit_count=20)
        service.register(ada, f"first{turn}.example.test", **PAID)
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
                [service],
                [
                    (ada, {"fqdn": f"n{number}-{turn}.example.test", **PAID}, {})
                    for number in range(count - operators)
                ],
            )
            refunded = Counter(refunds)
        assert refunded == {"done": 1, "conflict": operators - 1}
        outcomes = _outcomes(answers)
        spent = outcomes.pop((201, ""))
        assert set(outcomes) <= {(402, "insufficient_credits")}, outcomes
        assert spent in (1, 2)  # the second is paid with the refund, if it came early enough
        assert _balance(service, ada) == 20 - 10 * spent
        assert service.doctor() == []


def check_renewal_is_charged_once(service: RunningService, count: int = 100) -> None:
    """Of `count` renewals of one name at once, one is made and charged."""
    ada = service.add_user(credit_count=1000)
    service.register(ada, "shop.example.test", **PAID)
    service.clock.advance(days=330)
    came = _contend(service, ada, "shop.example.test", ["renew"] * count)
    assert came["renew", "done"] == 1, came
    assert {outcome for _, outcome in came} <= {"done", "renewal_not_available", "conflict"}, came
    assert _balance(service, ada) == 1000 - 20
    assert service.doctor() == []


def check_writers_take_turns(service: RunningService) -> None:
    """Two transactions that read and then write one balance: no update is lost."""
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
        done.wait(0.5)  # a second writer that has to wait can't be done before this one
        grant(tx, 2)

    service.write(first)
    other.join(60)
    assert done.is_set()
    assert _balance(service, ada) == 13
    assert service.doctor() == []


@contextmanager
def processes(
    database_url: str,
    folder: Path,
    count: int = PROCESS_COUNT,
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[list[ServeProcess]]:
    """Run several processes on one database with example.test; at the end the zone equals the registry and
    all exit with 0.
    """
    with ExitStack() as stack:
        serving = [stack.enter_context(serve_process(database_url, folder)) for _ in range(count)]
        for each in serving:
            each.environment.update(environment)
            each.start()
        serving[0].service.add_domain()
        yield serving
        wait_until(lambda: zone_is_right(serving[0].service))
        assert serving[0].service.doctor() == []
        assert [each.stop() for each in serving] == [0] * count


def check_over_processes(services: Services, rounds: int, count: int = COUNT) -> None:
    """Run the races whose requests go to all processes in turn."""
    check_credits_are_spent_once(services, count, rounds=rounds, paid_for=5)
    check_name_goes_to_one(services, rounds=2 * rounds)
    check_coupon_is_used_once(services, count, rounds=rounds)
    check_key_acts_once(services, count // 2, rounds=rounds)


def _run_processes(trial: Trial) -> Outcome:
    with registry_on(trial) as url, processes(url, trial.folder) as serving:
        check_over_processes([each.service for each in serving], trial.count)
    return Outcome(
        f"{trial.count} rounds each of {COUNT} paid registrations with credits for 5, of {COUNT} with a "
        f"coupon for one use, and of 50 with one Idempotency-Key; {2 * trial.count} rounds of two users for "
        f"one name; over {len(serving)} processes; 0 violations",
    )


def _run_races(trial: Trial) -> Outcome:
    rounds = trial.count
    checks: dict[str, Callable[[RunningService], None]] = {
        "credits": lambda service: check_credits_are_spent_once([service], rounds=rounds),
        "free quota": lambda service: check_quota_is_used_once([service], rounds=rounds),
        "coupon": lambda service: check_coupon_is_used_once([service], rounds=rounds),
        "name": lambda service: check_name_goes_to_one([service], rounds=rounds),
        "Idempotency-Key": lambda service: check_key_acts_once([service], rounds=rounds),
        "delete, renew, change and sweep": lambda service: check_one_life_is_lived(service, rounds=rounds),
        "refund and spending": lambda service: check_refund_and_spending(service, rounds=rounds),
        "renewal": check_renewal_is_charged_once,
        "writers": check_writers_take_turns,
    }
    for number, check in enumerate(checks.values()):
        folder = trial.folder / str(number)
        folder.mkdir()
        with registry_on(replace(trial, folder=folder)) as url, running_service(url) as service:
            service.add_domain()
            check(service)
    return Outcome(f"{rounds} rounds of {COUNT} clients at once: {', '.join(checks)}; 0 violations")


RACES = Scenario(
    "races",
    "A hundred clients want one thing at once, over HTTP; it must be given out once. Counted are the rounds.",
    _run_races,
    {SOAK: {SQLITE: 20, POSTGRESQL: 20}},
)
PROCESSES = Scenario(
    "processes",
    "Three `sublet serve` on one PostgreSQL get the requests of a race in turn. Counted are the rounds.",
    _run_processes,
    {SOAK: {POSTGRESQL: 100}},
)
