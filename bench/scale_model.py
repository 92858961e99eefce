"""What the measured costs come to at other rates: a simulation of the queues that a request passes. Part of `make bench-scale`.

A registration passes a process of the API (one core each: Python), PostgreSQL (so many cores), where it is paid the house's account (one row,
locked from its change to the end of the COMMIT), and the publisher of its zone, who takes all that waits there, at most a batch, and is
done with it before the next. A read passes the API and PostgreSQL. Arrivals and services are random (exponential), the seed is given.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

BATCH_MAX = 100
ZONE_MS = {"on BIND": 1000 / 529, "on Knot": 1000 / 178}
"""Milliseconds that a name took a signed primary with 30,000 (BIND) and 300,000 names (Knot): docs/reports/bench-dns.md."""
READS = 9
"""How many reads come with each registration."""
AIM = 0.7
"""How busy at most a process or core is to be: waits grow steeply beyond."""
SECONDS = 30.0
TOO_LATE = 3.0
"""A queue in which one waits longer than so many seconds at the end is called one that grows for ever."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of processor time: `api` and `postgresql` of a registration, with `read_` of a read; `batch` and `name` of the worker.

    `published` is PostgreSQL's for a name that is published, `house` the time for which a paid registration locks the house's account besides
    its COMMIT, `commit` the wait of a COMMIT for the disk and the standby, which is chosen, not measured. `zone` is what the name server
    needs for each name; 0 for the built-in one, whose time is in the others.
    """

    api: float
    postgresql: float
    read_api: float
    read_postgresql: float
    batch: float
    name: float
    published: float
    house: float
    commit: float = 2.0
    zone: float = 0.0


@dataclass(frozen=True, slots=True)
class Setup:
    """How much of each there is, and which part of the registrations is paid."""

    api: int
    cores: int
    zones: int
    paid: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How busy each kind of server was, how long registrations took until they were published (ms), and what had a growing queue."""

    busy: dict[str, float]
    p50_ms: float
    p99_ms: float
    saturated: tuple[str, ...]


class Queue:
    """So many servers with one queue before them; a job is how long it takes (ms), and what is done after it."""

    def __init__(self, world: "World", servers: int) -> None:
        self._world = world
        self._free = self.servers = servers
        self._jobs: deque[tuple[float, float, Callable[[], None]]] = deque()
        self.worked_ms = 0.0
        self.last_wait_ms = 0.0

    def add(self, ms: float, then: Callable[[], None]) -> None:
        """Add a job; `ms` is its mean."""
        took = self._world.draws.expovariate(1 / ms) if ms else 0.0
        self._jobs.append((self._world.now, took, then))
        self._next()

    def _next(self) -> None:
        if not self._free or not self._jobs:
            return
        since, took, then = self._jobs.popleft()
        self._free -= 1
        self.last_wait_ms = self._world.now - since
        self.worked_ms += took

        def end() -> None:
            self._free += 1
            self._next()
            then()

        self._world.after(took, end)


