"""All SQL of the rate limits that several processes share on PostgreSQL: the reserved part of each window.

Windows end by the database's clock, because the processes' clocks may differ. The event loop sends each
statement as a transaction of its own. The table is unlogged, so no statement waits for a disk or a standby.
"""

from datetime import timedelta

from msgspec import Struct
from sqlalchemy import (
    Column,
    Index,
    Integer,
    String,
    Table,
    bindparam,
    case,
    cast,
    delete,
    extract,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert

from sublet.db import Database, Query
from sublet.schema import Instant, metadata

WINDOW_SECONDS = 60
RESERVED_PART = 4
"""A reservation is at most `1/RESERVED_PART` of the unreserved requests. A larger divisor leaves less unused,
but needs more queries.
"""

rate_windows = Table(
    "rate_windows",
    metadata,
    Column("policy", String(32), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("ends_at", Instant, nullable=False),
    Column("used", Integer, nullable=False),
    Column("lent", Integer, nullable=False),
    Index("ix_rate_windows_ends_at", "ends_at"),
)
"""`used` is the reserved part of a window, `lent` the last reservation. The table is
unlogged on PostgreSQL.
"""


class Reservation(Struct, frozen=True):
    """The number of requests of a window that a process may answer, and the number left for all processes
    until the window ends.
    """

    count: int
    unreserved: int
    seconds_left: float


_column = rate_windows.c
_END_MAX = func.now() + timedelta(seconds=2 * WINDOW_SECONDS)
"""A later end was stored while the clock of PostgreSQL was ahead. Twice the window, because `now()` of a
transaction that waited for the row is before the window's start.
"""
_is_over = (_column.ends_at <= func.now()) | (_column.ends_at > _END_MAX)
_unreserved = case(
    (_is_over, bindparam("limit", type_=Integer)), else_=bindparam("limit", type_=Integer) - _column.used
)
_reservation = func.greatest(
    0,
    func.least(
        bindparam("wanted", type_=Integer), func.greatest(1, _unreserved // RESERVED_PART), _unreserved
    ),
)
_end = func.now() + timedelta(seconds=WINDOW_SECONDS)
_UPSERT = (
    insert(rate_windows)
    .values(
        policy=bindparam("policy"),
        key=bindparam("key"),
        ends_at=_end,
        used=bindparam("first", type_=Integer),
        lent=bindparam("first", type_=Integer),
    )
    .on_conflict_do_update(
        index_elements=[_column.policy, _column.key],
        set_={
            "used": case((_is_over, 0), else_=_column.used) + _reservation,
            "lent": _reservation,
            "ends_at": case((_is_over, _end), else_=_column.ends_at),
        },
    )
    .returning(
        _column.used,
        _column.lent,
        cast((extract("epoch", _column.ends_at) - extract("epoch", func.now())) * 1000, Integer),
    )
)
"""A single statement, so that no other process changes the window between the read and the write."""
_RESERVE = Query(_UPSERT, lambda rows: rows[0])
_ENDED = (
    select(_column.policy, _column.key)
    .where(_column.ends_at <= func.now())
    .order_by(_column.ends_at)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_DELETE_ENDED = Query(
    delete(rate_windows).where(tuple_(_column.policy, _column.key).in_(_ENDED)).returning(_column.key), len
)


async def reserve(db: Database, policy: str, key: str, limit: int, wanted: int) -> Reservation:
    """Reserve `wanted` requests of a window, but at most `1/RESERVED_PART` of what is unreserved, and at
    least one if any is unreserved.

    A new window begins if the key has none, or its last one has ended. A reservation whose answer gets lost
    stays reserved.

    Raises:
        Unavailable: the database can't be reached.
    """
    first = min(wanted, max(1, limit // RESERVED_PART))
    used, count, milliseconds_left = await db.fetch(
        _RESERVE, policy=policy, key=key, limit=limit, wanted=wanted, first=first
    )
    return Reservation(count, max(0, limit - used), milliseconds_left / 1000)


async def delete_ended(db: Database, most: int) -> int:
    """Delete at most `most` ended windows, the oldest first; return the number deleted.

    Raises:
        Unavailable: the database can't be reached.
    """
    return await db.fetch(_DELETE_ENDED, most=most)
