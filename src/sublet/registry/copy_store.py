"""All SQL of copying a registry: tables as streams, out of one database and into another."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import psycopg
from sqlalchemy import JSON, String, Table, collate, delete, func, insert, select, text
from sqlalchemy.exc import DBAPIError

import sublet.accounts.store
import sublet.credits.coupon_store
import sublet.credits.package_store
import sublet.credits.store
import sublet.http.rate_store
import sublet.http.store
import sublet.mail.store
import sublet.platform_domains.pattern_store
import sublet.platform_domains.store
import sublet.platform_domains.zone_state_store
import sublet.platform_domains.zone_store
import sublet.processes.store
import sublet.subdomains.delegation_store
import sublet.subdomains.owner_store
import sublet.subdomains.store
import sublet.subdomains.sweep.store
import sublet.subdomains.term_store
import sublet.tickets.store
from sublet.db import Tx
from sublet.errors import Conflict, Refusal, Unavailable
from sublet.schema import metadata

DECLARING = (
    sublet.accounts.store,
    sublet.credits.coupon_store,
    sublet.credits.package_store,
    sublet.credits.store,
    sublet.http.rate_store,
    sublet.http.store,
    sublet.mail.store,
    sublet.platform_domains.pattern_store,
    sublet.platform_domains.store,
    sublet.platform_domains.zone_state_store,
    sublet.platform_domains.zone_store,
    sublet.processes.store,
    sublet.subdomains.delegation_store,
    sublet.subdomains.sweep.store,
    sublet.subdomains.owner_store,
    sublet.subdomains.store,
    sublet.subdomains.sweep.store,
    sublet.subdomains.term_store,
    sublet.tickets.store,
)
"""The stores that have to be imported for every table to be known."""
NOT_COPIED = ("processes", "leases", "rate_windows", "commit_marks", "schema_compatible_with")
"""What is of the database and its processes, not of the registry.

`processes` and `leases` tell who runs over this database. `rate_windows` counts the requests of one minute. `commit_marks` are for
commits whose answer was lost on the way, asked for within seconds and over the same database. `schema_compatible_with` belongs to the
schema, as its revision does, and is made with it.
"""
SEEDS = ("clockwork", "forecasts", "ledger_accounts")
"""Tables in which an empty registry may have rows: made with the schema, or by a service that ran over it without any names."""
ROWS_AT_ONCE = 1000


def list_copied() -> list[Table]:
    """Return the tables of a registry, each after those that it refers to."""
    return [table for table in metadata.sorted_tables if table.name not in NOT_COPIED]


def list_other() -> list[Table]:
    """Return the tables that belong to a database and its processes."""
    return [metadata.tables[name] for name in NOT_COPIED]


def read_rows(tx: Tx, table: Table) -> Iterator[tuple[Any, ...]]:
    """Give all rows of a table by its primary key, a bounded number of them in memory."""
    # By bytes on both: SQLite compares so, PostgreSQL in the order of some language.
    by_bytes = tx.connection.dialect.name == "postgresql"
    keys = [
        collate(each, "C") if by_bytes and type(each.type) is String else each for each in table.primary_key
    ]
    with _told(f"reading {table.name}"):
        query = select(*table.columns).order_by(*keys).execution_options(yield_per=ROWS_AT_ONCE)
        for row in tx.connection.execute(query):
            yield tuple(row)


def add_rows(tx: Tx, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Add rows to a table, in their order."""
    with _told(f"writing {table.name}"):
        if tx.connection.dialect.name == "postgresql":
            _copy_in(tx, table, rows)
            return
        names, remaining = [column.name for column in table.columns], iter(rows)
        while part := list(islice(remaining, ROWS_AT_ONCE)):
            tx.connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in part])


