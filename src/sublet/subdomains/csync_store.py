"""The SQL of CSYNC: the state of names whose zone requested nameservers or glue."""

from dataclasses import asdict, dataclass, fields
from datetime import datetime

from sqlalchemy import BigInteger, Column, ForeignKey, String, Table, Text, bindparam, insert, select, update

from sublet.db import Prepared, Tx
from sublet.schema import Instant, metadata

csync_states = Table(
    "csync_states",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), primary_key=True, autoincrement=False),
    Column("serial", BigInteger),
    Column("signed_at", Instant),
    Column("refusal", String(32)),
    Column("message", Text),
    Column("refused_since", Instant),
)


@dataclass(frozen=True, slots=True)
class CsyncState:
    """A name's CSYNC state. The defaults are the state of a name without a row.

    `serial` is that of the zone whose CSYNC record was followed last, None after the user changed the delegation. `signed_at` is the inception
    of the oldest signature of the followed records. `refusal` and `message` are the code and sentence of a current refusal, `refused_since`
    its start.
    """

    subdomain_id: int
    serial: int | None = None
    signed_at: datetime | None = None
    refusal: str | None = None
    message: str | None = None
    refused_since: datetime | None = None


_COLUMNS = [csync_states.c[each.name] for each in fields(CsyncState)]
_OF = csync_states.c.subdomain_id == bindparam("of")
_FOUND = Prepared(select(*_COLUMNS).where(_OF))
_ADDED = Prepared(insert(csync_states))
_CHANGED = Prepared(update(csync_states).where(_OF))


def find_csync_state(tx: Tx, subdomain_id: int) -> CsyncState:
    """Return a name's CSYNC state."""
    row = _FOUND.one_or_none(tx, of=subdomain_id)
    return CsyncState(subdomain_id) if row is None else CsyncState(*row)


def save_csync_state(tx: Tx, before: CsyncState, after: CsyncState) -> None:
    """Store a name's CSYNC state if it changed. The caller must have locked the name's user."""
    if after == before:
        return
    values = asdict(after)
    if _FOUND.one_or_none(tx, of=after.subdomain_id) is None:
        _ADDED.run(tx, **values)
    else:
        _CHANGED.run(tx, of=values.pop("subdomain_id"), **values)
