"""The SQL of published owner names: the owner names that are, or may be, in zones on primaries because of the registry."""

from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    delete,
    false,
    insert,
    or_,
    select,
    true,
    update,
)

from sublet.db import Prepared, Tx
from sublet.schema import STREAMED, metadata
from sublet.subdomains.model import PlacedName, Subdomain
from sublet.subdomains.store import (
    read_delegation,
    read_subdomains,
    select_subdomains,
    subdomains,
)

published_owners = Table(
    "published_owners",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("owner", String(253), nullable=False),
    Column("sent", Boolean, nullable=False),
    PrimaryKeyConstraint("subdomain_id", "owner"),
)
"""The owner names that are, or may be, in the zone because of us. Written before anything is sent.

`sent` is true once a change of the zone had them. Until then, records at the owner name are not ours.
"""


def list_published_owners(tx: Tx, subdomain_id: int) -> frozenset[str]:
    """Return the owner names of a subdomain that are, or may be, in the zone."""
    return frozenset(list_owners(tx, [subdomain_id])[subdomain_id])


_OWNERS = Prepared(
    select(published_owners.c.subdomain_id, published_owners.c.owner, published_owners.c.sent).where(
        published_owners.c.subdomain_id.in_(bindparam("ids", expanding=True))
    )
)


def list_owners(tx: Tx, subdomain_ids: Collection[int]) -> dict[int, dict[str, bool]]:
    """Return the owner names of these subdomains that are, or may be, in the zone, each with `sent`."""
    rows = _OWNERS.all(tx, ids=list(subdomain_ids))
    found: dict[int, dict[str, bool]] = {each: {} for each in subdomain_ids}
    for subdomain_id, owner, sent in rows:
        found[subdomain_id][owner] = sent
    return found


def list_published_owners_of_zone(
    tx: Tx, platform_domain_id: int, *, only_sent: bool = False
) -> dict[str, int]:
    """Return the owner names in a zone that are, or may be, ours, each with its subdomain's id (the newest of several).

    With `only_sent` those that no change of the zone had are left out.
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


def insert_published_owners(tx: Tx, owners: Iterable[tuple[int, str]], *, sent: bool = False) -> None:
    """Record in advance that these owner names, each with its subdomain's id, may be in the zone from now on."""
    rows = [
        {"subdomain_id": subdomain_id, "owner": owner, "sent": sent} for subdomain_id, owner in sorted(owners)
    ]
    _WRITTEN_AHEAD.run_many(tx, rows)


_THIS_OWNER = (published_owners.c.subdomain_id == bindparam("of")) & (
    published_owners.c.owner == bindparam("at")
)
_OWNER_SENT = Prepared(update(published_owners).where(_THIS_OWNER).values(sent=True))


def mark_owners_sent(tx: Tx, owners: Collection[tuple[int, str]]) -> None:
    """Record that a change of the zone had these owner names, each with its subdomain's id.

    Adds those that were deleted as unsent before it was known that the change had been applied.
    """
    known = list_owners(tx, {subdomain_id for subdomain_id, _ in owners})
    insert_published_owners(tx, ((of, at) for of, at in owners if at not in known[of]))
    _OWNER_SENT.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def delete_unsent_owners(tx: Tx, subdomain_id: int) -> None:
    """Delete the owner names of a subdomain that no change of the zone had. Records there are not ours."""
    tx.connection.execute(
        delete(published_owners).where(
            (published_owners.c.subdomain_id == subdomain_id) & (published_owners.c.sent == false())
        )
    )


_OWNER_GONE = Prepared(delete(published_owners).where(_THIS_OWNER))


def delete_owners(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Delete these owner names, each with its subdomain's id, which are no longer in the zone."""
    _OWNER_GONE.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def delete_owners_of_zone(tx: Tx, platform_domain_id: int) -> None:
    """Delete all owner names of a zone, which is on the built-in name server from now on."""
    of_zone = select(subdomains.c.id).where(subdomains.c.platform_domain_id == platform_domain_id)
    tx.connection.execute(delete(published_owners).where(published_owners.c.subdomain_id.in_(of_zone)))


def move_published_owner(tx: Tx, owner: str, of: int, to: int) -> None:
    """Record that this subdomain has to remove the records at an owner name, instead of the subdomain `of`."""
    at_owner = published_owners.c.owner == owner
    tx.connection.execute(
        delete(published_owners).where(at_owner & published_owners.c.subdomain_id.in_([of, to]))
    )
    tx.connection.execute(insert(published_owners).values(subdomain_id=to, owner=owner, sent=True))


_SHORT = (
    *(subdomains.c[name] for name in PlacedName.__slots__ if name != "delegation"),
    subdomains.c.nameservers,
    subdomains.c.glue,
    subdomains.c.ds_records,
)


def stream_published(tx: Tx, platform_domain_id: int) -> Iterator[PlacedName]:
    """Yield the names of a platform domain that are not released, or may still have records in its zone on a primary."""
    query = select(*_SHORT).where(_not_released_or_in_zone(platform_domain_id)).execution_options(**STREAMED)
    for row in tx.connection.execute(query):
        *own, nameservers, glue, ds_records = row
        yield PlacedName(*own, read_delegation(nameservers, glue, ds_records))  # type: ignore[call-arg] # by its slots


def list_published(tx: Tx, platform_domain_id: int) -> list[Subdomain]:
    """Return the same as a list of whole subdomains."""
    query = select_subdomains().where(_not_released_or_in_zone(platform_domain_id))
    return read_subdomains(Subdomain, tx.connection.execute(query))


def _not_released_or_in_zone(platform_domain_id: int) -> ColumnElement[bool]:
    owned = select(published_owners.c.subdomain_id)
    return (subdomains.c.platform_domain_id == platform_domain_id) & or_(
        subdomains.c.released_at.is_(None), subdomains.c.id.in_(owned)
    )
