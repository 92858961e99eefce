"""`sublet backup` and `sublet restore`: checked copies of a registry on SQLite."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from typer import Argument, Option

from sublet import audit
from sublet.accounts.store import count_users
from sublet.cli.output import Answer, as_instant, as_object, key_value_lines
from sublet.cli.session import Session, command, new_app
from sublet.counted import counted
from sublet.db import sqlite_path, utc_now
from sublet.doctor.checks import check_copy
from sublet.doctor.model import Violation
from sublet.errors import REFUSED, Conflict, NotFound
from sublet.processes.processes import forget_processes
from sublet.schema_revision import find_revision, is_usable, known_revisions, refuse_missing, why_unusable
from sublet.sqlite_file import (
    SIDE_SUFFIXES,
    copy_file,
    copy_online,
    open_read_only,
    open_unused,
    refuse_broken,
    refuse_unfinished,
    rename_durably,
    replace_database,
    serve_lock,
    temporary_file,
)
from sublet.subdomains.sweep.store import count_names

backup_app = new_app()
restore_app = new_app()


SHOWN_MAX = 5
"""The maximum number of broken invariants to print. --json has all."""


class Contents(Struct, frozen=True):
    """The contents of a copy.

    `violations` is None if the schema is older, because the doctor can only check the current schema.
    """

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
            checked = f"complete; older schema {self.schema}, so its invariants were not checked"
        elif self.violations:
            checked = (
                f"complete; broken: {counted(len(self.violations), 'invariant')}, as in the original registry"
            )
        else:
            checked = "complete; no invariant is broken"
        return (
            *key_value_lines(
                names=self.names,
                users=self.users,
                newest_change=self.newest_change_at and as_instant(self.newest_change_at),
                size=f"{self.size_bytes:,} bytes",
                schema=self.schema,
                checked=checked,
            ),
            *(f"  {each}" for each in (self.violations or ())[:SHOWN_MAX]),
        )


@command(backup_app, "backup")
def backup(
    session: Session,
    file: Annotated[Path, Argument(metavar="FILE", help="The path of the new backup.")],
    force: Annotated[bool, Option("--force", help="Replace FILE if it exists.")] = False,
) -> Answer:
    """Copy a registry on SQLite into one file and check the copy. The service may run meanwhile."""
    database = _database_path(session, "use pg_dump, or base backups with archived WAL")
    refuse_missing(session.settings.database_url)
    _refuse_own(file, database)
    _refuse_existing(file, force)
    refuse_unfinished(file)
    with temporary_file(file) as copy:
        copy_online(database, copy)
        contents = _examine(copy, database)
        _refuse_existing(file, force)
        rename_durably(copy, file)
    value = {"file": str(file), **as_object(contents)}
    lines = (f"Backed up {database} to {file}.", *contents.lines())
    return Answer(value, lines, exit_code=REFUSED if contents.violations else 0)


def _refuse_own(file: Path, database: Path) -> None:
    own = {database.resolve().with_name(database.resolve().name + each) for each in ("", *SIDE_SUFFIXES)}
    if file.resolve() in own:
        raise Conflict(f"{file} is the registry itself. Give another file.")


def _refuse_existing(file: Path, force: bool) -> None:
    if file.is_dir():
        raise Conflict(f"{file} is a folder. Give a file in it.")
    if os.path.lexists(file) and not force:
        raise Conflict(f"{file} exists. Give another name, or --force to replace it.")


@command(restore_app, "restore")
def restore(
    session: Session,
    file: Annotated[Path, Argument(metavar="FILE", help="The backup.")],
    force: Annotated[
        bool,
        Option(
            "--force",
            help="Replace an existing registry, which is kept under another name. Also restore a backup "
            "that breaks an invariant.",
        ),
    ] = False,
) -> Answer:
    """Check a backup and restore it as the registry on SQLite.

    Refused while a process has the registry open.
    """
    # A symbolic link to the database stays, and the old database is kept beside its own file.
    database = _database_path(session, "use pg_restore, or a base backup with archived WAL").resolve()
    if not file.is_file():
        raise NotFound(f"There is no file `{file}`. Check the path.")
    replaced = database.exists()
    if replaced and database.samefile(file):
        raise Conflict(f"{file} is the registry itself. Give the file of a backup.")
    if replaced and not force:
        raise Conflict(
            f"There is a registry at {database}. Give --force to replace it. The old registry is kept "
            "under another name."
        )
    kept = database.with_name(f"{database.name}.before-restore-{utc_now().astimezone(UTC):%Y%m%dT%H%M%SZ}")
    refuse_unfinished(file)
    with temporary_file(database) as copy, serve_lock(database):
        copy_file(file, copy)
        contents = _examine(copy, file)
        if contents.violations and not force:
            raise Conflict(
                f"{file} is complete, but breaks {counted(len(contents.violations), 'invariant')}. The "
                f"first is {contents.violations[0]}. Give --force to restore it anyway."
            )
        replace_database(copy, database, kept)
    shown = str(kept) if replaced else None
    value = {"file": str(file), "database": str(database), "kept": shown, **as_object(contents)}
    lines = (f"Restored {database} from {file}.", *contents.lines(), *_next_steps(contents, shown))
    return Answer(value, lines)


def _next_steps(contents: Contents, kept: str | None) -> list[str]:
    at = contents.newest_change_at
    lines = [
        (
            "The backup lacks registrations, payments, tickets and changes made "
            f"{f'after {as_instant(at)}' if at else 'since'}. Now run:"
        ),
        "- sublet doctor",
        "- sublet serve; then sublet sweep status: the sweep may wait for `sublet sweep resume`.",
        (
            "- sublet zone check DOMAIN, for each domain on a primary: names registered since the backup are "
            "listed as foreign."
        ),
        "  They are in the zone but not in the registry, and stay in the zone.",
    ]
    if contents.is_older:
        lines.insert(1, f"- sublet migrate: upgrades the registry from the older schema {contents.schema}.")
    if kept:
        lines.insert(0, f"The old registry is kept as {kept}.")
    return lines


def _database_path(session: Session, postgresql_advice: str) -> Path:
    """Return the path of the registry's SQLite file.

    Raises:
        Conflict: the registry is on PostgreSQL. The message has `postgresql_advice`.
    """
    path = sqlite_path(session.settings.database_url)
    if path is None:
        raise Conflict(
            f"The registry is on PostgreSQL: {postgresql_advice}. See "
            "docs/operating/backup-and-restore.md, PostgreSQL."
        )
    return path


def _examine(path: Path, name: Path) -> Contents:
    """Delete the processes from a copy, check the whole copy, and return its contents.

    `name` is the copy's name in error messages.

    Raises:
        Conflict: the copy is damaged, isn't a registry, or this code can't work with its schema.
    """
    refuse_broken(path, name)
    with open_unused(path, utc_now()) as tx:
        forget_processes(tx)
    with open_read_only(path, utc_now()) as tx:
        revision = find_revision(tx)
        if revision is None:
            raise Conflict(f"{name} is an SQLite database, but not a registry. Give the file of a registry.")
        usable = is_usable(tx, revision)
        if not usable and revision not in known_revisions():
            raise Conflict(why_unusable(revision, str(name)))
        return Contents(
            schema=revision,
            names=count_names(tx),
            users=count_users(tx),
            newest_change_at=audit.newest_at(tx),
            size_bytes=path.stat().st_size,
            violations=check_copy(tx) if usable else None,
        )
