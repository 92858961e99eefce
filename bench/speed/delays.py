"""Delays: what a request waits at half load, alone and beside other work, and how long a new name takes into the DNS."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection
from statistics import median
from urllib.parse import urlsplit

import dns.message

from speed.beside import checking, listing, rest, sweeping
from speed.figures import Results
from speed.load import Load, run_load
from speed.servers import Service
from speed.workloads import Sender

ANSWER_SECONDS = 20.0
"""How long a new name may take into the DNS before the bench gives up."""
ASK_AGAIN_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class HalfLoad:
    """How much is sent at half load: a quarter of the reads and a quarter of the registrations that were possible, both at once."""

    reads: float
    writes: float
    rounds: int
    seconds: int


def connect(origin: str) -> HTTPConnection:
    """Return a connection to a server, open."""
    client = HTTPConnection(urlsplit(origin).netloc, timeout=30)
    client.connect()
    return client


def measure_delays(
    service: Service, sender: Sender, results: Results, *, rounds: int, seconds: int, answers: int
) -> None:
    """Add to the values of a registry what requests wait at half load, and new names for the DNS."""
    one, register = results.find("one"), results.find("register")
    assert one is not None, "half of what?"
    assert register is not None, "half of what?"
    half = HalfLoad(one.per_second / 4, register.per_second / 4, rounds, seconds)
    situations: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "": nullcontext,
        "sweep_": lambda: sweeping(service),
        "check_": lambda: checking(service),
        "lists_": lambda: listing(service, sender, seconds),
    }
    for prefix, beside in situations.items():
        # Slow lists are about reads alone.
        loads = [_both(service, sender, half, beside, writing=prefix != "lists_") for _ in range(rounds)]
        _tell(results, f"{prefix}read", [each[0] for each in loads], seconds)
        if prefix != "lists_":
            _tell(results, f"{prefix}write", [each[1] for each in loads], seconds)
    took = sorted(_answer_ms(service, sender) for _ in range(answers))
    results.values |= {
        "answer_p50_ms": median(took),
        "answer_p99_ms": took[min(len(took) - 1, int(len(took) * 0.99))],
    }


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
    half: HalfLoad,
    beside: Callable[[], AbstractContextManager[None]],
    *,
    writing: bool,
) -> list[Load]:
    """Send reads, and registrations, at their rates, beside something else; return the loads."""
    registrations = sender.register(int(half.writes * half.seconds * 2) + 200)
    rest(service)  # what the load before has left to publish is not this one's
    with beside(), ThreadPoolExecutor(2) as threads:
        running = [
            threads.submit(run_load, service.origin, sender.one(0), half.seconds, rate=half.reads, again=True)
        ]
        if writing:
            running.append(
                threads.submit(
                    run_load, service.origin, registrations, half.seconds, rate=half.writes, again=False
                )
            )
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
