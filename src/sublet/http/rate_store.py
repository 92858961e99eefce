"""All SQL of rate limits that several processes count together, on PostgreSQL: what is lent of each window.

The clock is the database's: the processes' own may differ.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import (
    Column,
    Float,
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

from sublet.db import Tx
from sublet.schema import Instant, metadata

WINDOW_SECONDS = 60
SHARE = 4
"""At most this part of what is not lent yet is lent at once: the larger the number, the less is stranded, and the more is asked."""

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
"""How much of a window is given out to processes (`used`), and how much of that the last time (`lent`); unlogged on PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Loan:
    """What a process may spend of a window that ends in `seconds_left`; `not_lent` is what nobody has borrowed yet."""

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
        cast(extract("epoch", _of.ends_at) - extract("epoch", func.now()), Float).label("seconds_left"),
    )
)
"""One statement, so that nobody comes between the look at a window and the loan."""
_ENDED = (
    select(_of.policy, _of.key)
    .where(_of.ends_at <= func.now())
    .order_by(_of.ends_at)
    .limit(bindparam("most", type_=Integer))
    .with_for_update(skip_locked=True)
)
_FORGOTTEN = delete(rate_windows).where(tuple_(_of.policy, _of.key).in_(_ENDED))


def lend(tx: Tx, policy: str, key: str, limit: int, wanted: int) -> Loan:
    """Lend what is wanted of a window, at most `1/SHARE` of what is left of it, at least one, and none when nothing is left.

    The window is begun when there is none or the last one is over. A loan that was given and not heard of is lost, and the window
    so much smaller.
    """
    row = tx.connection.execute(
        _LENT,
        {
            "policy": policy,
            "key": key,
            "limit": limit,
            "wanted": wanted,
            "first": min(wanted, max(1, limit // SHARE)),
        },
    ).one()
    return Loan(row.lent, max(0, limit - row.used), row.seconds_left)


def forget_ended(tx: Tx, most: int) -> int:
    """Delete windows that are over, the oldest first and at most so many; tell how many."""
    return tx.connection.execute(_FORGOTTEN, {"most": most}).rowcount
