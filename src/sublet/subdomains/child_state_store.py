"""The SQL of automatic DS and CSYNC: the states of names whose zones requested a change, or whose users changed a setting."""

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    String,
    Table,
    Text,
    bindparam,
    insert,
    select,
    update,
)

from sublet.db import Prepared, Tx
from sublet.schema import Instant, metadata

automatic_ds = Table(
    "automatic_ds",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), primary_key=True, autoincrement=False),
    Column("enabled", Boolean, nullable=False),
    Column("bootstrap", Boolean, nullable=False),
    Column("signed_at", Instant),
    Column("refusal", String(32)),
    Column("message", Text),
    Column("refused_since", Instant),
)

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
class AutomaticDs:
    """A name's automatic DS state. The defaults are the state of a name without a row.

    `enabled` is false if the user turned automatic DS off. `bootstrap` is false if the registry must not look for the name's first DS records,
    because the user turned bootstrapping off or removed the DS records. `signed_at` is the inception of the last followed request's
    signature. `refusal` and `message` are the code and sentence of a current refusal, `refused_since` its start.
    """

    subdomain_id: int
    enabled: bool = True
    bootstrap: bool = True
    signed_at: datetime | None = None
    refusal: str | None = None
    message: str | None = None
    refused_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class CsyncState:
    """A name's CSYNC state. The defaults are the state of a name without a row.

    `serial` is that of the zone whose CSYNC record was followed last, None after the user changed the delegation. `signed_at` is the inception
    of the oldest signature of the followed records. The other fields are as in `AutomaticDs`.
    """

    subdomain_id: int
    serial: int | None = None
    signed_at: datetime | None = None
    refusal: str | None = None
    message: str | None = None
    refused_since: datetime | None = None


_AUTOMATIC_DS = Prepared(
    select(*(automatic_ds.c[name] for name in AutomaticDs.__slots__)).where(
        automatic_ds.c.subdomain_id == bindparam("of")
    )
)
_CSYNC_STATE = Prepared(
    select(*(csync_states.c[name] for name in CsyncState.__slots__)).where(
        csync_states.c.subdomain_id == bindparam("of")
    )
)


def find_automatic_ds(tx: Tx, subdomain_id: int) -> AutomaticDs:
    """Return a name's automatic DS state."""
    row = _AUTOMATIC_DS.one_or_none(tx, of=subdomain_id)
    return AutomaticDs(subdomain_id) if row is None else AutomaticDs(*row)


def find_csync_state(tx: Tx, subdomain_id: int) -> CsyncState:
    """Return a name's CSYNC state."""
    row = _CSYNC_STATE.one_or_none(tx, of=subdomain_id)
    return CsyncState(subdomain_id) if row is None else CsyncState(*row)


def save_state(tx: Tx, before: AutomaticDs | CsyncState, after: AutomaticDs | CsyncState) -> None:
    """Store a name's state if it changed. The caller must have locked the name's user."""
    if after == before:
        return
    table = automatic_ds if isinstance(after, AutomaticDs) else csync_states
    values = asdict(after)
    change = update(table).where(table.c.subdomain_id == after.subdomain_id).values(**values)
    if tx.connection.execute(change).rowcount == 0:
        tx.connection.execute(insert(table).values(**values))
