"""`sublet serve` as a process that a test can kill and start again on the same ports."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from sublet.config import Settings
from support import http_clients
from support.free_ports import free_address
from support.running_service import PUBLISH_WAIT_MS, MovableClock, RunningService, initialise
from support.waiting import wait_until

SCRIPT = Path(__file__).parents[1] / "long" / "faults" / "killed_serve.py"


@dataclass(slots=True)
class ServeProcess:
    """A process of `sublet serve`. `service` is its API, name server and database."""

    service: RunningService
    log: Path
    broken: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    """More settings of the process."""
    prefix: tuple[str, ...] = ()
    """A command that executes the service in its own process, such as strace."""
    process: "subprocess.Popen[bytes] | None" = field(default=None)
    not_ready: str = ""
    """What it answered last when it wasn't ready."""

    def start(self, kill_at: str = "", *, wait: bool = True) -> None:
        """Start the process, and wait until it is ready. With `kill_at` it kills itself at this point."""
        settings = self.service.settings
        environment = {
            **os.environ,
            "SUBLET_DATABASE_URL": settings.database_url,
            "SUBLET_DATABASE_MAY_LOSE_WRITES": str(settings.database_may_lose_writes).lower(),
            "SUBLET_HTTP_LISTEN": settings.http_listen,
            "SUBLET_DNS_LISTEN": settings.dns_listen,
            "SUBLET_RATE_LIMITS": "off",
            "SUBLET_PUBLISH_WAIT_MS": str(settings.publish_wait_ms),
            "SUBLET_FREE_QUOTA": str(settings.free_quota),
            "KILL_AT": kill_at,
            "BROKEN": self.broken,
            **self.environment,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, str(SCRIPT), "serve"], stdout=log, stderr=log, env=environment
            )
        if wait:
            try:
                wait_until(self._is_ready)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self.not_ready}\n{self.log.read_text()[-4000:]}") from error

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"it ended with {self.process.returncode}"
        url = self.service.origin + "/readyz"
        try:
            answer = http_clients.get(url)
        except httpx.TransportError as error:
            self.not_ready = repr(error)
            return False
        self.not_ready = answer.text
        return answer.status_code == 200

    def ended(self) -> bool:
        """Return True if the process has ended."""
        assert self.process is not None
        return self.process.poll() is not None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit code."""
        assert self.process is not None
        self._forget_connections()  # otherwise the process would wait for these connections
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        code = self.process.wait(60)
        self._forget_connections()  # the connections have ended too
        return code

    def _forget_connections(self) -> None:
        self.service.client.close()
        self.service.client = http_clients.Client()


@contextmanager
def serve_process(
    database_url: str, folder: Path, *, broken: str = "", free_quota: int = 1000
) -> Iterator[ServeProcess]:
    """Initialise a database, yield a process for it that isn't started, and end the
    process after the test.
    """
    http, dns = free_address(), free_address()
    settings = Settings(
        database_url=database_url,
        http_listen=f"{http[0]}:{http[1]}",
        dns_listen=f"{dns[0]}:{dns[1]}",
        database_may_lose_writes=True,  # the tests' own PostgreSQL doesn't wait for the disk
        rate_limits=False,
        publish_wait_ms=PUBLISH_WAIT_MS,
        free_quota=free_quota,
    )
    service = RunningService(settings, MovableClock(), f"http://{settings.http_listen}/api/v1", dns)
    initialise(service)
    serving = ServeProcess(service, folder / f"serve-{http[1]}.log", broken)
    try:
        yield serving
    finally:
        if serving.process is not None and serving.process.poll() is None:
            serving.process.kill()
            serving.process.wait(60)
        service.client.close()
