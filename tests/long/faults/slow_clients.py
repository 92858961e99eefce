"""Slow clients, which send a byte a second, beside ordinary clients: how long both wait.

The tests check that every client is answered; the soak also fails if the p99 of the ordinary clients doubles.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

import httpx

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support import http_clients
from support.databases import registry_address
from support.serve_process import serve_process

SLOW = 500
ROUND_SECONDS = 30.0
"""Long enough for each slow connection to be ended twice."""
OTHERS = 4
PAUSE_SECONDS = 0.02
"""The pause between two requests of an ordinary client: they measure, and are no load."""
RATIO_MAX = 2.0
LIVES_SECONDS_MAX = 25.0
"""The longest life of a slow connection: the deadlines of head and body, and what a busy machine adds."""


@dataclass(slots=True)
class Slow:
    """Counts slow connections: opened, ended by the service; and the longest life."""

    opened: int = 0
    ended: int = 0
    longest_seconds: float = 0.0
    taken: int = 0
    """How many were answered with success, though none sent a whole request."""


@dataclass(slots=True)
class Measured:
    """The seconds of each ordinary request, without and with slow clients, and the failures."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    slow: Slow = field(default_factory=Slow)

    @property
    def p99s(self) -> tuple[float, float]:
        """The 99th percentiles in seconds: alone, and beside slow clients."""
        return quantiles(self.alone, n=100)[98], quantiles(self.beside, n=100)[98]


async def _drip(address: tuple[str, int], token: str, number: int, slow: Slow) -> None:
    """Send a byte a second of a head, or of a body, until the service closes the connection; then reconnect."""
    head = f"POST /api/v1/subdomains HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n".encode()
    body = b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    await asyncio.sleep(number / SLOW)  # not all in the same instant
    while True:
        opened = time.monotonic()
        reader, writer = await asyncio.open_connection(*address)
        slow.opened += 1
        ending = asyncio.create_task(reader.read())
        try:
            if number % 2:
                writer.write(head + body)
            position = 0
            while not ending.done():
                writer.write(b" " if number % 2 else head[position : position + 1])
                position += 1
                await asyncio.wait([ending], timeout=1.0)
        finally:
            slow.longest_seconds = max(slow.longest_seconds, time.monotonic() - opened)
            ending.cancel()
            writer.transport.abort()
        with suppress(ConnectionError):
            slow.taken += ending.result().startswith(b"HTTP/1.1 2")
        slow.ended += 1


def _drip_all(address: tuple[str, int], token: str, count: int, channel: Connection) -> None:
    """Drip over `count` connections until a message arrives on the channel; then send back the counts."""
    slow = Slow()

    async def run() -> None:
        dripping = [asyncio.create_task(_drip(address, token, number, slow)) for number in range(count)]
        while slow.opened < count and not any(each.done() for each in dripping):  # noqa: ASYNC110 - each counts itself
            await asyncio.sleep(0.05)
        channel.send("all are open")
        await asyncio.to_thread(channel.recv)
        for each in dripping:
            each.cancel()
        found = await asyncio.gather(*dripping, return_exceptions=True)
        errors = [each for each in found if not isinstance(each, asyncio.CancelledError)]
        channel.send((slow, [repr(each) for each in errors]))

    asyncio.run(run())


@contextmanager
def dripping(address: tuple[str, int], token: str, count: int, measured: Measured) -> Iterator[None]:
    """Let `count` connections drip, in another process, until the block ends."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_drip_all, args=(address, token, count, theirs))
    process.start()
    try:
        assert ours.poll(60), "the dripping process does not begin"
        ours.recv()
        yield
        ours.send("end")
        slow, errors = ours.recv() if ours.poll(30) else (Slow(), ["the dripping process does not answer"])
        measured.slow.ended += slow.ended
        measured.slow.taken += slow.taken
        measured.slow.longest_seconds = max(measured.slow.longest_seconds, slow.longest_seconds)
        measured.failures += errors
    finally:
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()


async def _ask(base_url: str, token: str, ends_at: float, seconds: list[float], failures: list[str]) -> None:
    """Read and write in turn on one connection, and note the seconds of each request."""
    headers = {"authorization": f"Bearer {token}"}
    async with http_clients.AsyncClient(timeout=30, headers=headers) as client:
        turn = 0
        while time.monotonic() < ends_at:
            started = time.perf_counter()
            if turn % 2:
                answer = await client.put(f"{base_url}/me/reminders", json={"enabled": bool(turn % 4)})
            else:
                answer = await client.get(f"{base_url}/me")
            seconds.append(time.perf_counter() - started)
            if answer.status_code != 200:
                failures.append(f"{answer.status_code} {answer.text[:200]}")
            turn += 1
            await asyncio.sleep(PAUSE_SECONDS)


def ask_for(base_url: str, token: str, for_seconds: float, seconds: list[float], failures: list[str]) -> None:
    """Run the ordinary clients for a while."""

    async def run() -> None:
        ends_at = time.monotonic() + for_seconds
        await asyncio.gather(*(_ask(base_url, token, ends_at, seconds, failures) for _ in range(OTHERS)))

    asyncio.run(run())


def measure(folder: Path, *, rounds: int, round_seconds: float, count: int = SLOW) -> Measured:
    """Measure in rounds on one service: each without slow clients, then with them."""
    measured = Measured()
    with serve_process(registry_address(folder), folder) as serving:
        serving.environment["SUBLET_LOG_LEVEL"] = "warning"
        serving.start()
        service = serving.service
        token = service.add_user().token
        url = httpx.URL(service.base_url)
        address = (url.host, url.port or 0)
        ask_for(
            service.base_url, token, min(3.0, round_seconds), [], measured.failures
        )  # the first ones are slower
        for _ in range(rounds):
            ask_for(service.base_url, token, round_seconds, measured.alone, measured.failures)
            with dripping(address, token, count, measured):
                ask_for(service.base_url, token, round_seconds, measured.beside, measured.failures)
        if serving.stop() != 0:
            measured.failures.append(serving.log.read_text(encoding="utf-8")[-500:])
    return measured


def violations(measured: Measured) -> list[str]:
    """Return the violations, without the ratio of the p99s: that needs an idle machine."""
    found = measured.failures[:5]
    if measured.slow.longest_seconds > LIVES_SECONDS_MAX:
        found.append(f"a slow connection lived {measured.slow.longest_seconds:.1f} s")
    if measured.slow.taken:
        found.append(f"{measured.slow.taken} slow connections were answered with success")
    return found


def run(trial: Trial) -> Outcome:
    """Measure the p99 of other clients without and with slow clients."""
    measured = measure(trial.folder, rounds=trial.count, round_seconds=ROUND_SECONDS)
    alone, beside = measured.p99s
    slow = measured.slow
    found = violations(measured)
    assert found == [], found
    return Outcome(
        f"requests of others: {len(measured.alone)} alone, {len(measured.beside)} beside {SLOW} slow connections\n"
        f"p99: {alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms beside them\n"
        f"slow connections ended by the service: {slow.ended}, the longest after {slow.longest_seconds:.1f} s",
        f"p99 is {beside / alone:.2f} times the p99 alone" if beside / alone >= RATIO_MAX else "",
    )


SLOW_CLIENTS = Scenario(
    "slow-clients",
    f"{OTHERS} clients read and write on one `sublet serve`, while {SLOW} connections send one byte a second. Each of those ends at its "
    f"deadline, and the others' p99 stays below {RATIO_MAX:g} times. Counted are rounds of twice {ROUND_SECONDS:g} s.",
    run,
    {SOAK: {SQLITE: 4}},
)
