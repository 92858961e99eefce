"""Which schema a database has, and whether this code can work with it: asked at each start, so without Alembic, which loads slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, Connection, Engine, String, Table, inspect, select, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from sublet.db import Tx, sqlite_engine, utc_now
from sublet.errors import Unavailable
from sublet.schema import metadata

schema_compatible_with = Table(
    "schema_compatible_with", metadata, Column("revision", String(32), primary_key=True)
)
"""The older revisions whose code may go on with this schema: what came since only added to it."""


ADVISORY_LOCK = 0x5B1E7
"""The number of PostgreSQL's advisory lock that whoever upgrades or fills a registry holds; any number that nobody else has."""


def find_revision(tx: Tx) -> str | None:
    """Which revision has the schema of this database? None: it was never initialised."""
    if not inspect(tx.connection).has_table("alembic_version"):
        return None
    return tx.connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def is_usable(tx: Tx, revision: str | None) -> bool:
    """Can this code work with the schema of this revision, which the database has: its own, or a newer one that only added?"""
    if revision == needed_revision():
        return True
    # A schema that this code knows is an older one: the code counts on what came later.
    if revision is None or revision in known_revisions():
        return False
    if not inspect(tx.connection).has_table(schema_compatible_with.name):
        return False
    query = select(schema_compatible_with.c.revision).where(
        schema_compatible_with.c.revision == needed_revision()
    )
    return tx.connection.execute(query).first() is not None


def refuse_unusable(tx: Tx) -> None:
    """Refuse to work with a schema of which this code can't tell that it goes well.

    Raises:
        Unavailable: the database was never initialised; its schema is older than what this code needs; or newer, and that
            one doesn't say that this code goes on with it.
    """
    revision = find_revision(tx)
    if not is_usable(tx, revision):
        raise Unavailable(why_unusable(revision))


def refuse_unusable_database(url: str) -> None:
    """Refuse a database with whose schema this code can't work; where there is none, none is made.

    Raises:
        Unavailable: as `refuse_unusable`; or it can't be reached.
    """
    if is_missing(url):
        raise Unavailable(why_unusable(None))
    with reading(url) as connection:
        refuse_unusable(Tx(connection, utc_now()))


def hold_schema(tx: Tx) -> None:
    """Keep upgrades away until the transaction ends, and refuse a schema with which this code can't work.

    Where an upgrade is under way it is waited for, as long as for any lock. SQLite's is kept away by the lock of its file.

    Raises:
        Unavailable: as `refuse_unusable`.
    """
    if tx.connection.dialect.name == "postgresql":
        tx.connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({ADVISORY_LOCK})"))
    refuse_unusable(tx)


def why_unusable(revision: str | None) -> str:
    """Return the sentence that says why this code can't work with a schema, and what to do."""
    if revision is None:
        return "The database was never initialised; run `sublet init` first."
    told = f"The database has the schema {revision}, this version of sublet needs {needed_revision()}; "
    if revision in known_revisions():
        return told + "run `sublet migrate`, which upgrades it."
    return told + "that is of a newer version, which this one can't work beside: use the newer one."


def known_revisions() -> list[str]:
    """Return the revisions that this code can upgrade, oldest first, and last the one that it needs."""
    # From the names of the migrations' files: importing Alembic takes long.
    files = (Path(__file__).parent / "migrations" / "versions").glob("v*.py")
    return sorted(file.name.removeprefix("v").partition("_")[0] for file in files)


def needed_revision() -> str:
    """Return the revision that this code needs."""
    return known_revisions()[-1]


def open_engine(url: str) -> Engine:
    """Return an engine for work on a whole registry: each connection is a new one, and nothing of it is kept.

    Raises:
        Unavailable: the address is SQLite's, and its folder isn't there.
    """
    if url.startswith("sqlite:///"):
        folder = Path(url.removeprefix("sqlite:///")).parent
        if not folder.is_dir():
            raise Unavailable(
                f"The folder {folder} of the database does not exist. Run `mkdir -p {folder}` first."
            )
        return sqlite_engine(url)
    from sublet.db.connect import postgresql_engine  # noqa: PLC0415 - as in `open_database`

    return postgresql_engine(url, poolclass=NullPool)


def is_missing(url: str) -> bool:
    """Tell whether an address is that of an SQLite file that isn't there."""
    # Opening an SQLite file makes it.
    return url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists()


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """Read a registry past its service.

    Raises:
        Unavailable: the database can't be reached, or is none.
    """
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    except DatabaseError as error:  # OperationalError, or "file is not a database"
        raise Unavailable(f"The database can't be reached: {error.orig}. Check `database_url`.") from error
    finally:
        engine.dispose()
