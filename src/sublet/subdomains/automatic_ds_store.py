"""The SQL of automatic DS: the state of names whose zone requested DS records, or whose user changed a setting."""

from dataclasses import asdict, dataclass, fields
from datetime import datetime

from sqlalchemy import Boolean, Column, ForeignKey, String, Table, Text, bindparam, insert, select, update

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


_COLUMNS = [automatic_ds.c[each.name] for each in fields(AutomaticDs)]
_OF = automatic_ds.c.subdomain_id == bindparam("of")
_FOUND = Prepared(select(*_COLUMNS).where(_OF))
_ADDED = Prepared(insert(automatic_ds))
_CHANGED = Prepared(update(automatic_ds).where(_OF))


def find_automatic_ds(tx: Tx, subdomain_id: int) -> AutomaticDs:
    """Return a name's automatic DS state."""
    row = _FOUND.one_or_none(tx, of=subdomain_id)
    return AutomaticDs(subdomain_id) if row is None else AutomaticDs(*row)


def save_automatic_ds(tx: Tx, before: AutomaticDs, after: AutomaticDs) -> None:
    """Store a name's automatic DS state if it changed. The caller must have locked the name's user."""
    if after == before:
        return
    values = asdict(after)
    if _FOUND.one_or_none(tx, of=after.subdomain_id) is None:
        _ADDED.run(tx, **values)
    else:
        _CHANGED.run(tx, of=values.pop("subdomain_id"), **values)
