"""What is kept of a name when it is suspended: who reads a complaint later must see what stood in the DNS then."""

from datetime import datetime
from typing import Any

from sublet.subdomains.lifecycle import derive_status, provisioning_status
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import delegation_columns


def evidence_of(subdomain: Subdomain, now: datetime) -> dict[str, Any]:
    """Return a name as it is before it is suspended, for the audit: whose it is, its status, what is to be published, what is.

    `provisioning_status` published means that exactly this delegation stands in the zone; pending or failed, that an older one may:
    the one of `published_generation`, read back at `published_at` under the zone's `published_serial`.
    """
    return {
        "fqdn": subdomain.fqdn,
        "user_id": subdomain.user_id,
        "status": derive_status(subdomain, now),
        "provisioning_status": provisioning_status(subdomain),
        **delegation_columns(subdomain.delegation),
        "generation": subdomain.generation,
        "published_generation": subdomain.published_generation,
        "published_at": _text(subdomain.published_at),
        "published_serial": subdomain.published_serial,
        "registered_at": _text(subdomain.registered_at),
        "expires_at": _text(subdomain.expires_at),
        "trashed_at": _text(subdomain.trashed_at),
    }


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None
