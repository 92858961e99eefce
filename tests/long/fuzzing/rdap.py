"""Random RDAP queries, and what the times of answers tell about names that aren't public."""

import asyncio
import random
import statistics
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp

from long.scenario import FUZZ, SQLITE, Outcome, Scenario, Trial
from sublet.accounts.authenticate import authenticate
from sublet.config import Settings
from sublet.db import Database, Tx, open_database
from sublet.http.app import build_app
from sublet.metrics import Metrics
from sublet.operations.call import Context
from sublet.operations.publication_wait import PublicationWaiter
from sublet.operations.rate_limiter import RateLimiter
from sublet.platform_domains.store import find_platform_domain_by_name
from sublet.surfaces import OPERATIONS, RDAP_OPERATIONS
from support.rdap_world import SETTINGS, RdapWorld, build_world, draw_request
from support.serve_process import serve_process
from support.subdomain_states import State, add_names

AUC_MIN, AUC_MAX = 0.45, 0.55
"""The probability that a name that isn't public takes longer than one that doesn't exist; 0.5 if the times
tell nothing.
"""
RATIO_MAX = 0.8
"""The maximum time of a query, as a part of the time of GET /subdomains/{fqdn}."""
RATIO_PAIRS = 2000
TRASHED = State(
    "left",
    suspended=False,
    term="early",
    renewed=False,
    nameservers=True,
    publication="published",
    mode="free",
)
LIVE = State(
    "no",
    suspended=False,
    term="early",
    renewed=False,
    nameservers=False,
    publication="published",
    mode="free",
)

KINDS = {
    "names in the trash": ("/rdap/domain/{}", "example.test", TRASHED),
    "names below a hidden domain": ("/rdap/domain/{}", "hidden.test", LIVE),
    "nameservers of names in the trash": ("/rdap/nameserver/ns1.{}", "example.test", TRASHED),
}
"""The kinds of names that are compared: the path, the platform domain and the state."""


def auc(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability that a value of `first` exceeds one of `second`, with ties as one half."""
    ordered = sorted(second)
    below = sum(bisect_left(ordered, each) + bisect_right(ordered, each) for each in first)
    return below / (2 * len(first) * len(second))


def run(trial: Trial) -> Outcome:
    """Send `count` random queries, compare the times of a fifth as many pairs, and compare the time with that
    of the API.
    """
    draws = random.Random(trial.seed)  # noqa: S311 - queries, no secrets
    with serve_process(f"sqlite:///{trial.folder}/registry.db", trial.folder) as serving:
        serving.environment = {f"SUBLET_{name.upper()}": value for name, value in SETTINGS.items()}
        serving.start()
        world = build_world(serving.service)
        statuses = Counter(world.check_request(*draw_request(draws, world)) for _ in range(trial.count))
        bodies = {world.get(f"domain/{name}").content for name in world.alike}
        assert len(bodies) == 1, bodies
    pairs = trial.count // 5
    aucs, ratio = asyncio.run(_measure(world, draws, pairs))
    told = [
        f"answers: {', '.join(f'{status}: {count:,}' for status, count in sorted(statuses.items()))}",
        f"{len(world.alike)} kinds of names that aren't public: the same bytes",
        *(
            f"times of {kind} beside names that don't exist, {pairs:,} pairs: AUC {each:.3f}"
            for kind, each in aucs.items()
        ),
        f"a query takes {ratio:.2f} of the time of GET /subdomains/{{fqdn}}, {RATIO_PAIRS:,} pairs",
    ]
    for kind, each in aucs.items():
        assert AUC_MIN <= each <= AUC_MAX, (kind, each, told)
    return Outcome("\n".join(told), "" if ratio <= RATIO_MAX else f"more than {RATIO_MAX}")


async def _measure(world: RdapWorld, draws: random.Random, pairs: int) -> tuple[dict[str, float], float]:
    """Return the AUCs, and the ratio of times.

    They are measured in this process, without a network, which would add noise.
    """
    settings = Settings(
        database_url=world.service.settings.database_url, rate_limits=False, log_level="warning", **SETTINGS
    )
    db = open_database(settings.database_url)
    context = Context(settings, db, authenticate, RateLimiter(settings), Metrics(), PublicationWaiter(db))
    app = build_app(context, "http://127.0.0.1", dict, (*OPERATIONS, *RDAP_OPERATIONS))
    try:
        aucs = {kind: await _compare_times(db, app, world, draws, pairs, kind) for kind in KINDS}
        return aucs, await _compare_with_api(app, world)
    finally:
        await db.close()


async def _compare_times(
    db: Database, app: ASGIApp, world: RdapWorld, draws: random.Random, pairs: int, kind: str
) -> float:
    """Return the AUC of a kind of names.

    Each name is asked once, in random order; the two of a pair directly after each other.
    """
    path, domain, state = KINDS[kind]
    labels = [f"{draws.randrange(16**12):012x}" for _ in range(2 * pairs)]
    held, free = labels[:pairs], labels[pairs:]
    await db.write(_store, world.ada.id, sorted(held), domain, state)
    times: dict[bool, list[float]] = {True: [], False: []}
    for one, other in zip(held, free, strict=True):
        both = [(True, one), (False, other)]
        draws.shuffle(both)
        for is_held, label in both:
            seconds = await _ask_in_process(app, path.format(f"{label}.{domain}"), [(b"host", b"a")], 404)
            times[is_held].append(seconds)
    return auc(times[True], times[False])


def _store(tx: Tx, user_id: int, labels: Sequence[str], domain: str, state: State) -> None:
    platform_domain = find_platform_domain_by_name(tx, domain)
    assert platform_domain is not None
    add_names(tx, ((user_id, label, state) for label in labels), platform_domain.id, domain)


async def _compare_with_api(app: ASGIApp, world: RdapWorld) -> float:
    """Return the median time of a query, as a part of the median time of GET /subdomains/{fqdn} for the same
    name.
    """
    name, token = "offered.example.test", f"Bearer {world.ada.token}".encode()
    asked = {
        f"/rdap/domain/{name}": [(b"host", b"a")],
        f"/api/v1/subdomains/{name}": [(b"host", b"a"), (b"authorization", token)],
    }
    times: dict[str, list[float]] = {path: [] for path in asked}
    for number in range(RATIO_PAIRS):
        for path in asked if number % 2 else reversed(asked):
            times[path].append(await _ask_in_process(app, path, asked[path], 200))
    query, request = (statistics.median(each) for each in times.values())
    return query / request


async def _ask_in_process(
    app: ASGIApp, path: str, headers: list[tuple[bytes, bytes]], expected: int
) -> float:
    statuses = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    began = time.perf_counter()
    await app(scope, receive, send)
    seconds = time.perf_counter() - began
    assert statuses[0] == expected, statuses
    return seconds


RDAP = Scenario(
    "rdap",
    "Random paths and headers for RDAP: no 5xx, and only RDAP's objects. Then the times of answers about "
    f"names that aren't public, beside names that don't exist: AUC {AUC_MIN:g} to {AUC_MAX:g}. A query "
    f"takes at most {RATIO_MAX:g} of the time of GET /subdomains/{{fqdn}}. Counted are requests; pairs are "
    "a fifth as many.",
    run,
    {FUZZ: {SQLITE: 10_000}},
)