class World:
    """Simulated time, in milliseconds, and what is to happen in it."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)  # noqa: S311 - no secret
        self.now = 0.0
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, ms: float, then: Callable[[], None]) -> None:
        """Have something happen later."""
        heapq.heappush(self._events, (self.now + ms, next(self._numbers), then))

    def run(self, until: float) -> None:
        """Let it happen, up to an instant."""
        while self._events and self._events[0][0] <= until:
            self.now, _, then = heapq.heappop(self._events)
            then()


class Registry:
    """The queues of one setup, and the registrations and reads that pass them."""

    def __init__(self, costs: Costs, setup: Setup, per_second: float, seed: int) -> None:
        self._costs, self._setup, self._per_ms = costs, setup, per_second / 1000
        self.world = World(seed)
        self.api, self.postgresql = Queue(self.world, setup.api), Queue(self.world, setup.cores)
        self.house = Queue(self.world, 1)
        self.waiting: list[list[float]] = [[] for _ in range(setup.zones)]
        self.occupied = [0.0] * setup.zones
        self._is_occupied = [False] * setup.zones
        self.took: list[float] = []

    def arrive(self) -> None:
        """Begin a registration and its reads, and the next after a while."""
        costs, began = self._costs, self.world.now
        self.api.add(costs.api, lambda: self.postgresql.add(costs.postgresql, lambda: self._pay(began)))
        for _ in range(READS):
            self.api.add(costs.read_api, lambda: self.postgresql.add(costs.read_postgresql, lambda: None))
        self.world.after(self.world.draws.expovariate(self._per_ms), self.arrive)

    def _pay(self, began: float) -> None:
        if self.world.draws.random() < self._setup.paid:
            self.house.add(self._costs.house + self._costs.commit, lambda: self._stored(began))
        else:
            self.world.after(self._costs.commit, lambda: self._stored(began))

    def _stored(self, began: float) -> None:
        zone = self.world.draws.randrange(self._setup.zones)
        self.waiting[zone].append(began)
        self._publish(zone)

    def _publish(self, zone: int) -> None:
        if self._is_occupied[zone] or not self.waiting[zone]:
            return
        self._is_occupied[zone] = True
        costs, began_at = self._costs, self.world.now
        batch, self.waiting[zone] = self.waiting[zone][:BATCH_MAX], self.waiting[zone][BATCH_MAX:]
        count = len(batch)

        def done() -> None:
            self.took += [self.world.now - began for began in batch]
            self.occupied[zone] += self.world.now - began_at
            self._is_occupied[zone] = False
            self._publish(zone)

        def commit() -> None:  # it writes ahead, changes, records
            self.world.after(3 * costs.commit + costs.zone * count, done)

        self.world.after(
            costs.batch + costs.name * count, lambda: self.postgresql.add(costs.published * count, commit)
        )


def simulate(costs: Costs, setup: Setup, per_second: float, seed: int = 1) -> Outcome:
    """Run it for `SECONDS` of simulated time."""
    registry = Registry(costs, setup, per_second, seed)
    registry.arrive()
    registry.world.run(SECONDS * 1000)
    busy = {
        "API": registry.api.worked_ms / setup.api,
        "PostgreSQL": registry.postgresql.worked_ms / setup.cores,
        "house": registry.house.worked_ms,
        "zone": max(registry.occupied),
    }
    left = max(len(each) for each in registry.waiting)
    late_ms = {
        "API": registry.api.last_wait_ms,
        "PostgreSQL": registry.postgresql.last_wait_ms,
        "house": registry.house.last_wait_ms,
        "zone": left / (per_second / setup.zones) * 1000,
    }
    took = sorted(registry.took) or [0.0]
    grown = (name for name in busy if late_ms[name] > TOO_LATE * 1000)
    return Outcome(
        {name: min(1.0, value / SECONDS / 1000) for name, value in busy.items()},
        took[len(took) // 2],
        took[int(len(took) * 0.99)],
        tuple(grown),
    )


def needed(costs: Costs, per_second: float) -> tuple[int, int]:
    """Return how many processes of the API and cores of PostgreSQL a rate needs, so that none is busier than `AIM`."""
    api = per_second * (costs.api + READS * costs.read_api) / 1000
    cores = per_second * (costs.postgresql + costs.published + READS * costs.read_postgresql) / 1000
    return -int(-api // AIM), -int(-cores // AIM)


def print_table(costs: Costs, zone_ms: dict[str, float]) -> None:
    """Print what comes of 10, 100 and 1,000 registrations a second; `zone_ms` by name of a primary what a name costs there."""
    print(
        "| Registrations/s | paid | zones | API processes | PostgreSQL's cores | busy: API, PostgreSQL, house, zone | p50, p99 | grows for ever |"
    )
    print("|---:|---:|---|---:|---:|---|---:|---|")
    for per_second in (10, 100, 1000):
        for paid, zones, where in _cases(per_second):
            # What was measured of publishing into a primary is everything, the publisher's own work too.
            measured = zone_ms.get(where)
            chosen = costs if measured is None else replace(costs, name=0.0, zone=measured)
            api, cores = needed(chosen, per_second)
            found = simulate(chosen, Setup(api, cores, zones, paid), per_second)
            busy = ", ".join(f"{each:.0%}" for each in found.busy.values())
            grows = ", ".join(found.saturated) or "-"
            p99 = "" if found.saturated else f"{found.p50_ms:.0f}, {found.p99_ms:.0f} ms"
            print(
                f"| {per_second:,} | {paid:.0%} | {zones} {where} | {api} | {cores} | {busy} | {p99} | {grows} |"
            )


def _cases(per_second: int) -> list[tuple[float, int, str]]:
    cases = [(0.7, 1, "built-in"), (0.0, 1, "on BIND"), (0.0, 1, "on Knot")]
    return [*cases, (0.0, 10, "on Knot"), (0.0, 10, "built-in")] if per_second == 1000 else cases
