"""Copy a whole registry to another database, in one transaction that commits only if the copy is equal."""

from pathlib import Path

from msgspec import Struct

from sublet.counted import counted
from sublet.db import Tx, sqlite_path
from sublet.doctor.checks import check_copy
from sublet.doctor.model import Violation
from sublet.errors import Conflict, Unavailable
from sublet.migrations import take_advisory_lock, upgrade_within
from sublet.processes.processes import list_running
from sublet.registry import copy_store
from sublet.registry.copy_store import TableDigest
from sublet.schema_revision import find_revision, needed_revision, why_unusable


class CopyResult(Struct, frozen=True):
    """The equal tables of both databases, and the broken invariants.

    `already` is true if the target was equal before.
    """

    tables: tuple[TableDigest, ...]
    violations: list[Violation]
    already: bool


def copy_registry(source: str, target: str, *, force: bool = False) -> CopyResult:
    """Copy the registry at one address to another, in one transaction of the target.

    The source is read in a single state: SQLite is locked against the service and other writers; PostgreSQL
    is read in one snapshot (REPEATABLE READ), while no process of the service may run. The target is created,
    or must be an empty or equal registry. Before the commit, each table is read back, and its digest is
    compared with the source's.

    Raises:
        Conflict: both addresses are the same; a service runs on one of them; the target has another registry,
            or can't store a value; or an invariant is broken and `force` is false.
        Unavailable: a database can't be reached, read or written, or has another schema than this code.
    """
    path, other = sqlite_path(source), sqlite_path(target)
    if source == target or (path and other and path.resolve() == other.resolve()):
        raise Conflict("Both addresses are the same registry. Give an empty database as the target.")
    with copy_store.open_source(source, path) as reading:
        copy_store.prepare_reading(reading)
        _refuse_other_schema(reading, "source")
        if path is None:
            _refuse_served(reading, "source")
        with copy_store.open_target(target, other) as writing:
            return _copy(reading, writing, other, force=force)


def _copy(reading: Tx, writing: Tx, path: Path | None, *, force: bool) -> CopyResult:
    """Copy all rows. `path` is the SQLite file of the target."""
    _prepare_target(writing, path)
    filled = copy_store.find_filled(writing)
    if filled is not None:
        return _compare(reading, writing, filled)
    copy_store.delete_seeds(writing)
    ours = copy_store.copy_tables(reading, writing)
    copy_store.copy_last_ids(reading, writing)
    copy_store.analyze(writing)
    for sent, stored in _differing(ours, copy_store.list_digests(writing, "target")):
        raise Conflict(
            f"{sent.table} differs after the copy: {sent.rows} rows with the digest {sent.digest[:12]} "
            f"were sent, {stored.rows} with {stored.digest[:12]} are stored. Nothing was copied. Try "
            "again, and report it if it fails again."
        )
    violations = check_copy(writing)
    if violations and not force:
        raise Conflict(
            f"The registry breaks {counted(len(violations), 'invariant')}. The first is "
            f"{violations[0]}. Nothing was copied. Give --force to copy it as it is."
        )
    return CopyResult(tuple(ours), violations, already=False)


def _compare(reading: Tx, writing: Tx, filled: str) -> CopyResult:
    ours = copy_store.list_digests(reading, "source")
    if differing := _differing(ours, copy_store.list_digests(writing, "target")):
        one, other = differing[0]
        raise Conflict(
            f"The target has another registry: there are rows in {filled}, and {one.table} has {one.rows} "
            f"rows in the source, {other.rows} in the target, which differ. Nothing was changed. Give an "
            "empty database, or drop the target first."
        )
    return CopyResult(tuple(ours), [], already=True)


def _differing(ours: list[TableDigest], theirs: list[TableDigest]) -> list[tuple[TableDigest, TableDigest]]:
    return [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]


def _refuse_other_schema(tx: Tx, side: str) -> None:
    revision = find_revision(tx)
    if revision == needed_revision():
        return
    if revision is None:
        raise Unavailable(f"There is no registry at the {side}. Check the address.")
    raise Unavailable(why_unusable(revision, f"The {side}"))


def _refuse_served(tx: Tx, side: str) -> None:
    """Refuse a registry on PostgreSQL on which processes run.

    The lock of an SQLite file, which a copy holds, excludes all of them.
    """
    running = list_running(tx)
    if running:
        raise Conflict(f"These processes run on the {side}: {'; '.join(map(str, running))}. Stop them first.")


def _prepare_target(writing: Tx, path: Path | None) -> None:
    """Create the schema of the target if it is missing, and lock it."""
    copy_store.prepare_reading(writing)
    if find_revision(writing) is None:
        upgrade_within(writing.connection)
    else:
        take_advisory_lock(writing.connection)
        _refuse_other_schema(writing, "target")
    if path is None:
        _refuse_served(writing, "target")
    copy_store.lock_tables(writing)
