"""All SQL of processes and of what they hold.

Instants here are of the clock of all: on PostgreSQL that of the database, on SQLite, where all are on one host, the transaction's.
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
"""Each process of the service that was there lately: its role, the version of its code, and the schema's revision which that needs."""

leases = Table(
    "leases",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("holder", String(36), nullable=False),
    Column("epoch", BIG_ID, nullable=False),
    Column("expires_at", Instant, nullable=False),
)
"""What one process does alone until an instant; `epoch` counts the holders, so that one who lost it can't be taken for the next."""


# Asked of each batch, or several times a second: built once. `clock_timestamp()` and not `now()`, which is the transaction's
# beginning: it may have waited for a lock since.
_DATABASE_CLOCK = func.clock_timestamp(type_=Instant)
_LEASE = tuple(leases.c[name] for name in Lease.__slots__)
_THIS_LEASE = leases.c.name == bindparam("called")


def _found(clock: ColumnElement[datetime]) -> Select[str, str, int, datetime, datetime]:
    return select(*_LEASE, clock.label("clock")).where(_THIS_LEASE)


_QUERIES = {"postgresql": _found(_DATABASE_CLOCK), "sqlite": _found(bindparam("now", type_=Instant))}
_FOUND = {name: Prepared(query) for name, query in _QUERIES.items()}
_LOCKED = {name: Prepared(query.with_for_update(key_share=True)) for name, query in _QUERIES.items()}


def find_clock(tx: Tx) -> datetime:
    """What time is it by the clock of all?"""
    if tx.connection.dialect.name == "postgresql":
        return tx.connection.execute(select(_DATABASE_CLOCK)).scalar_one()
    return tx.now


def find_lease(tx: Tx, name: str, *, lock: bool = False) -> tuple[Lease | None, datetime]:
    """Who has this lease, or last had it, and what time is it by the clock of all? `lock` keeps it as it is until the end."""
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
    """Store a lease that nobody ever had; tell whether nobody was faster."""
    row = {"name": lease.name, "holder": lease.holder, "epoch": lease.epoch, "expires_at": lease.expires_at}
    return tx.connection.execute(_INSERTED[tx.connection.dialect.name], row).first() is not None


_UPDATED = Prepared(
    update(leases)
    .where(_THIS_LEASE)
    .values(holder=bindparam("by"), epoch=bindparam("counted"), expires_at=bindparam("until"))
)


def update_lease(tx: Tx, lease: Lease) -> None:
    """Store a lease that is locked."""
    _UPDATED.run(tx, called=lease.name, by=lease.holder, counted=lease.epoch, until=lease.expires_at)


def end_leases(tx: Tx, now: datetime, *, holder: str | None = None) -> None:
    """Let the leases of a holder, None for all holders, be over."""
    change = update(leases).where(leases.c.expires_at > now).values(expires_at=now)
    # Nobody else has two of them in one transaction, so their order doesn't matter.
    tx.connection.execute(change if holder is None else change.where(leases.c.holder == holder))


_NAMED = select(*_LEASE).where(leases.c.name.in_(bindparam("names", expanding=True)))


def find_leases(tx: Tx, names: Collection[str]) -> list[Lease]:
    """Who has the leases of these names, or last had them?"""
    return [Lease(*row) for row in tx.connection.execute(_NAMED, {"names": list(names)})]


def list_leases(tx: Tx) -> list[Lease]:
    """Who has which lease, or last had it? By name."""
    return [Lease(*row) for row in tx.connection.execute(select(*_LEASE).order_by(leases.c.name))]


_PROCESS = tuple(processes.c[name] for name in Process.__slots__)


def list_processes(tx: Tx) -> list[Process]:
    """Which processes were there lately, in the order of their start?"""
    query = select(*_PROCESS).order_by(processes.c.started_at, processes.c.id)
    return [Process(*row) for row in tx.connection.execute(query)]


def insert_process(tx: Tx, process: Process) -> None:
    """Store that a process is there."""
    tx.connection.execute(
        insert(processes).values({name: getattr(process, name) for name in Process.__slots__})
    )


def update_seen(tx: Tx, process_id: str, now: datetime) -> bool:
    """Store that a process is still there; tell whether it is known."""
    change = update(processes).where(processes.c.id == process_id).values(seen_at=now)
    return tx.connection.execute(change).rowcount > 0


def delete_process(tx: Tx, process_id: str) -> None:
    """Forget a process."""
    tx.connection.execute(delete(processes).where(processes.c.id == process_id))


def delete_processes(tx: Tx, *, before: datetime, after: datetime) -> None:
    """Forget the processes that were last seen before an instant, or after another."""
    tx.connection.execute(
        delete(processes).where((processes.c.seen_at < before) | (processes.c.seen_at > after))
    )
