"""How fast the service is, as ratios against a bare web application on the same server in the same run: `make bench`.

Both run as processes of their own on loopback; the load comes from this one, bounded in count and time. Absolute figures differ
from machine to machine and from day to day; the ratios hold.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SUBLET = str(Path(sys.executable).parent / "sublet")
SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
NAMES = 400
REFERENCE = """
import socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def hello(request):
    return JSONResponse({"ok": True})
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
s.bind(("127.0.0.1", 0)); s.listen(2048)
print(f"http://127.0.0.1:{s.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=[Route("/", hello)]), log_level="error", access_log=False, loop="uvloop")).run(sockets=[s])
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: answers a second, and how long one took, in milliseconds."""

    what: str
    per_second: float
    p50_ms: float
    p99_ms: float


class Connection:
    """A kept HTTP connection that sends one request at a time; as little client as will do."""

    def __init__(self, url: str, token: str) -> None:
        self._url = urlsplit(url)
        self._token = token

    async def open(self) -> None:
        """Connect."""
        assert self._url.hostname is not None
        self._reader, self._writer = await asyncio.open_connection(self._url.hostname, self._url.port)

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request and return the answer's status and body."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self._token}\r\ncontent-length: {len(content)}\r\n"
        if content:
            head += "content-type: application/json\r\n"
        self._writer.write(head.encode() + b"\r\n" + content)
        received = await self._reader.readuntil(b"\r\n\r\n")
        length = int(received.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(received[9:12]), await self._reader.readexactly(length)

    async def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        await self._writer.wait_closed()


async def measure(
    what: str, url: str, token: str, clients: int, request: Callable[[Connection], Awaitable[bool]]
) -> Measured:
    """Let clients send requests one after the other for a while, or until `request` says that there are no more."""
    durations: list[float] = []
    ends = time.perf_counter() + SECONDS

    async def client() -> None:
        connection = Connection(url, token)
        await connection.open()
        while time.perf_counter() < ends:
            started = time.perf_counter()
            if not await request(connection):
                break
            durations.append(time.perf_counter() - started)
        await connection.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    elapsed = time.perf_counter() - started
    durations.sort()
    return Measured(
        what,
        len(durations) / elapsed,
        durations[len(durations) // 2] * 1000,
        durations[int(len(durations) * 0.99)] * 1000,
    )


def get(path: str) -> Callable[[Connection], Awaitable[bool]]:
    """Return a request that reads one path, and fails the run when it isn't answered with 200."""

    async def request(connection: Connection) -> bool:
        status, body = await connection.send("GET", path)
        assert status == 200, body
        return True

    return request


def register(prefix: str, base: str) -> Callable[[Connection], Awaitable[bool]]:
    """Return a request that registers the next name with its delegation, which must be active when it is answered."""
    numbers = iter(range(NAMES))

    async def request(connection: Connection) -> bool:
        number = next(numbers, None)
        if number is None:
            return False
        body = {
            "fqdn": f"{prefix}{number}.example.test",
            "nameservers": ["ns1.provider.example", "ns2.provider.example"],
        }
        status, answer = await connection.send("POST", base + "/subdomains", body)
        assert status == 201, answer
        return True

    return request


@contextmanager
def process(words: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a process, and stop it by its process id."""
    running = subprocess.Popen(
        words, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield running
    finally:
        running.terminate()
        running.wait(20)


def sublet(environment: dict[str, str], *words: str) -> Any:
    """Run a command of the operator's."""
    done = subprocess.run(
        [SUBLET, *words, "--json"], env={**os.environ, **environment}, check=True, capture_output=True
    )
    return json.loads(done.stdout)


async def run(reference_url: str, url: str, token: str) -> list[Measured]:
    """Measure everything, the reference first."""
    base = "/api/v1"
    rows = [await measure("reference: bare application", reference_url, token, 16, get("/"))]
    rows.append(await measure("register, 1 client, until active", url, token, 1, register("one", base)))
    rows.append(await measure("register, 16 clients, until active", url, token, 16, register("many", base)))
    rows.append(await measure("GET /me", url, token, 16, get(base + "/me")))
    rows.append(
        await measure("GET /subdomains/{fqdn}", url, token, 16, get(base + "/subdomains/one0.example.test"))
    )
    rows.append(
        await measure("GET /subdomains?limit=100", url, token, 16, get(base + "/subdomains?limit=100"))
    )
    return rows


def main() -> None:
    """Start both, measure, print the table."""
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder:
        environment = {
            "SUBLET_DATABASE_URL": f"sqlite:///{folder}/registry.db",
            "SUBLET_HTTP_LISTEN": "127.0.0.1:0",
            "SUBLET_DNS_LISTEN": "127.0.0.1:0",
            "SUBLET_RATE_LIMITS": "off",
            "SUBLET_LOG_FORMAT": "json",
        }
        sublet(environment, "init")
        sublet(environment, "user", "add", "bench@example.org", "--name", "Bench")
        sublet(environment, "user", "edit", "bench@example.org", "--free-quota", "100000")
        sublet(environment, "domain", "add", "example.test", "--public-name", "Example")
        token = sublet(environment, "token", "issue", "bench@example.org", "--name", "bench")["token"]
        with (
            process([sys.executable, "-c", REFERENCE], {}) as reference,
            process([SUBLET, "serve"], environment) as service,
        ):
            assert reference.stdout is not None
            assert service.stderr is not None
            reference_url = reference.stdout.readline().strip()
            parts = urlsplit(json.loads(service.stderr.readline())["http"])
            _drain(service)
            rows = asyncio.run(run(reference_url, f"http://{parts.netloc}", token))
    print(f"{'':40} {'per second':>10} {'to reference':>13} {'p50 ms':>8} {'p99 ms':>8}")
    for row in rows:
        ratio = f"1/{rows[0].per_second / row.per_second:.1f}"
        print(f"{row.what:40} {row.per_second:10.0f} {ratio:>13} {row.p50_ms:8.1f} {row.p99_ms:8.1f}")


def _drain(service: "subprocess.Popen[str]") -> None:
    """Read the service's log away, so that its pipe never fills."""
    assert service.stderr is not None
    stream = service.stderr
    threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()


if __name__ == "__main__":
    main()
