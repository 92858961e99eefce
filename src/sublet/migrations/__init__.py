"""One history of the schema for both databases (Alembic); `upgrade` makes or upgrades a registry, beside a running service too.

All migrations that are pending run in one transaction. On PostgreSQL a statement that changes a table waits for its lock for
`LOCK_TIMEOUT_SECONDS` at most: whoever comes after it in the queue for that table waits as long, so a long wait would stop the
service. What did not get its locks is rolled back whole and tried again. Two upgrades at once go one after the other, by an
advisory lock.

An index on a large table would keep writers waiting while it is built; `CREATE INDEX CONCURRENTLY` doesn't, and can't run in a
transaction. The migration that wants it does nothing else, and does that in `op.get_context().autocommit_block()` by
`op.create_index(…, postgresql_concurrently=True, if_not_exists=True)`, after it dropped an index of that name that is not
valid: one that was interrupted leaves such a one. The block commits what ran before it, and with that ends the advisory lock, so
whatever such a migration does must be harmless when it is done twice.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, delete, insert, text
from sqlalchemy.exc import DatabaseError, DBAPIError

from sublet.db import Tx, utc_now
from sublet.errors import Unavailable
from sublet.migrations.plan import Plan, list_migrations, migrations_config, plan_upgrade
from sublet.schema_revision import ADVISORY_LOCK, is_missing, open_engine, reading, schema_compatible_with
from sublet.serve_lock import serve_lock

LOCK_TIMEOUT_SECONDS = 2
"""How long a statement of a migration, and with it everybody behind it, waits for a table."""
TRY_SECONDS = 120.0
"""How long an upgrade is tried again where others hold what it needs."""
_WAITED = ("55P03", "40P01", "40001")  # lock_not_available, deadlock_detected, serialization_failure
_NOT_ALLOWED = "42501"  # insufficient_privilege


def upgrade(url: str, *, force: bool = False) -> tuple[str | None, str]:
    """Bring the database of this address to the newest schema; return the revision before (None: empty) and after.

    All migrations run in one transaction: it is either upgraded or as it was. A newer schema that this code goes on with is
    left as it is. `force` is to upgrade although processes run that don't go on with the new schema.

    Raises:
        Conflict: such processes run, and it isn't forced.
        Unavailable: the database can't be reached or written, or is of a newer version; an SQLite file is served; on PostgreSQL
            others hold the tables for too long.
    """
    plan = plan_of(url)
    if plan.before is not None and not plan.migrations:
        return plan.before, plan.after
    engine = open_engine(url)
    ends = time.monotonic() + TRY_SECONDS
    try:
        with _unserved(url, plan):
            while True:
                try:
                    with engine.execution_options(sublet_begin="BEGIN IMMEDIATE").begin() as connection:
                        return upgrade_within(connection, force=force)
                except DBAPIError as error:
                    if getattr(error.orig, "sqlstate", None) not in _WAITED or time.monotonic() > ends:
                        raise
                time.sleep(random.uniform(0.1, 1.0))  # noqa: S311 - jitter, no secret
    except DBAPIError as error:
        raise _unavailable(error) from error
    finally:
        engine.dispose()


def upgrade_within(connection: Connection, *, force: bool = False) -> tuple[str | None, str]:
    """Upgrade within a transaction of the caller's, which commits; as `upgrade`, which tries again what raises DBAPIError here."""
    take_advisory_lock(connection)
    # Somebody else may have done it while this one waited.
    plan = plan_upgrade(Tx(connection, utc_now()))
    if not plan.migrations:
        return plan.before, plan.after
    if not force:
        plan.refuse_running()
    config = migrations_config()
    config.attributes["connection"] = connection
    command.upgrade(config, plan.after)
    connection.execute(delete(schema_compatible_with))
    going_on = [{"revision": each} for each in list_migrations()[-1].compatible_with]
    if going_on:
        connection.execute(insert(schema_compatible_with), going_on)
    return plan.before, plan.after


def take_advisory_lock(connection: Connection) -> None:
    """Wait until nobody else upgrades or fills this registry, till the transaction's end; bound the waits for tables after it."""
    if connection.dialect.name != "postgresql":
        return  # BEGIN IMMEDIATE did
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    # Whoever waits for this one holds nothing that anybody of the service needs.
    connection.execute(text(f"SET LOCAL lock_timeout = '{TRY_SECONDS:.0f}s'"))
    connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))


def plan_of(url: str) -> Plan:
    """Find out what `upgrade` would do with the database of this address, and change nothing.

    Raises:
        Unavailable: the database can't be reached, or has a newer schema with which this code can't work.
    """
    if is_missing(url):
        return Plan(None, list_migrations()[-1].revision, list_migrations(), ())
    with reading(url) as connection:
        return plan_upgrade(Tx(connection, utc_now()))


def current_revision(url: str) -> str | None:
    """Return the schema's revision in the database, or None when it was never initialised.

    Raises:
        Unavailable: the database can't be reached.
    """
    if is_missing(url):
        return None
    with reading(url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str:
    """Return the revision that this code needs."""
    return list_migrations()[-1].revision


@contextmanager
def _unserved(url: str, plan: Plan) -> Iterator[None]:
    """Hold the lock of an SQLite registry that there is: its one process is to be stopped for the new version in any case."""
    if url.startswith("sqlite:///") and plan.before is not None:
        with serve_lock(Path(url.removeprefix("sqlite:///"))):
            yield
    else:
        yield


def _unavailable(error: DBAPIError) -> Exception:
    state = getattr(error.orig, "sqlstate", None)
    if state in _WAITED:
        return Unavailable(
            f"Others held what the upgrade needs, at each attempt for {TRY_SECONDS:.0f} s ({error.orig}); nothing was changed. "
            "Look for long transactions in pg_stat_activity, or try again when less is going on."
        )
    if state == _NOT_ALLOWED:
        return Unavailable(
            f"This role of PostgreSQL may not upgrade the registry ({error.orig}); use the one that owns the tables."
        )
    if isinstance(error, DatabaseError):
        return Unavailable(
            f"The database can't be upgraded: {error.orig}. Check the database, then run it again."
        )
    return error
