"""All SQL of rate limits that several processes count together, on PostgreSQL: the part of each window that is lent.

The clock is the database's: the processes' own may differ. Each statement is a transaction of its own, sent by the event loop; the table
is unlogged, so none waits for a disk or a standby.
"""

from dataclasses import dataclass
from datetime import timedelta

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
SHARE = 4
"""A loan is at most this part of the rest of a window. A larger number strands less in processes and asks more often."""

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
"""The part of a window that is lent to processes (`used`), and the last loan (`lent`); unlogged on PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Loan:
    """A process may count `count` requests in a window that ends in `seconds_left`; `not_lent` of the window are lent to no process."""

    count: int
    not_lent: int
    seconds_left: float


_of = rate_windows.c
_is_over = _of.ends_at <= func.now()
_not_lent = case(
    (_is_over, bindparam("limit", type_=Integer)), else_=bindparam("limit", type_=Integer) - _of.used
)
_loan = func.greatest(
    0,
    func.least(bindparam("wanted", type_=Integer), func.greatest(1, _not_lent // SHARE), _not_lent),
)
_end = func.now() + timedelta(seconds=WINDOW_SECONDS)
_LENT = (
    insert(rate_windows)
    .values(
        policy=bindparam("policy"),
        key=bindparam("key"),
        ends_at=_end,
        used=bindparam("first", type_=Integer),
        lent=bindparam("first", type_=Integer),
    )
    .on_conflict_do_update(
        index_elements=[_of.policy, _of.key],
        set_={
            "used": case((_is_over, 0), else_=_of.used) + _loan,
            "lent": _loan,
            "ends_at": case((_is_over, _end), else_=_of.ends_at),
        },
    )
    .returning(
        _of.used,
        _of.lent,
        cast((extract("epoch", _of.ends_at) - extract("epoch", func.now())) * 1000, Integer),
    )
)
"""One statement, so that no other process changes the window between the look and the loan."""
_LEND = Query(_LENT, lambda rows: rows[0])
_ENDED = (
    select(_of.policy, _of.key)
    .where(_of.ends_at <= func.now())
    .order_by(_of.ends_at)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_FORGET = Query(delete(rate_windows).where(tuple_(_of.policy, _of.key).in_(_ENDED)).returning(_of.key), len)


async def lend(db: Database, policy: str, key: str, limit: int, wanted: int) -> Loan:
    """Lend `wanted` requests of a window, but at most `1/SHARE` of the rest, and at least one while any is left.

    A window begins if there is none, or the last one is over. A loan that never arrives is lost, and the window is that much smaller.

    Raises:
        Unavailable: the database can't be reached.
    """
    first = min(wanted, max(1, limit // SHARE))
    used, lent, milliseconds_left = await db.fetch(
        _LEND, policy=policy, key=key, limit=limit, wanted=wanted, first=first
    )
    return Loan(lent, max(0, limit - used), milliseconds_left / 1000)


async def forget_ended(db: Database, most: int) -> int:
    """Delete at most `most` windows that are over, the oldest first; return how many were deleted.

    Raises:
        Unavailable: the database can't be reached.
    """
    return await db.fetch(_FORGET, most=most)
