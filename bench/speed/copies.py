"""Copies of rows, made by the database: one statement for each row of the template, whatever the number of copies.

A copy of a kind of thing (`template.py`) has ids of its own, which its rows use among themselves; where they refer to the template's
user, they refer to the user of the copy; labels, mail addresses and instants are its own; what else there is stays as it is.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, cast

import psycopg
from sqlalchemy import JSON, Column, Table

from speed.template import OF_NOBODY, Kinds
from sublet.registry.copy_store import list_copied
from sublet.schema import Instant

USER = "templateuser"
OBJECTS = {"user": "users", "organization": "organizations", "token": "tokens", "subdomain": "subdomains"}
OBJECTS |= {"ticket": "tickets", "transfer": "transfers"}
"""The tables of the objects that events tell of."""
BALANCES = (
    ("user", "ledger_accounts", "balance"),
    ("old", "transfers", "balance_after"),
    ("plus", "transfers", "balance_after"),
)
"""The columns, by kind and table, that have the item's balance."""
_INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?=\+00:00|Z)"
_COMPACT = r"\d{8}T\d{6}(?=\.\d{6}Z)"
SETTLE = """
UPDATE ledger_accounts SET balance =
    (SELECT coalesce(sum(credits), 0) FROM transfers WHERE credit_account_id = ledger_accounts.id)
    - (SELECT coalesce(sum(credits), 0) FROM transfers WHERE debit_account_id = ledger_accounts.id)
WHERE kind <> 'user'
"""


class Item(NamedTuple):
    """One copy: its number among those of its kind, its label, its user, a balance, how it is moved in time, a token's digest."""

    n: int
    label: str
    user: int
    balance: int
    shift_seconds: int
    digest: str = ""


class Dialect(NamedTuple):
    """What the two databases say differently; `shifted` and the others take a text of SQL."""

    placeholder: str
    instant: str
    """An instant of a column `{0}`, moved."""
    text: str
    """The moved ISO text of an instant that begins with the literal `{0}`, without what follows its seconds."""
    compact: str
    """The same without punctuation."""


SQLITE = Dialect(
    "?",
    "strftime('%Y-%m-%dT%H:%M:%S', substr({0}, 1, 19), i.shift || ' seconds') || substr({0}, 20)",
    "strftime('%Y-%m-%dT%H:%M:%S', {0}, i.shift || ' seconds')",
    "strftime('%Y%m%dT%H%M%S', {0}, i.shift || ' seconds')",
)
POSTGRESQL = Dialect(
    "%s",
    "{0} + i.shift * interval '1 second'",
    "to_char(CAST({0} AS timestamp) + i.shift * interval '1 second', 'YYYY-MM-DD\"T\"HH24:MI:SS')",
    "to_char(CAST({0} AS timestamp) + i.shift * interval '1 second', 'YYYYMMDD\"T\"HH24MISS')",
)


