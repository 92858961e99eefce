"""Clients that send a byte a second, beside clients as usual: what the slow ones cost the others, and when they are sent away.

`make soak PART=slow-clients` measures at length and fails where the others' p99 doubles; the tests see that everybody is answered.
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

from support import http_clients
from support.databases import registry_address
from support.serve_process import serve_process

SLOW = 500
ROUNDS = 4
ROUND_SECONDS = 30.0
"""Long enough for each slow connection to be ended twice."""
OTHERS = 4
PAUSE_SECONDS = 0.02
"""Between two requests of one of the others: they measure, they aren't a load of their own."""
RATIO_MAX = 2.0
LIVES_SECONDS_MAX = 25.0
"""The longest that a slow connection may live: a head and a body in full, and what a loaded machine adds."""


@dataclass(slots=True)
class Slow:
    """What became of slow connections: how many were opened, how many the service ended, the longest life in seconds."""

    opened: int = 0
    ended: int = 0
    longest_seconds: float = 0.0
    taken: int = 0
    """How many were taken for whole requests with success, which none of them is."""


@dataclass(slots=True)
class Measured:
    """Seconds of each request of the others, without and with slow clients; whatever was no answer to count."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    slow: Slow = field(default_factory=Slow)

    @property
    def p99s(self) -> tuple[float, float]:
        """The 99th percentiles, in seconds: alone, and beside slow clients."""
        return quantiles(self.alone, n=100)[98], quantiles(self.beside, n=100)[98]

    @property
    def ratio(self) -> float:
        """How many times as long the slowest hundredth takes beside slow clients."""
        alone, beside = self.p99s
        return beside / alone


async def _drip(address: tuple[str, int], token: str, number: int, slow: Slow) -> None:
    """Open a connection and send a byte a second of a head, or of a body, until the service ends it; and again."""
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
    """Drip over so many connections until the channel says so, in a process of its own; send back what became of them."""
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
    """Have so many connections drip meanwhile."""
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
    """Read and write in turn on a kept connection, and note how long each took."""
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
    """Be the others for a while."""

    async def run() -> None:
        ends_at = time.monotonic() + for_seconds
        await asyncio.gather(*(_ask(base_url, token, ends_at, seconds, failures) for _ in range(OTHERS)))

    asyncio.run(run())


def measure(folder: Path, *, rounds: int, round_seconds: float, count: int = SLOW) -> Measured:
    """Measure in rounds, each without slow clients and then with them, on one service."""
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
    """Return what must not be, but for the ratio: that is a matter of a quiet machine."""
    found = measured.failures[:5]
    if measured.slow.longest_seconds > LIVES_SECONDS_MAX:
        found.append(f"a slow connection lived {measured.slow.longest_seconds:.1f} s")
    if measured.slow.taken:
        found.append(f"{measured.slow.taken} slow connections were answered with success")
    return found


def report(measured: Measured) -> list[str]:
    """Return what was measured, in lines."""
    alone, beside = measured.p99s
    slow = measured.slow
    return [
        f"requests of others: {len(measured.alone)} alone, {len(measured.beside)} beside {SLOW} slow connections",
        f"p99: {alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms beside them, ratio {measured.ratio:.2f}",
        f"slow connections ended by the service: {slow.ended}, the longest after {slow.longest_seconds:.1f} s",
    ]
