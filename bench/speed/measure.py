"""Measure one registry: references and workloads in turn, round after round, over real processes."""

import gc
import sys
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from speed.bare_sql import Played, count_statements, play_on_postgresql, play_on_sqlite, played
from speed.beside import reopen, rest
from speed.delays import measure_delays
from speed.figures import CLIENTS, Figure, Results
from speed.fill import DOMAINS, fill
from speed.load import CLIENTS as USUAL
from speed.load import Load, Request, run_load
from speed.places import SQLITE, Place
from speed.recorder import record
from speed.servers import Service, hello_running, service_running
from speed.workloads import BARE, BARER, BASE, BY_NAME, HELLO, WORKLOADS, Sender, Workload

ONE_BY_ONE = "bare_one"
BESIDE_CLIENTS = f"{HELLO} beside clients"
"""The bare hello once more, in the rounds of registrations by few and by many clients, which come after all others."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often is measured: rounds of so many seconds, and requests that are recorded for each of them.

    `workloads` are the names of those that are measured. Delays at half load are measured `half_rounds` times, for `half_seconds` each (0: not at
    all), `answers` names are waited for in the DNS, and the service is started so many times.
    """

    rounds: int = 3
    seconds: int = 2
    recorded: int = 160
    domains: int = DOMAINS
    workloads: tuple[str, ...] = tuple(each.name for each in WORKLOADS)
    clients: tuple[int, ...] = CLIENTS
    half_rounds: int = 3
    half_seconds: int = 3
    answers: int = 40
    starts: int = 3

    @property
    def chosen(self) -> list[Workload]:
        """The workloads that are measured."""
        return [each for each in WORKLOADS if each.name in self.workloads]


@dataclass(slots=True)
class Rounds:
    """What the rounds found so far, by name: rates, and delays of the loads."""

    rates: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    loads: defaultdict[str, list[Load]] = field(default_factory=lambda: defaultdict(list))
    rests: list[float] = field(default_factory=list)
    """Seconds after which all that a round's writes had changed was published."""

    def add(self, name: str, load: Load, requests: int = 1) -> None:
        """Add what a load found; so many requests are one of what is counted."""
        self.rates[name].append(load.per_second / requests)
        self.loads[name].append(load)


def say(*words: object) -> None:
    """Tell how far it is, beside what is printed."""
    print(*words, file=sys.stderr, flush=True)


def measure(where: Place, database: str, names: int, effort: Effort) -> Results:
    """Fill a registry and measure everything over it."""
    results = Results(database, names)
    renewals = BY_NAME["renew"]
    say(f"{database}, {names:,}: filling")
    registry = fill(
        where.registry(),
        names,
        domains=effort.domains,
        renewable=max(renewals.most_per_second * renewals.seconds_max, effort.rounds * effort.recorded),
    )
    gc.collect()
    gc.freeze()  # what is kept of a large registry is not to be looked through again and again while others play
    sender = Sender(registry)
    say(f"{database}, {names:,}: recording statements")
    slices, statements = _record(where, registry.url, sender, effort)
    rounds = Rounds()
    with ExitStack() as stack:
        copy = where.registry(like=registry.url)
        where.settle()
        hellos = {
            name: stack.enter_context(hello_running(framework, where.folder))
            for name, framework in ((HELLO, "litestar"), (BARER, "starlette"))
        }
        service = stack.enter_context(service_running(registry.url, where.folder))
        sender.find_deep(service.origin)
        for number in range(effort.rounds + 1):
            say(f"{database}, {names:,}: {f'round {number}' if number else 'warm-up'}")
            found = rounds if number else Rounds()  # the first one only warms up
            _round(service, hellos, sender, effort, found)
            for name, parts in slices.items() if number else ():
                _play(copy, name, parts, found)
        # To and fro, as often the one as the other: each load leaves names to be dated, beside which the next one runs.
        for number in range(effort.rounds + effort.rounds % 2 if effort.clients else 0):
            _greet(hellos[HELLO], effort, rounds, BESIDE_CLIENTS)
            for clients in effort.clients[:: -1 if number % 2 else 1]:
                rest(service)
                register = BY_NAME["register"]
                rounds.add(
                    f"clients_{clients}", _load(service, sender, register, effort.seconds, clients=clients)
                )
        _tell(results, rounds, statements, effort)
        if effort.half_seconds:
            say(f"{database}, {names:,}: delays")
            measure_delays(
                service,
                hellos[HELLO],
                sender,
                results,
                rounds=effort.half_rounds,
                seconds=effort.half_seconds,
                answers=effort.answers,
            )
        for role, used in service.memory().items():
            results.values |= {f"rss_{role}_loaded": used.rss, f"pss_{role}": used.pss}
    where.drop(copy)
    _start(where, registry.url, results, effort.starts)
    where.drop(registry.url)
    gc.unfreeze()
    return results


def _round(service: Service, hellos: dict[str, str], sender: Sender, effort: Effort, found: Rounds) -> None:
    """Send each load once: the reads after a rest, then the writes, beside which the worker publishes what the others have changed.

    In the end there is a rest, so that nothing is published beside what is played then.
    """
    for name, url in hellos.items():
        _greet(url, effort, found, name)
    for each in sorted(effort.chosen, key=lambda each: each.writes):
        found.add(each.name, _load(service, sender, each, effort.seconds), each.requests)
    found.rests.append(rest(service))


