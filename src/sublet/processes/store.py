"""All SQL of processes and their leases.

Times are by the shared clock: on PostgreSQL the clock of the database, on SQLite the clock of the host,
because all processes run on one host.
"""

from collections.abc import Collection
from datetime import datetime

from msgspec.structs import asdict
from sqlalchemy import (
    Column,
    Integer,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)

from sublet.db import Prepared, Tx, insert_into
from sublet.processes.model import Lease, Process
from sublet.schema import BIG_ID, Instant, metadata

processes = Table(
    "processes",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", String(32), nullable=False),
    Column("revision", String(32), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
)
"""The processes of the service that run or ran lately. `revision` is the schema that a process needs."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(36), nullable=False),
    Column("epoch", BIG_ID, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
"""Exclusive rights of one process until `expires_at`. `epoch` counts the holders, so that a former holder can
be recognized.
"""


# Not `now()`, the start of the transaction, because the transaction may have waited for a lock since then.
_DATABASE_CLOCK = func.clock_timestamp(type_=Instant)
_LEASES = select(*(leases.c[name] for name in Lease.__struct_fields__))
_LOCKED = Prepared(_LEASES.where(leases.c.name == bindparam("called")).with_for_update(key_share=True))


def find_clock(tx: Tx) -> datetime:
    """Return the time by the shared clock."""
    if tx.connection.dialect.name == "postgresql":
        return tx.connection.execute(select(_DATABASE_CLOCK)).scalar_one()
    return tx.now


def find_lease(tx: Tx, name: str) -> tuple[Lease | None, datetime]:
    """Return a lease with its current or last holder (None if no process ever took the lease), and the time
    by the shared clock.
    """
    row = tx.connection.execute(_LEASES.where(leases.c.name == name)).one_or_none()
    return None if row is None else Lease(*row), find_clock(tx)


def lock_lease(tx: Tx, name: str) -> Lease | None:
    """Return a lease with its current or last holder, or None, and lock its row until
    the transaction ends.
    """
    row = _LOCKED.one_or_none(tx, called=name)
    return None if row is None else Lease(*row)


def insert_lease(tx: Tx, lease: Lease) -> bool:
    """Store a new lease. Return False if another process has just stored a lease of this name."""
    added = insert_into(tx, leases).values(**asdict(lease)).on_conflict_do_nothing().returning(leases.c.name)
    return tx.connection.execute(added).first() is not None


def update_lease(tx: Tx, lease: Lease) -> None:
    """Store a changed lease. The caller must have locked its row."""
    tx.connection.execute(update(leases).where(leases.c.name == lease.name).values(**asdict(lease)))


def end_leases(tx: Tx, now: datetime, *, holder: str | None = None) -> None:
    """End the leases of a holder now. With None as the holder, end all leases."""
    change = update(leases).where(leases.c.expires_at > now).values(expires_at=now)
    # No other transaction locks two leases, so the order doesn't matter.
    tx.connection.execute(change if holder is None else change.where(leases.c.holder == holder))


def find_leases(tx: Tx, names: Collection[str]) -> list[Lease]:
    """Return the leases of these names, each with its current or last holder."""
    return [Lease(*row) for row in tx.connection.execute(_LEASES.where(leases.c.name.in_(names)))]


def list_leases(tx: Tx) -> list[Lease]:
    """Return all leases, sorted by name, each with its current or last holder."""
    return [Lease(*row) for row in tx.connection.execute(_LEASES.order_by(leases.c.name))]


_PROCESS = tuple(processes.c[name] for name in Process.__struct_fields__)


def has_processes(tx: Tx) -> bool:
    """True if the schema has the table of processes. Older schemas lack it."""
    return inspect(tx.connection).has_table(processes.name)


def check_readable(tx: Tx) -> None:
    """Raise if the database can't be read. Each role of `sublet grants` may read the table of processes."""
    tx.connection.execute(select(processes.c.id).limit(1)).first()


def list_processes(tx: Tx) -> list[Process]:
    """Return the processes that run or ran lately, sorted by their start."""
    query = select(*_PROCESS).order_by(processes.c.started_at, processes.c.id)
    return [Process(*row) for row in tx.connection.execute(query)]


def insert_process(tx: Tx, process: Process) -> None:
    """Store a process."""
    tx.connection.execute(insert(processes).values(**asdict(process)))


def update_seen_at(tx: Tx, process_id: str, now: datetime) -> bool:
    """Store a heartbeat. Return False if the process isn't in the table."""
    change = update(processes).where(processes.c.id == process_id).values(seen_at=now)
    return tx.connection.execute(change).rowcount > 0


def delete_process(tx: Tx, process_id: str) -> None:
    """Delete a process."""
    tx.connection.execute(delete(processes).where(processes.c.id == process_id))


def delete_all_processes(tx: Tx) -> None:
    """Delete all processes."""
    tx.connection.execute(delete(processes))


def delete_processes(tx: Tx, *, before: datetime, after: datetime) -> None:
    """Delete the processes whose last heartbeat is earlier than `before` or later than `after`."""
    silent = (processes.c.seen_at < before) | (processes.c.seen_at > after)
    tx.connection.execute(delete(processes).where(silent))
