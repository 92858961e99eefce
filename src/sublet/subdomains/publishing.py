"""From rows to the zone: what the publisher does inside transactions (the sending lies between, outside any).

A: `begin_publication` reads what is desired now and writes ahead which owner names may get into the zone. Then the zone is
changed and read back. B: `record_publication` records the outcome for exactly the generation that was sent. The queue is a
level, not a log: doing any of it again is harmless, and a crash anywhere is repaired by doing it again. Without the
write-ahead, a crash after sending would leave the old records in the zone for ever.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sublet import audit
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.dns.records import delegation_records
from sublet.dns.types import Record
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.subdomains import publish_store
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.model import Subdomain

BATCH_MAX = 100
BACK_OFF_MAX_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Item:
    """One name of a batch: the generation that is sent, the records desired, the owners that are or may be in the zone.

    Whether an owner may already be in use is asked where the zone is changed: there alone it is known what was sent.
    """

    subdomain_id: int
    fqdn: str
    generation: int
    attempts: int
    desired: tuple[Record, ...]
    owners: frozenset[str]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one update of one zone carries."""

    platform_domain_id: int
    zone: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one item: published with the zone's serial, or the sentence that says why not.

    `nothing_sent` tells that the name was refused before any record of it could get into the zone.
    """

    item: Item
    serial: int | None = None
    error: str | None = None
    nothing_sent: bool = False


def desired_records(subdomain: Subdomain, ttl_seconds: int) -> tuple[Record, ...]:
    """Return the records that are to stand in the parent zone for a name: none when it is not delegated."""
    if not is_delegated(subdomain):
        return ()
    return delegation_records(subdomain.fqdn, subdomain.delegation, ttl_seconds)


def begin_publication(tx: Tx, platform_domain_id: int, limit: int = BATCH_MAX) -> Batch | None:
    """Return the names that wait under a platform domain, written ahead; None when none does."""
    platform_domain = platform_domain_store.find_platform_domain(tx, platform_domain_id)
    if platform_domain is not None:
        zone_store.lock_zone(tx, platform_domain_id)  # two publishers don't write ahead the same at once
    waiting = publish_store.list_waiting(tx, platform_domain_id, limit)
    if platform_domain is None or not waiting:
        return None
    items = []
    for subdomain in waiting:
        before = publish_store.list_published_owners(tx, subdomain.id)
        desired = desired_records(subdomain, platform_domain.delegation_ttl_seconds)
        wanted = frozenset(record.owner for record in desired)
        publish_store.insert_published_owners(tx, subdomain.id, wanted - before)
        items.append(
            Item(
                subdomain_id=subdomain.id,
                fqdn=subdomain.fqdn,
                generation=subdomain.generation,
                attempts=subdomain.attempts,
                desired=desired,
                owners=before | wanted,
            )
        )
    return Batch(platform_domain_id, platform_domain.domain, tuple(items))


def record_publication(tx: Tx, results: Mapping[int, Result]) -> None:
    """Record what came of a batch, by subdomain id; one audit event for each name whose outcome is new."""
    for subdomain_id, result in results.items():
        item = result.item
        if result.error is None and result.serial is not None:
            gone = item.owners - {record.owner for record in item.desired}
            newly = publish_store.record_success(tx, subdomain_id, item.generation, result.serial, gone)
            if newly:
                published = {"published_generation": item.generation, "serial": result.serial}
                audit.record(tx, SYSTEM, "subdomain.publish", "subdomain", subdomain_id, after=published)
        else:
            sentence = result.error or "The name server did not answer as asked."
            publish_store.record_failure(
                tx, subdomain_id, item.generation, sentence, tx.now + back_off(item.attempts)
            )
            if result.nothing_sent:
                # What stands in the zone at these owners isn't ours, and must never be deleted as if it were.
                publish_store.delete_unsent_owners(tx, subdomain_id)
            if item.attempts == 0:
                failed = {"generation": item.generation, "provision_error": sentence}
                audit.record(tx, SYSTEM, "subdomain.publish_failed", "subdomain", subdomain_id, after=failed)


def back_off(attempts: int) -> timedelta:
    """Return how long to wait after so many failures before: doubling from 1 s, at most a minute, jittered."""
    seconds = min(BACK_OFF_MAX_SECONDS, 2.0 ** min(attempts, 10))
    return timedelta(seconds=seconds * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, no secret
