"""Load from `wrk` in a process of its own: prepared requests, as fast as they are answered or at a fixed
rate.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

LUA = Path(__file__).parent / "wrk.lua"
CLIENTS = 16
CONNECTIONS_AT_A_RATE = 128
LEAD_SECONDS = 1
"""A load at a fixed rate opens its connections all at once; this long before the first request."""
KEPT_UP = 0.8
"""The share of a load at a fixed rate that must be answered; the last requests are still under way at the
end.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request; `path` includes `/api/v1`, `body` is JSON, `key` is an `Idempotency-Key`."""

    method: str
    path: str
    token: str = ""
    body: str = ""
    key: str = ""

    def wire(self, host: str) -> bytes:
        """Return the bytes of this request in HTTP/1.1."""
        content = self.body.encode()
        lines = [f"{self.method} {self.path} HTTP/1.1", f"host: {host}"]
        lines += [f"authorization: Bearer {self.token}"] if self.token else []
        lines += [f"idempotency-key: {self.key}"] if self.key else []
        lines += ["content-type: application/json", f"content-length: {len(content)}"] if content else []
        return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass(frozen=True, slots=True)
class Load:
    """The outcome of a load: answers per second, delays, and `refused`, the answers with a status of 400 or
    above.
    """

    per_second: float
    p50_ms: float
    p99_ms: float
    requests: int
    refused: int


class LoadError(Exception):
    """wrk did not send the intended load; the message says why."""


def run_load(
    url: str,
    requests: Iterable[Request],
    seconds: float,
    *,
    clients: int = CLIENTS,
    rate: float | None = None,
    again: bool,
) -> Load:
    """Send requests to the server at `url` for `seconds`, and return the outcome.

    Without `rate`, each of `clients` connections sends its next request when the last one is answered. With
    `rate`, requests start by a timetable, `rate` a second; if the server falls behind, p99 is the whole time.
    `again` repeats the requests when all were sent.

    Raises:
        LoadError: wrk failed, too few requests were prepared, or connections broke.
    """
    host = urlsplit(url).netloc
    lead = 0 if rate is None else LEAD_SECONDS
    with tempfile.NamedTemporaryFile(prefix="sublet-load-") as file:
        for each in requests:
            wire = each.wire(host)
            file.write(b"%d\n" % len(wire) + wire)
        file.flush()
        connections = clients if rate is None else CONNECTIONS_AT_A_RATE
        # wrk takes whole seconds.
        words = ["wrk", "-t1", f"-c{connections}", f"-d{int(seconds) + lead}s", "--timeout", "30s"]
        words += ["-s", str(LUA), f"http://{host}/", "--", file.name, "again" if again else "once"]
        words += [] if rate is None else [f"{rate:.3f}", f"{lead}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 90, check=False)
    result = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not result:
        raise LoadError(f"wrk failed: {done.stdout}{done.stderr}")
    found = json.loads(result[0].removeprefix("RESULT "))
    if found["exhausted"]:
        raise LoadError(f"wrk sent {found['requests']} requests in {seconds} s; prepare more")
    if found["socket"]:
        raise LoadError(f"{found['socket']} connections broke or timed out")
    per_second = found["requests"] / (found["seconds"] - lead)
    kept_up = rate is None or per_second >= KEPT_UP * rate
    p99_ms = found["p99_ms"] if kept_up else seconds * 1000
    return Load(per_second, found["p50_ms"], p99_ms, found["requests"], found["status"])
