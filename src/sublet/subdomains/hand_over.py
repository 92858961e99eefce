"""Of two rows of one name that wait, only the one that holds the name publishes: it gets what the released one had to take out.

Both wait where a name was registered in the same moment in which its former delegation was found to have come back (`reclaim`;
PostgreSQL, where neither saw the other). The former row's removal, tried again, would take the newer one's delegation out.
"""

from collections.abc import Sequence

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.subdomains import publish_store, store
from sublet.subdomains.model import Subdomain


def hand_over(tx: Tx, waiting: Sequence[Subdomain]) -> bool:
    """Give the owners of released rows that wait to the rows that hold their names now; tell whether there were any.

    Called with the zone locked, before a batch is made of these. What the holder wants there is put there anew behind the
    removal, in the same update. A row whose name nobody holds does its own removal.
    """
    released = [each for each in waiting if each.released_at is not None]
    holders = publish_store.find_holders(tx, {each.fqdn for each in released}) if released else {}
    former = [each for each in released if each.fqdn in holders]
    given: dict[int, dict[str, object]] = {}
    for each in former:
        holder_id = holders[each.fqdn]
        sent = [owner for owner, was_sent in store.list_owners(tx, [each.id])[each.id].items() if was_sent]
        for owner in sorted(sent):
            store.move_published_owner(tx, owner, each.id, holder_id)
        store.delete_unsent_owners(tx, each.id)
        store.settle(tx, each.id, each.generation)
        given[each.id] = {"holder_id": holder_id, "owners": sorted(sent)}
    publish_store.republish(tx, {holders[each.fqdn] for each in former if given[each.id]["owners"]})
    audit.record_many(tx, SYSTEM, "subdomain.hand_over", "subdomain", given)
    return bool(former)
