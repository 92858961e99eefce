"""`Idempotency-Key` where two processes share a database: the effect comes once, on
SQLite and on PostgreSQL.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from starlette.datastructures import Headers

from sublet.accounts.model import Organization, Registrant, Token, User
from sublet.config import Settings
from sublet.credits.model import AppliedCoupon, Outcome
from sublet.db import Database, Tx, open_database
from sublet.errors import IdempotencyInProgress, NotFound, Refusal
from sublet.http.head import Clients
from sublet.metrics import Metrics
from sublet.operations.call import Call, Context
from sublet.operations.idempotency import WriteResult, fingerprint, write_once
from sublet.operations.publication_wait import PublicationWaiter
from sublet.operations.rate_limiter import RateLimiter
from sublet.secret import Secret
from support.postgresql import fresh_database
from support.running_service import MovableClock, RunningService, initialise, initialised_postgresql

NOW = datetime(2026, 11, 21, tzinfo=UTC)
ADA = Registrant(
    User(1, "ada@example.org", "Ada", 1, None, None, None, NOW),
    Organization(1, "Acme", "acme", NOW),
    Token(1, 1, "t", (), None, None, None, NOW),
)
OUTCOME = Outcome(id=7, charged_credits=9, coupon=AppliedCoupon("HALF", "percent", 50, 9))


def process(database_url: str) -> Context:
    """What one process has of its own: its connections and what it knows to be running."""
    settings = Settings(database_url=database_url)

    async def nobody(_db: Database, _token: Secret) -> Registrant:
        raise AssertionError("not asked here")

    db = open_database(database_url, may_lose_writes=True)
    return Context(settings, db, nobody, RateLimiter(settings), Metrics(), PublicationWaiter(db))


def call(context: Context, key: str | None = "key", body: str = "a") -> Call[None, None]:
    return Call(
        context=context,
        request_id="r",
        registrant=ADA,
        path={},
        body=None,
        query=None,
        idempotency_key=key,
        fingerprint=fingerprint("POST", "/x", {"a": body}),
        status=201,
        request_path="/x",
        query_string="",
        client=Clients(context.settings, "http://localhost").find({"scheme": "http"}, Headers()),
    )


@pytest.fixture
def registry(registry_url: str) -> str:
    """The address of an initialised registry, on each of the two engines."""
    if registry_url.startswith("sqlite"):
        initialise(RunningService(Settings(database_url=registry_url), MovableClock()))
    return registry_url


class Verb:
    """A verb that counts how often it ran to its end in a transaction that was kept,
    as far as it can know.
    """

    def __init__(self, seconds: float = 0) -> None:
        self.runs = 0
        self.started = threading.Event()
        self._seconds = seconds

    def __call__(self, _tx: Tx) -> Outcome:
        self.started.set()
        time.sleep(self._seconds)
        self.runs += 1
        return OUTCOME


async def outcome_of(some: Call[None, None], verb: Callable[[Tx], Outcome]) -> WriteResult | Refusal:
    try:
        return await write_once(some, verb)
    except Refusal as refusal:
        return refusal


def test_a_process_refuses_a_key_that_is_in_progress(registry: str) -> None:
    verb = Verb(seconds=0.5)

    async def story() -> list[WriteResult | Refusal]:
        context = process(registry)
        try:
            return await asyncio.gather(*(outcome_of(call(context), verb) for _ in range(3)))
        finally:
            assert context.running_keys == set()
            await context.db.close()

    first, *others = asyncio.run(story())
    assert first == WriteResult(OUTCOME, 201, replayed=False)
    assert [type(each) for each in others] == [IdempotencyInProgress] * 2
    assert verb.runs == 1


def test_a_key_at_two_processes_takes_effect_once(registry: str) -> None:
    verb = Verb(seconds=0.5)

    async def story() -> list[WriteResult | Refusal]:
        one, two = process(registry), process(registry)
        first = asyncio.create_task(outcome_of(call(one), verb))
        await asyncio.to_thread(verb.started.wait, 60)
        try:
            return list(await asyncio.gather(first, outcome_of(call(two), verb)))
        finally:
            await one.db.close()
            await two.db.close()

    # It waits for the first one: on PostgreSQL at the key, on SQLite before it begins.
    assert asyncio.run(story()) == [
        WriteResult(OUTCOME, 201, replayed=False),
        WriteResult(OUTCOME, 201, replayed=True),
    ]
    assert verb.runs == 1


def test_a_waiting_process_runs_the_request_after_a_refusal_elsewhere(registry: str) -> None:
    """What waits for a key gets it when the first one rolls back."""
    verb, started = Verb(), threading.Event()

    def refused(_tx: Tx) -> Outcome:
        started.set()
        time.sleep(0.3)  # the other one gets to wait, mostly; if not it is the same
        raise NotFound("no")

    async def story() -> list[WriteResult | Refusal]:
        one, two = process(registry), process(registry)
        first = asyncio.create_task(outcome_of(call(one), refused))
        await asyncio.to_thread(started.wait, 60)
        try:
            return list(await asyncio.gather(first, outcome_of(call(two), verb)))
        finally:
            await one.db.close()
            await two.db.close()

    first, second = asyncio.run(story())
    assert type(first) is NotFound
    assert second == WriteResult(OUTCOME, 201, replayed=False)


def test_a_request_in_progress_at_another_process_is_reported(postgresql_server: str) -> None:
    """Only a request that outlasts the wait for a lock is told of as running."""
    ended = threading.Event()
    verb = Verb()

    def long(tx: Tx) -> Outcome:
        outcome = verb(tx)
        assert ended.wait(60)
        return outcome

    async def story(url: str) -> list[WriteResult | Refusal]:
        one, two = process(url), process(f"{url}?options=-c%20lock_timeout%3D200")
        first = asyncio.create_task(outcome_of(call(one), long))
        await asyncio.to_thread(verb.started.wait, 60)
        try:
            second = await outcome_of(call(two), verb)
            ended.set()
            return [await first, second, await outcome_of(call(two), verb)]
        finally:
            ended.set()
            await one.db.close()
            await two.db.close()

    with fresh_database(postgresql_server, like=initialised_postgresql()) as url:
        first, second, third = asyncio.run(story(url))
    assert first == WriteResult(OUTCOME, 201, replayed=False)
    assert type(second) is IdempotencyInProgress
    assert third == WriteResult(OUTCOME, 201, replayed=True)
    assert verb.runs == 1


def test_an_internal_error_frees_the_key(registry: str) -> None:

    def broken(_tx: Tx) -> Outcome:
        raise RuntimeError("a fault")

    async def story() -> WriteResult:
        context = process(registry)
        try:
            await write_once(call(context), broken)
        except RuntimeError:
            return await write_once(call(context, body="another"), Verb())
        finally:
            await context.db.close()
        raise AssertionError("the fault was swallowed")

    assert asyncio.run(story()) == WriteResult(OUTCOME, 201, replayed=False)
