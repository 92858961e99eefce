"""All SQL that stores a delegation, with the index of its nameservers: which names depend on a host at or below another name."""

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from sublet.db import Prepared, Tx
from sublet.dns.names import is_at_or_below, owner_key
from sublet.dns.types import Delegation
from sublet.schema import OWNER_KEY, Instant, metadata
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
"""The nameservers of every name that don't lie at or below the name itself, by their `owner_key`.

A nameserver that was removed stays until the DNS follows: `dropped_generation` is the name's first generation without it. `told` and
`told_since` say what the holder was last told of this nameserver, and of which stay in the trash (`dependents`).
"""

_HOSTS = nameserver_hosts.c
_OF = _HOSTS.subdomain_id == bindparam("of")
_ADDED = Prepared(insert(nameserver_hosts))
_FORGOTTEN = Prepared(
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
    # Counted by the database: the name's generation may be a later one than its reader knows.
    .values(
        dropped_generation=select(subdomains.c.generation)
        .where(subdomains.c.id == bindparam("changed"))
        .scalar_subquery()
    )
)
_ALL_FORGOTTEN = Prepared(delete(nameserver_hosts).where(_OF))


def host_keys(fqdn: str, delegation: Delegation) -> list[str]:
    """Return the `owner_key`s of the nameservers that don't lie at or below the name itself, in their order."""
    return [owner_key(host) for host in delegation.nameservers if not is_at_or_below(host, fqdn)]


def insert_hosts(tx: Tx, subdomain: Subdomain) -> None:
    """Index the nameservers of a name that was just added."""
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
    """Store what a name's delegation is to be, as its next generation, to be published at once."""
    store.update_subdomain(
        tx,
        subdomain.id,
        **store.delegation_columns(delegation),
        **store.delegation_counts(delegation),
        **store.next_generation(tx.now),
    )
    _index(tx, subdomain, delegation)


def forget_delegation(tx: Tx, subdomain: Subdomain, **values: object) -> None:
    """Store that a name has no delegation any more, with other columns; the generation is the caller's."""
    nothing = Delegation()
    store.update_subdomain(
        tx, subdomain.id, **store.delegation_columns(nothing), **store.delegation_counts(nothing), **values
    )
    _index(tx, subdomain, nothing)


def _index(tx: Tx, subdomain: Subdomain, delegation: Delegation) -> None:
    before = host_keys(subdomain.fqdn, subdomain.delegation)
    after = host_keys(subdomain.fqdn, delegation)
    added = [key for key in after if key not in before]
    if added:
        _FORGOTTEN.run(tx, of=subdomain.id, keys=added, published=subdomain.published_generation)
        _insert(tx, subdomain.id, added)
    drop_hosts(tx, subdomain.id, [key for key in before if key not in after])


def drop_hosts(tx: Tx, subdomain_id: int, keys: list[str]) -> None:
    """Mark nameservers as removed by the name's present generation."""
    if keys:
        _DROPPED.run(tx, of=subdomain_id, keys=keys, changed=subdomain_id)


def forget_hosts(tx: Tx, subdomain_id: int) -> None:
    """Delete the rows of a name that is released: nothing of it is in the DNS."""
    _ALL_FORGOTTEN.run(tx, of=subdomain_id)
