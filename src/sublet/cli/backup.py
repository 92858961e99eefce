"""`sublet backup` and `sublet restore`: checked copies of a registry on SQLite."""

import os
from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer

from sublet.cli.examine import Contents, embedded_path, examine
from sublet.cli.output import Answer, as_instant, as_object
from sublet.cli.session import Session, new_app, question, refuse_missing
from sublet.db import utc_now
from sublet.errors import Conflict, NotFound
from sublet.service.exit_codes import REFUSED
from sublet.sqlite_file import (
    BESIDE,
    copy_file,
    copy_online,
    give_name,
    refuse_unfinished,
    replace_database,
    serve_lock,
    unfinished,
)

backup_app = new_app()
restore_app = new_app()


@question(backup_app, "backup")
def backup(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The path of the new backup.")],
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> Answer:
    """Copy the registry on SQLite into one file and check the copy; the service may run and write."""
    database = embedded_path(session, "use pg_dump, or base backups with archived WAL")
    refuse_missing(session.settings.database_url)
    _refuse_own(file, database)
    _refuse_existing(file, force)
    refuse_unfinished(file)
    with unfinished(file) as copy:
        copy_online(database, copy)
        contents = examine(copy, database, free_quota=session.settings.free_quota)
        _refuse_existing(file, force)
        give_name(copy, file)
    value = {"file": str(file), **as_object(contents)}
    lines = (f"Backed up {database} to {file}.", *contents.lines())
    return Answer(value, lines, exit_code=REFUSED if contents.violations else 0)


def _refuse_own(file: Path, database: Path) -> None:
    own = {database.resolve().with_name(database.resolve().name + each) for each in ("", *BESIDE)}
    if file.resolve() in own:
        raise Conflict(f"{file} is the registry itself; give another file.")


def _refuse_existing(file: Path, force: bool) -> None:
    if file.is_dir():
        raise Conflict(f"{file} is a folder; give a file in it.")
    if os.path.lexists(file) and not force:
        raise Conflict(f"{file} exists; give another name, or --force to replace it.")


@question(restore_app, "restore")
def restore(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also if there is a registry, which is kept under another name, or if the backup breaks an invariant.",
        ),
    ] = False,
) -> Answer:
    """Check a backup and make it the registry on SQLite; refused while a process has the registry open."""
    database = embedded_path(session, "use pg_restore, or a base backup with archived WAL")
    if not file.is_file():
        raise NotFound(f"There is no file {file}. Check the path.")
    replaced = database.exists()
    if replaced and database.samefile(file):
        raise Conflict(f"{file} is the registry itself. Give the file of a backup.")
    if replaced and not force:
        raise Conflict(
            f"There is a registry at {database}. Give --force to replace it; the registry is kept under another name."
        )
    kept = database.with_name(f"{database.name}.before-restore-{utc_now().astimezone(UTC):%Y%m%dT%H%M%SZ}")
    refuse_unfinished(file)
    with unfinished(database) as copy, serve_lock(database):
        copy_file(file, copy)
        contents = examine(copy, file, free_quota=session.settings.free_quota)
        if contents.violations and not force:
            first = contents.violations[0]
            raise Conflict(
                f"{file} is whole, but breaks {len(contents.violations)} invariants, the first {first.invariant} at "
                f"{first.object_type} {first.object_id}: {first.message}. Give --force to restore it as it is."
            )
        replace_database(copy, database, kept)
    shown = str(kept) if replaced else None
    value = {"file": str(file), "database": str(database), "kept": shown, **as_object(contents)}
    lines = (f"Restored {database} from {file}.", *contents.lines(), *_next_steps(contents, shown))
    return Answer(value, lines)


def _next_steps(contents: Contents, kept: str | None) -> list[str]:
    at = contents.newest_change_at
    lines = [
        f"Registrations, payments, tickets and changes made {f'after {as_instant(at)}' if at else 'since'} are not in it. Now:",
        "- sublet doctor",
        "- sublet serve; then sublet sweep status: the sweep may wait for `sublet sweep resume`.",
        "- sublet zone check DOMAIN, for each domain on a primary: it lists names registered since as foreign.",
        "  They are in the zone and not in the registry; none is deleted.",
    ]
    if contents.is_older:
        lines.insert(1, f"- sublet migrate: upgrades it from the older schema {contents.schema}.")
    if kept:
        lines.insert(0, f"The replaced registry is kept as {kept}.")
    return lines
