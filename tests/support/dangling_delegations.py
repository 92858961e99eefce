"""Delegations that the rules refuse now, and that older registries may have."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.subdomains import delegation_store, store
from sublet.subdomains.model import Subdomain


def store_unchecked(tx: Tx, subdomain: Subdomain, *nameservers: str) -> None:
    """Store nameservers for a name as if its user had changed them, without the checks."""
    delegation = Delegation(nameservers)
    delegation_store.update_delegation(tx, subdomain, delegation)
    audit.record(
        tx,
        Actor("user", user_id=subdomain.user_id),
        "subdomain.update_nameservers",
        subdomain.id,
        before=store.delegation_columns(subdomain.delegation),
        after=store.delegation_columns(delegation),
    )
