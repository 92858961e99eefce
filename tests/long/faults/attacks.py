"""Attacks on the API through the proxy in `deploy/nginx/`, and what they cost other clients.

The attackers share one address and run in a process of their own. The tests require that the others are
answered in time; `make soak ONLY='attacks/*'` measures the same at length.
"""

import asyncio
import multiprocessing
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support import http_clients
from support.databases import registry_address
from support.nginx import NAME, Proxy, nginx, resident_bytes
from support.serve_process import ServeProcess, serve_process

ATTACKER = "127.0.0.2"
OTHERS = ("127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6")
PAUSE_SECONDS = 0.05
"""The pause between two requests of one of the others: below the proxy's limit for an address."""
CONNECTING_MAX = 50
"""How many attackers do their TLS handshake at once."""
P99_SECONDS_MAX = 0.25
MEMORY_BYTES_MAX = 50 << 20
PIPELINED = 7700


@dataclass(frozen=True, slots=True)
class Attack:
    """A number of connections that each run `attack`."""

    name: str
    count: int
    attack: Callable[["Connected", str], Coroutine[Any, Any, None]]
    pause_seconds: float = 0.5
    """The pause before a connection that the proxy ended is opened again."""


@dataclass(slots=True)
class Connected:
    """A connection of an attacker."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@dataclass(slots=True)
class Damage:
    """What an attack did: opened connections, those that the proxy ended, answers of success, and the longest
    life in seconds.
    """

    opened: int = 0
    ended: int = 0
    succeeded: int = 0
    longest_seconds: float = 0.0


@dataclass(slots=True)
class Measured:
    """The seconds of each request of the others, alone and beside the attack; failures; and the memory that
    the service gained.
    """

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    damage: Damage = field(default_factory=Damage)
    gained_bytes: int = 0

    @property
    def p99s(self) -> tuple[float, float]:
        """The 99th percentiles in seconds, alone and beside the attack."""
        return quantiles(self.alone, n=100)[98], quantiles(self.beside, n=100)[98]


def _head(token: str, line: str, *fields: str) -> bytes:
    return "\r\n".join([line, f"Host: {NAME}", f"Authorization: Bearer {token}", *fields, "", ""]).encode()


async def _drip(connected: Connected, octets: bytes) -> None:
    for position in range(len(octets)):
        connected.writer.write(octets[position : position + 1])
        await connected.writer.drain()
        await asyncio.sleep(1.0)


async def _slow_head(connected: Connected, token: str) -> None:
    await _drip(connected, _head(token, "POST /api/v1/subdomains HTTP/1.1"))


async def _slow_body(connected: Connected, token: str) -> None:
    fields = ("Content-Type: application/json", "Content-Length: 1000")
    connected.writer.write(_head(token, "POST /api/v1/subdomains HTTP/1.1", *fields))
    await _drip(connected, b" " * 999)


async def _pipeline(connected: Connected, token: str) -> None:
    connected.writer.write(_head(token, "GET /api/v1/me HTTP/1.1") * PIPELINED)
    await connected.writer.drain()
    await asyncio.sleep(3600)


SLOW_HEADS = Attack("500 slow heads", 500, _slow_head)
SLOW_BODIES = Attack("1,300 slow bodies", 1300, _slow_body)
PIPELINING = Attack("40 connections with 7,700 requests each", 40, _pipeline, 2.0)
ATTACKS = (SLOW_HEADS, SLOW_BODIES, PIPELINING)


async def _attack_again(
    attack: Attack, proxy: Proxy, token: str, damage: Damage, connecting: asyncio.Semaphore
) -> None:
    """Open a connection and attack until the proxy ends it, again and again."""
    context = proxy.context()
    while True:
        try:
            async with connecting:
                reader, writer = await asyncio.open_connection(
                    *proxy.https,
                    ssl=context,
                    server_hostname=proxy.https[0],
                    local_addr=(ATTACKER, 0),
                    ssl_handshake_timeout=60,
                )
        except (ConnectionError, ssl.SSLError):
            await asyncio.sleep(0.1)
            continue
        damage.opened += 1
        began = time.monotonic()
        working = asyncio.create_task(attack.attack(Connected(reader, writer), token))
        reading = asyncio.create_task(_count_successes(reader, damage))
        try:
            await asyncio.wait({working, reading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            damage.longest_seconds = max(damage.longest_seconds, time.monotonic() - began)
            for task in (working, reading):
                task.cancel()
            await asyncio.gather(working, reading, return_exceptions=True)
            writer.transport.abort()
        damage.ended += 1
        await asyncio.sleep(attack.pause_seconds)


async def _count_successes(reader: asyncio.StreamReader, damage: Damage) -> None:
    with suppress(OSError):
        while received := await reader.read(65536):
            damage.succeeded += received.count(b"HTTP/1.1 2")


def _run_attack(attack: Attack, proxy: Proxy, token: str, channel: Connection) -> None:
    """Attack until the channel says so, in a process of its own, then send back the damage."""
    damage = Damage()

    async def run() -> None:
        connecting = asyncio.Semaphore(CONNECTING_MAX)
        attacking = [
            asyncio.create_task(_attack_again(attack, proxy, token, damage, connecting))
            for _ in range(attack.count)
        ]
        while damage.opened < attack.count and not any(each.done() for each in attacking):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        channel.send("all are open")
        await asyncio.to_thread(channel.recv)
        for each in attacking:
            each.cancel()
        found = await asyncio.gather(*attacking, return_exceptions=True)
        channel.send((damage, [repr(each) for each in found if not isinstance(each, asyncio.CancelledError)]))

    asyncio.run(run())


@contextmanager
def attacking(attack: Attack, proxy: Proxy, token: str, measured: Measured) -> Iterator[None]:
    """Run an attack during the block, which begins once all its connections were opened."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_attack, args=(attack, proxy, token, theirs))
    process.start()
    try:
        assert ours.poll(120), "the attack does not begin"
        ours.recv()
        yield
        ours.send("end")
        assert ours.poll(60), "the attack does not end"
        measured.damage, errors = ours.recv()
        measured.failures += errors
    finally:
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join()


