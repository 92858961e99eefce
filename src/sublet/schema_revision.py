"""Which schema a database has, and which one this code needs: asked at each command, so without Alembic, which loads slowly."""

from pathlib import Path

from sqlalchemy import Column, String, Table, inspect, text

from sublet.db import Tx
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


def known_revisions() -> list[str]:
    """Return the revisions that this code can upgrade, oldest first, and last the one that it needs."""
    # From the names of the migrations' files: importing Alembic takes long.
    files = (Path(__file__).parent / "migrations" / "versions").glob("v*.py")
    return sorted(file.name.removeprefix("v").partition("_")[0] for file in files)


def needed_revision() -> str:
    """Return the revision that this code needs."""
    return known_revisions()[-1]
