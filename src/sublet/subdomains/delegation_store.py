"""The SQL of delegations and of the nameserver index, which finds the names with nameservers at or below
another name.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import (
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    delete,
    insert,
    or_,
    select,
    true,
    update,
)

from sublet.db import Outdated, Prepared, Tx
from sublet.dns.names import is_at_or_below, owner_key
from sublet.dns.types import Delegation
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.store import platform_domains
from sublet.schema import OWNER_KEY, STREAMED, Instant, at_or_below, key_range, metadata
from sublet.subdomains import store
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import subdomains

nameserver_hosts = Table(
    "nameserver_hosts",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("host_key", OWNER_KEY, nullable=False),
    Column("dropped_generation", Integer),
    Column("told", Integer, nullable=False, server_default="0"),
    Column("told_since", Instant),
    PrimaryKeyConstraint("subdomain_id", "host_key"),
    Index("ix_nameserver_hosts_host_key", "host_key"),
)
"""The nameserver index: the nameservers of each name by `owner_key`, except nameservers at or below the name
itself.

The row of a removed nameserver stays until the removal is published. `dropped_generation` is the name's first
generation without the nameserver. `told` is the stage of the last warning about the nameserver, `told_since`
the start of the enclosing name's time in the trash at that warning (`dependents`).
"""

_HOSTS = nameserver_hosts.c
_OF = _HOSTS.subdomain_id == bindparam("of")
_ADDED = Prepared(insert(nameserver_hosts))
_DELETED = Prepared(
    delete(nameserver_hosts).where(
        _OF
        & (
            _HOSTS.host_key.in_(bindparam("keys", expanding=True))
            | (_HOSTS.dropped_generation <= bindparam("published"))
        )
    )
)
_DROPPED = Prepared(
    update(nameserver_hosts)
    .where(_OF & _HOSTS.host_key.in_(bindparam("keys", expanding=True)) & _HOSTS.dropped_generation.is_(None))
    # The database reads the generation here, because another transaction may have increased it since the
    # caller read the row.
    .values(
        dropped_generation=select(subdomains.c.generation)
        .where(subdomains.c.id == bindparam("changed"))
        .scalar_subquery()
    )
)
_ALL_DELETED = Prepared(delete(nameserver_hosts).where(_OF))


def host_keys(fqdn: str, delegation: Delegation) -> list[str]:
    """Return the `owner_key` of each nameserver that is not at or below the name itself, in the delegation's
    order.
    """
    return [owner_key(host) for host in delegation.nameservers if not is_at_or_below(host, fqdn)]


def insert_hosts(tx: Tx, subdomain: Subdomain) -> None:
    """Add the nameservers of a new name to the index."""
    _insert(tx, subdomain.id, host_keys(subdomain.fqdn, subdomain.delegation))


def _insert(tx: Tx, subdomain_id: int, keys: list[str]) -> None:
    _ADDED.run_many(
        tx,
        [
            {
                "subdomain_id": subdomain_id,
                "host_key": key,
                "dropped_generation": None,
                "told": 0,
                "told_since": None,
            }
            for key in keys
        ],
    )


def update_delegation(tx: Tx, subdomain: Subdomain, delegation: Delegation) -> None:
    """Store a delegation as the name's next generation, and update the nameserver index."""
    store.update_subdomain(
        tx,
        subdomain.id,
        **store.delegation_columns(delegation),
        **store.delegation_counts(delegation),
        **store.NEXT_GENERATION,
    )
    _index(tx, subdomain, delegation)


def clear_content(tx: Tx, subdomain: Subdomain, **values: object) -> None:
    """Remove a name's delegation or records, set the columns in `values`, and update the nameserver index."""
    nothing = Delegation()
    store.update_subdomain(
        tx,
        subdomain.id,
        **store.delegation_columns(nothing),
        **store.delegation_counts(nothing),
        **store.records_columns(()),
        **values,
    )
    _index(tx, subdomain, nothing)


