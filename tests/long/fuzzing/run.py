"""The fuzz run: hostile requests to one real service, packets to another, inputs to parsers; then logs and
stored data are searched.
"""

import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from long.fuzzing.canaries import AUDIT, BACKUP, LOG, METRICS, found_in
from long.fuzzing.dns_clients import DnsTally, referral_factor, send_packets
from long.fuzzing.http_clients import HttpTally, send_requests
from long.fuzzing.parsers import PARSERS, run_parser
from long.fuzzing.world import LARGE, World, a_world

CLIENTS = 2
"""Processes that send requests."""
GROWTH_MIB_MAX = 50.0
WARM_UP_SHARE = 0.03
"""The share of requests and packets before memory is measured."""
NAMES = ["example.test", "keyed.test", LARGE, "own0.example.test", "own1.example.test", "nobody.example.test"]


@dataclass(frozen=True)
class Asked:
    """What a run sends; it ends after `seconds` at the latest."""

    seed: int
    requests: int = 200_000
    packets: int = 1_000_000
    inputs: int = 60_000
    """Inputs of each parser."""
    seconds: float = 1200.0


@dataclass(slots=True)
class Memory:
    """The memory of a service in MiB: after the warm-up, and the most since then."""

    before_mib: float = 0.0
    most_mib: float = 0.0

    @property
    def growth_mib(self) -> float:
        """How much it grew."""
        return self.most_mib - self.before_mib


@dataclass(slots=True)
class Fuzzed:
    """The result of a run; `short` lists what there was no time for."""

    http: HttpTally = field(default_factory=HttpTally)
    dns: DnsTally = field(default_factory=DnsTally)
    inputs: dict[str, int] = field(default_factory=dict)
    http_memory: Memory = field(default_factory=Memory)
    dns_memory: Memory = field(default_factory=Memory)
    referral_bytes: int = 0
    referral_factor: float = 0.0
    busy: int = 0
    canaries: int = 0
    places_bytes: dict[str, int] = field(default_factory=dict)
    """How much was searched, by place."""
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)


@contextmanager
def _watched(world: World, memory: Memory) -> Iterator[None]:
    """Measure the memory of a service twice a second until the block ends."""
    memory.before_mib = memory.most_mib = world.rss_mib()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5) and not world.serving.ended():
            memory.most_mib = max(memory.most_mib, world.rss_mib())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def fuzz(asked: Asked) -> Fuzzed:
    """Run everything at once, search what it left behind, and return the result."""
    outcome = Fuzzed()
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-http-") as http_folder,
        tempfile.TemporaryDirectory(prefix="fuzz-dns-") as dns_folder,
        ProcessPoolExecutor(CLIENTS + 2, mp_context=get_context("spawn")) as pool,
        a_world(Path(http_folder), asked.seed) as api,
        a_world(Path(dns_folder), asked.seed + 1) as name_server,
    ):
        outcome.canaries = len(api.canaries)
        dns_address = name_server.serving.service.dns
        outcome.referral_bytes, outcome.referral_factor = referral_factor(dns_address, LARGE)
        ends_at = started + asked.seconds
        threads = [
            threading.Thread(target=_guarded, args=(outcome, work, *args))
            for work, *args in (
                (_send_requests, pool, api, asked, ends_at),
                (_send_packets, pool, name_server, asked, ends_at),
                (_run_parsers, pool, asked, ends_at),
            )
        ]
        with api.owner_is_busy():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        outcome.busy = api.busy
        outcome.findings += api.findings[:5]
        _guarded(outcome, _ask_again, dns_address)
        for folder, world in ((http_folder, api), (dns_folder, name_server)):
            _look_through(outcome, world, Path(folder))
    outcome.seconds = time.monotonic() - started
    _judge(outcome, asked)
    return outcome


def _guarded(outcome: Fuzzed, work: Callable[..., None], *args: Any) -> None:
    """Run a part in a thread; an exception is a finding."""
    try:
        work(outcome, *args)
    except Exception as error:  # noqa: BLE001 - any error is a finding
        outcome.findings.append(f"{work.__name__}: {''.join(traceback.format_exception(error))[-3000:]}")


def _run_parsers(outcome: Fuzzed, pool: ProcessPoolExecutor, asked: Asked, ends_at: float) -> None:
    """Run the parsers one by one in one process; requests and packets need the other cores."""
    for place, parser in enumerate(PARSERS):
        seconds = (ends_at - time.monotonic()) / (len(PARSERS) - place)
        outcome.inputs[parser], finding = pool.submit(
            _parse, parser, asked.seed, asked.inputs, seconds
        ).result()
        outcome.findings += [f"parser of {parser}: {finding}"] if finding else []
        if not finding and outcome.inputs[parser] < asked.inputs:
            outcome.short.append(f"{outcome.inputs[parser]:,} of {asked.inputs:,} inputs of {parser}")


