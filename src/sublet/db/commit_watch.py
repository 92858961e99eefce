"""What bounds COMMITs: nothing of PostgreSQL's does where one waits for a synchronous standby that is away."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

COMMIT_SECONDS = 5.0
"""How long a COMMIT may wait."""
WATCH_SECONDS = 1.0
"""How often one looks for those that wait too long, and how long a cancelling may take."""


class CommitWatch:
    """Gives up COMMITs that wait too long.

    It has a thread of its own while there are any, so that it goes on whoever is cancelled or closed meanwhile: each thread that
    commits comes to an end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: set[_Wait] = set()
        self._is_watching = False

    @contextmanager
    def over(self, raw: "psycopg.Connection[Any]") -> Iterator["_Wait"]:
        """Watch over the COMMIT in the block, until the block or the wait is ended: after that, nothing cancels what the connection does."""
        wait = _Wait(raw)
        with self._lock:
            self._waits.add(wait)
            if not self._is_watching:
                threading.Thread(target=self._watch, name="sublet-commits", daemon=True).start()
                self._is_watching = True
        try:
            yield wait
        finally:
            wait.end()
            with self._lock:
                self._waits.discard(wait)

    def _watch(self) -> None:
        while True:
            time.sleep(WATCH_SECONDS)
            with self._lock:
                if not self._waits:
                    self._is_watching = False
                    return
                late = [wait for wait in self._waits if time.monotonic() - wait.since > COMMIT_SECONDS]
            for wait in late:
                # Beside each other: where the network is gone, cancelling takes its time, too.
                threading.Thread(target=wait.give_up, daemon=True).start()


class _Wait:
    """One COMMIT under way, since `since` (seconds of `time.monotonic`)."""

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self.since = time.monotonic()
        self.is_given_up = False
        """The connection was sent a cancel, which may come late: nothing else is to be done on it."""
        self._raw = raw
        self._lock = threading.Lock()
        self._has_ended = False

    def give_up(self) -> None:
        """Have PostgreSQL give up the wait; it then answers with a warning."""
        if not self._lock.acquire(blocking=False):
            return  # it is being given up already, or ends just now
        try:
            if not self._has_ended:
                self.is_given_up = True
                with suppress(psycopg.Error):
                    self._raw.cancel_safe(timeout=WATCH_SECONDS)
        finally:
            self._lock.release()

    def end(self) -> None:
        """Note that the COMMIT has ended; wait for the end of a cancelling."""
        with self._lock:
            self._has_ended = True