def _index(tx: Tx, subdomain: Subdomain, delegation: Delegation) -> None:
    before = host_keys(subdomain.fqdn, subdomain.delegation)
    after = host_keys(subdomain.fqdn, delegation)
    added = [key for key in after if key not in before]
    if added:
        _DELETED.run(tx, of=subdomain.id, keys=added, published=subdomain.published_generation)
        _insert(tx, subdomain.id, added)
    drop_hosts(tx, subdomain.id, [key for key in before if key not in after])


def drop_hosts(tx: Tx, subdomain_id: int, keys: list[str]) -> None:
    """Mark nameservers as removed by the name's current generation."""
    if keys:
        _DROPPED.run(tx, of=subdomain_id, keys=keys, changed=subdomain_id)


def delete_hosts(tx: Tx, subdomain_id: int) -> None:
    """Delete the index rows of a released name. The DNS no longer has the name's nameservers."""
    _ALL_DELETED.run(tx, of=subdomain_id)


_AT_OR_BELOW = at_or_below(_HOSTS.host_key)
_IS_CURRENT = _HOSTS.dropped_generation.is_(None)
_JOINED = nameserver_hosts.join(subdomains, subdomains.c.id == _HOSTS.subdomain_id)


class Dependent(Struct, frozen=True):
    """A name with a nameserver at or below another name, and its user."""

    id: int
    user_id: int


def _dependents(of: ColumnElement[bool]) -> Prepared:
    # A subquery, because for a join SQLite would scan all names in the order of the result.
    found = select(_HOSTS.subdomain_id).where(_AT_OR_BELOW & _IS_CURRENT & of)
    query = select(subdomains.c.id, subdomains.c.user_id).where(subdomains.c.id.in_(found))
    return Prepared(query.order_by(subdomains.c.id).limit(bindparam("at_most", type_=Integer)))


_DEPENDENTS = _dependents(true())
_UNWARNED = _dependents(
    or_(
        _HOSTS.told_since.is_(None), _HOSTS.told_since != bindparam("since"), _HOSTS.told < bindparam("stage")
    )
)


def list_dependents(tx: Tx, name: str, limit: int) -> list[Dependent]:
    """Return the names with a nameserver at or below this name."""
    return [Dependent(*row) for row in _DEPENDENTS.all(tx, **key_range(owner_key(name)), at_most=limit)]


def list_unwarned(tx: Tx, name: str, stage: int, since: datetime, limit: int) -> list[Dependent]:
    """Return the names with a nameserver at or below this name whose holders were not warned about this stage
    yet.

    `stage` and `since` are the result of `delegation_changes.warning_stage`.
    """
    rows = _UNWARNED.all(tx, **key_range(owner_key(name)), stage=stage, since=since, at_most=limit)
    return [Dependent(*row) for row in rows]


_WARNED = Prepared(
    update(nameserver_hosts)
    .where(_AT_OR_BELOW & _IS_CURRENT & (_HOSTS.subdomain_id == bindparam("of")))
    .values(told=bindparam("stage"), told_since=bindparam("since"))
)


def mark_warned(tx: Tx, subdomain_id: int, name: str, stage: int, since: datetime) -> None:
    """Store that the holder of a subdomain was warned about the subdomain's
    nameservers at or below `name`.
    """
    _WARNED.run(tx, of=subdomain_id, **key_range(owner_key(name)), stage=stage, since=since)


OF_OTHERS = (
    select(_HOSTS.subdomain_id)
    .select_from(_JOINED)
    .where(
        _AT_OR_BELOW
        & (subdomains.c.user_id != bindparam("besides_user"))
        & (_IS_CURRENT | (_HOSTS.dropped_generation > subdomains.c.published_generation))
    )
)
"""A query for other users' names with nameservers at or below a name, including removed nameservers that the
DNS may still have.
"""
_ANY_OF_OTHERS = Prepared(OF_OTHERS.limit(1))


