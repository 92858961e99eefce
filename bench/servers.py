"""The processes under measurement on loopback: `sublet` in its roles, and the references of the reads."""

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

from support.free_ports import free_address

READY_SECONDS = 60.0
REFERENCES = Path(__file__).parent
PLENTY = str(10**9)
SETTINGS = {
    # The defaults, but with rate limits that the load never reaches.
    "SUBLET_RATE_LIMIT_READ_PER_MINUTE": PLENTY,
    "SUBLET_RATE_LIMIT_WRITE_PER_MINUTE": PLENTY,
    "SUBLET_RATE_LIMIT_ADDRESS_PER_MINUTE": PLENTY,
    "SUBLET_RATE_LIMIT_NETWORK_PER_MINUTE": PLENTY,
    "SUBLET_NAMESERVER_CHANGES_PER_DAY": "0",
    "SUBLET_LOG_FORMAT": "json",
}


@dataclass(slots=True)
class Service:
    """A running service: the URL of its API's host, the database, process ids by role, and how long it took
    to start.
    """

    origin: str
    database_url: str
    ready_seconds: float = 0.0
    pids: dict[str, int] = field(default_factory=dict)

    def memory_mib(self) -> float:
        """Return the memory of all processes in MiB; what processes share counts once (PSS)."""
        return sum(_pss_mib(each) for pid in self.pids.values() for each in _tree(pid))


def _tree(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _pss_mib(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


@contextmanager
def program(words: list[str], log: Path, environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program that logs into a file; stop it at the end."""
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
def reference_running(folder: Path, name: str, *words: str) -> Iterator[str]:
    """Run a reference, `hello` or `by_hand` with the address of the database; yields its URL."""
    host, port = free_address()
    url, log = f"http://{host}:{port}", folder / f"{name}.log"
    command = [sys.executable, str(REFERENCES / f"{name}.py"), str(port), *words]
    with program(command, log, {}) as process:
        _wait_until_ready(process, f"{url}/", log)
        yield url


@contextmanager
def service_running(
    database_url: str, folder: Path, environment: dict[str, str] | None = None
) -> Iterator[Service]:
    """Run the service: on SQLite `sublet serve`, on PostgreSQL `api --workers 1`, `worker` and `dns`."""
    http, name_server, status = free_address(), free_address(), free_address()
    settings = SETTINGS | {
        "SUBLET_DATABASE_URL": database_url,
        "SUBLET_HTTP_LISTEN": f"{http[0]}:{http[1]}",
        "SUBLET_DNS_LISTEN": f"{name_server[0]}:{name_server[1]}",
    }
    roles = [["serve"]]
    if database_url.startswith("postgresql"):
        roles = [["dns"], ["worker"], ["api", "--workers", "1"]]
        settings["SUBLET_DNS_SERVERS"] = settings["SUBLET_DNS_LISTEN"]
        settings["SUBLET_WORKER_STATUS_LISTEN"] = f"{status[0]}:{status[1]}"
    service = Service(f"http://{http[0]}:{http[1]}", database_url)
    with ExitStack() as stack:
        began = time.monotonic()
        for words in roles:
            log = folder / f"{words[0]}.log"
            command = [sys.executable, "-m", "sublet.cli.main", *words]
            process = stack.enter_context(program(command, log, settings | (environment or {})))
            service.pids[words[0]] = process.pid
        _wait_until_ready(process, f"{service.origin}/readyz", log)
        service.ready_seconds = time.monotonic() - began
        yield service


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    ends = time.monotonic() + READY_SECONDS
    while not _answers(process, url, log):
        assert time.monotonic() < ends, log.read_text()
        time.sleep(0.005)


def _answers(process: "subprocess.Popen[bytes]", url: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    where = urlsplit(url)
    with closing(HTTPConnection(where.netloc, timeout=5)) as client, suppress(OSError, HTTPException):
        client.request("GET", where.path)
        return client.getresponse().status in (200, 404)
    return False
