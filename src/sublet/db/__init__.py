"""The database: `read` and `write` run one function in one transaction with one instant.

Raising rolls back, returning commits; nothing is answered before its commit is durable. Verbs and stores are plain
synchronous functions over a `Tx`; only the edges await. Two engines stand behind the same two calls: `sqlite.py`, the
embedded default, and `postgresql.py`.
"""

from pathlib import Path

from sublet.db.marks import commit_marks
from sublet.db.model import Clock, Database, Tx, is_lost, utc_now
from sublet.db.postgresql import PostgresqlDatabase, open_postgresql
from sublet.db.prepared import Prepared
from sublet.db.sqlite import BUSY_TIMEOUT_SECONDS, SqliteDatabase, sqlite_engine
from sublet.errors import Unavailable

__all__ = (
    "BUSY_TIMEOUT_SECONDS",
    "Clock",
    "Database",
    "PostgresqlDatabase",
    "Prepared",
    "SqliteDatabase",
    "Tx",
    "commit_marks",
    "is_lost",
    "open_database",
    "sqlite_engine",
    "utc_now",
)


def open_database(url: str, clock: Clock = utc_now) -> Database:
    """Open the database of an address (`sqlite:///…` or `postgresql://…`).

    Raises:
        Unavailable: it can't be opened, or its PostgreSQL may lose acknowledged writes (`synchronous_commit` off).
    """
    if url.startswith("sqlite:///"):
        folder = Path(url.removeprefix("sqlite:///")).parent
        if not folder.is_dir():
            raise Unavailable(
                f"The folder {folder} of the database does not exist; create it, then run `sublet init`."
            )
        return SqliteDatabase(url, clock)
    return open_postgresql(url, clock)