async def _ask(
    proxy: Proxy, address: str, token: str, ends_at: float, seconds: list[float], failures: list[str]
) -> None:
    """Read and write in turn on a kept connection from one address, and note how long each request takes."""
    transport = httpx.AsyncHTTPTransport(local_address=address, verify=proxy.context())
    headers = {"authorization": f"Bearer {token}", "host": NAME}
    base_url = f"https://{proxy.https[0]}:{proxy.https[1]}/api/v1"
    async with http_clients.AsyncClient(timeout=60, headers=headers, transport=transport) as client:
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


def ask_for(proxy: Proxy, token: str, for_seconds: float, seconds: list[float], failures: list[str]) -> None:
    """Be the other clients for some seconds."""

    async def run() -> None:
        ends_at = time.monotonic() + for_seconds
        await asyncio.gather(*(_ask(proxy, each, token, ends_at, seconds, failures) for each in OTHERS))

    asyncio.run(run())


@contextmanager
def attacked_service(folder: Path) -> Iterator[tuple[ServeProcess, Proxy, str]]:
    """Run a service behind nginx, with the token of a user."""
    with serve_process(registry_address(folder), folder) as serving:
        serving.environment |= {"SUBLET_LOG_LEVEL": "warning", "SUBLET_TRUSTED_PROXIES": "127.0.0.1"}
        serving.start()
        with nginx(folder, serving.service.settings.http_listen) as proxy:
            yield serving, proxy, serving.service.add_user().token
        assert serving.stop() == 0, serving.log.read_text(encoding="utf-8")[-500:]


def measure(
    attack: Attack, serving: ServeProcess, proxy: Proxy, token: str, round_seconds: float
) -> Measured:
    """Measure other clients without the attack and then beside it."""
    measured = Measured()
    assert serving.process is not None
    ask_for(proxy, token, 1.0, [], measured.failures)  # the first requests are slower
    ask_for(proxy, token, round_seconds, measured.alone, measured.failures)
    before = resident_bytes(serving.process.pid)
    with attacking(attack, proxy, token, measured):
        ask_for(proxy, token, round_seconds, measured.beside, measured.failures)
    measured.gained_bytes = resident_bytes(serving.process.pid) - before
    return measured


def violations(measured: Measured) -> list[str]:
    """Return what an attack must not do.

    On a busy machine others may take five times as long as without the attack.
    """
    found = measured.failures[:5]
    alone, beside = measured.p99s
    if beside > max(P99_SECONDS_MAX, 5 * alone):
        found.append(f"p99 of others: {beside * 1000:.0f} ms, {alone * 1000:.0f} ms without the attack")
    if measured.gained_bytes > MEMORY_BYTES_MAX:
        found.append(f"the service gained {measured.gained_bytes >> 20} MiB")
    return found


def report(attack: Attack, measured: Measured) -> str:
    """Return what was measured, in lines."""
    alone, beside = measured.p99s
    damage = measured.damage
    return (
        f"{attack.name}: p99 of {len(measured.beside)} requests of others {beside * 1000:.0f} ms, alone "
        f"{alone * 1000:.0f} ms; {damage.opened} connections opened, {damage.ended} ended by the proxy, the "
        f"longest after {damage.longest_seconds:.0f} s; the service gained "
        f"{measured.gained_bytes / (1 << 20):.1f} MiB"
    )


def run(trial: Trial) -> Outcome:
    """Measure other clients without and beside each attack."""
    lines = []
    with attacked_service(trial.folder) as service:
        for attack in ATTACKS:
            measured = measure(attack, *service, float(trial.count))
            lines.append(report(attack, measured))
            found = violations(measured)
            assert found == [], found
    return Outcome("\n".join(lines))


ATTACKS_THROUGH_PROXY = Scenario(
    "attacks",
    f"{len(OTHERS)} clients read and write through nginx on one `sublet serve`, beside attackers of one "
    "address: slow heads, slow bodies, requests sent ahead. The others' p99 stays below 250 ms, and the "
    "service's memory within 50 MiB. Counted are the seconds of each attack.",
    run,
    {SOAK: {SQLITE: 30}},
)
