"""The database: `read` and `write` run one function in one transaction with one instant; `fetch` runs one
query.

An exception in the function rolls back; a return commits. No result is returned before its commit is durable.
Verbs and stores are synchronous functions with a `Tx`; only their callers in HTTP, worker and command line
await. There are two engines: `sqlite.py`, the embedded default, and `postgresql.py`.
"""

from sublet.db.file_watch import is_damage
from sublet.db.marks import commit_marks
from sublet.db.model import (
    Clock,
    Database,
    LockedKind,
    Outdated,
    PartT,
    Tx,
    advice_about_cause,
    driver_message,
    ends_transaction,
    lock_text,
    utc_now,
    write_parts,
)
from sublet.db.replication import Replication, find_replication
from sublet.db.sqlite import BUSY_TIMEOUT_SECONDS, SqliteDatabase, sqlite_engine, sqlite_path
from sublet.db.statements import Pages, Prepared, Query, delete_oldest, in_batches, insert_into, together

__all__ = (
    "BUSY_TIMEOUT_SECONDS",
    "Clock",
    "Database",
    "LockedKind",
    "Outdated",
    "Pages",
    "PartT",
    "Prepared",
    "Query",
    "Replication",
    "SqliteDatabase",
    "Tx",
    "advice_about_cause",
    "commit_marks",
    "delete_oldest",
    "driver_message",
    "ends_transaction",
    "find_replication",
    "in_batches",
    "insert_into",
    "is_damage",
    "lock_text",
    "open_database",
    "sqlite_engine",
    "sqlite_path",
    "together",
    "utc_now",
    "write_parts",
)


def open_database(
    url: str,
    clock: Clock = utc_now,
    *,
    is_serving: bool = False,
    may_lose_writes: bool = False,
    statement_seconds: int = 0,
) -> Database:
    """Open the database at a URL (`sqlite:///…` or `postgresql://…`).

    `is_serving` (SQLite): this process holds the `serve_lock` and checkpoints the WAL. `statement_seconds`
    (PostgreSQL) limits statements and idle transactions; 0 means no limit. `may_lose_writes` (PostgreSQL)
    allows a server that may lose acknowledged writes.

    Raises:
        Unavailable: the database can't be opened, or PostgreSQL may lose acknowledged writes (`fsync`,
            `full_page_writes` or `synchronous_commit` is off).
    """
    if (path := sqlite_path(url)) is not None:
        return SqliteDatabase(path, clock, is_serving=is_serving)
    from sublet.db.postgresql import open_postgresql  # noqa: PLC0415 - importing psycopg takes a tenth of a command's start

    return open_postgresql(url, clock, may_lose_writes=may_lose_writes, statement_seconds=statement_seconds)
