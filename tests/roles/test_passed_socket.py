"""A socket that outlives the process: passed as by systemd, with the notification that
the process is ready.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sublet.config import Settings
from support import http_clients
from support.free_ports import free_address
from support.keepalive_clients import hammering
from support.repetitions import share
from support.role_processes import apart
from support.running_service import MovableClock, RunningService, initialise
from support.serve_process import serve_process
from support.waiting import ENOUGH_SECONDS

pytestmark = pytest.mark.slow

PASS = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": sys.argv[2]}
os.execv(sys.executable, [sys.executable, "-m", "sublet.cli.main", *sys.argv[3:]])
"""


class Passing:
    """Starts `sublet WORDS` with a socket as its descriptor 3, and receives its notifications."""

    def __init__(
        self, listening: socket.socket, told: socket.socket, environment: dict[str, str], log: Path
    ) -> None:
        self._listening = listening
        self._told = told
        self.log = log
        self._environment = {**environment, "NOTIFY_SOCKET": str(told.getsockname())}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str, sockets: int = 1) -> "subprocess.Popen[bytes]":
        """Start it."""
        fd = self._listening.fileno()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PASS, str(fd), str(sockets), *words],
                env=self._environment,
                pass_fds=(fd,),
                stderr=log,
            )
        return self.process

    def hear(self) -> str:
        """Return the process's next notification."""
        try:
            return self._told.recv(1000).decode()
        except TimeoutError:
            raise AssertionError(f"it tells nothing: {self.log.read_text()}") from None


@contextmanager
def passing(folder: Path, environment: dict[str, str]) -> Iterator[tuple[Passing, str]]:
    """Return a listening socket to pass, and its origin."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=2048) as listening,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
    ):
        told.bind(str(folder / "notify"))
        told.settimeout(ENOUGH_SECONDS)
        opened = Passing(listening, told, environment, folder / "log")
        try:
            yield opened, "http://{}:{}".format(*listening.getsockname())
        finally:
            if opened.process is not None:
                if opened.process.poll() is None:
                    opened.process.kill()
                opened.process.wait()


def test_serve_is_restarted_under_load_and_no_request_fails(tmp_path: Path) -> None:
    with serve_process(f"sqlite:///{tmp_path}/registry.db", tmp_path) as serving:
        settings = serving.service.settings
        environment = {
            **os.environ,
            "SUBLET_DATABASE_URL": settings.database_url,
            "SUBLET_HTTP_LISTEN": settings.http_listen,
            "SUBLET_DNS_LISTEN": settings.dns_listen,
            "SUBLET_RATE_LIMITS": "off",
            "SUBLET_LOG_LEVEL": "error",
        }
        token = serving.service.add_user().token
        with passing(tmp_path, environment) as (service, origin):
            service.start("serve")
            assert service.hear() == "READY=1"
            with hammering(f"{origin}/api/v1/me", token) as hammer:
                for _ in range(share(1, whole=3)):
                    hammer.wait_for_more(50)
                    assert service.process is not None
                    service.process.send_signal(signal.SIGTERM)
                    assert service.hear() == "STOPPING=1"
                    assert service.process.wait(60) == 0
                    service.start("serve")
                    assert service.hear() == "READY=1"
                hammer.wait_for_more(50)
            assert hammer.failures == []
            with pytest.raises(httpx.ConnectError):
                http_clients.get(f"http://{settings.http_listen}/healthz")


def test_api_serves_on_the_socket_that_was_passed(postgresql_server: str, tmp_path: Path) -> None:
    with (
        apart(postgresql_server, tmp_path) as roles,
        passing(tmp_path, roles.environment(log_level="error")) as (service, origin),
    ):
        process = service.start("api", "--workers", "2")
        assert service.hear() == "READY=1"
        assert http_clients.get(f"{origin}/readyz").json()["ok"]
        with pytest.raises(httpx.ConnectError):
            http_clients.get(f"http://{roles.service.settings.http_listen}/healthz")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize("wrong", ["two", "udp", "unix"])
def test_anything_but_one_listening_socket_is_refused(tmp_path: Path, wrong: str) -> None:
    host, port = free_address()
    settings = Settings(database_url=f"sqlite:///{tmp_path}/registry.db", dns_listen=f"{host}:{port}")
    initialise(RunningService(settings, MovableClock()))
    environment = {
        **os.environ,
        "SUBLET_DATABASE_URL": settings.database_url,
        "SUBLET_DNS_LISTEN": settings.dns_listen,
    }
    family = socket.AF_UNIX if wrong == "unix" else socket.AF_INET
    kind = socket.SOCK_DGRAM if wrong == "udp" else socket.SOCK_STREAM
    with socket.socket(family, kind) as passed, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        passed.bind(str(tmp_path / "socket") if wrong == "unix" else ("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            passed.listen()
        told.bind(str(tmp_path / "notify"))
        service = Passing(passed, told, environment, tmp_path / "log")
        process = service.start("serve", sockets=2 if wrong == "two" else 1)
        assert process.wait(60) == 3
    errors = service.log.read_text()
    assert ("2 sockets were passed" if wrong == "two" else "doesn't listen for TCP") in errors
