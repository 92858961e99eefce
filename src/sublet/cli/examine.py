"""Examine a copy of a registry: what it contains, and which invariants it breaks."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sublet import audit
from sublet.accounts.store import count_users
from sublet.cli.output import as_instant, facts
from sublet.cli.session import Session
from sublet.counted import counted
from sublet.db import Tx, utc_now
from sublet.doctor.checks import check_all
from sublet.doctor.model import Violation
from sublet.errors import Conflict
from sublet.schema_revision import find_revision, is_usable, known_revisions, needed_revision
from sublet.sqlite_file import opened, refuse_broken, sqlite_path
from sublet.subdomains.sweep.store import count_names

SHOWN_MAX = 5
"""How many broken invariants the lines show; --json has all."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a copy. `violations` is None if the schema is older: then the doctor can't check it."""

    schema: str
    names: int
    users: int
    newest_change_at: datetime | None
    size_bytes: int
    violations: list[Violation] | None

    @property
    def is_older(self) -> bool:
        """True if `sublet migrate` must upgrade the copy before it can be used."""
        return self.schema in known_revisions()[:-1]

    def lines(self) -> tuple[str, ...]:
        """Return the contents as lines of text."""
        if self.violations is None:
            found = f"whole; of the older schema {self.schema}, so the doctor was not asked"
        elif self.violations:
            found = f"whole; broken: {counted(len(self.violations), 'invariant')}, as in the registry that it was made of"
        else:
            found = "whole; no invariant is broken"
        return (
            *facts(
                names=self.names,
                users=self.users,
                newest_change=self.newest_change_at and as_instant(self.newest_change_at),
                size=f"{self.size_bytes:,} bytes",
                schema=self.schema,
                checked=found,
            ),
            *(
                f"  {each.invariant}: {each.object_type} {each.object_id}: {each.message}"
                for each in (self.violations or ())[:SHOWN_MAX]
            ),
        )


def embedded_path(session: Session, otherwise: str) -> Path:
    """Return the path of the registry's SQLite file.

    Raises:
        Conflict: the registry is on PostgreSQL; `otherwise` says what to do there instead.
    """
    path = sqlite_path(session.settings.database_url)
    if path is None:
        raise Conflict(
            f"The registry is on PostgreSQL: {otherwise}. See docs/operating/backup-and-restore.md, PostgreSQL."
        )
    return path


def examine(path: Path, name: Path, *, free_quota: int) -> Contents:
    """Read and check a whole copy, and return its contents. `name` is its name in error messages.

    Raises:
        Conflict: it is damaged, isn't a registry, or is from a newer version of sublet.
    """
    refuse_broken(path, name)
    with opened(path, utc_now()) as tx:
        revision = find_revision(tx)
        if revision is None:
            raise Conflict(f"{name} is an SQLite database, but no registry. Give the file of a registry.")
        usable = is_usable(tx, revision)
        if not usable and revision not in known_revisions():
            raise Conflict(
                f"{name} has the schema {revision}, of a newer version of sublet; this one knows it up to "
                f"{needed_revision()}. Use that version."
            )
        return Contents(
            schema=revision,
            names=count_names(tx),
            users=count_users(tx),
            newest_change_at=audit.newest_at(tx),
            size_bytes=path.stat().st_size,
            violations=_check(tx, free_quota) if usable else None,
        )


def _check(tx: Tx, free_quota: int) -> list[Violation]:
    # Check as of the newest change: what waited when the backup was made has not waited since. A clock that was ahead is still found.
    newest = audit.newest_at(tx)
    return check_all(Tx(tx.connection, min(tx.now, newest or tx.now)), free_quota=free_quota)
