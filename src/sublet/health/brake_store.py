"""The SQL of the brake of health checks: one row."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import CheckConstraint, Column, Integer, Table, Text, select, update

from sublet.db import Prepared, Tx
from sublet.schema import Instant, metadata

health_brake = Table(
    "health_brake",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("stopped_at", Instant),
    Column("stopped_reason", Text),
    Column("resumed_at", Instant),
    Column("impaired_since", Instant),
    Column("impaired_reason", Text),
    CheckConstraint("id = 1", name="one"),
)


@dataclass(frozen=True, slots=True)
class Brake:
    """The state of the brake: when and why it stopped the consequences of health checks, and when the
    operator resumed them.

    `impaired_since` and `impaired_reason` say since when and why a worker can't check delegations.
    """

    stopped_at: datetime | None
    stopped_reason: str | None
    resumed_at: datetime | None
    impaired_since: datetime | None
    impaired_reason: str | None


_STATE = select(*(health_brake.c[name] for name in Brake.__slots__))
_FIND = Prepared(_STATE)
_LOCK = Prepared(_STATE.with_for_update())


def find_brake(tx: Tx) -> Brake:
    """Return the state of the brake."""
    (row,) = _FIND.all(tx)
    return Brake(*row)


def lock_brake(tx: Tx) -> Brake:
    """Lock and return the state of the brake."""
    (row,) = _LOCK.all(tx)
    return Brake(*row)


def update_brake(tx: Tx, **values: object) -> None:
    """Change the state of the brake. The caller has locked it."""
    tx.connection.execute(update(health_brake).values(**values))
