"""Delays: what a request waits at half load, alone and beside other work, and how long a new name takes into the DNS."""

import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from statistics import median
from urllib.parse import urlsplit

import dns.message

from speed.beside import checking, listing, rest, sweeping
from speed.figures import Results
from speed.hosts_time import pace, processor_times, stolen_share
from speed.load import LEAD_SECONDS, Load, Request, run_load
from speed.servers import Service
from speed.workloads import BY_NAME, Sender

ANSWER_SECONDS = 20.0
"""How long a new name may take into the DNS before the bench gives up."""
ASK_AGAIN_SECONDS = 0.001
MOST_CLIENTS = (16, 64)
"""By how many clients the most that is possible of reads and registrations is looked for."""
MOST_ROUNDS = 3
HELLO_ROUNDS = 3
STOLEN_MOST = 0.002
"""Of how much of the processors' time a host may have given to others while delays are measured, or they are measured once more: all stands still then, for tens of milliseconds."""

PACE_CHANGED = 0.15
"""How far the processors' pace may have moved, as a part of it, since half load was measured; beyond that it is measured again, being half of what is possible now."""


@dataclass(frozen=True, slots=True)
class Rates:
    """How many reads and registrations a second are sent, both at once."""

    reads: float
    writes: float


@dataclass(frozen=True, slots=True)
class Situation:
    """Something beside which delays are measured, with the prefix of its values.

    `asks_hello`: those of the bare hello are, too, which are the machine's.
    """

    prefix: str
    beside: Callable[[], AbstractContextManager[None]]
    reads_alone: bool = False
    above_half: bool = False
    asks_hello: bool = False


def connect(origin: str) -> HTTPConnection:
    """Return a connection to a server, open."""
    client = HTTPConnection(urlsplit(origin).netloc, timeout=30)
    client.connect()
    return client


def measure_delays(
    service: Service, hello: str, sender: Sender, results: Results, *, rounds: int, seconds: int, answers: int
) -> None:
    """Add to the values of a registry what requests wait at half load and above it, and new names for the DNS.

    `hello` is the URL of the reference.
    """
    half, paced = half_load(service, sender, results, seconds=seconds), pace()
    more = _quarters(results)
    situations = (
        Situation("", nullcontext, asks_hello=True),
        Situation("sweep_", lambda: sweeping(service)),
        Situation("check_", lambda: checking(service), asks_hello=True),
        Situation("lists_", lambda: listing(service, sender, seconds + LEAD_SECONDS), reads_alone=True),
        Situation("more_", nullcontext, above_half=True),
        Situation("more_check_", lambda: checking(service), above_half=True),
    )
    for situation in situations:
        prefix = situation.prefix
        if abs(pace() / paced - 1) > PACE_CHANGED:
            half, paced = half_load(service, sender, results, seconds=seconds), pace()
        results.values[f"{prefix}pace"] = paced
        rates = more if situation.above_half else half
        if situation.reads_alone:
            rates = replace(rates, writes=0)
        found: list[tuple[float, list[Load]]] = []
        while len(found) < 2 * rounds and sum(stolen <= STOLEN_MOST for stolen, _ in found) < rounds:
            before = processor_times()
            loads = _both(service, sender, rates, seconds, situation.beside)
            found.append((stolen_share(before, processor_times()), loads))
        taken = sorted(found, key=lambda each: each[0])[:rounds]
        results.values |= {f"{prefix}again": len(found) - rounds, f"{prefix}stolen": taken[-1][0]}
        _tell(results, f"{prefix}read", [loads[0] for _, loads in taken], seconds)
        if rates.writes:
            _tell(results, f"{prefix}write", [loads[1] for _, loads in taken], seconds)
        if situation.asks_hello:
            greetings = (hello, [Request("GET", "/")], rates.reads + rates.writes, True)
            asked = [_beside(situation.beside, service, [greetings], seconds)[0] for _ in range(HELLO_ROUNDS)]
            _tell(results, f"{prefix}hello", asked, seconds)
    took = sorted(_answer_ms(service, sender) for _ in range(answers))
    results.values |= {
        "answer_p50_ms": median(took),
        "answer_p99_ms": took[min(len(took) - 1, int(len(took) * 0.99))],
    }


