"""The schema of a database, and whether this code can work with it. Each start checks it, so without Alembic, which loads slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, String, Table, inspect, select, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from sublet.db import Tx, is_damage, sqlite_engine, utc_now
from sublet.errors import Unavailable
from sublet.schema import metadata
from sublet.sqlite_file import sqlite_path

schema_compatible_with = Table(
    "schema_compatible_with", metadata, Column("revision", String(32), primary_key=True)
)
"""The older revisions whose code works with this schema, because later migrations only added to it."""


ADVISORY_LOCK = 0x5B1E7
"""The number of the PostgreSQL advisory lock for upgrading or filling a registry; arbitrary, but used for nothing else."""


def find_revision(tx: Tx) -> str | None:
    """Return the revision of the database's schema, or None if it was never initialised."""
    if not inspect(tx.connection).has_table("alembic_version"):
        return None
    return tx.connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def is_usable(tx: Tx, revision: str | None) -> bool:
    """True if this code can work with the database's schema of this revision: its own, or a newer one that only added."""
    if revision == needed_revision():
        return True
    # A known revision is an older one, which lacks what this code needs.
    if revision is None or revision in known_revisions():
        return False
    if not inspect(tx.connection).has_table(schema_compatible_with.name):
        return False
    query = select(schema_compatible_with.c.revision).where(
        schema_compatible_with.c.revision == needed_revision()
    )
    return tx.connection.execute(query).first() is not None


def refuse_unusable(tx: Tx) -> None:
    """Raise `Unavailable` if this code can't work with the schema.

    Raises:
        Unavailable: the database was never initialised; its schema is older than this code needs; it is newer and does not
            list this code's revision as compatible.
    """
    revision = find_revision(tx)
    if not is_usable(tx, revision):
        raise Unavailable(why_unusable(revision))


def refuse_unusable_database(url: str) -> None:
    """Raise `Unavailable` if this code can't work with the database of this address. A missing SQLite file is not created.

    Raises:
        Unavailable: as `refuse_unusable`; or it can't be reached; or an SQLite file is damaged, or lacks a table.
    """
    if is_missing(url):
        raise Unavailable(why_unusable(None))
    with reading(url) as connection:
        refuse_unusable(Tx(connection, utc_now()))
        if connection.dialect.name == "sqlite":
            missing = sorted(metadata.tables.keys() - inspect(connection).get_table_names())
            if missing:
                raise Unavailable(
                    f"The database lacks the tables {', '.join(missing)}. Restore a backup (`sublet restore`)."
                )


def hold_schema(tx: Tx) -> None:
    """Keep upgrades away until the transaction ends, and refuse a schema with which this code can't work.

    This waits for a running upgrade as long as for any lock. On SQLite the lock of the file keeps upgrades away.

    Raises:
        Unavailable: as `refuse_unusable`.
    """
    if tx.connection.dialect.name == "postgresql":
        tx.connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({ADVISORY_LOCK})"))
    refuse_unusable(tx)


def why_unusable(revision: str | None) -> str:
    """Return why this code can't work with a schema, and what to do."""
    if revision is None:
        return "The database was never initialised; run `sublet init` first."
    sentence = f"The database has the schema {revision}, this version of sublet needs {needed_revision()}; "
    if revision in known_revisions():
        return sentence + "run `sublet migrate`, which upgrades it."
    return sentence + "that is of a newer version, and this one can't work with it: use the newer one."


def known_revisions() -> list[str]:
    """Return the revisions that this code can upgrade, oldest first, and the one that it needs last."""
    # From the names of the migrations' files: importing Alembic takes long.
    files = (Path(__file__).parent / "migrations" / "versions").glob("v*.py")
    return sorted(file.name.removeprefix("v").partition("_")[0] for file in files)


def needed_revision() -> str:
    """Return the revision that this code needs."""
    return known_revisions()[-1]


def open_engine(url: str) -> Engine:
    """Return an engine without a pool, for work on a whole registry.

    Raises:
        Unavailable: the folder of the SQLite file does not exist.
    """
    path = sqlite_path(url)
    if path is not None:
        folder = path.parent
        if not folder.is_dir():
            raise Unavailable(
                f"The folder {folder} of the database does not exist. Run `mkdir -p {folder}` first."
            )
        return sqlite_engine(url)
    from sublet.db.connect import postgresql_engine  # noqa: PLC0415 - as in `open_database`

    return postgresql_engine(url, poolclass=NullPool)


def is_missing(url: str) -> bool:
    """True if an address names an SQLite file that does not exist; opening it would create it."""
    path = sqlite_path(url)
    return path is not None and not path.exists()


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """Open a connection to a registry, outside of its service.

    Raises:
        Unavailable: the database can't be reached, or the file is not a database.
    """
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    except DatabaseError as error:
        if is_damage(error.orig):
            raise Unavailable(
                f"The file of {url} is damaged, or no SQLite database: {error.orig}. Restore a backup (`sublet restore`)."
            ) from error
        raise Unavailable(f"The database can't be reached: {error.orig}. Check `database_url`.") from error
    finally:
        engine.dispose()
