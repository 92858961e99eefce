"""Whether the nameservers of a name can be found at all: looked up among the names of the registry."""

from collections.abc import Iterable

from sublet.db import Tx
from sublet.dns.delegation import find_nameserver_cycle
from sublet.dns.names import ancestors, is_at_or_below
from sublet.dns.types import Delegation
from sublet.errors import FieldError
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import store

CHAIN_MAX = 1000
"""How many names that serve each other are followed: each step is one question; a longer chain is taken for no cycle."""


def platform_domains_above(tx: Tx, owner: str, nameservers: Iterable[str]) -> list[PlatformDomain]:
    """Return the platform domains that nameservers of this owner lie at or below, the longest name first.

    Not asked for: those of nameservers at or below the owner itself, which have glue.
    """
    hosts = [host for host in nameservers if not is_at_or_below(host, owner)]
    names = {name for host in hosts for name in (host, *ancestors(host))}
    return platform_domain_store.find_platform_domains_among(tx, names) if names else []


def cycle_errors(
    tx: Tx, owner: str, delegation: Delegation, above: Iterable[PlatformDomain]
) -> list[FieldError]:
    """Return the error of a delegation whose nameservers can only be found through the name itself.

    `above` are the `platform_domains_above` of its nameservers. Where there can be a circle at all, the registry is locked for changes
    of this kind: two that close one together would not see each other.
    """
    if not _leads_inside(owner, delegation, above):
        return []
    platform_domain_store.lock_across_zones(tx)
    registered: dict[str, tuple[str, ...]] = {}
    hosts = set(delegation.nameservers)
    for _ in range(CHAIN_MAX):
        names = {name for host in hosts for name in (host, *ancestors(host))} - registered.keys()
        found = store.list_nameservers(tx, names) if names else {}
        if not found:
            break
        registered |= found
        hosts = {host for nameservers in found.values() for host in nameservers}
    chain = find_nameserver_cycle(owner, delegation.nameservers, registered)
    if chain is None:
        return []
    return [
        FieldError(
            "nameservers",
            "nameserver_cycle",
            f"These nameservers can only be found through the name itself ({' → '.join(chain)}); "
            "use one outside, or one below the name with glue.",
        )
    ]


def _leads_inside(owner: str, delegation: Delegation, above: Iterable[PlatformDomain]) -> bool:
    """Tell whether every nameserver lies below a platform domain and none below the name itself: any other can be found."""
    hosts = delegation.nameservers
    if not hosts or any(is_at_or_below(host, owner) for host in hosts):
        return False
    return all(any(is_at_or_below(host, each.domain) for each in above) for host in hosts)
