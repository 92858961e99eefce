"""What an upgrade would do, and what stands in its way: read from the migrations' files and from the database."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from sublet.db import Tx
from sublet.errors import Conflict, Unavailable
from sublet.processes.model import Process
from sublet.processes.processes import list_running
from sublet.schema_revision import find_revision, is_usable, known_revisions, why_unusable


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: its revision, what it does, and the older revisions whose code goes on with what it makes.

    A migration's file names those in `compatible_with`. Only one that merely adds (tables, indexes, columns that may be null or
    have a default of the database's) may name any; and it names each of which that is true, not only the one before.
    """

    revision: str
    what: str
    compatible_with: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an upgrade would do.

    `before` is None where the database was never initialised; `after` is the schema it would have, which is `before` where nothing
    is to be done. `migrations` are to be applied, oldest first; `in_the_way` are running processes that can't go on after them.
    """

    before: str | None
    after: str
    migrations: tuple[Migration, ...]
    in_the_way: tuple[Process, ...]

    def refuse_running(self) -> None:
        """Refuse while a process runs whose code would not go on.

        Raises:
            Conflict: there is one; the message names them all.
        """
        if self.in_the_way:
            raise Conflict(
                f"The schema {self.after} is not one that these processes, seen lately, go on with: "
                f"{'; '.join(str(each) for each in self.in_the_way)}. Stop them first; --force upgrades beside them."
            )


def migrations_config() -> Config:
    """Return what Alembic needs to find the migrations."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


@cache
def list_migrations() -> tuple[Migration, ...]:
    """Return all migrations of this code, oldest first."""
    scripts = reversed(list(ScriptDirectory.from_config(migrations_config()).walk_revisions()))
    return tuple(
        Migration(each.revision, each.doc, tuple(getattr(each.module, "compatible_with", ())))
        for each in scripts
    )


def plan_upgrade(tx: Tx) -> Plan:
    """Find out what an upgrade of this database would do.

    Raises:
        Unavailable: it has a newer schema, with which this code can't work.
    """
    before = find_revision(tx)
    if before is not None and before not in known_revisions():
        if not is_usable(tx, before):
            raise Unavailable(why_unusable(before))
        return Plan(before, before, (), ())
    known = list_migrations()
    done = known_revisions().index(before) + 1 if before is not None else 0
    newest = known[-1]
    going_on = {newest.revision, *newest.compatible_with}
    pending = known[done:]
    running = list_running(tx) if pending else []
    in_the_way = tuple(each for each in running if each.revision not in going_on)
    return Plan(before, newest.revision, pending, in_the_way)
