"""The SQL of what waits for a user: the numbers in the head of each page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Integer, Select, bindparam, literal_column, select, union_all

from sublet.accounts.model import Registrant
from sublet.db import Prepared, Tx
from sublet.sign_up.store import RECEIVED_INVITATIONS
from sublet.subdomains.list_store import BROKEN_NAMES
from sublet.subdomains.transfers.store import OPEN_OFFERS
from sublet.tickets.store import ANSWERED_TICKETS

BROKEN, OFFER, TICKET, INVITATION = "broken", "offer", "ticket", "invitation"


def _newest(kind: str, query: Select[Any]) -> Select[Any]:
    _, at = query.selected_columns
    newest = query.order_by(at.desc()).limit(bindparam("at_most", type_=Integer)).subquery()
    return select(literal_column(f"'{kind}'"), *newest.c)


# One query, because every page asks for all of them.
_WAITING = Prepared(
    union_all(
        _newest(BROKEN, BROKEN_NAMES),
        _newest(OFFER, OPEN_OFFERS),
        _newest(TICKET, ANSWERED_TICKETS),
        _newest(INVITATION, RECEIVED_INVITATIONS),
    )
)


def list_waiting(
    tx: Tx, registrant: Registrant, limit: int, *, answered_since: datetime
) -> Sequence[tuple[str, int, datetime]]:
    """Return what waits for a user: the kind, the id and the instant of the newest `limit` of each kind.

    The names and tickets are of the holder for whom the user acts, the offers and invitations the user's.
    """
    rows = _WAITING.all(
        tx,
        owner_id=registrant.holder.id,
        email=registrant.user.email,
        now=tx.now,
        since=answered_since,
        at_most=limit,
    )
    return [(kind, row_id, at) for kind, row_id, at in rows]
