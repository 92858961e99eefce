"""`sublet restore`: put a backup of a registry on SQLite in the registry's place, once it is checked."""

from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer

from sublet.cli.commands import new_app
from sublet.cli.examine import Contents, embedded_path, examine
from sublet.cli.output import Answer, as_instant, as_json_value
from sublet.cli.session import Session, question
from sublet.db import utc_now
from sublet.errors import Conflict, NotFound
from sublet.serve_lock import serve_lock
from sublet.sqlite_copy import copy_file, refuse_unfinished, replace_database, unfinished

app = new_app()

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Also where there is a registry, which is kept beside; or if the backup breaks an invariant.",
    ),
]


@question(app, "restore")
def restore(session: Session, file: File, force: Force = False) -> Answer:
    """Check a backup and make it the registry on SQLite; refused while anything has the registry open."""
    database = embedded_path(session, "use pg_restore, or a base backup with archived WAL")
    if not file.is_file():
        raise NotFound(f"There is no file {file}. Check the path.")
    replaced = database.exists()
    if replaced and database.samefile(file):
        raise Conflict(f"{file} is the registry itself. Give the file of a backup.")
    if replaced and not force:
        raise Conflict(
            f"There is a registry at {database}. Give --force to put the backup in its place; the registry is kept beside."
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
    value = {"file": str(file), "database": str(database), "kept": shown, **as_json_value(contents)}
    lines = (f"Restored {database} from {file}.", *contents.lines(), *_next(contents, shown))
    return Answer(value, lines)


def _next(contents: Contents, kept: str | None) -> tuple[str, ...]:
    at = contents.newest_change_at
    since = f"after {as_instant(at)}" if at else "since"
    return (
        *((f"The registry that was there is kept as {kept}.",) if kept else ()),
        f"Registrations, payments, tickets and changes made {since} are not in it. Now:",
        *(
            (f"- sublet migrate: upgrades it from the older schema {contents.schema}.",)
            if contents.is_older
            else ()
        ),
        "- sublet doctor",
        "- sublet serve; then sublet sweep status, which may wait for your word.",
        "- sublet zone check DOMAIN, for each domain on a primary: it lists names registered since as foreign.",
        "  They are in the zone and not in the registry; none is deleted.",
    )
