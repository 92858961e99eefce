"""Check that the files of an open SQLite database are still the ones at its path, with the content of this registry.

SQLite keeps using a file that was deleted, moved or replaced after it was opened. A commit succeeds, and what it wrote is lost.
"""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import structlog

from sublet.db.model import Problem
from sublet.errors import Unavailable

CHECK_SECONDS = 1.0
"""The longest time between two checks."""
ATTEMPTS, ATTEMPT_SECONDS = 4, 0.05
"""A wrong content must be read this often before it counts."""
RETRY_AFTER_SECONDS = 10
LOG, INDEX = "-wal", "-shm"
_CONTENT = "SELECT (SELECT at FROM audit_events ORDER BY id LIMIT 1), coalesce((SELECT max(id) FROM audit_events), 0)"
_RESTORE = "Stop Sublet and restore a backup (`sublet restore`)."
_ADVICE = f"Put the right files back. If you can't: {_RESTORE}"
log = structlog.get_logger()

Identity = tuple[int, int] | None
"""Device and inode of the file at a path; None if there is none."""
Content = tuple[str | None, int]
"""The id of a registry, which is the instant of its first audit event, and the id of its newest event."""


def is_damage(error: BaseException | None) -> bool:
    """True if SQLite says that the file is malformed, or is no database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class FileWatch:
    """The watch over the files of one open database. The writer's thread checks; other threads read `problem`."""

    def __init__(self, path: str) -> None:
        self._away: Problem | None = None
        self._fault: Problem | None = None
        self._path = Path(path).absolute()
        self._lock = threading.Lock()
        self._held: sqlite3.Connection | None = None
        self._paths: tuple[Path, ...] = ()
        self._opened: tuple[Identity, ...] = ()
        self._content: Content = (None, 0)
        self._modified_ns = 0
        self._checked_at = 0.0
        self._is_saved = False

    @property
    def problem(self) -> Problem | None:
        """Why the database refuses writes; None if it doesn't."""
        return self._away or self._fault

    def open(self) -> None:
        """Note the files, unless that was done; then refuse if they have changed. Call this before and after each connect.

        A connection stays open from here on, because SQLite deletes the log when the last one closes.

        Raises:
            Unavailable: the files have changed.
            sqlite3.DatabaseError: the database can't be opened.
        """
        with self._lock:
            if self._held is None:
                # SQLite puts the other files beside the target of a symbolic link.
                target = self._path.resolve()
                self._paths = (self._path, *(target.with_name(target.name + each) for each in (LOG, INDEX)))
                before = _identity(self._path)
                held = sqlite3.connect(self._path, timeout=1, check_same_thread=False, isolation_level=None)
                try:
                    held.execute("PRAGMA journal_mode=WAL")
                    held.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
                except BaseException:
                    held.close()
                    raise
                opened = tuple(map(_identity, self._paths))
                if before not in (None, opened[0]):
                    held.close()
                    raise _refusal(is_unknown=False)
                self._held, self._opened = held, opened
            if self._changed():
                raise _refusal(is_unknown=False)

    def refuse_write(self) -> None:
        """Raise `Unavailable` if nothing may be written now."""
        self.check()
        if self.problem is not None:
            raise _refusal(is_unknown=False) if self.problem.ends else damaged()

    def refuse_acknowledgement(self) -> None:
        """Raise `Unavailable` if what was just committed must not be acknowledged."""
        self.check()
        if self.problem is not None and self.problem.ends:
            raise _refusal(is_unknown=True)

    def note_damage(self, fault: str) -> None:
        """Refuse all writes from now on, because SQLite found the database malformed."""
        if self._fault is None:
            self._fault = Problem(
                f"{self._path} is damaged: {' '.join(fault.split())}. {_RESTORE}", ends=False
            )

    def check(self) -> None:
        """Update `problem`: compare the files, and the content if the file was written to or `CHECK_SECONDS` have passed."""
        if self._held is None:
            return
        changed = self._changed()
        if changed:
            if self._away is None:
                self._away = Problem(f"{' '.join(changed)} {_ADVICE}", ends=True)
                log.critical("database_files_changed", reason=self._away.message)
            self._save_log()
            return
        if self._away is not None:
            self._away, self._is_saved = None, False
            log.warning("database_files_back")
        modified_ns = _modified_ns(self._path)
        if modified_ns == self._modified_ns and time.monotonic() < self._checked_at + CHECK_SECONDS:
            return
        self._modified_ns, self._checked_at = modified_ns, time.monotonic()
        fault = self._content_fault()
        if fault is not None and (self._fault is None or not self._fault.ends):
            self._fault = Problem(f"{self._path} was overwritten: {fault}. {_RESTORE}", ends=True)
            log.critical("database_files_changed", reason=self._fault.message)

    def close(self) -> None:
        """Close the connection that kept the log."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _changed(self) -> list[str]:
        """Return a sentence for each file that isn't the one that was opened."""
        now = [_identity(path) for path in self._paths]
        return [
            f"{path} was {'deleted or moved' if identity is None else 'replaced'} while it was in use."
            for path, identity, opened in zip(self._paths, now, self._opened, strict=True)
            if identity != opened
        ]

    def _save_log(self) -> None:
        """Write what only the log has into the file that was opened, wherever it is now.

        So a file that was moved is whole, a deleted log loses nothing, and the log isn't taken for that of another file.
        """
        if self._is_saved or self._held is None:
            return
        if list(map(_identity, self._paths[:2])) == list(self._opened[:2]):
            return  # only the index: another process may use the log without our locks
        try:
            self._is_saved = not self._held.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            log.error("database_log_not_saved", error=str(error))  # noqa: TRY400 - the trace adds nothing

    def _content_fault(self) -> str | None:
        """Return how a new connection finds another content than the last time, or None.

        Not seen: an overwritten page that the log has too. The file isn't read without its log, because its pages don't fit together while
        only a part of the log is written into it.
        """
        fault = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(ATTEMPT_SECONDS)
            try:
                found = self._read_content()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    return None  # it can't be read now
                fault = str(error)
                continue
            registry_id, newest_id = self._content
            if registry_id in (None, found[0]) and newest_id <= found[1]:
                self._content = found
                return None
            fault = "it has another registry" if found[0] != registry_id else "it has an older state"
        return fault

    def _read_content(self) -> Content:
        address = f"file:{quote(str(self._path))}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=1)) as connection:
            try:
                found: Content = connection.execute(_CONTENT).fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                return None, 0  # it has no table of events
        return found


def damaged() -> Unavailable:
    """Return the refusal of what the damage of the database prevents."""
    return Unavailable(
        "The registry's database is damaged. Ask the operator to restore a backup.",
        retry_after_seconds=RETRY_AFTER_SECONDS,
    )


def _refusal(*, is_unknown: bool) -> Unavailable:
    outcome = (
        "while this was stored, and it isn't known whether it was. Send the same again later: with the same Idempotency-Key "
        "it is done once."
        if is_unknown
        else "while the registry was running, so nothing can be stored. Ask the operator to put the right files back."
    )
    return Unavailable(
        f"The registry's database files were changed {outcome}", retry_after_seconds=RETRY_AFTER_SECONDS
    )


def _identity(path: Path) -> Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