def _greet(url: str, effort: Effort, found: Rounds, name: str) -> None:
    """Measure a reference application."""
    found.add(name, run_load(url, [Request("GET", "/")], effort.seconds, again=True))


def _start(where: Place, url: str, results: Results, starts: int) -> None:
    """Start the service over the registry as it is now, several times; note when it was ready, and its memory then."""
    ready, memory = [], defaultdict(list)
    for _ in range(starts):
        with service_running(url, where.folder) as service:
            ready.append(service.ready_seconds)
            for role, used in service.memory().items():
                memory[role].append(used.rss)
    results.values |= {"ready_seconds": median(ready)}
    results.values |= {f"rss_{role}": median(values) for role, values in memory.items()}


def _load(service: Service, sender: Sender, workload: Workload, seconds: int, clients: int = USUAL) -> Load:
    seconds = min(seconds, workload.seconds_max)
    if workload.name == "renew":
        reopen(service)
    prepared = workload.make(sender, seconds * workload.most_per_second)
    load = run_load(service.origin, prepared, seconds, clients=clients, again=not workload.writes)
    expected = load.requests * workload.refused / workload.requests
    # What is under way in the end may be either of a pair.
    assert abs(load.refused - expected) <= (clients if workload.refused else 0), (
        f"{workload.name}: {load.refused} of {load.requests} answers were refusals"
    )
    return load


def _record(
    where: Place, url: str, sender: Sender, effort: Effort
) -> tuple[dict[str, list[list[Played]]], dict[str, int]]:
    """Record what each workload asks of the database; return requests to play by name and round, and how many statements one takes."""
    copy = where.registry(like=url)
    slices: dict[str, list[list[Played]]] = {}
    statements: dict[str, int] = {}
    for each in effort.chosen:
        if each.reference != BARE:
            requests = each.make(sender, 2)[:2] if each.name != "deep" else []
            taken = record(copy, requests)
            statements |= {each.name: count_statements(taken[-1])} if taken and each.name != "mixed" else {}
            continue
        modes = 2 if each.name == "register" else 1
        count = effort.recorded * effort.rounds * modes
        taken = record(copy, each.make(sender, count * each.requests))
        together = [taken[first : first + each.requests] for first in range(0, len(taken), each.requests)]
        play = played(together)
        size = len(play) // (effort.rounds * modes)
        slices[each.name] = [
            play[first * size : (first + 1) * size] for first in range(effort.rounds * modes)
        ]
        statements[each.name] = sum(count_statements(one) for one in together[-1])
    for limit in (10, 100, 300):
        taken = record(copy, [Request("GET", f"{BASE}/subdomains?limit={limit}", sender.registry.tokens[0])])
        statements[f"list_{limit}"] = count_statements(taken[0])
    where.drop(copy)
    return slices, statements


def _play(copy: str, name: str, slices: list[list[Played]], found: Rounds) -> None:
    """Play a round's requests of a workload: as many at a time as there are clients; registrations one by one, too."""
    rate = _played(copy, slices.pop(), USUAL)
    found.rates[f"{BARE} {name}"].append(rate)
    if name == "register":
        found.rates[ONE_BY_ONE].append(_played(copy, slices.pop(), 1))


def _played(copy: str, requests: list[Played], together: int) -> float:
    if copy.startswith("sqlite"):
        return play_on_sqlite(copy.removeprefix("sqlite:///"), requests, together)
    return play_on_postgresql(copy, requests, together)


def _tell(results: Results, rounds: Rounds, statements: dict[str, int], effort: Effort) -> None:
    """Make figures of what the rounds found."""

    def figure(name: str, title: str, reference: str = "") -> Figure:
        loads = rounds.loads.get(name, [])
        return Figure(
            name,
            title,
            tuple(rounds.rates[name]),
            reference.partition(" ")[0] if reference else "",
            tuple(rounds.rates[reference]) if reference else (),
            median(each.p50_ms for each in loads) if loads else 0.0,
            median(each.p99_ms for each in loads) if loads else 0.0,
            statements.get(name),
        )

    results.figures.append(figure(HELLO, "reference: bare hello"))
    results.figures.append(figure(BARER, "the same by Starlette"))
    if ONE_BY_ONE in rounds.rates:
        group = "16 in a commit" if results.database == SQLITE else "16 connections"
        results.figures.append(figure(f"{BARE} register", f"reference: bare SQL of a registration, {group}"))
        results.figures.append(figure(ONE_BY_ONE, "reference: bare SQL of a registration, one by one"))
    for each in effort.chosen:
        reference = HELLO if each.reference == HELLO else f"{BARE} {each.name}"
        results.figures.append(figure(each.name, each.title, reference))
    for clients in effort.clients:
        results.figures.append(
            figure(f"clients_{clients}", f"register, free, {clients} clients", BESIDE_CLIENTS)
        )
    results.values |= {"rest_seconds": median(rounds.rests)}
    results.values |= {
        f"list_statements_{name.removeprefix('list_')}": count
        for name, count in statements.items()
        if name.startswith("list_")
    }
