"""Nameservers of a name that can't be found, as far as the registry's own names tell: accepted, and yet the name won't work.

A warning says only what the availability of a name and the DNS tell everybody: never whose a name is, or why it isn't there.
"""

from collections.abc import Sequence

from sublet.db import Tx
from sublet.dns.names import is_at_or_below, reserved_reason
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import store
from sublet.subdomains.availability import carries_the_zone
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_cycle import platform_domains_above


def nameserver_warnings(
    tx: Tx, subdomain: Subdomain, above: Sequence[PlatformDomain] | None = None
) -> tuple[str, ...]:
    """Return a sentence on each nameserver below another name under a platform domain that is not in the DNS.

    `above` are the `platform_domains_above` of its nameservers, where they are known already.

    Not warned of: a nameserver at or below the own name (it has glue), one at a platform domain itself, at a label that only the
    operator can use, or where records stand that the registry did not write. Not looked at: whether the nameservers of the other
    name know the host.
    """
    nameservers = subdomain.delegation.nameservers
    if above is None:
        above = platform_domains_above(tx, subdomain.fqdn, nameservers)
    found = []
    for host in nameservers:
        if is_at_or_below(host, subdomain.fqdn):
            continue
        nearest = next((each for each in above if is_at_or_below(host, each.domain)), None)
        if nearest is not None and host != nearest.domain:
            found.append(_warning(tx, host, nearest))
    return tuple(warning for warning in found if warning is not None)


def _warning(tx: Tx, host: str, platform_domain: PlatformDomain) -> str | None:
    label = host.removesuffix("." + platform_domain.domain).rpartition(".")[2]
    name = f"{label}.{platform_domain.domain}"
    holder = store.find_unreleased(tx, name)
    if holder is not None and is_delegated(holder):
        return None
    of_the_operator = (
        reserved_reason(label) is not None
        or carries_the_zone(platform_domain, name)
        or zone_store.has_names_at_or_below(tx, platform_domain.id, name)
    )
    if of_the_operator:
        return None
    everybody_sees_it = not (platform_domain.hidden or platform_domain.restricted)
    if holder is None and everybody_sees_it:
        return f"The nameserver {host} can't be found: nobody has registered {name}."
    return f"The nameserver {host} can't be found: {name} is not in the DNS."