def has_dependents(tx: Tx, name: str, *, besides_user_id: int = 0) -> bool:
    """True if names have nameservers at or below this name, including removed nameservers that the DNS may
    still have.

    Names of the user `besides_user_id` don't count.
    """
    return bool(_ANY_OF_OTHERS.all(tx, **key_range(owner_key(name)), besides_user=besides_user_id))


def stream_hosts(tx: Tx) -> Iterator[tuple[int, str]]:
    """Yield the subdomain's id and the owner key of each nameserver in the index, without removed
    nameservers.
    """
    query = select(_HOSTS.subdomain_id, _HOSTS.host_key).where(_IS_CURRENT)
    query = query.order_by(_HOSTS.subdomain_id, _HOSTS.host_key).execution_options(**STREAMED)
    for row in tx.connection.execute(query):
        yield row[0], row[1]


def stream_hosts_below(tx: Tx, domain: str) -> Iterator[tuple[int, str, str]]:
    """Yield the subdomain's id and fqdn, and the nameserver's owner key, of each
    nameserver below a domain.
    """
    query = select(_HOSTS.subdomain_id, subdomains.c.fqdn, _HOSTS.host_key).select_from(_JOINED)
    query = query.where(_AT_OR_BELOW & (_HOSTS.host_key != bindparam("at")) & _IS_CURRENT)
    query = query.order_by(_HOSTS.host_key, _HOSTS.subdomain_id).execution_options(**STREAMED)
    for row in tx.connection.execute(query, key_range(owner_key(domain))):
        yield row[0], row[1], row[2]


_HELD = select(subdomains.c.id).where(
    (subdomains.c.fqdn == bindparam("name")) & subdomains.c.released_at.is_(None)
)
_BLOCKERS = (
    _HELD,
    store.UNPUBLISHED_OF_NAME,
    platform_domain_store.AT_OR_BELOW,
    zone_store.AT_OR_BELOW,
    OF_OTHERS,
)
_PARENT = platform_domains.c
# `correlate(None)`, because one of the subqueries is about platform domains too.
_STANDING = select(
    _PARENT.names_until,
    _PARENT.serial,
    _PARENT.primary,
    store.FREE_OF_USER.scalar_subquery(),
    or_(*(each.correlate(None).exists() for each in _BLOCKERS)),
).where((_PARENT.id == bindparam("of")) & _PARENT.removed_at.is_(None))
_FIND_STANDING = Prepared(_STANDING)
_LOCK_STANDING = Prepared(_STANDING.with_for_update(read=True, key_share=True))


class Standing(NamedTuple):
    """The number of a user's free names outside the trash, and whether anything
    blocks a name for the user.
    """

    free_count: int
    is_blocked: bool


def find_standing(
    tx: Tx, platform_domain: PlatformDomain, fqdn: str, user_id: int, *, is_locking: bool
) -> Standing:
    """Return a user's standing for a registration, by one query, because most names are free.

    Blocking are: an unreleased row of the name, or a row that waits for publication; a platform domain or a
    record at or below the name; a nameserver of another user's name at or below the name. `is_locking` keeps
    the platform domain from being removed or closed, from moving to another server, and from getting a record
    of the operator, until the transaction ends.

    Raises:
        Outdated: the platform domain was changed so since it was read. The operator's records change its
            serial.
    """
    query = _LOCK_STANDING if is_locking else _FIND_STANDING
    row = query.one_or_none(
        tx,
        of=platform_domain.id,
        owner_id=user_id,
        name=fqdn,
        besides_user=user_id,
        **key_range(owner_key(fqdn)),
    )
    seen = (platform_domain.names_until, platform_domain.serial, platform_domain.primary)
    if row is None or tuple(row[:3]) != seen:
        raise Outdated
    return Standing(row[3], bool(row[4]))
