"""What is in a copy of a registry, and whether it holds: asked of the file before it gets its name."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sublet import audit
from sublet.accounts.store import count_users
from sublet.cli.doctor import check_all
from sublet.cli.output import as_instant, facts
from sublet.cli.session import Session
from sublet.counted import counted
from sublet.db import Tx, utc_now
from sublet.errors import Conflict
from sublet.invariants import Violation
from sublet.schema_revision import find_revision, is_usable, known_revisions, needed_revision
from sublet.sqlite_file import opened, refuse_broken, sqlite_path
from sublet.subdomains.sweep_store import count_names

SHOWN_MAX = 5
"""How many broken invariants are shown to people; --json has all."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a copy has; `violations` is None where the schema is an older one, of which the doctor knows nothing."""

    schema: str
    names: int
    users: int
    newest_change_at: datetime | None
    size_bytes: int
    violations: list[Violation] | None

    @property
    def is_older(self) -> bool:
        """Tell whether `sublet migrate` has to upgrade it before it can be used."""
        return self.schema in known_revisions()[:-1]

    def lines(self) -> tuple[str, ...]:
        """Return what people are shown of it."""
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
    """Return the file of the registry.

    Raises:
        Conflict: the registry is on PostgreSQL; `otherwise` says what does the same there.
    """
    path = sqlite_path(session.settings.database_url)
    if path is None:
        raise Conflict(
            f"The registry is on PostgreSQL: {otherwise}. See docs/operating/backup-and-restore.md, PostgreSQL."
        )
    return path


def examine(path: Path, name: Path, *, free_quota: int) -> Contents:
    """Read a copy whole, check it, and return what it has; `name` is what it is called in a refusal.

    Raises:
        Conflict: it is broken, no registry, or of a version of sublet that this one does not know.
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
    # What waited when an old backup was made did not wait since: it is asked as of its newest change. A clock that was ahead
    # then is found all the same.
    newest = audit.newest_at(tx)
    return check_all(Tx(tx.connection, min(tx.now, newest or tx.now)), free_quota=free_quota)
