"""The history of the schema for both databases (Alembic); `upgrade` creates or upgrades a registry, also beside a running service.

All pending migrations run in one transaction. On PostgreSQL a statement that changes a table waits for its lock for at most
`LOCK_TIMEOUT_SECONDS`: requests for that table queue behind it, so a long wait would stop the service. An upgrade that does
not get its locks is rolled back and retried. An advisory lock serializes concurrent upgrades.

An index on a large table blocks writers while PostgreSQL builds it. `CREATE INDEX CONCURRENTLY` does not, but can't run in a
transaction. A migration that needs it does nothing else, in `op.get_context().autocommit_block()`: it drops an invalid index
of that name, which an interrupted run leaves behind, and calls `op.create_index(…, postgresql_concurrently=True,
if_not_exists=True)`. The block commits earlier statements and ends the advisory lock, so running such a migration twice must
be harmless.
"""

import random
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, delete, insert, text
from sqlalchemy.exc import DatabaseError, DBAPIError

from sublet.db import Tx, is_damage, utc_now
from sublet.errors import Conflict, Unavailable
from sublet.processes.model import Process
from sublet.processes.processes import list_running
from sublet.schema_revision import (
    ADVISORY_LOCK,
    find_revision,
    is_missing,
    is_usable,
    known_revisions,
    open_engine,
    reading,
    schema_compatible_with,
    why_unusable,
)
from sublet.sqlite_file import create_private, serve_lock, sqlite_path

LOCK_TIMEOUT_SECONDS = 2
"""How long a statement of a migration waits for a table, and with it all requests that queue behind it."""
TRY_SECONDS = 120.0
"""How long an upgrade is retried if other transactions hold its locks."""
_LOCK_FAILURES = ("55P03", "40P01", "40001")  # lock_not_available, deadlock_detected, serialization_failure
_NOT_ALLOWED = "42501"  # insufficient_privilege


@dataclass(frozen=True, slots=True)
class Migration:
    """A step of the schema: its revision, its first line, and the older revisions whose code works with the result.

    A migration's file names these in `compatible_with`: every one, not only the previous. Only a migration that merely adds
    (tables, indexes, columns that are nullable or have a server default) may name any.
    """

    revision: str
    what: str
    compatible_with: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an upgrade would do.

    `before` is the schema now, None if the database was never initialised; `after` the schema afterwards. `migrations` would be
    applied, oldest first. `in_the_way` are running processes that can't work with the new schema.
    """

    before: str | None
    after: str
    migrations: tuple[Migration, ...]
    in_the_way: tuple[Process, ...]

    def refuse_running(self) -> None:
        """Raise `Conflict`, which names them, if running processes can't work with the new schema."""
        if self.in_the_way:
            raise Conflict(
                f"These processes ran lately and can't work with the schema {self.after}: "
                f"{'; '.join(str(each) for each in self.in_the_way)}. Stop them first; --force upgrades beside them."
            )


def migrations_config() -> Config:
    """Return Alembic's configuration, with which it finds the migrations."""
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
    """Return what an upgrade of this database would do.

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
    compatible = {newest.revision, *newest.compatible_with}
    pending = known[done:]
    running = list_running(tx) if pending else []
    in_the_way = tuple(each for each in running if each.revision not in compatible)
    return Plan(before, newest.revision, pending, in_the_way)


def upgrade(url: str, *, force: bool = False) -> tuple[str | None, str]:
    """Upgrade the database of this address to the newest schema. Return the revision before (None: empty) and after.

    All migrations run in one transaction. A newer schema that this code can work with stays. `force` upgrades although
    processes run that can't work with the new schema.

    Raises:
        Conflict: such processes run, without `force`.
        Unavailable: the database can't be reached or written, or has a newer schema; an SQLite file is served; on PostgreSQL
            other transactions hold the tables for too long.
    """
    plan = plan_of(url)
    if plan.before is not None and not plan.migrations:
        return plan.before, plan.after
    engine = open_engine(url)
    if (path := sqlite_path(url)) is not None:
        create_private(path)
    ends = time.monotonic() + TRY_SECONDS
    try:
        # The serving process of an SQLite registry has to stop for the new version in any case.
        with serve_lock(sqlite_path(url) if plan.before is not None else None):
            while True:
                try:
                    with engine.execution_options(begin_immediate=True).begin() as connection:
                        return upgrade_within(connection, force=force)
                except DBAPIError as error:
                    if getattr(error.orig, "sqlstate", None) not in _LOCK_FAILURES or time.monotonic() > ends:
                        raise
                time.sleep(random.uniform(0.1, 1.0))  # noqa: S311 - jitter, no secret
    except DBAPIError as error:
        raise _unavailable(error) from error
    finally:
        engine.dispose()


def upgrade_within(connection: Connection, *, force: bool = False) -> tuple[str | None, str]:
    """Upgrade in the caller's transaction; otherwise as `upgrade`, which retries if this raises `DBAPIError`."""
    take_advisory_lock(connection)
    # Another process may have upgraded it while this one waited.
    plan = plan_upgrade(Tx(connection, utc_now()))
    if not plan.migrations:
        return plan.before, plan.after
    if not force:
        plan.refuse_running()
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, plan.after)
    connection.execute(delete(schema_compatible_with))
    compatible = [{"revision": each} for each in list_migrations()[-1].compatible_with]
    if compatible:
        connection.execute(insert(schema_compatible_with), compatible)
    return plan.before, plan.after


def take_advisory_lock(connection: Connection) -> None:
    """Keep other upgrades and copies into this registry away until the transaction ends, and limit its waits for tables."""
    if connection.dialect.name != "postgresql":
        return  # BEGIN IMMEDIATE did
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    # A long wait here is harmless: while waiting, this transaction holds no lock that the service needs.
    connection.execute(text(f"SET LOCAL lock_timeout = '{TRY_SECONDS:.0f}s'"))
    connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))


def plan_of(url: str) -> Plan:
    """Return what `upgrade` would do with the database of this address.

    Raises:
        Unavailable: the database can't be reached, or has a newer schema with which this code can't work.
    """
    if is_missing(url):
        return Plan(None, list_migrations()[-1].revision, list_migrations(), ())
    with reading(url) as connection:
        return plan_upgrade(Tx(connection, utc_now()))


def _unavailable(error: DBAPIError) -> Exception:
    state = getattr(error.orig, "sqlstate", None)
    if state in _LOCK_FAILURES:
        return Unavailable(
            f"Other transactions held the locks of the upgrade at each attempt for {TRY_SECONDS:.0f} s ({error.orig}); nothing "
            "was changed. Look for long transactions in pg_stat_activity, or try again when there is less load."
        )
    if state == _NOT_ALLOWED:
        return Unavailable(
            f"This role of PostgreSQL may not upgrade the registry ({error.orig}); use the one that owns the tables."
        )
    if is_damage(error.orig):
        return Unavailable(f"The database is damaged: {error.orig}. Restore a backup (`sublet restore`).")
    if isinstance(error, DatabaseError):
        return Unavailable(
            f"The database can't be upgraded: {error.orig}. Check the database, then run it again."
        )
    return error
