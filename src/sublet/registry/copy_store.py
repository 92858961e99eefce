"""All SQL of copying a registry: a transaction on each database, and streams of rows between them."""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from sqlalchemy import JSON, Engine, String, Table, collate, delete, func, insert, select, text
from sqlalchemy.exc import DBAPIError

# Each store declares its tables in `metadata`.
import sublet.accounts.session_store
import sublet.accounts.store
import sublet.credits.store
import sublet.health.store
import sublet.mail.store
import sublet.operations.idempotency_store
import sublet.operations.rate_limit_store
import sublet.platform_domains.store
import sublet.platform_domains.zone_store
import sublet.processes.store
import sublet.sign_in.devices.store
import sublet.sign_up.store
import sublet.subdomains.child_state_store
import sublet.subdomains.delegation_store
import sublet.subdomains.published_owner_store
import sublet.subdomains.store
import sublet.subdomains.sweep.store
import sublet.subdomains.transfers.store
import sublet.tickets.store  # noqa: F401
from sublet.db import Tx, is_damage, utc_now
from sublet.db.model import JSON_OPTIONS
from sublet.errors import Conflict, Unavailable
from sublet.schema import find_last_id, list_numbered, metadata
from sublet.schema_revision import open_engine
from sublet.sqlite_file import SIDE_SUFFIXES, create_private, serve_lock

NOT_COPIED = (
    "processes",
    "leases",
    "rate_windows",
    "commit_marks",
    "schema_compatible_with",
    "health_targets",
)
"""The tables that belong to a database and its processes, not to the registry.

`processes` and `leases` are about the service on this database. `rate_windows` counts the requests of a
minute. `health_targets` has the claims of running checks. `commit_marks` are read only seconds after a lost
connection to the same database. Migrations write `schema_compatible_with`.
"""
SEEDS = ("clockwork", "forecasts", "health_brake", "ledger_accounts", "signing_keys")
"""Tables in which an empty registry may have rows, from its migrations or from a service that ran without
names.
"""
ROWS_AT_ONCE = 1000
_ENCODER = msgspec.json.Encoder(order="deterministic")


class TableDigest(msgspec.Struct, frozen=True):
    """The number of a table's rows, and the SHA-256 of all rows in hexadecimal."""

    table: str
    rows: int
    digest: str


class Digest:
    """Computes the digest of a table's rows, in the byte order of the primary key, while the rows pass
    through.

    A row is a line of JSON: an array of the columns' values in the order of the schema. Instants are RFC 3339
    in UTC with microseconds, and the members of objects are sorted, so that the digest is the same for both
    databases.
    """

    def __init__(self, table: Table) -> None:
        self._table = str(table.name)  # SQLAlchemy's names are a subclass of str
        self._rows = 0
        names = [self._table, *(str(column.name) for column in table.columns)]
        self._hash = hashlib.sha256(_ENCODER.encode(names) + b"\n")

    def pass_through(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield each row unchanged, and add it to the digest."""
        for row in rows:
            self._hash.update(_ENCODER.encode(row) + b"\n")
            self._rows += 1
            yield row

    def result(self) -> TableDigest:
        """Return the digest of the rows that passed through."""
        return TableDigest(self._table, self._rows, self._hash.hexdigest())


@contextmanager
def open_source(url: str, path: Path | None) -> Iterator[Tx]:
    """Open a transaction that reads a registry in a single state.

    `path` is the SQLite file, which is locked; None on PostgreSQL.

    Raises:
        Unavailable: the registry does not exist, is served, or can't be read.
    """
    if path is not None and not path.exists():
        raise Unavailable(f"There is no registry at the source: {path} does not exist. Check the address.")
    engine = open_engine(url)
    options = (
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        if path is None
        else {"begin_immediate": True}
    )
    try:
        with (
            serve_lock(path),
            _refusing_errors("Reading the source"),
            engine.execution_options(**options).connect() as connection,
        ):
            connection.begin()  # It rolls back at the end.
            yield Tx(connection, utc_now())
    finally:
        engine.dispose()


@contextmanager
def open_target(url: str, path: Path | None) -> Iterator[Tx]:
    """Open a transaction that writes a registry and commits at the end.

    On failure a new SQLite file is removed.

    Raises:
        Unavailable: the registry is served, or can't be written.
    """
    engine = open_engine(url)
    try:
        with (
            serve_lock(path),
            _removed_unless_done(path, engine),
            _refusing_errors("Writing the target"),
            engine.execution_options(begin_immediate=True).begin() as connection,
        ):
            yield Tx(connection, utc_now())
    finally:
        engine.dispose()


@contextmanager
def _removed_unless_done(path: Path | None, engine: Engine) -> Iterator[None]:
    """Create a file if it is missing, and remove a created file if writing fails.

    The caller holds the file's lock.
    """
    is_new = path is not None and not path.exists()
    if path is not None:
        create_private(path)
    try:
        yield
    except BaseException:
        engine.dispose()
        if path is not None and is_new:
            for suffix in ("", *SIDE_SUFFIXES, ".serve-lock"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        raise


def list_copied() -> list[Table]:
    """Return the tables of a registry. Each table comes after the tables that its foreign keys refer to."""
    return [table for table in metadata.sorted_tables if table.name not in NOT_COPIED]


def list_other() -> list[Table]:
    """Return the tables that belong to a database and its processes."""
    return [metadata.tables[name] for name in NOT_COPIED]


def read_rows(tx: Tx, table: Table, side: str) -> Iterator[tuple[Any, ...]]:
    """Yield all rows of a table in the order of its primary key, with `ROWS_AT_ONCE` in memory.

    `side` is the name of the registry in error messages.
    """
    # In byte order, like SQLite's. PostgreSQL's default order depends on the locale of the database.
    by_bytes = tx.connection.dialect.name == "postgresql"
    keys = [
        collate(each, "C") if by_bytes and type(each.type) is String else each for each in table.primary_key
    ]
    with _refusing_errors(f"Reading {table.name} of the {side}"):
        query = select(*table.columns).order_by(*keys).execution_options(yield_per=ROWS_AT_ONCE)
        for row in tx.connection.execute(query):
            yield tuple(row)


def add_rows(tx: Tx, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows into a table, in their order."""
    with _refusing_errors(f"Writing {table.name} of the target"):
        if tx.connection.dialect.name == "postgresql":
            _copy_in(tx, table, rows)
            return
        names, remaining = [column.name for column in table.columns], iter(rows)
        while part := list(islice(remaining, ROWS_AT_ONCE)):
            tx.connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in part])


