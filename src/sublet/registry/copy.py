"""Copy a whole registry from one database into another, check the copy, and only then let it count."""

from collections.abc import Callable
from dataclasses import dataclass

from sublet.counted import counted
from sublet.db import Tx
from sublet.doctor.model import Violation
from sublet.errors import Conflict, Unavailable
from sublet.migrations import take_advisory_lock, upgrade_within
from sublet.processes.processes import list_running
from sublet.registry import copy_store
from sublet.registry.connection_store import open_source, open_target
from sublet.registry.digest import Digesting, TableDigest, differing
from sublet.schema_revision import find_revision, known_revisions, needed_revision
from sublet.sqlite_copy import sqlite_path

Check = Callable[[Tx], list[Violation]]


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied: each table, equal on both sides; `already` where the target was equal before. Violations are the source's too."""

    tables: tuple[TableDigest, ...]
    violations: list[Violation]
    already: bool


def copy_registry(source: str, target: str, check: Check, *, force: bool = False) -> Copied:
    """Copy the registry at one address to another, in one transaction of the target; `check` is the doctor's.

    The source is read in one state, and nobody writes it meanwhile: on SQLite it holds the lock of the serving process and that of
    writers; on PostgreSQL it is one snapshot (REPEATABLE READ), and there must be no process of the service. The target is made or must
    be an empty registry, or equal already. Before the commit each table is read back, and its rows and their digest must be the source's.

    Raises:
        Conflict: both are the same; a service runs over one; the target has another registry; the target can't hold a value;
            an invariant is broken, and it isn't forced.
        Unavailable: one can't be reached, read or written, or has another schema than this code's.
    """
    path, other = sqlite_path(source), sqlite_path(target)
    if source == target or (path and other and path.resolve() == other.resolve()):
        raise Conflict("Both addresses are the same registry. Give an empty database as the target.")
    with open_source(source, path) as reading, open_target(target, other) as writing:
        copy_store.prepare_reading(reading)
        _refuse_other_schema(reading, "source")
        _refuse_served(reading, "source")
        _prepare(writing)
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
    digesting = Digesting(name, [column.name for column in table.columns])
    copy_store.add_rows(writing, table, digesting.pass_through(copy_store.read_rows(reading, table)))
    return digesting.result()


def _digests(tx: Tx) -> list[TableDigest]:
    found = []
    for table in copy_store.list_copied():
        digesting = Digesting(table.name, [column.name for column in table.columns])
        for _ in digesting.pass_through(copy_store.read_rows(tx, table)):
            pass
        found.append(digesting.result())
    return found


def _compare(reading: Tx, writing: Tx, filled: str) -> Copied:
    ours, theirs = _digests(reading), _digests(writing)
    if different := differing(ours, theirs):
        one, other = different[0]
        raise Conflict(
            f"The target has another registry: there are rows in {filled}, and {len(different)} tables differ, the first "
            f"{one.table}: {one.rows} rows here, {other.rows} there. Nothing was changed. Name an empty database, or drop that "
            "one first if nobody needs it."
        )
    return Copied(tuple(ours), [], already=True)


def _refuse_different(ours: list[TableDigest], theirs: list[TableDigest]) -> None:
    if different := differing(ours, theirs):
        one, other = different[0]
        raise Conflict(
            f"{one.table} came out different: {one.rows} rows with the digest {one.digest[:12]} were sent, {other.rows} with "
            f"{other.digest[:12]} are there. Nothing was copied. Try again, and report it if it stays so."
        )


def _refuse_other_schema(tx: Tx, side: str) -> None:
    revision = find_revision(tx)
    if revision == needed_revision():
        return
    if revision is None:
        raise Unavailable(f"There is no registry at the {side}. Check the address.")
    what = (
        "run `sublet migrate` there first" if revision in known_revisions() else "use that version of sublet"
    )
    raise Unavailable(f"The {side} has the schema {revision}, not {needed_revision()}: {what}.")


def _refuse_served(tx: Tx, side: str) -> None:
    running = list_running(tx)
    if running:
        raise Conflict(f"These run over the {side}: {'; '.join(map(str, running))}. Stop them first.")


def _prepare(writing: Tx) -> None:
    """Make the target a registry where it is none, and keep all others out of it."""
    if find_revision(writing) is None:
        upgrade_within(writing.connection)
    else:
        take_advisory_lock(writing.connection)
        _refuse_other_schema(writing, "target")
    copy_store.prepare_reading(writing)
    _refuse_served(writing, "target")
    copy_store.lock_tables(writing)
