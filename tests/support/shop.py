"""A user's name with nameservers, glue and a DS record, for tests of verbs."""

from typing import Any

from sublet.credits.model import Outcome
from sublet.dns.types import GlueEntry
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import Registry

SHOP = "shop.example.test"
GLUE = GlueEntry("ns1.shop.example.test", "203.0.114.5", None)
DS = "2371 13 2 " + "0a" * 32


def register_shop(registry: Registry) -> Subdomain:
    """Register the name for `ann`, with a nameserver outside and one in the name itself."""
    return registry.register(
        SHOP, nameservers=("ns1.example.org", "ns1.shop.example.test"), glue=(GLUE,), ds_records=(DS,)
    )


def change_nameservers(
    registry: Registry, identifier: str = SHOP, name: str = "ann", **members: Any
) -> Outcome:
    """Change nameservers, glue or DS records as a user."""
    return registry.write(update_nameservers, registry.actor(name), identifier, UpdateNameservers(**members))
