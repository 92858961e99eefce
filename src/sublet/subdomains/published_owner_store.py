"""The SQL of published owners: the owner names in zones on primaries that have, or may have, records of the
registry.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    bindparam,
    cast,
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
from sublet.subdomains.lifecycle import has_records, stored_records
from sublet.subdomains.model import NameForZoneCheck
from sublet.subdomains.store import (
    IS_IN_DNS,
    read_delegation,
    read_records,
    subdomains,
)

published_owners = Table(
    "published_owners",
    metadata,
    Column("subdomain_id", ForeignKey("subdomains.id"), nullable=False),
    Column("owner", String(253), nullable=False),
    Column("sent", Boolean, nullable=False),
    Column("has_records", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("subdomain_id", "owner"),
)
"""The owner names that have, or may have, records of the registry. The publisher stores them before it sends
a change.

`sent` is true once a change that was sent contained the owner name. Before that, records at the owner name
are not the registry's. `has_records` is true if the records may be of other types than those of a delegation.
Only then a change deletes these types: the key of a primary that has no names with records may be allowed the
types of delegations alone.
"""


class PublishedOwner(NamedTuple):
    """The state of an owner name in a zone (`published_owners`)."""

    sent: bool
    has_records: bool


def list_published_owners(tx: Tx, subdomain_id: int) -> frozenset[str]:
    """Return the owner names of a subdomain that are, or may be, in the zone."""
    return frozenset(list_published_owners_by_subdomain(tx, [subdomain_id])[subdomain_id])


_OWNERS = Prepared(
    select(
        published_owners.c.subdomain_id,
        published_owners.c.owner,
        published_owners.c.sent,
        published_owners.c.has_records,
    ).where(published_owners.c.subdomain_id.in_(bindparam("ids", expanding=True)))
)


def list_published_owners_by_subdomain(
    tx: Tx, subdomain_ids: Collection[int]
) -> dict[int, dict[str, PublishedOwner]]:
    """Return the owner names that are, or may be, in the zone, with their states, by subdomain."""
    rows = _OWNERS.all(tx, ids=list(subdomain_ids))
    found: dict[int, dict[str, PublishedOwner]] = {each: {} for each in subdomain_ids}
    for subdomain_id, owner, *state in rows:
        found[subdomain_id][owner] = PublishedOwner(*state)
    return found


def list_published_owners_of_zone(
    tx: Tx, platform_domain_id: int, *, only_sent: bool = False, only_with_records: bool = False
) -> dict[str, int]:
    """Return the owner names in a zone that have, or may have, records of the registry, each with the id of
    its newest subdomain.

    With `only_sent`, owner names that no change has contained are left out; with `only_with_records`, those
    without `has_records`.
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
    if only_with_records:
        query = query.where(published_owners.c.has_records == true())
    return {row[0]: row[1] for row in tx.connection.execute(query)}


_WRITTEN_AHEAD = Prepared(insert(published_owners))


def insert_published_owners(
    tx: Tx, owners: Iterable[tuple[int, str]], *, sent: bool = False, has_records: bool = False
) -> None:
    """Store owner names that may be in the zone from now on, each with its subdomain's id."""
    rows = [
        {"subdomain_id": subdomain_id, "owner": owner, "sent": sent, "has_records": has_records}
        for subdomain_id, owner in sorted(owners)
    ]
    _WRITTEN_AHEAD.run_many(tx, rows)


_DELEGATED = select(subdomains.c.id, subdomains.c.fqdn, true(), false()).where(
    IS_IN_DNS & (subdomains.c.nameserver_count > 0)
)
_HAS_OTHER_OWNERS = (subdomains.c.record_count > 0) | (cast(subdomains.c.glue, Text) != "[]")


def insert_owners_in_dns(tx: Tx, platform_domain_id: int) -> None:
    """Store the owner names of all names that should be in the DNS, as if a change with them had been sent.

    Most names have only the records of their delegation, at the name itself. One statement stores these
    owners, because reading 100,000 names takes seconds.
    """
    of_zone = {"of": platform_domain_id}
    columns = ["subdomain_id", "owner", "sent", "has_records"]
    tx.connection.execute(insert(published_owners).from_select(columns, _DELEGATED), of_zone)
    owners: dict[bool, list[tuple[int, str]]] = {False: [], True: []}
    for each in _stream_where(tx, IS_IN_DNS & _HAS_OTHER_OWNERS, of_zone):
        at = {record.owner for record in stored_records(each, ttl_seconds=0)}
        if not has_records(each):
            at.remove(each.fqdn)  # stored above
        owners[has_records(each)] += [(each.id, owner) for owner in at]
    for with_records, of_kind in owners.items():
        insert_published_owners(tx, of_kind, sent=True, has_records=with_records)


