"""All SQL of what names were before: the delegations of a row, whether a former row was published, what stood at a fence."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import select, update

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.subdomains.publish_store import IDS_MAX
from sublet.subdomains.replay import NOTHING
from sublet.subdomains.store import RELEASED, read_delegation, subdomains

_DELEGATING = ("subdomain.register", "subdomain.update_nameservers")


def list_delegations(tx: Tx, subdomain_ids: Collection[int]) -> dict[int, list[Delegation]]:
    """Which delegations did each of these rows ever have, by its audit? Oldest first."""
    events = audit_events.c
    ids = sorted(subdomain_ids)
    found: dict[int, list[Delegation]] = defaultdict(list)
    for start in range(0, len(ids), IDS_MAX):
        query = (
            select(events.object_id, events.after)
            .where(
                (events.object_type == "subdomain")
                & events.object_id.in_(ids[start : start + IDS_MAX])
                & events.action.in_(_DELEGATING)
            )
            .order_by(events.id)
        )
        for subdomain_id, after in tx.connection.execute(query):
            found[subdomain_id].append(read_delegation(*((after or {}).get(name, []) for name in NOTHING)))
    return found


def has_unknown_fence(tx: Tx, platform_domain_id: int, rebuilt_at: datetime) -> bool:
    """Did a value stand at the fence, by the audit, when the zone was found rebuilt at this instant? Else there was none, or it was moved."""
    events = audit_events.c
    query = select(events.after).where(
        (events.object_type == "platform_domain")
        & (events.object_id == platform_domain_id)
        & (events.action == "zone.found_rebuilt")
        & (events.at == rebuilt_at)
    )
    return any(after["fence_found"] is not None for after in tx.connection.execute(query).scalars())


def was_published(tx: Tx, platform_domain_id: int, fqdn: str) -> bool:
    """Did this name ever stand in the zone, under a row that is released by now? Asked by the index of those."""
    query = select(subdomains.c.id).where(
        RELEASED
        & (subdomains.c.fqdn == fqdn)
        & (subdomains.c.platform_domain_id == platform_domain_id)
        & (subdomains.c.published_generation > 0)
    )
    return tx.connection.execute(query.limit(1)).first() is not None


def settle(tx: Tx, subdomain_id: int, generation: int) -> None:
    """Record that nothing of this generation is left to be published, without an attempt."""
    tx.connection.execute(
        update(subdomains)
        .where((subdomains.c.id == subdomain_id) & (subdomains.c.generation == generation))
        .values(
            published_generation=generation,
            provision_error=None,
            attempts=0,
            next_attempt_at=None,
            updated_at=tx.now,
        )
    )
