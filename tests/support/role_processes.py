"""Processes of `sublet api`, `sublet worker` and `sublet dns` with one PostgreSQL database."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sublet.config import Settings
from support import http_clients
from support.free_ports import free_address
from support.postgresql import fresh_database
from support.processes import children_of, is_running
from support.running_service import PUBLISH_WAIT_MS, MovableClock, RunningService, initialised_postgresql
from support.waiting import ENOUGH_SECONDS, wait_until


@dataclass(slots=True)
class RoleProcess:
    """A process of a role, which logs to a file."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def text(self) -> str:
        """The log of the process."""
        return self.log.read_text()

    def has_said(self, text: str) -> bool:
        """Return True if the process, which must be running, has logged a text."""
        assert self.process.poll() is None, self.text
        return text in self.text

    def children(self) -> list[int]:
        """Return the ids of its running child processes."""
        return children_of(self.process.pid)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(ENOUGH_SECONDS)


@dataclass(slots=True)
class Apart:
    """A registry on PostgreSQL whose roles a test starts.

    `service` uses the API and the first name server.
    """

    service: RunningService
    folder: Path
    name_servers: list[tuple[str, int]]
    started: list[RoleProcess] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    """The child processes that were seen, to end them after the test."""

    def start(self, *words: str, said: str = "serving", **settings: str) -> RoleProcess:
        """Start `sublet WORDS` with more settings, and wait until it has logged `said`."""
        log = self.folder / f"{words[0]}-{len(self.started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "sublet.cli.main", *words],
                stdout=output,
                stderr=output,
                env=self.environment(**settings),
            )
        role = RoleProcess(process, log)
        self.started.append(role)
        if said:
            wait_until(lambda: role.has_said(said))
            self.pids.update(role.children())
        return role

    def environment(self, **settings: str) -> dict[str, str]:
        """Return the environment of a process, with more settings."""
        chosen = self.service.settings
        return {
            **os.environ,
            "SUBLET_DATABASE_URL": chosen.database_url,
            "SUBLET_HTTP_LISTEN": chosen.http_listen,
            "SUBLET_DNS_LISTEN": chosen.dns_listen,
            "SUBLET_DNS_SERVERS": ",".join(f"{host}:{port}" for host, port in self.name_servers),
            "SUBLET_RATE_LIMITS": "off",
            "SUBLET_PUBLISH_WAIT_MS": str(chosen.publish_wait_ms),
            "SUBLET_FREE_QUOTA": "100000",
            **{f"SUBLET_{name.upper()}": value for name, value in settings.items()},
        }

    def start_all(self, *, workers: int = 2) -> RoleProcess:
        """Start every name server, a worker and the API; return the parent process of the API."""
        for host, port in self.name_servers:
            self.start("dns", dns_listen=f"{host}:{port}")
        self.start("worker")
        return self.start("api", "--workers", str(workers))


@contextmanager
def apart(server_url: str, folder: Path, *, name_servers: int = 1) -> Iterator[Apart]:
    """Create a database with the platform domain example.test, start nothing, and end all processes after the
    test.
    """
    with fresh_database(server_url, like=initialised_postgresql()) as url:
        http, dns = free_address(), [free_address() for _ in range(name_servers)]
        settings = Settings(
            database_url=url,
            database_may_lose_writes=True,
            http_listen=f"{http[0]}:{http[1]}",
            dns_listen=f"{dns[0][0]}:{dns[0][1]}",
            rate_limits=False,
            publish_wait_ms=PUBLISH_WAIT_MS,
            free_quota=100_000,
        )
        service = RunningService(
            settings,
            MovableClock(),
            f"http://{settings.http_listen}/api/v1",
            dns[0],
            http_clients.Client(),
        )
        service.add_domain()
        opened = Apart(service, folder, dns)
        try:
            yield opened
        finally:
            service.client.close()
            _end_all(opened)


def _end_all(opened: Apart) -> None:
    for role in opened.started:
        opened.pids.update(role.children())
        if role.process.poll() is None:
            role.process.terminate()
    for role in opened.started:
        try:
            role.process.wait(ENOUGH_SECONDS)
        except subprocess.TimeoutExpired:
            role.process.kill()
            role.process.wait(ENOUGH_SECONDS)
    left = [pid for pid in opened.pids if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == [], "processes were left behind: " + "\n".join(role.text for role in opened.started)