def half_load(service: Service, sender: Sender, results: Results, *, seconds: int) -> Rates:
    """Return the half of the most that the service does of nine reads to one registration, and note that most.

    It is measured now, as the delays are, by as many clients as do more: the more there are, the more go into one commit.
    """
    mixed = BY_NAME["mixed"]
    most = 0.0
    for clients in MOST_CLIENTS:
        found = []
        for _ in range(MOST_ROUNDS):
            requests = sender.mixed(seconds * mixed.most_per_second)
            rest(service)
            load = run_load(service.origin, requests, seconds, clients=clients, again=False)
            assert not load.refused, f"{load.refused} of {load.requests} answers were refusals"
            found.append(load.per_second)
        most = max(most, median(found))
    results.values |= {"most_mixed": most}
    return Rates(0.9 * most / 2, 0.1 * most / 2)


def _quarters(results: Results) -> Rates:
    """Return a quarter of the reads and a quarter of the registrations that were possible each by itself: some two thirds of the most, since few share a commit."""
    one, register = results.find("one"), results.find("register")
    assert one is not None, "a quarter of what?"
    assert register is not None, "a quarter of what?"
    return Rates(one.per_second / 4, register.per_second / 4)


def _tell(results: Results, name: str, loads: list[Load], seconds: int) -> None:
    """Note what loads found. Of one that could not keep up the delays are those of the few that came through: it counts as all of its time."""
    p99 = [each.p99_ms if each.kept_up else max(each.max_ms, seconds * 1000.0) for each in loads]
    results.values |= {
        f"{name}_p50_ms": median(each.p50_ms for each in loads),
        f"{name}_p99_ms": median(p99),
        f"{name}_max_ms": max([*p99, *(each.max_ms for each in loads)]),
        f"{name}_rate": median(each.per_second for each in loads),
        f"{name}_asked": loads[0].asked or 0.0,
        f"{name}_late": sum(each.late for each in loads),
    }


def _both(
    service: Service,
    sender: Sender,
    rates: Rates,
    seconds: int,
    beside: Callable[[], AbstractContextManager[None]],
) -> list[Load]:
    """Send reads, and registrations, at their rates, beside something else; return the loads."""
    registrations = sender.register(int(rates.writes * seconds * 2) + 200)
    wanted = [(service.origin, sender.one(0), rates.reads, True)]
    wanted += [(service.origin, registrations, rates.writes, False)] if rates.writes else []
    return _beside(beside, service, wanted, seconds)


def _beside(
    beside: Callable[[], AbstractContextManager[None]],
    service: Service,
    wanted: Sequence[tuple[str, list[Request], float, bool]],
    seconds: int,
) -> list[Load]:
    """Send loads at once, each to a URL at a rate, once or again and again, beside something that the service is at; return them."""
    rest(service)  # what the load before has left to publish is not this one's
    with beside(), ThreadPoolExecutor(len(wanted)) as threads:
        running = [
            threads.submit(run_load, url, requests, seconds, rate=rate, again=again)
            for url, requests, rate, again in wanted
        ]
        loads = [each.result() for each in running]
    for each in loads:
        assert not each.refused, f"{each.refused} of {each.requests} answers were refusals"
    return loads


def _answer_ms(service: Service, sender: Sender) -> float:
    """Register a name, and return how many milliseconds after the request was sent the built-in name server refers to it."""
    (request,) = sender.register(1)
    fqdn = sender.last
    question = dns.message.make_query(fqdn, "NS", use_edns=False).to_wire()
    ends = time.perf_counter() + ANSWER_SECONDS
    with socket.socket(type=socket.SOCK_DGRAM) as asking, closing(connect(service.origin)) as client:
        asking.connect(service.dns)
        asking.settimeout(1)
        began = time.perf_counter()
        client.request(request.method, request.path, request.body, request.headers())
        answer = client.getresponse()
        assert answer.status == 201, answer.read()
        while True:
            asking.send(question)
            # A referral: no answer, but records of the authority section (RFC 1034, section 4.3.2).
            referred = dns.message.from_wire(asking.recv(4096)).authority
            if referred and referred[0].name.to_text().rstrip(".") == fqdn:
                return (time.perf_counter() - began) * 1000
            assert time.perf_counter() < ends, f"{fqdn} is not in the DNS"
            time.sleep(ASK_AGAIN_SECONDS)
