"""Whether an internationalized name is easily mistaken for another one of its platform domain (docs/spec-choices.md, "Look-alikes")."""

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.dns.look_alikes import looks_reserved, skeleton
from sublet.dns.names import is_below
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import look_alike_store
from sublet.subdomains.naming import name_above


def looks_alike(tx: Tx, user: User, platform_domain: PlatformDomain, label: str) -> bool:
    """Tell whether a label looks like one that is reserved, or like that of a name that somebody else holds, or held till now.

    Reserved: everywhere, by the operator's list (reserved, blocked, special), or since a nameserver of the zone stands there.
    Those who ask this at once do so one after the other: two that look alike would not see each other.
    """
    looks, domain = skeleton(label), platform_domain.domain
    if looks_reserved(looks):
        return True
    hosts = (*platform_domain.apex_nameservers, platform_domain.soa_mname)
    ours = [name_above(host, domain).partition(".")[0] for host in hosts if is_below(host, domain)]
    listed = platform_domain_store.list_guarded_labels(tx, platform_domain.id)
    if any(skeleton(each) == looks for each in (*ours, *listed)):
        return True
    platform_domain_store.lock_across_zones(tx)
    return look_alike_store.is_held_by_another(tx, platform_domain, looks, user.id)