class Copies:
    """Makes copies in one database, over a plain connection of its driver."""

    def __init__(self, connection: Any, dialect: Dialect, kinds: Kinds, labels: Mapping[str, str]) -> None:
        self._connection = connection
        self._dialect = dialect
        self._kinds = kinds
        self._labels = labels
        self._starts: dict[tuple[str, str], int] = {}

    def add(self, kind: str, items: Iterable[Item]) -> dict[str, int]:
        """Make copies of a kind of thing; return the id of the first row of each table. Users come first."""
        run = self._connection.execute
        run(
            "CREATE TEMPORARY TABLE items (n INTEGER PRIMARY KEY, label TEXT, u INTEGER, balance BIGINT, shift INTEGER, digest TEXT)"
        )
        self._load(items)
        tables = [table for table in list_copied() if self._kinds[kind].get(table.name)]
        for table in tables:
            if "id" in table.columns:
                last = run(f"SELECT coalesce(max(id), 0) FROM {table.name}").fetchone()[0]  # noqa: S608 - our own names
                self._starts[kind, table.name] = last + 1
        for table in tables:
            for key in self._kinds[kind][table.name]:
                self._copy(kind, table, key)
        run("DROP TABLE items")
        return {table.name: self._starts[kind, table.name] for table in tables if "id" in table.columns}

    def _load(self, items: Iterable[Item]) -> None:
        if self._dialect is SQLITE:
            self._connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", items)
            return
        with self._connection.cursor() as cursor, cursor.copy("COPY items FROM STDIN") as copy:
            for each in items:
                copy.write_row(each)
        self._connection.execute("ANALYZE items")

    def _copy(self, kind: str, table: Table, key: Sequence[Any]) -> None:
        run = self._connection.execute
        where = " AND ".join(
            f'"{each.name}" = {self._dialect.placeholder}' for each in table.primary_key.columns
        )
        # Out of the table itself: a table is not to be read while it is written.
        columns = ", ".join(f'"{each.name}"' for each in table.columns)
        run(f"CREATE TEMPORARY TABLE source AS SELECT {columns} FROM {table.name} WHERE {where}", key)  # noqa: S608 - our own names
        texts = ", ".join(f'CAST("{each.name}" AS TEXT)' for each in table.columns)
        found = run(f"SELECT {texts} FROM source").fetchone()  # noqa: S608 - as above
        row = dict(zip(table.columns.keys(), found, strict=True))
        values = ", ".join(self._value(kind, table, column, row) for column in table.columns)
        run(f"INSERT INTO {table.name} ({columns}) SELECT {values} FROM items i, source s ORDER BY i.n")  # noqa: S608 - as above
        run("DROP TABLE source")

    def _value(self, kind: str, table: Table, column: "Column[Any]", row: Mapping[str, str | None]) -> str:
        """Return the SQL of a column of the copies."""
        own = f's."{column.name}"'
        value = row[column.name]
        if (kind, table.name, column.name) in BALANCES:
            return "i.balance"
        if column.name == "digest":
            return "i.digest"
        if value is None:
            return own
        target = _target(table, column, row)
        if target is not None:
            return self._id(kind, target, int(value)) or own
        if isinstance(column.type, Instant):
            return self._dialect.instant.format(own)
        written = self._text(kind, value)
        if written is None:
            return own
        is_json = isinstance(column.type, JSON) and self._dialect is POSTGRESQL
        return f"CAST({written} AS JSON)" if is_json else written

    def _id(self, kind: str, target: str, value: int) -> str | None:
        """Return the SQL of a reference, or None where all copies refer to the same."""
        for owner, number in ((kind, "i.n"), ("user", "i.u")):
            ids = [key[0] for key in self._kinds[owner].get(target, [])]
            if value in ids:
                return f"({self._starts[owner, target]} + {number} * {len(ids)} + {ids.index(value)})"
        return None

    def _text(self, kind: str, value: str) -> str | None:
        """Return the SQL of a text, or None where it is the same in all copies."""
        label = self._labels.get(kind, USER)
        found = re.compile(
            rf'(?P<user>{USER})|(?P<label>{label})|"(?P<object>\w+)_id": (?P<id>\d+)|^(?P<verb>\w+):(?P<of>\d+):'
            rf"|(?P<instant>{_INSTANT})|(?P<compact>{_COMPACT})"
        )
        parts: list[str] = []
        end = 0
        for match in found.finditer(value):
            expression = self._part(kind, match)
            if expression is not None:
                parts += [_literal(value[end : match.start()]), expression]
                end = match.end()
        return " || ".join([*parts, _literal(value[end:])]) if parts else None

    def _part(self, kind: str, match: "re.Match[str]") -> str | None:
        if match["user"]:
            return "'user' || CAST(i.u AS TEXT)"
        if match["label"]:
            return "i.label"
        if match["instant"]:
            fraction = match["instant"][19:]
            return self._dialect.text.format(_literal(match["instant"][:19])) + f" || {_literal(fraction)}"
        if match["compact"]:
            day, time = match["compact"].split("T")
            iso = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"
            return self._dialect.compact.format(_literal(iso))
        before, target, value = (
            (f'"{match["object"]}_id": ', f"{match['object']}s", match["id"])
            if match["object"]
            else (f"{match['verb']}:", "subdomains", match["of"])
        )
        number = self._id(kind, target, int(value))
        after = "" if match["object"] else ":"
        return (
            None if number is None else f"{_literal(before)} || CAST({number} AS TEXT) || {_literal(after)}"
        )


def _target(table: Table, column: "Column[Any]", row: Mapping[str, str | None]) -> str | None:
    """Return the table that a column's number is an id of."""
    if column.name == "id":
        return table.name
    if column.name == "object_id":
        return OBJECTS.get(str(row["object_type"]))
    for key in column.foreign_keys:
        return str(key.column.table.name)
    return OBJECTS.get(column.name.removesuffix("_id")) if column.name.endswith("_id") else None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def open_copies(url: str, kinds: Kinds, labels: Mapping[str, str]) -> Iterator[Copies]:
    """Open a registry to make copies in it; in the end all of it is written, and its accounts balance."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            for pragma in ("synchronous=OFF", "cache_size=-500000", "temp_store=MEMORY"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            yield Copies(connection, SQLITE, kinds, labels)
            connection.execute(SETTLE)
            connection.execute("COMMIT")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return
    with psycopg.connect(url) as connected:
        # Our own statements, of our own names.
        yield Copies(cast("Any", connected), POSTGRESQL, kinds, labels)
        connected.execute(SETTLE.encode())
        for table in list_copied():
            if "id" in table.columns and table.name not in OF_NOBODY:
                connected.execute(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM {table.name} HAVING max(id) > 0".encode()  # noqa: S608
                )
        connected.commit()
        connected.autocommit = True
        connected.execute("VACUUM ANALYZE")
