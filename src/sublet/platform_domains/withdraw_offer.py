"""Withdraw the offer of a mode (the operator's `sublet domain offer --withdraw`)."""

from dataclasses import replace

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import Conflict, NotFound
from sublet.platform_domains import store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import Offer


def withdraw_offer(tx: Tx, actor: Actor, identifier: str, mode: str) -> Offer:
    """End new registrations in a mode; names held in it are still renewed at its renewal price.

    Raises, in this order:
        NotFound: no such platform domain; the mode was never offered.
        Conflict: withdrawn already.
    """
    platform_domain = find_platform_domain(tx, identifier)
    offer = next((each for each in store.list_offers(tx, platform_domain.id) if each.mode == mode), None)
    if offer is None:
        raise NotFound(
            f"{platform_domain.domain} does not offer the mode {shown(mode)}. See `sublet domain show`."
        )
    if offer.withdrawn_at is not None:
        raise Conflict(f"The mode {mode} of {platform_domain.domain} is withdrawn already. No action needed.")
    withdrawn = replace(offer, withdrawn_at=tx.now)
    store.replace_offer(tx, withdrawn)
    audit.record(
        tx,
        actor,
        "platform_domain.withdraw_offer",
        "platform_domain",
        platform_domain.id,
        after={"mode": mode, "withdrawn_at": tx.now.isoformat()},
    )
    return withdrawn
