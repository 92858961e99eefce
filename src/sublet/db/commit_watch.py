"""Cancel COMMITs on PostgreSQL that take too long.

PostgreSQL has no timeout for a COMMIT that waits for a synchronous standby. A cancel request ends this wait:
PostgreSQL has committed, and sends a warning.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import psycopg
from sqlalchemy import Connection

DriverConnection = psycopg.Connection[Any]
COMMIT_SECONDS = 5.0
"""The timeout of a COMMIT."""
CANCEL_SECONDS = 1.0
"""The timeout of the request that cancels a COMMIT."""


class CommitWatch:
    """A thread that cancels late COMMITs. The first COMMIT starts it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._deadlines: dict[DriverConnection, float] = {}
        """The running COMMITs, the oldest first."""
        self._thread: threading.Thread | None = None
        self._is_idle = self._is_closing = False

    @contextmanager
    def bounded(self, connection: Connection) -> Iterator[None]:
        """Send a cancel request if the COMMIT in the block takes longer than `COMMIT_SECONDS`.

        After the block no request is sent, because it would cancel another statement.
        """
        driver = driver_connection(connection)
        with self._changed:
            self._deadlines[driver] = time.monotonic() + COMMIT_SECONDS
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sublet-commit-watch", daemon=True)
                self._thread.start()
            if self._is_idle:  # otherwise the thread wakes before this deadline
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:  # waits for a cancel request that is being sent
                was_cancelled = self._deadlines.pop(driver, None) is None
            if was_cancelled:  # the request may arrive late, so the connection must not be used again
                connection.invalidate()

    def close(self) -> None:
        """Stop the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._is_closing:
                oldest = next(iter(self._deadlines), None)
                self._is_idle = oldest is None
                if oldest is None:
                    self._changed.wait()
                elif (seconds := self._deadlines[oldest] - time.monotonic()) > 0:
                    self._changed.wait(seconds)
                else:
                    del self._deadlines[oldest]
                    with suppress(psycopg.Error):
                        oldest.cancel_safe(timeout=CANCEL_SECONDS)


def driver_connection(connection: Connection) -> DriverConnection:
    """Return psycopg's connection under one of SQLAlchemy."""
    return cast("DriverConnection", connection.connection.driver_connection)
