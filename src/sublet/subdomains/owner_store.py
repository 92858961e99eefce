"""All SQL of the owner names that are, or may be, in a zone by our hand."""

from collections.abc import Collection, Iterable

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    delete,
    false,
    insert,
    select,
    true,
    update,
)

from sublet.db import Prepared, Tx
from sublet.schema import STREAMED, metadata
from sublet.subdomains.store import subdomains

published_owners = Table(
    "published_owners",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("owner", String(253), nullable=False),
    Column("sent", Boolean, nullable=False),
    PrimaryKeyConstraint("subdomain_id", "owner"),
)
"""The owner names that are, or may be, in the zone by our hand: written ahead, before anything is sent.

`sent` tells that a change of the zone had them; until then what stands there is somebody else's.
"""


def list_published_owners(tx: Tx, subdomain_id: int) -> frozenset[str]:
    """Which owner names of this subdomain are, or may be, in the zone?"""
    return frozenset(list_owners(tx, [subdomain_id])[subdomain_id])


_OWNERS = Prepared(
    select(published_owners.c.subdomain_id, published_owners.c.owner, published_owners.c.sent).where(
        published_owners.c.subdomain_id.in_(bindparam("ids", expanding=True))
    )
)


def list_owners(tx: Tx, subdomain_ids: Collection[int]) -> dict[int, dict[str, bool]]:
    """Which owner names of these subdomains are, or may be, in the zone, and had a change of the zone them already?"""
    rows = _OWNERS.all(tx, ids=list(subdomain_ids))
    found: dict[int, dict[str, bool]] = {each: {} for each in subdomain_ids}
    for subdomain_id, owner, sent in rows:
        found[subdomain_id][owner] = sent
    return found


def list_published_owners_of_zone(
    tx: Tx, platform_domain_id: int, *, only_sent: bool = False
) -> dict[str, int]:
    """Which owner names of this zone are ours, or may be? Each with its subdomain's id (the newest, of several).

    With `only_sent` those at which nothing was ever put are left out.
    """
    query = (
        select(published_owners.c.owner, published_owners.c.subdomain_id)
        .join(subdomains)
        .where(subdomains.c.platform_domain_id == platform_domain_id)
        .order_by(published_owners.c.subdomain_id)
        .execution_options(**STREAMED)
    )
    if only_sent:
        query = query.where(published_owners.c.sent == true())
    return {row[0]: row[1] for row in tx.connection.execute(query)}


_WRITTEN_AHEAD = Prepared(insert(published_owners))


def insert_published_owners(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Write ahead that these owner names, each given with its subdomain's id, may be in the zone from now on."""
    rows = [
        {"subdomain_id": subdomain_id, "owner": owner, "sent": False}
        for subdomain_id, owner in sorted(owners)
    ]
    _WRITTEN_AHEAD.run_many(tx, rows)


_THIS_OWNER = (published_owners.c.subdomain_id == bindparam("of")) & (
    published_owners.c.owner == bindparam("at")
)
_SENT = Prepared(update(published_owners).where(_THIS_OWNER).values(sent=True))


def mark_owners_sent(tx: Tx, owners: Collection[tuple[int, str]]) -> None:
    """Record that a change of the zone had these owner names, each given with its subdomain's id.

    Those that were forgotten as unsent, while it was not known that the change was applied after all, are known again.
    """
    known = list_owners(tx, {subdomain_id for subdomain_id, _ in owners})
    insert_published_owners(tx, ((of, at) for of, at in owners if at not in known[of]))
    _SENT.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


_ALL_SENT = Prepared(
    update(published_owners)
    .where(
        published_owners.c.subdomain_id.in_(bindparam("ids", expanding=True))
        & (published_owners.c.sent == false())
    )
    .values(sent=True)
)


def mark_sent(tx: Tx, subdomain_ids: Collection[int]) -> None:
    """Record that a change of the zone has all owner names of these subdomains."""
    _ALL_SENT.run(tx, ids=list(subdomain_ids))


def delete_unsent_owners(tx: Tx, subdomain_id: int) -> None:
    """Forget the owner names of this subdomain that no change of the zone had: what stands there isn't ours."""
    tx.connection.execute(
        delete(published_owners).where(
            (published_owners.c.subdomain_id == subdomain_id) & (published_owners.c.sent == false())
        )
    )


_GONE = Prepared(delete(published_owners).where(_THIS_OWNER))


def delete_owners(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Forget these owner names, each given with its subdomain's id: they don't stand in the zone any more."""
    _GONE.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def move_published_owner(tx: Tx, owner: str, of: int, to: int) -> None:
    """Record that what stands at an owner is this subdomain's to remove, by our hand, whoever had it before."""
    at_owner = published_owners.c.owner == owner
    tx.connection.execute(
        delete(published_owners).where(at_owner & published_owners.c.subdomain_id.in_([of, to]))
    )
    tx.connection.execute(insert(published_owners).values(subdomain_id=to, owner=owner, sent=True))
