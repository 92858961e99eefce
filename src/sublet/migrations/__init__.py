"""One history of the schema for both databases (Alembic); `upgrade` makes or upgrades a registry."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import NullPool

from sublet.db import postgresql_engine, sqlite_engine
from sublet.errors import Unavailable


def _engine(url: str) -> Engine:
    if url.startswith("sqlite:///"):
        folder = Path(url.removeprefix("sqlite:///")).parent
        if not folder.is_dir():
            raise Unavailable(f"The folder {folder} of the database does not exist; create it first.")
        return sqlite_engine(url)
    return postgresql_engine(url, poolclass=NullPool)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring the database of this address to the newest schema; return the revision before (None: empty) and after.

    All migrations run in one transaction: it is either upgraded or as it was.

    Raises:
        Unavailable: the database can't be reached or written.
    """
    before = current_revision(url)
    engine = _engine(url)
    try:
        with engine.execution_options(sublet_begin="BEGIN IMMEDIATE").begin() as connection:
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except OperationalError as error:
        raise Unavailable(f"The database can't be upgraded: {error.orig}") from error
    finally:
        engine.dispose()
    return before, newest_revision()


def current_revision(url: str) -> str | None:
    """Return the schema's revision in the database, or None when it was never initialised.

    Raises:
        Unavailable: the database can't be reached.
    """
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return None
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except DatabaseError as error:  # OperationalError, or "file is not a database"
        raise Unavailable(f"The database can't be reached: {error.orig}") from error
    finally:
        engine.dispose()


def newest_revision() -> str:
    """Return the revision that this code needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None  # noqa: S101 - the package ships with its migrations
    return head


def is_current(url: str) -> bool:
    """Tell whether the database has the schema that this code needs."""
    return current_revision(url) == newest_revision()
