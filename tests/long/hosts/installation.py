"""Sublet like on several hosts: API processes, workers, name servers and PostgreSQL with standbys, all on
this machine.

A process that exits is restarted after a moment, as systemd does.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from long.hosts.patroni_cluster import PatroniCluster
from long.hosts.standby import PostgresqlPair, postgresql_pair
from sublet.config import Settings
from support import http_clients
from support.free_ports import free_address
from support.name_servers import NameServerProcess, primary
from support.running_service import MovableClock, RunningService
from support.service_on_primary import ZONE, ServiceOn, primary_settings, settings_file
from support.waiting import wait_until

RESTART_SECONDS = 0.5
"""How long after its exit a process is restarted: `RestartSec` of a systemd unit."""
READY_SECONDS = 180.0
_COMMAND = "from sublet.cli.main import main; main()"


@dataclass(slots=True)
class Part:
    """A process of the installation that is kept running; its status pages are at
    `address`, a host and port.
    """

    name: str
    words: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    address: str
    process: "subprocess.Popen[bytes] | None" = field(default=None)
    starts: int = 0
    ended_at: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start it; it is in a group of its own, so that nothing of it is left over in the end."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *self.words],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        self.starts += 1
        self.ended_at = None

    def wait_until_ready(self) -> None:
        """Wait until it does its work."""
        wait_until(lambda: _answers(f"http://{self.address}/readyz"), READY_SECONDS)

    @property
    def pid(self) -> int:
        """The id of its first process."""
        assert self.process is not None
        return self.process.pid

    def keep_running(self) -> None:
        """Restart it if it exited a moment ago."""
        with self.lock:
            if self.process is None or self.process.poll() is None:
                return
            if self.ended_at is None:
                self.ended_at = time.monotonic()
            elif time.monotonic() - self.ended_at >= RESTART_SECONDS:
                self.start()

    def restart(self) -> int:
        """Stop it gracefully, start it and wait until it is ready; return the exit code."""
        with self.lock:
            assert self.process is not None
            self.process.terminate()
            code = self.process.wait(60)
            self.start()
        self.wait_until_ready()
        return code

    def end(self) -> None:
        """End all of it now."""
        with self.lock:
            if self.process is None:
                return
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)
            self.process = None


@dataclass(slots=True)
class Installation:
    """What runs, and how it is reached."""

    on: ServiceOn
    database: PostgresqlPair | PatroniCluster
    apis: list[Part]
    workers: list[Part]
    name_servers: list[Part]
    base_urls: list[str]
    _stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def pair(self) -> PostgresqlPair:
        """The primary and its standby; the test fails if Patroni has them."""
        assert isinstance(self.database, PostgresqlPair)
        return self.database

    @property
    def service(self) -> RunningService:
        """The operator's view: commands, the database; and a client of the first API process."""
        return self.on.service

    @property
    def parts(self) -> list[Part]:
        """Every process of ours."""
        return [*self.apis, *self.workers, *self.name_servers]

    @contextmanager
    def kept_running(self) -> Iterator[None]:
        """Start everything, restart what exits, and end everything after the block."""
        keeper = threading.Thread(target=self._keep_running, name="keeper")
        try:
            for part in self.parts:
                part.start()
            keeper.start()
            for part in self.parts:
                part.wait_until_ready()
            yield
        finally:
            self._stopped.set()
            if keeper.ident is not None:
                keeper.join(60)
            for part in self.parts:
                part.end()

    def _keep_running(self) -> None:
        while not self._stopped.wait(0.05):
            for part in self.parts:
                part.keep_running()

    def logs(self) -> str:
        """Return the ends of what the processes wrote, for a failed trial."""
        return "\n".join(f"== {part.name}\n{part.log.read_text()[-3000:]}" for part in self.parts)


def _answers(url: str) -> bool:
    try:
        return http_clients.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@contextmanager
def installation(folder: Path, **options: Any) -> Iterator[Installation]:
    """An installation that runs, over PostgreSQL with its standby, and Knot with `example.test`; `options` of
    `installation_over`.

    Folders have short names: the path of a socket has 107 characters at most.
    """
    with (
        primary("knot", folder / "k", ZONE) as knot,
        postgresql_pair(_made(folder / "p")) as pair,
        installation_over(folder, pair, knot, **options) as running,
    ):
        yield running


@contextmanager
def installation_over(
    folder: Path,
    database: PostgresqlPair | PatroniCluster,
    knot: NameServerProcess | None,
    *,
    apis: int = 2,
    children: int = 2,
    workers: int = 2,
    settings: dict[str, str] | None = None,
) -> Iterator[Installation]:
    """An installation that runs: `apis` API processes of `children` each, `workers`, and a built-in name
    server if there is no Knot.
    """
    http, dns = [free_address() for _ in range(apis)], free_address()
    chosen = Settings(
        database_url=database.address,
        http_listen=f"{http[0][0]}:{http[0][1]}",
        dns_listen=f"{dns[0]}:{dns[1]}",
        free_quota=100_000,
    )
    urls = [f"http://{host}:{port}/api/v1" for host, port in http]
    service = RunningService(chosen, MovableClock(), urls[0], dns)
    common = {"SUBLET_FREE_QUOTA": str(chosen.free_quota)}
    if knot is None:
        common["SUBLET_DNS_SERVERS"] = chosen.dns_listen
    else:
        common["SUBLET_CONFIG"] = str(settings_file(folder, [primary_settings(folder, knot)]))
    service.environment |= common
    service.operator("init")
    service.add_domain(ZONE, *(("--primary", "main") if knot else ()), "--renewal-window-days", "3650")
    environment = {
        **common,
        "SUBLET_DATABASE_URL": database.address,
        "SUBLET_DNS_LISTEN": chosen.dns_listen,
        "SUBLET_LOG_LEVEL": "warning",
        # The limits count, but are never reached.
        "SUBLET_RATE_LIMIT_READ_PER_MINUTE": "1000000",
        "SUBLET_RATE_LIMIT_WRITE_PER_MINUTE": "1000000",
        "SUBLET_RATE_LIMIT_TICKET_PER_MINUTE": "1000000",
        "SUBLET_PUBLISH_WAIT_MS": "100",
        **(settings or {}),
    }

    def part(name: str, words: tuple[str, ...], listen: str, address: tuple[str, int]) -> Part:
        where = f"{address[0]}:{address[1]}"
        log = folder / f"{name.replace(' ', '-')}.log"
        return Part(name, words, {**environment, listen: where}, log, where)

    api_words = ("api", "--workers", str(children))
    running = Installation(
        ServiceOn(service, knot, frozenset(knot.records() if knot else ())),
        database,
        [part(f"API {n}", api_words, "SUBLET_HTTP_LISTEN", each) for n, each in enumerate(http, start=1)],
        [
            part(f"worker {n}", ("worker",), "SUBLET_WORKER_STATUS_LISTEN", free_address())
            for n in range(1, workers + 1)
        ],
        [] if knot else [part("name server", ("dns",), "SUBLET_DNS_STATUS_LISTEN", free_address())],
        urls,
    )
    with running.kept_running():
        yield running
    service.client.close()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
