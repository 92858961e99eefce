"""A timeout for COMMITs. PostgreSQL has no timeout for a COMMIT that waits for a synchronous standby."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

COMMIT_SECONDS = 5.0
"""The timeout of a COMMIT."""
CANCEL_SECONDS = 1.0
"""The timeout of the cancel request."""


class Commit:
    """A running COMMIT. A timer cancels it after `COMMIT_SECONDS`."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self.was_cancelled = False
        """True if a cancel request was sent. The request may arrive late, so the connection must not be used again."""
        self._connection = connection
        self._lock = threading.Lock()
        self._has_ended = False

    def cancel(self) -> None:
        """Cancel the wait for the standby. PostgreSQL then commits with a warning."""
        with self._lock:
            if not self._has_ended:
                self.was_cancelled = True
                with suppress(psycopg.Error):
                    self._connection.cancel_safe(timeout=CANCEL_SECONDS)

    def end(self) -> None:
        """Record the end of the COMMIT. Wait for a cancel request that is being sent."""
        with self._lock:
            self._has_ended = True


@contextmanager
def bounded_commit(connection: "psycopg.Connection[Any]") -> Iterator[Commit]:
    """Cancel the COMMIT in the block after `COMMIT_SECONDS`, but never after the block."""
    commit = Commit(connection)
    timer = threading.Timer(COMMIT_SECONDS, commit.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield commit
    finally:
        timer.cancel()
        commit.end()
