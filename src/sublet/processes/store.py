"""All SQL of processes and their leases.

Instants are by the shared clock: the database's on PostgreSQL, the transaction's on SQLite, where all processes run on one host.
"""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import (
    Column,
    ColumnElement,
    Integer,
    Select,
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
from sqlalchemy.dialects import postgresql, sqlite

from sublet.db import Prepared, Tx
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
"""The processes of the service that run or ran lately; `revision` is the revision of the schema that a process needs."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(36), nullable=False),
    Column("epoch", BIG_ID, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
"""Exclusive rights of one process until `expires_at`; `epoch` counts the holders, so that a former holder isn't taken for the current one."""


# These statements run with each batch, or several times a second, so they are built once. `now()` would be the transaction's start,
# and the transaction may have waited for a lock since.
_DATABASE_CLOCK = func.clock_timestamp(type_=Instant)
_LEASE = tuple(leases.c[name] for name in Lease.__slots__)
_THIS_LEASE = leases.c.name == bindparam("called")


def _found(clock: ColumnElement[datetime]) -> Select[str, str, int, datetime, datetime]:
    return select(*_LEASE, clock.label("clock")).where(_THIS_LEASE)


_QUERIES = {"postgresql": _found(_DATABASE_CLOCK), "sqlite": _found(bindparam("now", type_=Instant))}
_FOUND = {name: Prepared(query) for name, query in _QUERIES.items()}
_LOCKED = {name: Prepared(query.with_for_update(key_share=True)) for name, query in _QUERIES.items()}


def find_clock(tx: Tx) -> datetime:
    """Return the time by the shared clock."""
    if tx.connection.dialect.name == "postgresql":
        return tx.connection.execute(select(_DATABASE_CLOCK)).scalar_one()
    return tx.now


def find_lease(tx: Tx, name: str, *, lock: bool = False) -> tuple[Lease | None, datetime]:
    """Return a lease with its current or last holder, and the time by the shared clock. `lock` locks its row until the transaction ends."""
    query = (_LOCKED if lock else _FOUND)[tx.connection.dialect.name]
    row = query.one_or_none(tx, **_now(tx, called=name))
    return (None, find_clock(tx)) if row is None else (Lease(*row[:4]), row[4])


def _now(tx: Tx, **values: object) -> dict[str, object]:
    return values if tx.connection.dialect.name == "postgresql" else {**values, "now": tx.now}


_INSERTED = {
    "postgresql": postgresql.insert(leases).on_conflict_do_nothing().returning(leases.c.name),
    "sqlite": sqlite.insert(leases).on_conflict_do_nothing().returning(leases.c.name),
}


def insert_lease(tx: Tx, lease: Lease) -> bool:
    """Store a new lease; False if another process was faster."""
    row = {"name": lease.name, "holder": lease.holder, "epoch": lease.epoch, "expires_at": lease.expires_at}
    return tx.connection.execute(_INSERTED[tx.connection.dialect.name], row).first() is not None


_UPDATED = Prepared(
    update(leases)
    .where(_THIS_LEASE)
    .values(holder=bindparam("by"), epoch=bindparam("counted"), expires_at=bindparam("until"))
)


def update_lease(tx: Tx, lease: Lease) -> None:
    """Store a changed lease, whose row the caller has locked."""
    _UPDATED.run(tx, called=lease.name, by=lease.holder, counted=lease.epoch, until=lease.expires_at)


def end_leases(tx: Tx, now: datetime, *, holder: str | None = None) -> None:
    """End the leases of a holder now; of all holders if it is None."""
    change = update(leases).where(leases.c.expires_at > now).values(expires_at=now)
    # No other transaction locks two leases, so the order doesn't matter.
    tx.connection.execute(change if holder is None else change.where(leases.c.holder == holder))


_NAMED = select(*_LEASE).where(leases.c.name.in_(bindparam("names", expanding=True)))


def find_leases(tx: Tx, names: Collection[str]) -> list[Lease]:
    """Return the leases of these names, each with its current or last holder."""
    return [Lease(*row) for row in tx.connection.execute(_NAMED, {"names": list(names)})]


def list_leases(tx: Tx) -> list[Lease]:
    """Return all leases, each with its current or last holder, by name."""
    return [Lease(*row) for row in tx.connection.execute(select(*_LEASE).order_by(leases.c.name))]


_PROCESS = tuple(processes.c[name] for name in Process.__slots__)


def has_processes(tx: Tx) -> bool:
    """True if the schema has the table of processes, which older schemas lack."""
    return inspect(tx.connection).has_table(processes.name)


def list_processes(tx: Tx) -> list[Process]:
    """Return the processes that run or ran lately, in the order of their start."""
    query = select(*_PROCESS).order_by(processes.c.started_at, processes.c.id)
    return [Process(*row) for row in tx.connection.execute(query)]


def insert_process(tx: Tx, process: Process) -> None:
    """Store a process."""
    tx.connection.execute(
        insert(processes).values({name: getattr(process, name) for name in Process.__slots__})
    )


def update_seen(tx: Tx, process_id: str, now: datetime) -> bool:
    """Store a heartbeat; False if the process is not in the table."""
    change = update(processes).where(processes.c.id == process_id).values(seen_at=now)
    return tx.connection.execute(change).rowcount > 0


def delete_process(tx: Tx, process_id: str) -> None:
    """Delete a process."""
    tx.connection.execute(delete(processes).where(processes.c.id == process_id))


def delete_processes(tx: Tx, *, before: datetime, after: datetime) -> None:
    """Delete the processes last seen before one instant or after another."""
    tx.connection.execute(
        delete(processes).where((processes.c.seen_at < before) | (processes.c.seen_at > after))
    )