def copy_tables(reading: Tx, writing: Tx) -> list[TableDigest]:
    """Copy all rows from one registry to the other, and return the digests of the sent rows."""
    found = []
    for table in list_copied():
        digest = Digest(table)
        add_rows(writing, table, digest.pass_through(read_rows(reading, table, "source")))
        found.append(digest.result())
    return found


def list_digests(tx: Tx, side: str) -> list[TableDigest]:
    """Return the digest of each table. `side` is the name of the registry in error messages."""
    found = []
    for table in list_copied():
        digest = Digest(table)
        for _ in digest.pass_through(read_rows(tx, table, side)):
            pass
        found.append(digest.result())
    return found


def _copy_in(tx: Tx, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows with COPY, which is much faster than INSERT."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    # COPY takes JSON as text. In a column with NOT NULL, None means the JSON value null.
    documents = [
        (place, None if column.nullable else "null")
        for place, column in enumerate(table.columns)
        if isinstance(column.type, JSON)
    ]
    to_json = JSON_OPTIONS["json_serializer"]
    driver: Any = tx.connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
        for row in rows:
            if documents:
                values = list(row)
                for place, null in documents:
                    values[place] = null if row[place] is None else to_json(row[place])
                copy.write_row(values)
            else:
                copy.write_row(row)


def find_filled(tx: Tx) -> str | None:
    """Return the first table with rows that an empty registry can't have, or None."""
    for table in list_copied():
        query = select(func.count()).select_from(table)
        if table.name == "ledger_accounts":
            query = query.where((table.c.kind == "user") | (table.c.balance != 0))
        elif table.name in SEEDS:
            continue
        if tx.connection.execute(query).scalar_one():
            return table.name
    return None


def delete_seeds(tx: Tx) -> None:
    """Delete the default rows of an empty registry."""
    for name in SEEDS:
        tx.connection.execute(delete(metadata.tables[name]))


def prepare_reading(tx: Tx) -> None:
    """Switch off the timeouts of this transaction, because reading a whole registry takes long."""
    if tx.connection.dialect.name == "postgresql":
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            tx.connection.execute(text(f"SET LOCAL {setting} = 0"))


def lock_tables(tx: Tx) -> None:
    """Block writers until the transaction ends. On SQLite, its BEGIN IMMEDIATE has already blocked them.

    Raises:
        Unavailable: other transactions lock the tables for longer than lock_timeout.
    """
    if tx.connection.dialect.name == "postgresql":
        names = ", ".join(f'"{table.name}"' for table in list_copied())
        with _refusing_errors("Locking the tables of the target"):
            tx.connection.execute(text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))


def copy_last_ids(reading: Tx, writing: Tx) -> None:
    """Make the next id of each table higher than all ids that the source has assigned."""
    for table in list_sequences():
        highest = writing.connection.execute(select(func.max(table.c.id))).scalar_one() or 0
        with _refusing_errors("Reading the source"):
            number = max(highest, find_last_id(reading.connection, table))
        if not number:
            continue
        values = {"name": table.name, "number": number}
        if writing.connection.dialect.name == "postgresql":
            statements = ["SELECT setval(pg_get_serial_sequence(:name, 'id'), :number)"]
        else:
            statements = [
                "DELETE FROM sqlite_sequence WHERE name = :name",
                "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)",
            ]
        for statement in statements:
            writing.connection.execute(text(statement), values)


def analyze(tx: Tx) -> None:
    """Update the statistics of the query planner. Without them, the checks of a large copy are very slow."""
    tx.connection.execute(text("ANALYZE"))


def list_sequences() -> list[Table]:
    """Return the tables whose ids PostgreSQL takes from a sequence."""
    return [*list_numbered(), metadata.tables["zone_records"]]


@contextmanager
def _refusing_errors(action: str) -> Iterator[None]:
    """Turn a database's errors during `action` into refusals.

    Raises:
        Conflict: the database can't store a value of the other database.
        Unavailable: the database can't be reached, or is full, locked or damaged.
    """
    try:
        yield
    except (DBAPIError, psycopg.Error, sqlite3.Error) as error:
        original = error.orig if isinstance(error, DBAPIError) else error
        refused = isinstance(original, psycopg.DataError | sqlite3.IntegrityError | psycopg.IntegrityError)
        problem = "a row does not fit: " if refused else ""
        is_damaged = not refused and is_damage(original)
        advice = (
            "Check the address, or restore a backup of the database (`sublet restore`)."
            if is_damaged
            else "Check the database, then try again."
        )
        sentence = f"{action}: {problem}{' '.join(str(original).split())}. Nothing was copied. {advice}"
        raise (Conflict if refused else Unavailable)(sentence) from error
