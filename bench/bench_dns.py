"""How fast names get into real, signed zones, beside bare updates to the same server in the same run: `make bench-dns`.

For each name server: a zone of many delegations, signed by the server itself; a registry that holds as many names. Measured are

- bare batches: fenced UPDATE messages of 100 new delegations (two NS, a DS, glue) from prepared lists, nothing else, before and after
  what they are held against;
- sustained publishing: as many of the same names wait in the registry, and the publisher brings them into the zone with all
  that belongs to it (write-ahead, read-back, record, audit);
- registrations: 50 a second through the API of `sublet serve`; for each, how long until the primary answers with it, and until both
  secondaries (NSD and Knot) do;
- a hand edit: a delegation is deleted on the primary itself; how long until it is back.

Absolute figures differ from machine to machine; the ratio holds.
"""

import argparse
import asyncio
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import dns.rdataclass
import dns.rdatatype
import structlog
from speed.connection import Connection
from sqlalchemy import insert

import name_servers
from name_servers import KINDS, NameServerProcess, primary, secondary
from service_on import primary_settings, settings_file
from serving import free_address
from sublet.accounts.add_user import add_user
from sublet.accounts.issue_token import issue_token
from sublet.audit import Actor
from sublet.credits.model import Payable
from sublet.db import Tx, open_database
from sublet.dns.plan import plan_changes
from sublet.dns.primary import read_fence, send_update
from sublet.dns.records import delegation_records
from sublet.dns.types import Delegation, DsRecord, GlueEntry, GlueInput, Record, Secondary
from sublet.dns.update import build_update, new_fence
from sublet.migrations import upgrade
from sublet.platform_domains.add_platform_domain import add_platform_domain
from sublet.platform_domains.primaries import find_primary
from sublet.platform_domains.settings import PlatformDomainSettings
from sublet.platform_domains.zone_state_store import find_zone_state
from sublet.subdomains import publish_store
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.store import delegation_columns, list_names_held, subdomains
from sublet.worker.publisher import Publisher

SUBLET = str(Path(sys.executable).parent / "sublet")
ZONE = "bench.test"
BATCH = 100
DIGEST = "1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
OPERATOR = Actor(kind="operator", name="bench")
PER_SECOND = 50
GIVE_UP_SECONDS = 900.0
HELD_BY_ONE = 1000
"""How many names one user holds at most, other than the one who registers: the quota is counted by user."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured on one server."""

    server: str
    delegations: int
    bare_per_second: float
    ours_per_second: float
    p50_ms: float
    p99_ms: float
    nsd_p99_ms: float
    knot_p99_ms: float
    mended_seconds: float

    def line(self) -> str:
        """Return it for people."""
        return (
            f"{self.server:10} {self.delegations:8,} {self.bare_per_second:10,.0f} {self.ours_per_second:10,.0f} "
            f"{self.ours_per_second / self.bare_per_second:6.0%} {self.p50_ms:8.0f} {self.p99_ms:8.0f} "
            f"{self.nsd_p99_ms:10.0f} {self.knot_p99_ms:11.0f} {self.mended_seconds:9.0f}"
        )


def delegation_of(name: str) -> Delegation:
    """Return the delegation that every measured name gets: two nameservers, one with glue, and a DS record."""
    return Delegation(
        (f"ns1.{name}", "ns2.provider.example"),
        (GlueEntry(f"ns1.{name}", "9.9.9.9"),),
        (DsRecord(2371, 13, 2, DIGEST),),
    )


def zone_text(server: NameServerProcess, count: int) -> str:
    """Return the zone's first text with that many delegations."""
    first = next(each.text for each in server.config.files if each.path.endswith(".zone"))
    lines = [f"held{number}.{ZONE}. 3600 IN NS ns{number % 9}.provider.example." for number in range(count)]
    return first + "\n".join(lines) + "\n"


async def fill_registry(url: str, count: int) -> int:
    """Make a registry that holds the delegations of the zone; return the user's id."""
    upgrade(url)
    database = open_database(url)
    try:
        domain = await database.write(
            add_platform_domain,
            OPERATOR,
            ZONE,
            PlatformDomainSettings(primary="main"),
            names_held=list_names_held,
        )
        member = await database.write(add_user, OPERATOR, "bench@example.org", "Bench", free_quota=1_000_000)
        for start in range(0, count, HELD_BY_ONE):
            holder = await database.write(
                add_user, OPERATOR, f"holder{start}@example.org", "Holder", free_quota=HELD_BY_ONE
            )
            numbers = range(start, min(start + HELD_BY_ONE, count))
            await database.write(_hold, domain.platform_domain.id, holder.user.id, numbers)
    finally:
        await database.close()
    return member.user.id


