"""Find the schema revision of a database, and check that this code can work with it.

Each start does this, so this module doesn't import Alembic, which is slow.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, String, Table, inspect, select, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from sublet.db import Tx, advice_about_cause, driver_message, is_damage, sqlite_engine, sqlite_path, utc_now
from sublet.errors import Unavailable
from sublet.schema import metadata

schema_compatible_with = Table(
    "schema_compatible_with", metadata, Column("revision", String(32), primary_key=True)
)
"""The older revisions whose code works with this schema, because later migrations only added tables, indexes
or columns.
"""


LAST_COMMIT_WITH_OLDER_MIGRATIONS = "d6b3424e4844"
"""The migrations before the first release were joined into one schema after this commit. It can upgrade to
that schema.
"""

ADVISORY_LOCK = 0x5B1E7
"""The number of the PostgreSQL advisory lock for upgrading or filling a registry. It is arbitrary and has no
other use.
"""


def find_revision(tx: Tx) -> str | None:
    """Return the revision of the database's schema, or None if it was never initialised."""
    if not inspect(tx.connection).has_table("alembic_version"):
        return None
    return tx.connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def is_usable(tx: Tx, revision: str | None) -> bool:
    """True if this code can work with a revision of the schema: its own, or a newer one that lists it as
    compatible.
    """
    if revision == needed_revision():
        return True
    # A known revision is older, and lacks tables or columns that this code needs.
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
        Unavailable: the database was never initialised; its schema is too old; or its schema is newer and
            does not list this code's revision as compatible.
    """
    revision = find_revision(tx)
    if not is_usable(tx, revision):
        raise Unavailable(why_unusable(revision))


def refuse_unusable_database(url: str) -> None:
    """Raise `Unavailable` if this code can't work with the database at a URL.

    A missing SQLite file is not created.

    Raises:
        Unavailable: `refuse_unusable` raises it; the database can't be reached; or an SQLite file is damaged
            or lacks a table.
    """
    refuse_missing(url)
    with reading(url) as connection:
        refuse_unusable(Tx(connection, utc_now()))
        if connection.dialect.name == "sqlite":
            missing = sorted(metadata.tables.keys() - inspect(connection).get_table_names())
            if missing:
                raise Unavailable(
                    f"The database lacks the tables {', '.join(missing)}. Restore a backup (`sublet "
                    "restore`)."
                )


def hold_schema(tx: Tx) -> None:
    """Block upgrades until the transaction ends, and refuse a schema with which this code can't work.

    Waits for a running upgrade. On SQLite, the lock of the file blocks upgrades.

    Raises:
        Unavailable: `refuse_unusable` raises it.
    """
    if tx.connection.dialect.name == "postgresql":
        tx.connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({ADVISORY_LOCK})"))
    refuse_unusable(tx)


def why_unusable(revision: str | None, registry: str = "The database") -> str:
    """Return sentences that say why this code can't work with a schema, and what to do.

    `registry` is its name in the message.
    """
    if revision is None:
        return f"{registry} was never initialised. Run `sublet init` first."
    sentence = f"{registry} has the schema {revision}, and this version of sublet needs {needed_revision()}. "
    if revision in known_revisions():
        return sentence + "Run `sublet migrate` to upgrade the schema."
    if revision < known_revisions()[0]:
        return (
            f"{sentence}A development version older than this one made the schema. Run `sublet migrate` of "
            f"the commit {LAST_COMMIT_WITH_OLDER_MIGRATIONS} first, then `sublet migrate` of this version."
        )
    return sentence + "The schema belongs to a newer version of sublet. Use that version."


def known_revisions() -> list[str]:
    """Return the revisions of all migrations, oldest first.

    The last revision is the one that this code needs.
    """
    # The names of the migrations' files have the revisions, and importing Alembic takes long.
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
    if (path := sqlite_path(url)) is not None:
        return sqlite_engine(path)
    from sublet.db.connect import postgresql_engine  # noqa: PLC0415 - SQLite doesn't need the driver

    return postgresql_engine(url, poolclass=NullPool)


def is_missing(url: str) -> bool:
    """True if a database URL names an SQLite file that doesn't exist.

    Opening the URL would create the file.
    """
    path = sqlite_path(url)
    return path is not None and not path.exists()


def refuse_missing(url: str) -> None:
    """Raise `Unavailable` if the SQLite file of a database URL does not exist.

    Without this check SQLite would create an empty database for a misspelt path.
    """
    if is_missing(url):
        raise Unavailable(f"There is no registry at {url}. Run `sublet init` first.")


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """Open a connection to a registry, for a command outside its service.

    Raises:
        Unavailable: the database can't be reached, or has another encoding than UTF-8; or the file is not a
            database.
    """
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            refuse_other_encoding(connection)
            yield connection
    except DatabaseError as error:
        if is_damage(error.orig):
            raise Unavailable(
                f"The file of {url} is damaged or not an SQLite database: {driver_message(error)}. Restore "
                "a backup (`sublet restore`)."
            ) from error
        runs = "that PostgreSQL runs, " if engine.dialect.name == "postgresql" else ""
        raise Unavailable(
            f"The database can't be reached: {driver_message(error)}. Check {runs}`database_url` and the "
            f"permissions. {advice_about_cause(error)}".rstrip()
        ) from error
    finally:
        engine.dispose()


def refuse_other_encoding(connection: Connection) -> None:
    """Raise `Unavailable` if a database of PostgreSQL can't store every character."""
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise Unavailable(
            f"The database has the encoding {encoding}, in which not every text can be stored. Create it "
            "with ENCODING 'UTF8' TEMPLATE template0, then try again."
        )
