"""`sublet backup`: a whole, checked copy of a registry on SQLite, while it is served."""

import os
from pathlib import Path
from typing import Annotated

import typer

from sublet.cli.commands import new_app
from sublet.cli.examine import embedded_path, examine
from sublet.cli.output import Answer, as_json_value
from sublet.cli.session import Session, question, refuse_missing
from sublet.errors import Conflict
from sublet.service.exit_codes import REFUSED
from sublet.sqlite_copy import BESIDE, copy_online, give_name, refuse_unfinished, unfinished

app = new_app()

File = Annotated[Path, typer.Argument(metavar="FILE", help="Where the backup is to be.")]
Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")]


@question(app, "backup")
def backup(session: Session, file: File, force: Force = False) -> Answer:
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
    value = {"file": str(file), **as_json_value(contents)}
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