def _hold(tx: Tx, platform_domain_id: int, user_id: int, numbers: range) -> None:
    rows = []
    for number in numbers:
        delegation = Delegation((f"ns{number % 9}.provider.example",))
        rows.append(
            {
                "user_id": user_id,
                "platform_domain_id": platform_domain_id,
                "label": f"held{number}",
                "fqdn": f"held{number}.{ZONE}",
                "registration_type": "free",
                "registration_source": "api",
                **delegation_columns(delegation),
                "nameserver_count": 1,
                "ds_record_count": 0,
                "generation": 1,
                "published_generation": 1,
                "attempts": 0,
                "registered_at": tx.now,
                "expires_at": tx.now.replace(year=tx.now.year + 5),
                "period_days": 365,
                "created_at": tx.now,
                "updated_at": tx.now,
                "generation_at": tx.now,
            }
        )
    tx.connection.execute(insert(subdomains), rows)


async def bare_batches(server: NameServerProcess, count: int, prefix: str = "bare") -> float:
    """Send that many new delegations in bare messages, one after the other; return how many a second were answered."""
    reached = server.as_primary()
    fence = (await read_fence(reached, ZONE, timeout_seconds=60)).value
    batches: list[list[Record]] = []
    for start in range(0, count, BATCH):
        names = [f"{prefix}{number}.{ZONE}" for number in range(start, start + BATCH)]
        batches.append(
            [record for name in names for record in delegation_records(name, delegation_of(name), 3600)]
        )
    started = time.perf_counter()
    for records in batches:
        owners = {record.owner for record in records}
        next_fence = new_fence()
        changes = plan_changes(ZONE, owners, records)
        message = build_update(changes, fence=fence, next_fence=next_fence, unused=owners)
        await send_update(reached, message, timeout_seconds=60)
        fence = next_fence
    return count / (time.perf_counter() - started)


async def sustained(url: str, section: Any, user_id: int, count: int, prefix: str = "ours") -> float:
    """Let that many names wait in the registry, then have the publisher publish them; return how many a second it did."""
    database = open_database(url)

    def prepare(tx: Tx, numbers: range) -> None:
        for number in numbers:
            name = f"{prefix}{number}.{ZONE}"
            given = delegation_of(name)
            command = Register(
                fqdn=name,
                nameservers=given.nameservers,
                glue=(GlueInput(f"ns1.{name}", "9.9.9.9"),),
                ds_records=(f"2371 13 2 {DIGEST}",),
                payable=Payable(),
            )
            register(tx, Actor("user", user_id=user_id), command, free_quota=1_000_000)

    try:
        for start in range(0, count, 500):
            await database.write(prepare, range(start, min(start + 500, count)))
        # One holder for all rounds: another would have to wait until the lease of the one before ends.
        publisher = Publisher(
            database, [("127.0.0.1", 9)], lambda name: find_primary([section], name), holder="bench"
        )
        started = time.perf_counter()
        running = asyncio.create_task(publisher.run())
        while publisher.outcomes["published"] < count:
            assert time.perf_counter() - started < 600, dict(publisher.outcomes)
            assert not publisher.outcomes["failed"], dict(publisher.causes)
            assert not running.done(), running
            await asyncio.sleep(0.01)
        took = time.perf_counter() - started
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not await database.read(publish_store.list_waiting_platform_domain_ids)
    finally:
        await database.close()
    return count / took


@contextmanager
def serving(url: str, config: Path, folder: Path) -> Iterator[str]:
    """Run `sublet serve`; gives where its API is."""
    environment = {
        **os.environ,
        "SUBLET_DATABASE_URL": url,
        "SUBLET_CONFIG": str(config),
        "SUBLET_HTTP_LISTEN": "127.0.0.1:0",
        "SUBLET_DNS_LISTEN": "127.0.0.1:0",
        "SUBLET_RATE_LIMITS": "off",
        "SUBLET_LOG_FORMAT": "json",
        "SUBLET_PUBLISH_WAIT_MS": "2000",
    }
    log = folder / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen([SUBLET, "serve"], env=environment, stdout=out, stderr=out)
    try:
        for _ in range(600):
            for line in log.read_text(encoding="utf-8").splitlines():
                if '"event": "serving"' in line or '"event":"serving"' in line:
                    yield str(json.loads(line)["http"])
                    return
            assert process.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        raise AssertionError(log.read_text(encoding="utf-8"))
    finally:
        process.terminate()
        process.wait(30)


class Questions(asyncio.DatagramProtocol):
    """Asks one server over one socket whether it refers to names; made so that asking takes little of the processors."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._ids = itertools.count()
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, _addr: object) -> None:
        """Tell whoever asked whether this is a referral (RFC 1034, section 4.3.2): NOERROR, authority, and no AA bit."""
        number, flags, _, _, authority = struct.unpack_from("!5H", data)
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(not flags & 0x040F and authority > 0)

    def error_received(self, exc: Exception) -> None:
        """Nobody is there yet: the question is asked again."""

    async def answered(self, name: str, started: float, pause_seconds: float) -> float:
        """Ask until the server refers to a name; return how many milliseconds that took."""
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        question = labels + b"\0" + struct.pack("!2H", dns.rdatatype.NS, dns.rdataclass.IN)
        while True:
            number = next(self._ids) % 65536
            future = self._waiting[number] = asyncio.get_running_loop().create_future()
            self._transport.sendto(struct.pack("!6H", number, 0, 1, 0, 0, 0) + question)
            with suppress(TimeoutError):
                async with asyncio.timeout(2):
                    if await future:
                        return (time.perf_counter() - started) * 1000
            assert time.perf_counter() - started < GIVE_UP_SECONDS, name
            await asyncio.sleep(pause_seconds)


async def questions_to(server: NameServerProcess) -> Questions:
    """Return what asks this server."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_datagram_endpoint(Questions, remote_addr=(server.address, server.port))
    return protocol