_THIS_OWNER = (published_owners.c.subdomain_id == bindparam("of")) & (
    published_owners.c.owner == bindparam("at")
)
_OWNER_WITH_RECORDS = Prepared(update(published_owners).where(_THIS_OWNER).values(has_records=True))


def mark_owners_with_records(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Store that these owner names may get records of other types than those of a delegation, each with its
    subdomain's id.
    """
    _OWNER_WITH_RECORDS.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


_OWNER_SENT = Prepared(update(published_owners).where(_THIS_OWNER).values(sent=True))


def mark_owners_sent(tx: Tx, owners: Collection[tuple[int, str]], *, may_have_records: bool) -> None:
    """Store that a change that was sent contained these owner names, each with its subdomain's id.

    Insert missing owner names: `delete_unsent_owners` may have deleted them before the registry knew that the
    change was applied. With `may_have_records` these may have records of any type.
    """
    known = list_published_owners_by_subdomain(tx, {subdomain_id for subdomain_id, _ in owners})
    missing = [(of, at) for of, at in owners if at not in known[of]]
    insert_published_owners(tx, missing, has_records=may_have_records)
    _OWNER_SENT.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def delete_unsent_owners(tx: Tx, subdomain_id: int) -> None:
    """Delete a subdomain's owner names that no change has contained.

    Records at these owner names are not the registry's.
    """
    tx.connection.execute(
        delete(published_owners).where(
            (published_owners.c.subdomain_id == subdomain_id) & (published_owners.c.sent == false())
        )
    )


_OWNER_GONE = Prepared(delete(published_owners).where(_THIS_OWNER))


def delete_published_owners(tx: Tx, owners: Iterable[tuple[int, str]]) -> None:
    """Delete owner names that are no longer in the zone, each with its subdomain's id."""
    _OWNER_GONE.run_many(tx, [{"of": subdomain_id, "at": owner} for subdomain_id, owner in owners])


def delete_published_owners_of_zone(tx: Tx, platform_domain_id: int) -> None:
    """Delete all owner names of a zone, for example when it moves to the built-in name server."""
    of_zone = select(subdomains.c.id).where(subdomains.c.platform_domain_id == platform_domain_id)
    tx.connection.execute(delete(published_owners).where(published_owners.c.subdomain_id.in_(of_zone)))


def move_published_owner(tx: Tx, owner: str, of: int, to: int, *, has_records: bool) -> None:
    """Make the subdomain `to` responsible for removing the records at an owner name, instead of the subdomain
    `of`.
    """
    at_owner = published_owners.c.owner == owner
    tx.connection.execute(
        delete(published_owners).where(at_owner & published_owners.c.subdomain_id.in_([of, to]))
    )
    tx.connection.execute(
        insert(published_owners).values(subdomain_id=to, owner=owner, sent=True, has_records=has_records)
    )


_FOR_ZONE_CHECK = (
    *(
        subdomains.c[name]
        for name in NameForZoneCheck.__struct_fields__
        if name not in {"delegation", "records"}
    ),
    subdomains.c.nameservers,
    subdomains.c.glue,
    subdomains.c.ds_records,
    subdomains.c.records,
)


def stream_published(tx: Tx, platform_domain_id: int) -> Iterator[NameForZoneCheck]:
    """Yield a platform domain's names that are not released, or that may still have records in its zone on a
    primary.
    """
    yield from _stream_where(tx, _not_released_or_in_zone(platform_domain_id))


def _stream_where(
    tx: Tx, condition: ColumnElement[bool], parameters: Mapping[str, object] | None = None
) -> Iterator[NameForZoneCheck]:
    query = select(*_FOR_ZONE_CHECK).where(condition).execution_options(**STREAMED)
    for row in tx.connection.execute(query, parameters):
        *own, nameservers, glue, ds_records, records = row
        yield NameForZoneCheck(  # type: ignore[call-arg] # by its slots
            *own, read_delegation(nameservers, glue, ds_records), read_records(records)
        )


def _not_released_or_in_zone(platform_domain_id: int) -> ColumnElement[bool]:
    owned = select(published_owners.c.subdomain_id)
    return (subdomains.c.platform_domain_id == platform_domain_id) & or_(
        subdomains.c.released_at.is_(None), subdomains.c.id.in_(owned)
    )
