"""Announce commits to other processes with LISTEN and NOTIFY, on a separate connection and thread.

A NOTIFY inside a transaction makes all commits of the database wait for each other. So each NOTIFY follows
the commits that it announces: all since the last NOTIFY. Waiting processes also poll, so a lost notification
only costs time.
"""

import os
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import psycopg
import structlog

from sublet.db.marks import DELETE_OLD, DELETED_MARKS_MAX

CHANNEL = "sublet_changes"
RECONNECT_MAX_SECONDS = 5.0
DELETE_MARKS_SECONDS = 60.0
"""The interval between deletions of old marks, before jitter."""
CLOSE_SECONDS = 5.0
"""The maximum wait for the last announcement when a process ends."""
log = structlog.get_logger()


class Announcements:
    """Announces this process's commits (`announce_soon`), and calls `on_change` when another process
    announces a commit.

    The first call of `announce_soon` or `listen` starts the thread, which also deletes old commit marks.
    """

    def __init__(self, address: str, on_change: Callable[[], None]) -> None:
        self._address = address
        self._on_change = on_change
        self._name = f"{os.getpid()}-{os.urandom(6).hex()}"
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.settimeout(0)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_due = False
        self._is_closing = False
        self._delete_marks_at = time.monotonic() + DELETE_MARKS_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
        self.is_listening = False
        """True while notifications arrive. Otherwise `changed` polls more often."""

    def listen(self) -> None:
        """Start the thread if it isn't running."""
        with self._lock:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name="sublet-announcements", daemon=True)
                self._thread.start()

    def announce_soon(self) -> None:
        """Announce a commit soon."""
        if not self._is_due:
            self._is_due = True
            self._wake()
            self.listen()

    def close(self) -> None:
        """Send the last announcement and stop, without waiting for a database that is down."""
        with self._lock:
            self._is_closing = True
        self._wake()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
        if self._thread is None or not self._thread.is_alive():
            self._wake_sender.close()
            self._wake_receiver.close()

    def _wake(self) -> None:
        with suppress(OSError):  # the buffer is full, so the thread wakes anyway; or the socket is closed
            self._wake_sender.send(b"!")

    def _run(self) -> None:
        pause = 0.0
        while True:
            try:
                with closing(psycopg.connect(self._address, autocommit=True)) as connection:
                    # An announcement need not survive a crash, so its commit doesn't wait for the disk or a
                    # standby.
                    connection.execute(f"SET synchronous_commit = off; LISTEN {CHANNEL}")
                    self.is_listening, pause = True, 0.0
                    self._on_change()  # other processes may have committed before LISTEN
                    self._announce_and_listen(connection)
            except (psycopg.Error, OSError) as error:
                if pause == 0.0 and not self._is_closing:
                    log.warning("announcements_lost", error=str(error).strip())
            finally:
                self.is_listening = False
            if self._is_closing:
                return
            pause = min(RECONNECT_MAX_SECONDS, 2 * pause or 0.1)
            self._pause(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret

    def _pause(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while not self._is_closing and (left := ends - time.monotonic()) > 0:
            self._wait(left)

    def _announce_and_listen(self, connection: "psycopg.Connection[Any]") -> None:
        while True:
            if self._is_due:
                self._is_due = False  # before the NOTIFY, because a commit after it needs another NOTIFY
                try:
                    connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, self._name])
                except psycopg.Error:
                    self._is_due = True
                    raise
            elif self._is_closing:
                return
            elif time.monotonic() >= self._delete_marks_at:
                self._delete_marks(connection)
            # Notifications that arrived with a response don't make the socket readable, so they are read
            # before the wait.
            notifications = list(connection.notifies(timeout=0))
            if any(each.payload != self._name for each in notifications):
                self._on_change()
            if not (self._is_due or self._is_closing):
                self._wait(self._delete_marks_at - time.monotonic(), connection.fileno())

    def _wait(self, seconds: float, *more: int) -> None:
        with selectors.DefaultSelector() as selector:
            for each in (self._wake_receiver.fileno(), *more):
                selector.register(each, selectors.EVENT_READ)
            ready = selector.select(max(0.0, seconds))
        if any(key.fd == self._wake_receiver.fileno() for key, _ in ready):
            self._wake_receiver.recv(4096)

    def _delete_marks(self, connection: "psycopg.Connection[Any]") -> None:
        is_full = False
        try:
            is_full = connection.execute(DELETE_OLD).rowcount == DELETED_MARKS_MAX
        except psycopg.ProgrammingError as error:  # this role may not delete marks, but another process may
            log.warning("commit_marks_kept", error=str(error).strip())
        if not is_full:
            self._delete_marks_at = time.monotonic() + DELETE_MARKS_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, no secret
