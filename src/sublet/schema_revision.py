"""Which schema a database has, and whether this code can work with it: asked at each command, so without Alembic, which loads slowly."""

from pathlib import Path

from sqlalchemy import Column, String, Table, inspect, select, text

from sublet.db import Tx
from sublet.errors import Unavailable
from sublet.schema import metadata

schema_compatible_with = Table(
    "schema_compatible_with", metadata, Column("revision", String(32), primary_key=True)
)
"""The older revisions whose code may go on with this schema: what came since only added to it."""


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