def _parse(parser: str, seed: int, count: int, seconds: float) -> tuple[int, str]:
    """Run a parser's checks; return the number of its inputs and the finding."""
    try:
        return run_parser(parser, seed, count, seconds), ""
    except Exception as error:  # noqa: BLE001 - any error is a finding
        notes = "; ".join(getattr(error, "__notes__", []))
        return 0, f"{type(error).__name__}: {error} {notes}"[:2000]


def _send_requests(
    outcome: Fuzzed, pool: ProcessPoolExecutor, world: World, asked: Asked, ends_at: float
) -> None:
    def send(first_seed: int, count: int) -> "list[Future[HttpTally]]":
        seconds = ends_at - time.monotonic()
        return [
            pool.submit(
                send_requests,
                world.aim,
                world.canaries,
                first_seed + 10**7 * client,
                count // CLIENTS,
                seconds,
            )
            for client in range(CLIENTS)
        ]

    warm_up = int(asked.requests * WARM_UP_SHARE)
    for each in send(asked.seed + 5 * 10**6, warm_up):
        outcome.http.add(each.result())
    with _watched(world, outcome.http_memory):
        for each in send(asked.seed, asked.requests - warm_up + CLIENTS):
            outcome.http.add(each.result())


def _send_packets(
    outcome: Fuzzed, pool: ProcessPoolExecutor, world: World, asked: Asked, ends_at: float
) -> None:
    def send(seed: int, count: int) -> DnsTally:
        return pool.submit(
            send_packets, world.serving.service.dns, seed, NAMES, count, ends_at - time.monotonic()
        ).result()

    warm_up = int(asked.packets * WARM_UP_SHARE)
    outcome.dns.add(send(asked.seed + 1, warm_up))
    with _watched(world, outcome.dns_memory):
        outcome.dns.add(send(asked.seed, asked.packets - warm_up))


def _look_through(outcome: Fuzzed, world: World, folder: Path) -> None:
    """Search log, audit, metrics and backup for canaries, and check the service's invariants."""
    service = world.serving.service
    backup = folder / "backup.db"
    found = service.operator("backup", str(backup), expect=None)["violations"]
    found += [asdict(each) for each in service.doctor()]
    # A name of the zone whose primary is away waits from the beginning; after a while the doctor reports it.
    outcome.findings += [
        f"the doctor: {each}"
        for each in found
        if each["invariant"] != "nothing_waits" or ".keyed.test " not in each["message"]
    ]
    places = {AUDIT: world.audit(), METRICS: world.metrics(), BACKUP: backup.read_bytes()}
    if world.serving.stop() != 0:
        outcome.findings.append("the service exited with an error")
    places[LOG] = world.serving.log.read_bytes()
    for place, octets in places.items():
        outcome.places_bytes[place] = outcome.places_bytes.get(place, 0) + len(octets)
        outcome.findings += found_in(place, octets, world.canaries)
    if b"Traceback" in places[LOG]:
        start = places[LOG].index(b"Traceback")
        outcome.findings.append(f"a traceback in the log: {places[LOG][start - 500 : start + 1500]!r}")
    # The search finds what must be there.
    for kind in ("ticket text", "registered name", "coupon code"):
        canary = next(each for each in world.canaries if each.kind == kind)
        if canary.text.lower().encode() not in places[BACKUP].lower():
            outcome.findings.append(f"a {kind} is not in the backup: the search is blind")


def _ask_again(outcome: Fuzzed, address: tuple[str, int]) -> None:
    """Repeat the first query to the name server."""
    if referral_factor(address, LARGE)[0] != outcome.referral_bytes:
        outcome.findings.append("the name server answers differently than before")


def _judge(outcome: Fuzzed, asked: Asked) -> None:
    """Compare the figures with the bounds."""
    outcome.findings += outcome.http.findings + outcome.dns.findings
    for what, memory in (("the API", outcome.http_memory), ("the name server", outcome.dns_memory)):
        if memory.growth_mib >= GROWTH_MIB_MAX:
            outcome.findings.append(f"the service behind {what} grew by {memory.growth_mib:.1f} MiB")
    if outcome.dns.largest_factor > outcome.referral_factor:
        outcome.findings.append(
            f"an answer is {outcome.dns.largest_factor:.1f} times its packet; the largest referral is "
            f"{outcome.referral_factor:.1f}"
        )
    if outcome.http.requests < asked.requests:
        outcome.short.append(f"{outcome.http.requests:,} of {asked.requests:,} requests")
    if outcome.dns.packets < asked.packets:
        outcome.short.append(f"{outcome.dns.packets:,} of {asked.packets:,} packets")
