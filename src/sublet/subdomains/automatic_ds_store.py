"""All SQL of automatic DS: what is known of the names that asked for DS records, or whose user set something."""

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
    """What is known of a name, by default that of a name without a row.

    `enabled` is false if its user turned automatic DS off; `bootstrap` is false if no first DS records are to be found for it: its user
    said so, or removed its DS records. `signed_at` is the inception of the request that was followed last. `refusal` and `message` are
    the code and the sentence of the request that is refused now, `refused_since` since when.
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
    """Return what is known of a name."""
    row = _FOUND.one_or_none(tx, of=subdomain_id)
    return AutomaticDs(subdomain_id) if row is None else AutomaticDs(*row)


def save_automatic_ds(tx: Tx, before: AutomaticDs, after: AutomaticDs) -> None:
    """Store what is known of a name, whose user the caller has locked."""
    if after == before:
        return
    values = asdict(after)
    if _FOUND.one_or_none(tx, of=after.subdomain_id) is None:
        _ADDED.run(tx, **values)
    else:
        _CHANGED.run(tx, of=values.pop("subdomain_id"), **values)
