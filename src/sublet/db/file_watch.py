"""Check that the files of an open SQLite database are still at its path, and have the content of this
registry.

SQLite keeps using an open file that was deleted, moved or replaced: commits succeed, and their data is lost.

Commits go to the WAL (`-wal`). Only the serving process checkpoints the WAL, that is, writes it into the
file; it does so each second. If the file changes at another time, another program has overwritten it.
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
"""The maximum time between two checks, and the time between two checkpoints."""
RETRY_AFTER_SECONDS = 10
WAL, SHM = "-wal", "-shm"
_CONTENT = (
    "SELECT (SELECT at FROM audit_events ORDER BY id LIMIT 1), coalesce((SELECT max(id) FROM "
    "audit_events), 0)"
)
_RESTORE = "Stop Sublet and restore a backup (`sublet restore`)."
_ADVICE = f"Put the right files back. If you can't: {_RESTORE}"
log = structlog.get_logger()

Identity = tuple[int, int] | None
"""Device and inode of the file at a path; None if there is no file."""
Content = tuple[str | None, int]
"""The id of a registry, which is the time of its first audit event, and the id of its newest audit event."""


def is_damage(error: BaseException | None) -> bool:
    """True if an error of SQLite says that the file is malformed, or no database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class FileWatch:
    """Watches the files of an open database. The writer's thread checks; other threads read `problem`.

    `is_serving` is True in the only process that checkpoints the WAL. Other processes can't detect an
    overwritten file.
    """

    def __init__(self, path: Path, *, is_serving: bool) -> None:
        self._is_serving = is_serving
        self._change: Problem | None = None
        self._damage: Problem | None = None
        self._path = path
        self._lock = threading.Lock()
        self._keeper: sqlite3.Connection | None = None
        self._paths: tuple[Path, ...] = ()
        self._opened: tuple[Identity, ...] = ()
        self._content: Content = (None, 0)
        self._modified: tuple[int, ...] = ()
        self._checkpointed_at = 0.0
        self._is_wal_saved = False

    @property
    def problem(self) -> Problem | None:
        """Why the database refuses writes, or None."""
        return self._change or self._damage

    def open(self) -> None:
        """Remember the files at the first call, and raise if they have changed later.

        Call this before and after each connect.

        From then on a connection stays open, because SQLite deletes the WAL when the last connection closes.

        Raises:
            Unavailable: the files have changed.
            sqlite3.DatabaseError: the database can't be opened.
        """
        with self._lock:
            if self._keeper is None:
                # SQLite puts the other files beside the target of a symbolic link.
                target = self._path.resolve()
                self._paths = (self._path, *(Path(f"{target}{each}") for each in (WAL, SHM)))
                before = _identity(self._path)
                keeper = sqlite3.connect(self._path, timeout=1, check_same_thread=False, isolation_level=None)
                try:
                    keeper.execute("PRAGMA journal_mode=WAL")
                    keeper.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the WAL
                except BaseException:
                    keeper.close()
                    raise
                opened = tuple(map(_identity, self._paths))
                if before not in (None, opened[0]):
                    keeper.close()
                    raise _files_changed_refusal(is_unknown=False)
                self._keeper, self._opened = keeper, opened
                self._modified = _modified(self._path)
            if self._changed():
                raise _files_changed_refusal(is_unknown=False)

    def refuse_write(self) -> None:
        """Raise `Unavailable` if the database refuses writes."""
        self.check()
        if self.problem is not None:
            raise (
                _files_changed_refusal(is_unknown=False) if self.problem.must_stop else self.damage_refusal()
            )

    def refuse_acknowledgement(self) -> None:
        """Raise `Unavailable` if the last commit must not be acknowledged."""
        self.check()
        if self.problem is not None and self.problem.must_stop:
            raise _files_changed_refusal(is_unknown=True)

    def record_damage(self, fault: str) -> None:
        """Refuse all writes from now on, because SQLite found the database malformed."""
        if self._damage is None:
            self._damage = Problem(
                f"{self._path} is damaged: {' '.join(fault.split())}. {_RESTORE}", must_stop=False
            )

    def damage_refusal(self) -> Unavailable:
        """Return the refusal of a request to a damaged database.

        Its note has the damage, which only the operator's commands show.
        """
        refusal = Unavailable(
            "The registry's database is damaged. Ask the operator to restore a backup.",
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )
        if self._damage is not None:
            refusal.add_note(self._damage.message)
        return refusal

    def check(self) -> None:
        """Compare the files with those that were opened, and update `problem`.

        In the serving process, checkpoint the WAL each `CHECK_SECONDS`.
        """
        if self._keeper is None:
            return
        changed = self._changed()
        if changed:
            if self._change is None:
                self._change = Problem(f"{' '.join(changed)} {_ADVICE}", must_stop=True)
                log.critical("database_files_changed", reason=self._change.message)
            self._save_wal()
            return
        if self._change is not None:
            self._change, self._is_wal_saved, self._modified = None, False, _modified(self._path)
            log.warning("database_files_back")
        if not self._is_serving or (self._damage is not None and self._damage.must_stop):
            return
        modified = _modified(self._path)
        if self._modified and modified and modified != self._modified:
            self._record_overwritten("another program wrote into it")
        elif time.monotonic() >= self._checkpointed_at + CHECK_SECONDS:
            self._checkpointed_at = time.monotonic()
            if self._checkpoint("PASSIVE"):
                self._detect_overwrite()

    def close(self) -> None:
        """Close the connection that `open` keeps open."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _changed(self) -> list[str]:
        """Return a sentence for each path that no longer has the opened file."""
        now = [_identity(path) for path in self._paths]
        return [
            f"{path} was {'deleted or moved' if identity is None else 'replaced'} while it was in use."
            for path, identity, opened in zip(self._paths, now, self._opened, strict=True)
            if identity != opened
        ]

    def _save_wal(self) -> None:
        """Checkpoint the WAL into the opened file, even if the file was moved or deleted.

        A moved file is then complete without its WAL, a deleted WAL loses nothing, and SQLite can't apply
        this WAL to a new file at the path.
        """
        if self._is_wal_saved or list(map(_identity, self._paths[:2])) == list(self._opened[:2]):
            # only the `-shm` file was replaced, so another process may use the WAL without seeing our locks
            return
        self._is_wal_saved = self._checkpoint("TRUNCATE")

    def _checkpoint(self, mode: str) -> bool:
        """Checkpoint the WAL into the opened file.

        Return False if a part of the WAL is left, because of a reader or a full disk.
        """
        assert self._keeper is not None  # noqa: S101 - the callers have checked
        try:
            is_busy, in_wal, written = self._keeper.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.DatabaseError as error:
            log.error("database_log_not_saved", error=str(error))  # noqa: TRY400 - the trace adds nothing
            return False
        finally:
            self._modified = _modified(self._path)
        return not is_busy and in_wal == written

    def _detect_overwrite(self) -> None:
        """Compare the audit events in the file, read without the WAL, with those at the last check.

        Call this after a complete checkpoint.

        This detects a file that was overwritten during a checkpoint.
        """
        try:
            found = self._read_content()
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._record_overwritten(str(error))
            return
        registry_id, newest_id = self._content
        if registry_id not in (None, found[0]):
            self._record_overwritten("it has another registry")
        elif newest_id > found[1]:
            self._record_overwritten("it has an older state")
        else:
            self._content = found

    def _record_overwritten(self, how: str) -> None:
        self._damage = Problem(f"{self._path} was overwritten: {how}. {_RESTORE}", must_stop=True)
        log.critical("database_files_changed", reason=self._damage.message)

    def _read_content(self) -> Content:
        address = f"file:{quote(str(self._path))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True, timeout=1)) as connection:
            try:
                found: Content = connection.execute(_CONTENT).fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                return None, 0  # `audit_events` doesn't exist before `sublet init`
        return found


def _files_changed_refusal(*, is_unknown: bool) -> Unavailable:
    message = (
        "The registry's database files were changed, so it can't store anything. Ask the operator to put "
        "the right files back."
    )
    if is_unknown:
        message = (
            "The registry's database files were changed while this change was stored, so its outcome is "
            "unknown. Check the result before you try again."
        )
    return Unavailable(message, retry_after_seconds=RETRY_AFTER_SECONDS)


def _identity(path: Path) -> Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _modified(path: Path) -> tuple[int, ...]:
    """Return the time of a file's last change, and its size; empty if the file is missing, which the next
    check detects.
    """
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size