def _copy_in(tx: Tx, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Add rows by COPY, which takes a fraction of the time of inserts."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    # The driver knows no type of JSON; where null is a value, a column can't be without one.
    documents = [
        (place, None if column.nullable else "null")
        for place, column in enumerate(table.columns)
        if isinstance(column.type, JSON)
    ]
    driver: Any = tx.connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as copy:
        for row in rows:
            if documents:
                values = list(row)
                for place, null in documents:
                    values[place] = null if row[place] is None else json.dumps(row[place])
                copy.write_row(values)
            else:
                copy.write_row(row)


def find_filled(tx: Tx) -> str | None:
    """Which table has rows that an empty registry can't have? The first one."""
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
    """Take away what an empty registry has."""
    for name in SEEDS:
        tx.connection.execute(delete(metadata.tables[name]))


def prepare_reading(tx: Tx) -> None:
    """Let the reads of a whole registry take their time."""
    if tx.connection.dialect.name == "postgresql":
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            tx.connection.execute(text(f"SET LOCAL {setting} = 0"))


def lock_tables(tx: Tx) -> None:
    """Let nobody else write into the registry until the transaction's end; SQLite's BEGIN IMMEDIATE did so already.

    Raises:
        Unavailable: others use the tables for longer than the transaction's lock_timeout.
    """
    if tx.connection.dialect.name == "postgresql":
        names = ", ".join(f'"{table.name}"' for table in list_copied())
        with _told("locking the tables"):
            tx.connection.execute(text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))


def find_last_ids(tx: Tx) -> dict[str, int]:
    """Which number was given last, by table? Of tables that number their rows and never give a number twice."""
    found = {}
    for table in list_numbered():
        if tx.connection.dialect.name == "postgresql":
            name = tx.connection.execute(_sequence(table)).scalar_one()
            last, given = tx.connection.execute(text(f"SELECT last_value, is_called FROM {name}")).one()  # noqa: S608 - our own names
            found[table.name] = last if given else 0
        else:
            query = text("SELECT seq FROM sqlite_sequence WHERE name = :name").bindparams(name=table.name)
            found[table.name] = tx.connection.execute(query).scalar_one_or_none() or 0
    return found


def set_last_ids(tx: Tx, last: dict[str, int]) -> None:
    """Let the next row of each table get a number above those that were given."""
    for table in list_numbered():
        highest = tx.connection.execute(select(func.max(table.c.id))).scalar_one() or 0
        number = max(highest, last.get(table.name, 0))
        if not number:
            continue
        if tx.connection.dialect.name == "postgresql":
            name = tx.connection.execute(_sequence(table)).scalar_one()
            tx.connection.execute(text("SELECT setval(:name, :number)").bindparams(name=name, number=number))
        else:
            given = {"name": table.name, "number": number}
            tx.connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), given)
            tx.connection.execute(
                text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"), given
            )


def analyze(tx: Tx) -> None:
    """Let the database know what the tables hold now, so that the checks that follow don't take for ever."""
    tx.connection.execute(text("ANALYZE"))


def list_numbered() -> list[Table]:
    """Return the tables whose rows the database numbers."""
    return [table for table in list_copied() if table.dialect_options["sqlite"]["autoincrement"]] + [
        metadata.tables["zone_records"]
    ]


def _sequence(table: Table) -> Any:
    return text("SELECT pg_get_serial_sequence(:name, 'id')").bindparams(name=table.name)


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """Tell of what a database says as a refusal.

    Raises:
        Conflict: it can't hold a value that the other one holds.
        Unavailable: it is away, full, locked or broken.
    """
    try:
        yield
    except (DBAPIError, psycopg.Error, sqlite3.Error) as error:
        raise as_refusal(doing, error) from error


def as_refusal(doing: str, error: Exception) -> Refusal:
    """Return the refusal that tells of an error of either database while `doing` something."""
    original = error.orig if isinstance(error, DBAPIError) else error
    told = " ".join(str(original).split())
    if isinstance(original, psycopg.DataError | sqlite3.IntegrityError | psycopg.IntegrityError):
        return Conflict(
            f"{doing}: a row does not fit: {told}. Nothing was copied. Check the database, then try again."
        )
    return Unavailable(f"{doing}: {told}. Nothing was copied. Check the database, then try again.")
