"""The processes that are measured: `sublet` in its roles and the reference application, each a program of its own on loopback."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from serving import free_address

READY_SECONDS = 60.0
HELLO = Path(__file__).parent / "hello.py"
PLENTY = str(10**9)
SETTINGS = {
    # Limits are on, as for anybody; they are only never reached.
    "SUBLET_RATE_LIMIT_READ_PER_MINUTE": PLENTY,
    "SUBLET_RATE_LIMIT_WRITE_PER_MINUTE": PLENTY,
    "SUBLET_RATE_LIMIT_TICKET_PER_MINUTE": PLENTY,
    "SUBLET_PUBLISH_WAIT_MS": "0",
    "SUBLET_LOG_FORMAT": "json",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process and those below it have in memory, in MiB: RSS counts what they share for each, PSS once."""

    rss: float
    pss: float


@dataclass(slots=True)
class Service:
    """A running service: the processes by role, where it answers, its environment, and how long it took to be ready."""

    origin: str
    dns: tuple[str, int]
    environment: dict[str, str]
    ready_seconds: float = 0.0
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of its registry."""
        return self.environment["SUBLET_DATABASE_URL"]

    def memory(self) -> dict[str, Memory]:
        """Return what each role has in memory now."""
        return {role: memory_of(pid) for role, pid in self.pids.items()}


def tree(pid: int) -> list[int]:
    """Return the ids of a process and of all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return []
    return [pid, *(each for child in children for each in tree(int(child)))]


def memory_of(pid: int) -> Memory:
    """Return what a process and those below it have in memory."""
    found = {"Rss": 0, "Pss": 0}
    for each in tree(pid):
        rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        for name in found:
            line = re.search(rf"^{name}:\s+(\d+)", rollup, re.MULTILINE)
            found[name] += int(line[1]) if line else 0
    return Memory(found["Rss"] / 1024, found["Pss"] / 1024)


@contextmanager
def program(words: list[str], log: Path, environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program that writes into a file, and end it by its process id."""
    with log.open("ab") as out:
        process = subprocess.Popen(words, env=os.environ | environment, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@contextmanager
def hello_running(framework: str, folder: Path) -> Iterator[str]:
    """Run a reference: a bare application of "litestar" or "starlette" on the same server as ours; gives its URL."""
    host, port = free_address()
    url, log = f"http://{host}:{port}", folder / f"{framework}.log"
    with program([sys.executable, str(HELLO), framework, str(port)], log, {}) as process:
        _wait_ready(process, f"{url}/", log)
        yield url


@contextmanager
def service_running(url: str, folder: Path, environment: dict[str, str] | None = None) -> Iterator[Service]:
    """Run the service over a registry: on SQLite `sublet serve`, on PostgreSQL one process of each role (`api` has one below it)."""
    http, name_server, status = free_address(), free_address(), free_address()
    own = SETTINGS | {
        "SUBLET_DATABASE_URL": url,
        "SUBLET_HTTP_LISTEN": f"{http[0]}:{http[1]}",
        "SUBLET_DNS_LISTEN": f"{name_server[0]}:{name_server[1]}",
    }
    roles = ["serve"]
    if url.startswith("postgresql"):
        roles = ["dns", "worker", "api"]
        own["SUBLET_DNS_SERVERS"] = own["SUBLET_DNS_LISTEN"]
        own["SUBLET_WORKER_STATUS_LISTEN"] = f"{status[0]}:{status[1]}"
    own |= environment or {}
    service = Service(f"http://{http[0]}:{http[1]}", name_server, own)
    with ExitStack() as stack:
        began = time.monotonic()
        for role in roles:
            words = ["--workers", "1"] if role == "api" else []
            log = folder / f"{role}.log"
            command = [sys.executable, "-m", "sublet.cli.main", role, *words]
            process = stack.enter_context(program(command, log, own))
            service.pids[role] = process.pid
        _wait_ready(process, f"{service.origin}/readyz", log)
        service.ready_seconds = time.monotonic() - began
        yield service


def _wait_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    ends = time.monotonic() + READY_SECONDS
    while not _answers(process, url, log):
        assert time.monotonic() < ends, log.read_text()
        time.sleep(0.005)


def _answers(process: "subprocess.Popen[bytes]", url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    where = urlsplit(url)
    with closing(HTTPConnection(where.netloc, timeout=5)) as client, suppress(OSError, HTTPException):
        client.request("GET", where.path)
        return client.getresponse().status == 200
    return False
