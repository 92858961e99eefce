"""Load: prepared requests, sent by `wrk` from a process of its own, as fast as they are answered or at a rate."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

LUA = Path(__file__).parent / "load.lua"
CLIENTS = 16
OPEN_CONNECTIONS = 128
"""How many connections a load at a rate has: far more than are in use at a time, so that requests begin when they are due."""
LEAD_SECONDS = 1
"""How long before the first request of a load at a rate its connections are opened: all at once, as no clients do."""

KEPT_UP = 0.8


@dataclass(frozen=True, slots=True)
class Request:
    """One request to send; `path` has `/api/v1` in it, `body` is JSON, `key` an `Idempotency-Key`."""

    method: str
    path: str
    token: str = ""
    body: str = ""
    key: str = ""

    def headers(self) -> dict[str, str]:
        """Return its own header fields."""
        given = {
            "authorization": f"Bearer {self.token}" if self.token else "",
            "content-type": "application/json" if self.body else "",
            "idempotency-key": self.key,
        }
        return {name: value for name, value in given.items() if value}

    def wire(self, host: str) -> bytes:
        """Return it as HTTP/1.1."""
        content = self.body.encode()
        lines = [f"{self.method} {self.path} HTTP/1.1", f"host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.headers().items()]
        lines += [f"content-length: {len(content)}"] if content else []
        return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass(frozen=True, slots=True)
class Load:
    """What became of a load: answers a second, milliseconds for one.

    `refused` are answers of 400 and above. `asked` is how many a second were to be sent, where the load had a rate. `late` are requests of a load at a rate that began more than a millisecond late, since
    no connection was free.
    """

    per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    requests: int
    refused: int
    late: int
    asked: float | None = None

    @property
    def kept_up(self) -> bool:
        """Whether what was to be sent was answered: nearly all of it, since the last requests are under way in the end."""
        return self.asked is None or self.per_second >= KEPT_UP * self.asked


class LoadFailed(Exception):  # noqa: N818 - told to people
    """The load was not the one that was meant; the message says why."""


def run_load(
    url: str,
    requests: Iterable[Request],
    seconds: int,
    *,
    clients: int = CLIENTS,
    rate: float | None = None,
    again: bool,
) -> Load:
    """Send requests for so many seconds to the server at a URL, and return what became of them.

    With a `rate` (a second) they begin when they are due, whether those before are answered or not, as long as one of 128 connections is
    free; the first a second after the connections were opened. `again` sends them round and round.

    Raises:
        LoadFailed: there were fewer requests than could be sent; or connections broke.
    """
    where = urlsplit(url)
    lead = 0 if rate is None else LEAD_SECONDS
    with tempfile.NamedTemporaryFile(prefix="sublet-load-") as file:
        for each in requests:
            wire = each.wire(where.netloc)
            file.write(b"%d\n" % len(wire) + wire)
        file.flush()
        words = [
            "wrk",
            "-t1",
            f"-c{clients if rate is None else OPEN_CONNECTIONS}",
            f"-d{seconds + lead}s",
            "--timeout",
            "30s",
        ]
        words += ["-s", str(LUA), f"http://{where.netloc}/", "--", file.name, "round" if again else "once"]
        words += [] if rate is None else [f"{rate:.3f}", f"{lead}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + lead + 60, check=False)
    result = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not result:
        raise LoadFailed(f"wrk: {done.stdout}{done.stderr}")
    found = json.loads(result[0].removeprefix("RESULT "))
    if found["exhausted"]:
        raise LoadFailed(
            f"{found['requests']} requests in {seconds} s: more were wanted than had been prepared"
        )
    if found["socket"]:
        raise LoadFailed(f"{found['socket']} connections broke or waited longer than 30 s")
    return Load(
        per_second=found["requests"] / (found["seconds"] - lead),
        p50_ms=found["p50_ms"],
        p99_ms=found["p99_ms"],
        max_ms=found["max_ms"],
        requests=found["requests"],
        refused=found["status"],
        late=found["late"],
        asked=rate,
    )
