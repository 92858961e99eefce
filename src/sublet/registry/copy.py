"""Copy a whole registry from one database into another in one transaction, which commits only after a check of the copy."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sublet.counted import counted
from sublet.db import Tx
from sublet.doctor.model import Violation
from sublet.errors import Conflict, Unavailable
from sublet.migrations import take_advisory_lock, upgrade_within
from sublet.processes.processes import list_running
from sublet.registry import copy_store
from sublet.schema_revision import find_revision, known_revisions, needed_revision
from sublet.sqlite_file import sqlite_path

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class TableDigest:
    """The number of rows of a table, and the SHA-256 of all of them in hexadecimal."""

    table: str
    rows: int
    digest: str


class Digest:
    """Computes the digest of a table's rows while they pass through, in the byte order of the primary key.

    A row is one line of JSON: an array of the columns' values in the order of the schema. Instants are RFC 3339 in UTC with
    microseconds, and the members of objects are sorted, so that the digest is the same for both databases.
    """

    def __init__(self, table: str, columns: Sequence[str]) -> None:
        self._table = str(table)  # SQLAlchemy's names are a subclass of str
        self._rows = 0
        self._hash = hashlib.sha256(_ENCODER.encode([str(each) for each in (table, *columns)]) + b"\n")

    def pass_through(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield each row unchanged."""
        for row in rows:
            self._hash.update(_ENCODER.encode(row) + b"\n")
            self._rows += 1
            yield row

    def result(self) -> TableDigest:
        """Return the digest of the rows that passed through."""
        return TableDigest(self._table, self._rows, self._hash.hexdigest())


Check = Callable[[Tx], list[Violation]]


@dataclass(frozen=True, slots=True)
class Copied:
    """The tables, equal on both sides, and the invariants that both break; `already` if the target was equal before."""

    tables: tuple[TableDigest, ...]
    violations: list[Violation]
    already: bool


def copy_registry(source: str, target: str, check: Check, *, force: bool = False) -> Copied:
    """Copy the registry at one address to another, in one transaction of the target. `check` is the doctor's.

    The source is read in one state: on SQLite this holds the lock of the serving process and that of writers; on PostgreSQL
    it reads one snapshot (REPEATABLE READ), and no process of the service may run. The target is created, or must be an
    empty registry or an equal one. Before the commit each table is read back and its digest compared with the source's.

    Raises:
        Conflict: both are the same; a service runs on one; the target has another registry; the target can't store a value;
            an invariant is broken without `force`.
        Unavailable: one can't be reached, read or written, or has another schema than this code.
    """
    path, other = sqlite_path(source), sqlite_path(target)
    if source == target or (path and other and path.resolve() == other.resolve()):
        raise Conflict("Both addresses are the same registry. Give an empty database as the target.")
    with (
        copy_store.open_source(source, path) as reading,
        copy_store.open_target(target, other) as writing,
    ):
        copy_store.prepare_reading(reading)
        _refuse_other_schema(reading, "source")
        _refuse_served(reading, "source")
        _prepare_target(writing)
        filled = copy_store.find_filled(writing)
        if filled is not None:
            return _compare(reading, writing, filled)
        copy_store.delete_seeds(writing)
        ours = [_copy(reading, writing, name) for name in _names()]
        copy_store.set_last_ids(writing, copy_store.find_last_ids(reading))
        copy_store.analyze(writing)
        _refuse_different(ours, _digests(writing))
        violations = check(writing)
        if violations and not force:
            first = violations[0]
            raise Conflict(
                f"The registry breaks {counted(len(violations), 'invariant')}, the first {first.invariant} at {first.object_type} "
                f"{first.object_id}: {first.message}. Nothing was copied. Give --force to copy it as it is."
            )
        return Copied(tuple(ours), violations, already=False)


def _names() -> list[str]:
    return [table.name for table in copy_store.list_copied()]


def _copy(reading: Tx, writing: Tx, name: str) -> TableDigest:
    table = next(each for each in copy_store.list_copied() if each.name == name)
    digest = Digest(name, [column.name for column in table.columns])
    copy_store.add_rows(writing, table, digest.pass_through(copy_store.read_rows(reading, table)))
    return digest.result()


def _digests(tx: Tx) -> list[TableDigest]:
    found = []
    for table in copy_store.list_copied():
        digest = Digest(table.name, [column.name for column in table.columns])
        for _ in digest.pass_through(copy_store.read_rows(tx, table)):
            pass
        found.append(digest.result())
    return found


def _compare(reading: Tx, writing: Tx, filled: str) -> Copied:
    ours, theirs = _digests(reading), _digests(writing)
    if different := _list_different(ours, theirs):
        one, other = different[0]
        raise Conflict(
            f"The target has another registry: there are rows in {filled}, and {len(different)} tables differ, the first "
            f"{one.table}: {one.rows} rows here, {other.rows} there. Nothing was changed. Name an empty database, or drop "
            "that one first."
        )
    return Copied(tuple(ours), [], already=True)


def _refuse_different(ours: list[TableDigest], theirs: list[TableDigest]) -> None:
    if different := _list_different(ours, theirs):
        one, other = different[0]
        raise Conflict(
            f"{one.table} differs after the copy: {one.rows} rows with the digest {one.digest[:12]} were sent, {other.rows} with "
            f"{other.digest[:12]} are there. Nothing was copied. Try again, and report it if it stays so."
        )


def _refuse_other_schema(tx: Tx, side: str) -> None:
    revision = find_revision(tx)
    if revision == needed_revision():
        return
    if revision is None:
        raise Unavailable(f"There is no registry at the {side}. Check the address.")
    known = revision in known_revisions()
    advice = "run `sublet migrate` there first" if known else "use that version of sublet"
    raise Unavailable(f"The {side} has the schema {revision}, not {needed_revision()}: {advice}.")


def _refuse_served(tx: Tx, side: str) -> None:
    running = list_running(tx)
    if running:
        raise Conflict(f"These processes run on the {side}: {'; '.join(map(str, running))}. Stop them first.")


def _prepare_target(writing: Tx) -> None:
    """Create the schema of the target if it is missing, and lock it."""
    if find_revision(writing) is None:
        upgrade_within(writing.connection)
    else:
        take_advisory_lock(writing.connection)
        _refuse_other_schema(writing, "target")
    copy_store.prepare_reading(writing)
    _refuse_served(writing, "target")
    copy_store.lock_tables(writing)


def _list_different(
    ours: Iterable[TableDigest], theirs: Iterable[TableDigest]
) -> list[tuple[TableDigest, TableDigest]]:
    """Return the digests of both sides for each table that is not the same."""
    return [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
