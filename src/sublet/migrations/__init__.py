"""The migrations of the schema for both databases (Alembic).

`upgrade` creates or upgrades a registry, even while the service runs.

All pending migrations run in one transaction. On PostgreSQL, a statement that changes a table waits for its
lock for at most `LOCK_TIMEOUT_SECONDS`, because all requests for the table queue behind the waiting
statement. An upgrade that can't get its locks is rolled back and retried. An advisory lock serializes
concurrent upgrades.

Building an index on a large table blocks writers on PostgreSQL. `CREATE INDEX CONCURRENTLY` doesn't, but
can't run in a transaction. A migration that needs it contains nothing else. In
`op.get_context().autocommit_block()` it drops an invalid index of the same name, which an interrupted run may
have left, and calls `op.create_index(…, postgresql_concurrently=True, if_not_exists=True)`. The block commits
earlier statements and releases the advisory lock, so the migration must be idempotent.
"""

import random
import time
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from msgspec import Struct
from sqlalchemy import Connection, delete, insert, text
from sqlalchemy.exc import DatabaseError, DBAPIError

from sublet.db import Tx, advice_about_cause, driver_message, is_damage, sqlite_path, utc_now
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
    refuse_other_encoding,
    schema_compatible_with,
    why_unusable,
)
from sublet.sqlite_file import create_private, serve_lock

LOCK_TIMEOUT_SECONDS = 2
"""How long a statement of a migration waits for a table's lock. Requests for the table queue behind it."""
TRY_SECONDS = 120.0
"""How long an upgrade is retried while other transactions hold the locks that it needs."""
_LOCK_FAILURES = ("55P03", "40P01", "40001")  # lock_not_available, deadlock_detected, serialization_failure
_NOT_ALLOWED = "42501"  # insufficient_privilege


class Migration(Struct, frozen=True):
    """A migration: its revision, the first line of its docstring, and the older revisions whose code works
    with its schema.

    A migration's file lists all these revisions in `compatible_with`, not only the previous revision. The
    list must be empty unless the migration only adds tables, indexes, and columns that are nullable or have a
    server default.
    """

    revision: str
    what: str
    compatible_with: tuple[str, ...]


class Plan(Struct, frozen=True):
    """The plan of an upgrade.

    `before` is the present revision, None if the database was never initialised; `after` is the new revision.
    `migrations` are the migrations to apply, oldest first. `in_the_way` are running processes that can't work
    with the new schema.
    """

    before: str | None
    after: str
    migrations: tuple[Migration, ...]
    in_the_way: tuple[Process, ...]

    def refuse_running(self) -> None:
        """Raise `Conflict` with the names of the running processes that can't work with the new schema, if
        there are any.
        """
        if self.in_the_way:
            raise Conflict(
                f"These processes were running a moment ago and can't work with the schema {self.after}: "
                f"{'; '.join(str(each) for each in self.in_the_way)}. Stop them first, or give --force to "
                "upgrade while they run."
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
    """Return the plan of an upgrade of this database.

    Raises:
        Unavailable: this code can't work with the schema, and has no migrations from it.
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
    """Upgrade the database at this address to the newest schema.

    Return the revision before (None if empty) and after.

    All migrations run in one transaction. A newer schema stays unchanged if this code can work with it.
    `force` upgrades even if running processes can't work with the new schema.

    Raises:
        Conflict: running processes can't work with the new schema, and `force` is false.
        Unavailable: the database can't be reached or written; `plan_upgrade` raises it; an SQLite file is
            served; on PostgreSQL, other transactions lock the tables for too long.
    """
    plan = plan_of(url)
    if plan.before is not None and not plan.migrations:
        return plan.before, plan.after
    engine = open_engine(url)
    if (path := sqlite_path(url)) is not None:
        create_private(path)
    ends = time.monotonic() + TRY_SECONDS
    try:
        # On SQLite the service must be stopped, because its single process has to restart with the new
        # version anyway.
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
        raise _unavailable_refusal(error) from error
    finally:
        engine.dispose()


def upgrade_within(connection: Connection, *, force: bool = False) -> tuple[str | None, str]:
    """Upgrade like `upgrade`, but in the caller's transaction and without retries.

    Lock failures raise `DBAPIError`.
    """
    take_advisory_lock(connection)
    # Planned after the lock, because another process may have upgraded the database meanwhile.
    plan = plan_upgrade(Tx(connection, utc_now()))
    if not plan.migrations:
        return plan.before, plan.after
    if plan.before is None:
        refuse_other_encoding(connection)
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
    """Block other upgrades of this registry, and copies into it, until the transaction ends.

    Limit the waits for tables.
    """
    if connection.dialect.name != "postgresql":
        return  # SQLite's BEGIN IMMEDIATE has blocked them.
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    # A long wait is harmless here, because this transaction doesn't hold any lock yet.
    connection.execute(text(f"SET LOCAL lock_timeout = '{TRY_SECONDS:.0f}s'"))
    connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))


def plan_of(url: str) -> Plan:
    """Return the plan of an upgrade of the database at this address.

    Raises:
        Unavailable: the database can't be reached, or `plan_upgrade` raises it.
    """
    if is_missing(url):
        return Plan(None, list_migrations()[-1].revision, list_migrations(), ())
    with reading(url) as connection:
        return plan_upgrade(Tx(connection, utc_now()))


def _unavailable_refusal(error: DBAPIError) -> Exception:
    state = getattr(error.orig, "sqlstate", None)
    if state in _LOCK_FAILURES:
        return Unavailable(
            f"Other transactions held the locks of the upgrade at each attempt for {TRY_SECONDS:.0f} s "
            f"({driver_message(error)}); nothing was changed. End long transactions (see pg_stat_activity), "
            "or try again when the load is lower."
        )
    if state == _NOT_ALLOWED:
        return Unavailable(
            f"This role of PostgreSQL may not upgrade the registry ({driver_message(error)}). Use the role "
            "that owns the tables."
        )
    if is_damage(error.orig):
        return Unavailable(
            f"The database is damaged: {driver_message(error)}. Restore a backup (`sublet restore`)."
        )
    if isinstance(error, DatabaseError):
        return Unavailable(
            f"The database can't be upgraded: {driver_message(error)}. "
            f"{advice_about_cause(error) or 'Check the database.'} Then run `sublet migrate` again."
        )
    return error
