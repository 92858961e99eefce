"""The fuzz run: packets to a real name server, and inputs to parsers; then the log is searched for errors."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from long.fuzzing.dns_clients import DnsTally, referral_factor, send_packets
from long.fuzzing.parsers import PARSERS, run_parser
from support.databases import registry_address
from support.running_service import DS
from support.serve_process import ServeProcess, serve_process

GROWTH_MIB_MAX = 50.0
WARM_UP_SHARE = 0.03
"""The share of packets before memory is measured."""
LARGE = "large.example.test"
"""The name with the largest delegation: thirteen nameservers inside with two addresses each, two DS
records.
"""
OWN = ("own0.example.test", "own1.example.test")
NAMES = ["example.test", LARGE, *OWN, "nobody.example.test"]


@dataclass(frozen=True)
class Asked:
    """What a run sends; it ends after `seconds` at the latest."""

    seed: int
    packets: int = 1_000_000
    inputs: int = 60_000
    """Inputs of each parser."""
    seconds: float = 1200.0


@dataclass(slots=True)
class Memory:
    """The memory of a service in MiB: after the warm-up, and the most since then."""

    before_mib: float = 0.0
    most_mib: float = 0.0


@dataclass(slots=True)
class Fuzzed:
    """The result of a run; `short` lists what there was no time for."""

    dns: DnsTally = field(default_factory=DnsTally)
    inputs: dict[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    referral_bytes: int = 0
    referral_factor: float = 0.0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)


@contextmanager
def _name_server(folder: Path) -> Iterator[ServeProcess]:
    """Run a service on SQLite with `NAMES`."""
    with serve_process(registry_address(folder), folder) as serving:
        serving.environment["SUBLET_LOG_LEVEL"] = "info"
        serving.start()
        service = serving.service
        service.add_domain()
        ada = service.add_user()
        for name in OWN:
            service.register(ada, name, nameservers=["ns1.provider.example", "ns2.provider.example"])
        hosts = [f"ns{number}.{LARGE}" for number in range(13)]
        glue = [
            {"host": host, "ipv4": f"9.9.9.{n + 1}", "ipv6": f"2a00::{n + 1}"} for n, host in enumerate(hosts)
        ]
        service.register(ada, LARGE, nameservers=hosts, glue=glue, ds_records=[DS, f"1{DS[1:]}"])
        yield serving


def _rss_mib(serving: ServeProcess) -> float:
    """Return the memory that the process of the service has in RAM, in MiB."""
    assert serving.process is not None
    pages = int(Path(f"/proc/{serving.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def _watched(serving: ServeProcess, memory: Memory) -> Iterator[None]:
    """Measure the memory of a service twice a second until the block ends."""
    memory.before_mib = memory.most_mib = _rss_mib(serving)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5) and not serving.ended():
            memory.most_mib = max(memory.most_mib, _rss_mib(serving))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def fuzz(asked: Asked) -> Fuzzed:
    """Send the packets beside the inputs, and return the result."""
    outcome = Fuzzed()
    started = time.monotonic()
    ends_at = started + asked.seconds
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as folder,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
        _name_server(Path(folder)) as serving,
    ):
        address = serving.service.dns
        outcome.referral_bytes, outcome.referral_factor = referral_factor(address, LARGE)
        parsing = threading.Thread(target=_run_parsers, args=(outcome, pool, asked, ends_at))
        parsing.start()
        _send_packets(outcome, pool, serving, asked, ends_at)
        parsing.join()
        if referral_factor(address, LARGE)[0] != outcome.referral_bytes:
            outcome.findings.append("the name server answers differently than before")
        outcome.findings += [f"the doctor: {each}" for each in serving.service.doctor()]
        if serving.stop() != 0:
            outcome.findings.append("the service exited with an error")
        log = serving.log.read_text(encoding="utf-8")
        if "Traceback" in log:
            outcome.findings.append(f"a traceback in the log: {log[log.index('Traceback') - 500 :][:2000]}")
    outcome.seconds = time.monotonic() - started
    _judge(outcome, asked)
    return outcome


def _run_parsers(outcome: Fuzzed, pool: ProcessPoolExecutor, asked: Asked, ends_at: float) -> None:
    for place, parser in enumerate(PARSERS):
        seconds = (ends_at - time.monotonic()) / (len(PARSERS) - place)
        parsing = pool.submit(_parse, parser, asked.seed, asked.inputs, seconds)
        outcome.inputs[parser], finding = parsing.result()
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


def _send_packets(
    outcome: Fuzzed, pool: ProcessPoolExecutor, serving: ServeProcess, asked: Asked, ends_at: float
) -> None:
    def send(seed: int, count: int) -> DnsTally:
        seconds = ends_at - time.monotonic()
        return pool.submit(send_packets, serving.service.dns, seed, NAMES, count, seconds).result()

    warm_up = int(asked.packets * WARM_UP_SHARE)
    outcome.dns.add(send(asked.seed + 1, warm_up))
    with _watched(serving, outcome.memory):
        outcome.dns.add(send(asked.seed, asked.packets - warm_up))


def _judge(outcome: Fuzzed, asked: Asked) -> None:
    """Compare the figures with the bounds."""
    outcome.findings += outcome.dns.findings
    growth_mib = outcome.memory.most_mib - outcome.memory.before_mib
    if growth_mib >= GROWTH_MIB_MAX:
        outcome.findings.append(f"the service grew by {growth_mib:.1f} MiB")
    if outcome.dns.largest_factor > outcome.referral_factor:
        outcome.findings.append(
            f"an answer is {outcome.dns.largest_factor:.1f} times its packet; the largest referral is "
            f"{outcome.referral_factor:.1f}"
        )
    if outcome.dns.packets < asked.packets:
        outcome.short.append(f"{outcome.dns.packets:,} of {asked.packets:,} packets")
