"""Publishing as the worker does it, step by step, in the real registry and in the model: without a network to read back from."""

from dataclasses import dataclass
from functools import partial

from long.machine.real import Real
from long.machine.time_model import Registry
from sublet.subdomains.change_zone import change_zone
from sublet.subdomains.publishing import (
    BACK_OFF_MAX_SECONDS,
    Batch,
    Result,
    begin_publication,
    record_publication,
)
from sublet.subdomains.store import find_subdomain


@dataclass(frozen=True)
class Held:
    """A batch that was written ahead, and what the model says is in it: ids with generation and attempts."""

    batch: Batch
    items: dict[int, tuple[int, int]]


def begin(real: Real, model: Registry, domain: str) -> Held | None:
    """Write ahead what waits under a platform domain."""
    batch = real.write(lambda tx: begin_publication(tx, real.ids[domain]))
    items = {each.id: (each.generation, each.attempts) for each in model.due_for_publishing(domain)}
    found = {item.subdomain_id: (item.generation, item.attempts) for item in batch.items} if batch else {}
    assert found == items, (domain, found, items)
    return Held(batch, items) if batch is not None else None


def finish(real: Real, model: Registry, held: Held | None, fate: str) -> None:
    """Change the zone and record the result: read back as expected, or not, or nothing since the publisher died.

    "not_sent": it dies before it changes the zone.
    """
    if held is None or fate == "not_sent":
        return
    changed = real.write(lambda tx: change_zone(tx, held.batch))
    stale = {number for number, (generation, _) in held.items.items() if model.is_stale(number, generation)}
    assert (changed.stale_ids, changed.refused_ids) == (stale, set()), (changed, stale)
    if fate == "not_recorded":
        return
    good = fate == "published"
    results = {
        item.subdomain_id: Result(item, serial=changed.serial) if good else Result(item, error="not so")
        for item in held.batch.items
        if item.subdomain_id not in stale
    }
    real.write(lambda tx: record_publication(tx, results))
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
