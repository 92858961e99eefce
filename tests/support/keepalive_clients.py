"""Clients that send requests continuously over persistent connections, and record what failed."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from support.waiting import wait_until


@dataclass(slots=True)
class Hammer:
    """The number of answers that the clients got, and every request that failed."""

    answers: int = 0
    closed: int = 0
    """The number of answers with `Connection: close`."""
    failures: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_for_more(self, answers: int) -> None:
        """Wait until `answers` more requests were answered, or one failed."""
        wanted = self.answers + answers
        wait_until(lambda: self.answers >= wanted or bool(self.failures))

    def _ask(self, url: str, token: str, pause_seconds: float) -> None:
        split = urlsplit(url)
        # This client doesn't check whether the server has closed the connection before it sends, and never
        # retries.
        client = http.client.HTTPConnection(str(split.hostname), split.port, timeout=60)
        while not self._over.is_set():
            try:
                client.request("GET", split.path, headers={"Authorization": f"Bearer {token}"})
                response = client.getresponse()
                response.read()
            except (OSError, http.client.HTTPException) as error:
                with self._lock:
                    self.failures.append(repr(error))
                client.close()
                continue
            with self._lock:
                self.answers += 1
                self.closed += response.headers["Connection"] == "close"
                if response.status != 200:
                    self.failures.append(str(response.status))
            time.sleep(pause_seconds)
        client.close()


@contextmanager
def hammering(url: str, token: str, *, clients: int = 4, pause_seconds: float = 0.02) -> Iterator[Hammer]:
    """Send requests to `url` from several clients until the block ends.

    Client n waits n times `pause_seconds` after each request.
    """
    hammer = Hammer()
    threads = [
        threading.Thread(target=hammer._ask, args=(url, token, pause_seconds * number), daemon=True)
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield hammer
    finally:
        hammer._over.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
