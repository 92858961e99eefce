"""All SQL of former rows of names: those that are released, and may have left something in the zone."""

from sqlalchemy import select, update

from sublet.db import Tx
from sublet.subdomains.store import RELEASED, subdomains


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
