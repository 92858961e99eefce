"""If a released row and a newer row of the same name both wait for publication, publish only the newer row.

Both wait on PostgreSQL if a registration and `reclaim` of the same name run at the same time, so that neither
transaction sees the other. The removal of the released row, when retried, would then remove the delegation of
the newer row.
"""

from collections.abc import Sequence

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.primaries import store as publish_store
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.model import Subdomain


def hand_over(tx: Tx, waiting: Sequence[Subdomain]) -> bool:
    """Move the owner names of waiting released rows to the rows that now hold their names.

    Return True if there were such rows.

    Call this with the zone locked, before building a batch of the waiting rows. The update of the newer row
    deletes the records at these owner names and adds the new records in one message. A released row whose
    name has no holder is published itself.
    """
    released = [each for each in waiting if each.released_at is not None]
    held_ids = publish_store.find_held_ids(tx, {each.fqdn for each in released}) if released else {}
    former = [each for each in released if each.fqdn in held_ids]
    moved: dict[int, dict[str, object]] = {}
    for each in former:
        newer_id = held_ids[each.fqdn]
        owners = published_owner_store.list_published_owners_by_subdomain(tx, [each.id])[each.id]
        sent = sorted(owner for owner, state in owners.items() if state.sent)
        for owner in sent:
            has_records = owners[owner].has_records
            published_owner_store.move_published_owner(tx, owner, each.id, newer_id, has_records=has_records)
        published_owner_store.delete_unsent_owners(tx, each.id)
        store.mark_published_without_change(tx, each.id, each.generation)
        moved[each.id] = {"holder_id": newer_id, "owners": sent}
    store.republish(tx, {held_ids[each.fqdn] for each in former if moved[each.id]["owners"]})
    audit.record_many(tx, SYSTEM, "subdomain.hand_over", moved)
    return bool(former)
