"""Corrupt a registry without the verbs and without the database's constraints, in a transaction that is
rolled back.
"""

# ruff: noqa: S608 - the SQL is built from the tests' own texts

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from sqlalchemy import Table, text, update

from sublet.db import Tx
from sublet.doctor.model import Violation
from support.reading import find_faults
from support.registry import FREE_QUOTA, Registry

Spoil = Callable[[Tx], object]

_DROP_CONSTRAINTS = """
DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT conrelid::regclass AS of, conname AS name FROM pg_constraint
    WHERE contype IN ('c', 'f', 'u') AND connamespace = 'public'::regnamespace
  LOOP EXECUTE format('ALTER TABLE %%s DROP CONSTRAINT %%I', each.of, each.name); END LOOP;
END $$
"""
_UNIQUE_INDEXES = ("uq_subdomains_fqdn_unreleased", "uq_terms_subdomain_id_starts_at")


class _UndoError(Exception):
    """Rolls a transaction back."""


def found_after(registry: Registry, spoil: Spoil, *, guarded: bool = False) -> list[Violation]:
    """Corrupt the registry, run the doctor and roll back; return its findings.

    Unless `guarded`, the constraints are disabled.
    """
    return found_after_each(registry, {"it": spoil}, guarded=guarded)["it"]


def found_after_each(
    registry: Registry, spoils: Mapping[str, Spoil], *, guarded: bool = False
) -> dict[str, list[Violation]]:
    """Corrupt the registry in each way separately, and return the doctor's findings for each.

    Everything is rolled back.
    """
    found: dict[str, list[Violation]] = {}

    def run(tx: Tx) -> None:
        if not guarded:
            _drop_constraints(tx)
        for case, spoil in spoils.items():
            savepoint = tx.connection.begin_nested()
            with nullcontext() if guarded else _without_triggers(tx):
                spoil(tx)
            found[case] = find_faults(tx, FREE_QUOTA)
            savepoint.rollback()
        if tx.connection.dialect.name == "sqlite":
            tx.connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")
        raise _UndoError

    with pytest.raises(_UndoError):
        registry.write(run)
    return found


def _drop_constraints(tx: Tx) -> None:
    """Disable the constraints of the database."""
    run = tx.connection.exec_driver_sql
    if tx.connection.dialect.name == "postgresql":
        run("SET LOCAL session_replication_role = replica")  # no triggers of tables
        run(_DROP_CONSTRAINTS)
    else:
        run("PRAGMA ignore_check_constraints = ON")
    for name in _UNIQUE_INDEXES:
        run(f"DROP INDEX {name}")


@contextmanager
def _without_triggers(tx: Tx) -> Iterator[None]:
    """Disable SQLite's triggers and foreign keys, and restore the triggers afterwards."""
    run = tx.connection.exec_driver_sql
    triggers = []
    if tx.connection.dialect.name == "sqlite":
        run("PRAGMA defer_foreign_keys = ON")
        triggers = list(run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    for name, _ in triggers:
        run(f"DROP TRIGGER {name}")
    yield
    for _, sql in triggers:
        run(sql)


def without_unique(tx: Tx, table: str) -> None:
    """Drop a unique constraint of a table. On SQLite this rebuilds the table."""
    if tx.connection.dialect.name == "sqlite":
        run = tx.connection.exec_driver_sql
        last = run(f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'").scalar_one()
        run(f"CREATE TABLE copied AS SELECT * FROM {table}")
        run(f"DROP TABLE {table}")
        run(f"ALTER TABLE copied RENAME TO {table}")
        run(f"CREATE UNIQUE INDEX copied_id ON {table} (id)")  # what other tables refer to
        run(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', {last})")


def number_was_given(tx: Tx, table: str, number: int) -> None:
    """Set the table's sequence to the number of a row that was added with its own number."""
    sqlite = "UPDATE sqlite_sequence SET seq = :number WHERE name = :table"
    postgresql = "SELECT setval(pg_get_serial_sequence(:table, 'id'), :number)"
    statement = sqlite if tx.connection.dialect.name == "sqlite" else postgresql
    tx.connection.execute(text(statement), {"table": table, "number": number})


def sql(*statements: str) -> Spoil:
    """Return a function that runs statements of both engines."""

    def run(tx: Tx) -> None:
        for each in statements:
            tx.connection.execute(text(each))

    return run


def change(table: Table, where: str, **values: Any) -> Spoil:
    """Return a function that changes exactly one row."""

    def run(tx: Tx) -> None:
        changed = tx.connection.execute(update(table).where(text(where)).values(**values))
        assert changed.rowcount == 1, (table.name, where, changed.rowcount)

    return run


def both(*spoils: Spoil) -> Spoil:
    """Return a function that runs others in order."""

    def run(tx: Tx) -> None:
        for spoil in spoils:
            spoil(tx)

    return run
