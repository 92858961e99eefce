"""Sublet like on several hosts: API processes, workers, PostgreSQL with a standby, and Knot, all on this machine.

A process that exits is restarted after a moment, as systemd does.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from long.hosts.standby import PostgresqlPair, postgresql_pair
from sublet.config import Settings
from support import http_clients
from support.name_servers import primary
from support.running_service import MovableClock, RunningService
from support.serve_process import free_address, wait_until
from support.service_on_primary import ZONE, ServiceOn, primary_settings, settings_file

RESTART_SECONDS = 0.5
"""How long after its exit a process is restarted: `RestartSec` of a systemd unit."""
READY_SECONDS = 180.0
_COMMAND = "from sublet.cli.main import main; main()"


@dataclass(slots=True)
class Part:
    """A process of the installation that is kept running; `is_ready` asks it from outside."""

    name: str
    words: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    is_ready: Callable[[], bool]
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
        wait_until(self.is_ready, READY_SECONDS)

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
            self.process.wait(20)
            self.process = None


@dataclass(slots=True)
class Installation:
    """What runs, and how it is reached."""

    on: ServiceOn
    pair: PostgresqlPair
    apis: list[Part]
    workers: list[Part]
    base_urls: list[str]
    _stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def service(self) -> RunningService:
        """The operator's view: commands, the database; and a client of the first API process."""
        return self.on.service

    @property
    def parts(self) -> list[Part]:
        """Every process of ours."""
        return [*self.apis, *self.workers]

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
                keeper.join(20)
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
def installation(
    folder: Path,
    *,
    apis: int = 2,
    children: int = 2,
    workers: int = 2,
    synchronous: bool = True,
    settings: dict[str, str] | None = None,
) -> Iterator[Installation]:
    """An installation that runs: `apis` API processes of `children` each, `workers`, PostgreSQL with its standby, Knot with `example.test`.

    Folders have short names: the path of a socket has 107 characters at most.
    """
    with (
        primary("knot", folder / "k", ZONE) as knot,
        postgresql_pair(_made(folder / "p"), synchronous=synchronous) as pair,
    ):
        http = [free_address() for _ in range(apis)]
        chosen = Settings(
            database_url=pair.address, http_listen=f"{http[0][0]}:{http[0][1]}", free_quota=100_000
        )
        urls = [f"http://{host}:{port}/api/v1" for host, port in http]
        service = RunningService(chosen, MovableClock(), urls[0])
        config = str(settings_file(folder, [primary_settings(folder, knot)]))
        service.environment |= {"SUBLET_CONFIG": config, "SUBLET_FREE_QUOTA": str(chosen.free_quota)}
        service.operator("init")
        service.add_domain(ZONE, "--primary", "main", "--renewal-window-days", "3650")
        environment = {
            "SUBLET_DATABASE_URL": pair.address,
            "SUBLET_CONFIG": config,
            "SUBLET_FREE_QUOTA": str(chosen.free_quota),
            "SUBLET_LOG_LEVEL": "warning",
            # The limits count, but are never reached.
            "SUBLET_RATE_LIMIT_READ_PER_MINUTE": "1000000",
            "SUBLET_RATE_LIMIT_WRITE_PER_MINUTE": "1000000",
            "SUBLET_RATE_LIMIT_TICKET_PER_MINUTE": "1000000",
            "SUBLET_PUBLISH_WAIT_MS": "100",
            **(settings or {}),
        }
        api_parts = [
            _part(folder, f"API {number}", words, environment, "SUBLET_HTTP_LISTEN", address)
            for number, address in enumerate(http, start=1)
            for words in [("api", "--workers", str(children))]
        ]
        worker_parts = [
            _part(
                folder,
                f"worker {number}",
                ("worker",),
                environment,
                "SUBLET_WORKER_STATUS_LISTEN",
                free_address(),
            )
            for number in range(1, workers + 1)
        ]
        on = ServiceOn(service, knot, frozenset(knot.records()))
        running = Installation(on, pair, api_parts, worker_parts, urls)
        with running.kept_running():
            yield running
        service.client.close()


def _part(
    folder: Path,
    name: str,
    words: tuple[str, ...],
    environment: dict[str, str],
    listen: str,
    address: tuple[str, int],
) -> Part:
    """Return a process whose readiness is asked at an address, which the setting `listen` sets."""
    where = f"{address[0]}:{address[1]}"
    log = folder / f"{name.replace(' ', '-')}.log"
    return Part(name, words, {**environment, listen: where}, log, lambda: _answers(f"http://{where}/readyz"))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