async def registrations(
    base_url: str,
    token: str,
    server: NameServerProcess,
    followers: Sequence[NameServerProcess],
    seconds: float,
) -> list[list[float]]:
    """Register 50 a second; return after how many milliseconds the primary answered with each, and each of the secondaries."""
    path = f"{urlsplit(base_url).path}/subdomains"
    idle: list[Connection] = []
    asked = await questions_to(server)
    asked_after = [await questions_to(each) for each in followers]

    async def post(body: dict[str, object]) -> None:
        if idle:
            connection = idle.pop()
        else:
            connection = Connection(base_url, token)
            await connection.open()
        status, answer = await connection.send("POST", path, body)
        assert status == 201, answer
        idle.append(connection)

    async def one(number: int) -> list[float]:
        name = f"live{number}.{ZONE}"
        started = time.perf_counter()
        posted = asyncio.create_task(
            post({"fqdn": name, "nameservers": ["ns1.provider.example", "ns2.provider.example"]})
        )
        took = await asked.answered(name, started, 0.01)
        await posted
        followed = await asyncio.gather(*(each.answered(name, started, 0.25) for each in asked_after))
        return [took, *followed]

    tasks = []
    begun = time.perf_counter()
    for number in range(int(seconds * PER_SECOND)):
        delay = begun + number / PER_SECOND - time.perf_counter()
        if delay > 0:
            await asyncio.sleep(delay)
        tasks.append(asyncio.create_task(one(number)))
    found = await asyncio.gather(*tasks)
    for connection in idle:
        await connection.close()
    return [sorted(each) for each in zip(*found, strict=True)]


async def hand_edit(server: NameServerProcess) -> float:
    """Delete a delegation on the primary itself; return after how many seconds it was back."""
    name = f"held7.{ZONE}"
    asked = await questions_to(server)
    server.nsupdate([f"delete {name}. NS"])
    return await asked.answered(name, time.perf_counter(), 0.5) / 1000


def measure(kind: str, count: int, names: int, seconds: float) -> Row:
    """Measure one server."""
    name_servers.READY_SECONDS = 900.0
    places = {"nsd": free_address("127.0.0.2"), "knot": free_address("127.0.0.3")}
    known = [Secondary(f"ns-{each}.{ZONE}", *place) for each, place in places.items()]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sublet-bench-")))
        server = stack.enter_context(primary(kind, folder, ZONE, secondaries=known))
        url = f"sqlite:///{folder}/registry.db"
        user_id = asyncio.run(fill_registry(url, count))
        server.rebuild(zone_text(server, count))
        section = primary_settings(folder, server)
        before = asyncio.run(bare_batches(server, names))
        ours = asyncio.run(sustained(url, section, user_id, names))
        after = asyncio.run(bare_batches(server, names, "again"))
        # A zone grows while it is measured, and on PowerDNS each name then costs more: what both took together is the reference.
        bare = 2 / (1 / before + 1 / after)
        token = asyncio.run(_token(url))
        followers = [
            stack.enter_context(secondary(each, folder / f"of-{each}", of=server, address=place))
            for each, place in places.items()
        ]
        with serving(url, settings_file(folder, [section]), folder) as base_url:
            asyncio.run(_first_check(url))
            took, *followed = asyncio.run(registrations(base_url, token, server, followers, seconds))
            mended = asyncio.run(hand_edit(server))
    p99, nsd_p99, knot_p99 = (each[int(len(each) * 0.99)] for each in (took, *followed))
    return Row(kind, count, bare, ours, took[len(took) // 2], p99, nsd_p99, knot_p99, mended)


async def _first_check(url: str) -> None:
    """Wait until the zone was once checked as a whole: how a service begins is not what is measured."""
    database = open_database(url)
    try:
        ends = time.monotonic() + GIVE_UP_SECONDS
        while (await database.read(find_zone_state, 1)).checked_at is None and time.monotonic() < ends:
            await database.changed(1.0)
    finally:
        await database.close()


async def _token(url: str) -> str:
    database = open_database(url)
    try:
        issued = await database.write(issue_token, OPERATOR, "bench@example.org", "bench")
        return issued.secret.reveal()
    finally:
        await database.close()


def main() -> None:
    """Measure what the command line asks for, and print a line for each server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--delegations", type=int, default=300_000)
    parser.add_argument("--names", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=30)
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(
        "server      in zone     bare/s     ours/s  ratio   p50 ms   p99 ms  NSD p99 ms Knot p99 ms  mended s",
        flush=True,
    )
    for kind in KINDS if asked.server == "all" else [asked.server]:
        print(measure(kind, asked.delegations, asked.names, asked.seconds).line(), flush=True)


if __name__ == "__main__":
    main()
