"""The SQL of automatic DS and CSYNC: the states of names whose zones requested a change, or whose users
changed a setting.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    Select,
    String,
    Table,
    Text,
    bindparam,
    insert,
    select,
    update,
)

from sublet.db import Prepared, Tx
from sublet.platform_domains.store import platform_domains
from sublet.schema import Instant, metadata
from sublet.structs import replace
from sublet.subdomains.store import subdomains

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
    Column("awaited_digest", String(64)),
    Column("awaited_generation", Integer),
    Column("awaited_since", Instant),
    Column("awaited_seen_at", Instant),
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


class AutomaticDs(Struct, frozen=True):
    """A name's automatic DS state. The defaults are the state of a name without a row.

    `enabled` is false if the user turned automatic DS off. `bootstrap` is false if the registry must not look
    for the name's first DS records, because the user turned bootstrapping off or removed the DS records.
    `signed_at` is the inception of the last followed request's signature. `refusal` and `message` are the
    code and sentence of a current refusal, `refused_since` its start.

    The other four are set while the name waits for its first DS records (RFC 8078, section 3.3): the digest
    of the CDS and CDNSKEY records, the name's generation, when the wait began, and when a check last found
    the same records at all nameservers.
    """

    subdomain_id: int
    enabled: bool = True
    bootstrap: bool = True
    signed_at: datetime | None = None
    refusal: str | None = None
    message: str | None = None
    refused_since: datetime | None = None
    awaited_digest: str | None = None
    awaited_generation: int | None = None
    awaited_since: datetime | None = None
    awaited_seen_at: datetime | None = None

    def without_wait(self) -> "AutomaticDs":
        """Return the state of a name that doesn't wait for DS records."""
        return replace(
            self, awaited_digest=None, awaited_generation=None, awaited_since=None, awaited_seen_at=None
        )


class CsyncState(Struct, frozen=True):
    """A name's CSYNC state. The defaults are the state of a name without a row.

    `serial` is that of the zone whose CSYNC record was followed last, None after the user changed the
    delegation. `signed_at` is the inception of the oldest signature of the followed records. The other fields
    are as in `AutomaticDs`.
    """

    subdomain_id: int
    serial: int | None = None
    signed_at: datetime | None = None
    refusal: str | None = None
    message: str | None = None
    refused_since: datetime | None = None


class ChildStates(Struct, frozen=True):
    """A name's states of automatic DS and CSYNC, and its generation.

    The others are what its platform domain says about these and about broken delegations.
    """

    automatic_ds: AutomaticDs
    csync: CsyncState
    generation: int
    automatic_ds_policy: str
    bootstrap_days: int
    follows_csync: bool
    broken_days: int

    @property
    def awaited_until(self) -> datetime | None:
        """When the name's wait for its first DS records ends; None if it doesn't wait."""
        known = self.automatic_ds
        is_accepted = self.bootstrap_days > 0 and self.automatic_ds_policy in ("bootstrap", "all")
        if not is_accepted or known.awaited_since is None or known.awaited_generation != self.generation:
            return None
        return known.awaited_since + timedelta(days=self.bootstrap_days)


_SIZE = len(AutomaticDs.__struct_fields__)
CHILD_STATES: Select[Any] = (
    select(
        *(automatic_ds.c[name] for name in AutomaticDs.__struct_fields__),
        *(csync_states.c[name] for name in CsyncState.__struct_fields__),
        subdomains.c.generation,
        platform_domains.c.automatic_ds,
        platform_domains.c.bootstrap_days,
        platform_domains.c.csync,
        platform_domains.c.broken_days,
    )
    .select_from(
        subdomains.join(platform_domains)
        .outerjoin(automatic_ds, automatic_ds.c.subdomain_id == subdomains.c.id)
        .outerjoin(csync_states, csync_states.c.subdomain_id == subdomains.c.id)
    )
    .where(subdomains.c.id == bindparam("of"))
)
"""A query of the states of the name `of`, for the stores of other tables. `read_child_states` reads its
row.
"""
_STATES = Prepared(CHILD_STATES)


def find_child_states(tx: Tx, subdomain_id: int) -> ChildStates:
    """Return a name's states of automatic DS and CSYNC, and its platform domain's
    policies, by one statement.
    """
    row = _STATES.one_or_none(tx, of=subdomain_id)
    assert row is not None  # noqa: S101 - rows of names are never deleted
    return read_child_states(subdomain_id, row)


def read_child_states(subdomain_id: int, row: Sequence[Any]) -> ChildStates:
    """Return the states in a row of `CHILD_STATES`."""
    of_ds, of_csync, policies = row[:_SIZE], row[_SIZE:-5], row[-5:]
    return ChildStates(
        AutomaticDs(subdomain_id) if of_ds[0] is None else AutomaticDs(*of_ds),
        CsyncState(subdomain_id) if of_csync[0] is None else CsyncState(*of_csync),
        *policies,
    )


def find_automatic_ds(tx: Tx, subdomain_id: int) -> AutomaticDs:
    """Return a name's automatic DS state."""
    return find_child_states(tx, subdomain_id).automatic_ds


def find_csync_state(tx: Tx, subdomain_id: int) -> CsyncState:
    """Return a name's CSYNC state."""
    return find_child_states(tx, subdomain_id).csync


def save_state(tx: Tx, before: AutomaticDs | CsyncState, after: AutomaticDs | CsyncState) -> None:
    """Store a name's state if it changed. The caller must have locked the name's user."""
    if after == before:
        return
    table = automatic_ds if isinstance(after, AutomaticDs) else csync_states
    values = asdict(after)
    change = update(table).where(table.c.subdomain_id == after.subdomain_id).values(**values)
    if tx.connection.execute(change).rowcount == 0:
        tx.connection.execute(insert(table).values(**values))
