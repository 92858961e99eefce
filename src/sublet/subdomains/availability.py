"""Whether a name can be registered now (docs/spec-choices.md, "Status by category", "Look-alikes")."""

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.dns.look_alikes import looks_reserved, skeleton
from sublet.dns.names import is_at_or_below, is_below, is_idn
from sublet.errors import SubdomainUnavailable
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import delegation_store, publish_store, store
from sublet.subdomains.lifecycle import is_restorable
from sublet.subdomains.naming import name_above


def refuse_unavailable(
    tx: Tx, user: User, platform_domain: PlatformDomain, label: str, label_class: str, *, is_listed: bool
) -> None:
    """Let a name pass that is free. `is_listed`: the operator listed the label by itself, so what it looks like is no matter.

    Raises:
        SubdomainUnavailable: reserved (by its label's class, or since a platform domain or a nameserver of
            the zone stands at or below it), cooling off,
            in the trash, taken (here, or in the zone by someone that the registry doesn't know); reserved again where names of
            other users have nameservers at or below it, and where an IDN is easily mistaken for another name here.
    """
    fqdn = f"{label}.{platform_domain.domain}"
    if label_class in ("reserved", "blocked") or carries_the_zone(platform_domain, fqdn):
        raise unavailable("reserved", owned=False)
    # One question for all that may be in the way. Only where something is are they asked one by one, in their order.
    is_free = delegation_store.is_free(tx, platform_domain.id, fqdn, user.id)
    if not is_free:
        _refuse_held(tx, user, platform_domain, fqdn)
    if _may_stand_from_before(tx, platform_domain, fqdn):
        raise unavailable("cooling_off", owned=False)
    if not is_free and zone_store.has_names_at_or_below(tx, platform_domain.id, fqdn):
        # The zone was adopted, or edited by hand: the name is in use by someone the registry doesn't know.
        raise unavailable("taken", owned=False)
    if not is_free and delegation_store.has_dependents(tx, fqdn, besides_user_id=user.id):
        # Its new holder could answer for those names.
        raise unavailable("depended_on", owned=False)
    is_checked = platform_domain.look_alike_check and is_idn(label) and not is_listed
    if is_checked and looks_alike(tx, user, platform_domain, label):
        raise unavailable("look_alike", owned=False)


def _refuse_held(tx: Tx, user: User, platform_domain: PlatformDomain, fqdn: str) -> None:
    """Let a name pass that nobody holds here, and that is not being taken out of the DNS."""
    if platform_domain_store.has_platform_domain_at_or_below(tx, fqdn):
        raise unavailable("reserved", owned=False)
    holder = store.find_unreleased(tx, fqdn)
    if holder is not None:
        owned = holder.user_id == user.id and holder.purged_at is None
        if holder.purged_at is not None:
            raise unavailable("cooling_off", owned=False)
        if holder.trashed_at is not None:
            restorable = owned and holder.suspended_at is None and is_restorable(holder, tx.now)
            raise unavailable("in_trash", owned=owned, restorable=restorable)
        raise unavailable("taken", owned=owned)
    if publish_store.is_waiting(tx, platform_domain.id, fqdn):
        # A former delegation came back with an old zone file, and is being taken out: nobody is to be given it.
        raise unavailable("cooling_off", owned=False)


def _may_stand_from_before(tx: Tx, platform_domain: PlatformDomain, fqdn: str) -> bool:
    """Tell whether a former holder's delegation may stand in the zone: it was rebuilt and is not checked yet, or not repaired."""
    if not platform_domain.primary:
        return False
    state = zone_state_store.find_zone_state(tx, platform_domain.id)
    is_in_doubt = state.rebuilt_at is not None or state.repair_stopped_at is not None
    return is_in_doubt and store.was_published(tx, platform_domain.id, fqdn)


def carries_the_zone(platform_domain: PlatformDomain, fqdn: str) -> bool:
    """Tell whether a nameserver of the zone itself stands at or below a name: whoever held it would answer for the zone."""
    hosts = (*platform_domain.apex_nameservers, platform_domain.soa_mname)
    return any(is_at_or_below(host, fqdn) for host in hosts)


def unavailable(reason: str, *, owned: bool, restorable: bool = False) -> SubdomainUnavailable:
    """Return the refusal of a name that can't be had, with its reason; `restorable` tells that a restore would bring it back."""
    messages = {
        "reserved": "This name is reserved. Take another one.",
        "look_alike": "This name is too easily mistaken for another one here, which is registered or reserved. Take another one.",
        "depended_on": "Names of other users have nameservers at or below this name, so it is reserved. Take another one.",
        "taken": "You hold this name already. Change it with PUT …/nameservers."
        if owned
        else "This name is taken. Take another one.",
        "in_trash": "This name is in your trash. Send POST …/restore to bring it back."
        if restorable
        else "This name is in the trash and not free yet. Take another one, or try again later.",
        "cooling_off": "This name was held until a short while ago and is not free yet. Take another one, or try again later.",
    }
    # For the client these are kinds of reserved: only another name helps.
    told = "reserved" if reason in ("look_alike", "depended_on") else reason
    return SubdomainUnavailable(messages[reason], details={"reason": told, "owned": owned})


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
    return store.is_held_by_another(tx, platform_domain, looks, user.id)
