"""All SQL of what names were before: the delegations that a row once had."""

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import select

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.subdomains.publish_store import IDS_MAX
from sublet.subdomains.replay import NOTHING
from sublet.subdomains.store import read_delegation

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
