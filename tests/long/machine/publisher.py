"""Publishing as the worker does it, step by step, in the real registry and in the model; the primary is a
fence and a set of records.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from long.machine.real import Real
from long.machine.time_model import Registry
from sublet.platform_domains.zone_store import STALE_AFTER, find_zone_state
from sublet.primaries.publisher_transactions import (
    BACK_OFF_MAX_SECONDS,
    Batch,
    Result,
    begin_publication,
    record_publication,
    settle_fence,
)
from sublet.primaries.update import plan_changes
from sublet.subdomains.store import find_subdomain


@dataclass(frozen=True)
class Held:
    """A batch that was written ahead, and what the model says is in it: ids with generation and attempts."""

    batch: Batch
    items: dict[int, tuple[int, int]]
    begun_at: datetime


def begin(real: Real, model: Registry, domain: str) -> Held | None:
    """Read the fence, and write ahead what waits under a platform domain."""
    domain_id = real.ids[domain]
    known = real.read(lambda tx: find_zone_state(tx, domain_id)).fence
    if known != real.fences[domain]:
        assert real.write(lambda tx: settle_fence(tx, domain_id, known, real.fences[domain])) == "applied"
    batch = real.write(lambda tx: begin_publication(tx, domain_id))
    items = {each.id: (each.generation, each.attempts) for each in model.due_for_publishing(domain)}
    found = {item.subdomain_id: (item.generation, item.attempts) for item in batch.items} if batch else {}
    assert found == items, (domain, found, items)
    return Held(batch, items, model.now) if batch is not None else None


def apply(real: Real, batch: Batch) -> bool:
    """Change the zone as a primary does: not at all where its fence is another than the batch expects."""
    if real.fences[batch.zone] != batch.fence:
        return False
    changes = plan_changes(
        batch.zone,
        (owner for item in batch.items for owner in item.owners),
        (record for item in batch.items for record in item.desired),
    )
    zone = real.zones[batch.zone]
    zone.difference_update({each for each in zone if each.owner in changes.delete_owners})
    zone.update(changes.adds)
    real.fences[batch.zone] = batch.next_fence
    return True


def finish(real: Real, model: Registry, held: Held | None, fate: str) -> None:
    """Change the zone and record the result: read back as expected, or not, or nothing since the publisher
    died.

    "not_sent": it dies before it changes the zone. So does one that was away for longer than the registry
    remembers its update: the zone would count as rebuilt, and nothing here compares whole zones.
    """
    if held is None or model.now - held.begun_at > STALE_AFTER:
        return
    if fate == "not_sent" or not apply(real, held.batch) or fate == "not_recorded":
        return
    good = fate == "published"
    results = {
        item.subdomain_id: Result(item, serial=7) if good else Result(item, error="not so")
        for item in held.batch.items
    }
    real.write(lambda tx: record_publication(tx, results, held.batch))
    for number in results:
        name = model.names[number - 1]
        generation, attempts = held.items[number]
        if good:
            model.published(name, generation)
        elif model.not_published(name, generation, attempts):
            row = real.read(partial(find_subdomain, subdomain_id=number))
            pause = (row.next_attempt_at - model.now).total_seconds()
            most = min(BACK_OFF_MAX_SECONDS, 2.0**attempts)
            assert most / 2 <= pause <= most, (pause, most)
            name.next_attempt_at = row.next_attempt_at
