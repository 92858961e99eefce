"""The registry's own names that nameservers lie below: the holder of such a name answers for those nameservers.

A nameserver's name is the one directly under the deepest platform domain above it. Left out are nameservers at or below the own name,
which have glue, and those that are the operator's: at a platform domain itself, at a label that can't be registered, and where
records stand that the registry did not write.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.dns.names import is_at_or_below, reserved_reason
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import store
from sublet.subdomains.availability import carries_the_zone
from sublet.subdomains.lifecycle import is_delegated, restorable_until
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_cycle import platform_domains_above


@dataclass(frozen=True, slots=True)
class Place:
    """A nameserver, the name that it lies at or below, and the row that holds that name; None if no row does."""

    host: str
    name: str
    platform_domain: PlatformDomain
    holder: Subdomain | None

    @property
    def is_held(self) -> bool:
        """True if a user holds the name, live or in the trash; in its cooling-off no user does."""
        return self.holder is not None and self.holder.purged_at is None

    @property
    def is_in_trash(self) -> bool:
        """True if the name is in the trash, and not purged yet."""
        return self.is_held and self.holder is not None and self.holder.trashed_at is not None

    @property
    def is_purged(self) -> bool:
        """True if the name was purged and is not released yet: the sweep removes the nameserver."""
        return self.holder is not None and self.holder.purged_at is not None

    @property
    def removed_at(self) -> datetime | None:
        """When the name is purged and the nameserver removed, unless the name is restored. None while its time stands still."""
        return restorable_until(self.holder) if self.holder is not None else None

    @property
    def is_delegated(self) -> bool:
        """True if the name stands in the DNS."""
        return self.holder is not None and is_delegated(self.holder)

    @property
    def is_public(self) -> bool:
        """True if every user may know which names are registered under the platform domain."""
        return not (self.platform_domain.hidden or self.platform_domain.restricted)


def places_of(tx: Tx, owner: str, nameservers: Iterable[str], above: Sequence[PlatformDomain]) -> list[Place]:
    """Return the places of those nameservers of `owner` that lie below another name of the registry.

    `above` are the `platform_domains_above` of the nameservers, the longest name first.
    """
    found = []
    for host in nameservers:
        nearest = next((each for each in above if is_at_or_below(host, each.domain)), None)
        if nearest is not None and host != nearest.domain and not is_at_or_below(host, owner):
            found.append(place_of(tx, host, nearest))
    return [place for place in found if place is not None]


def place_of(tx: Tx, host: str, platform_domain: PlatformDomain) -> Place | None:
    """Return the place of a nameserver below a platform domain, the deepest above it; None if it is the operator's."""
    label = host.removesuffix("." + platform_domain.domain).rpartition(".")[2]
    name = f"{label}.{platform_domain.domain}"
    place = Place(host, name, platform_domain, store.find_unreleased(tx, name))
    return None if place.holder is None and _is_operators(tx, place, label) else place


def places_of_subdomain(tx: Tx, subdomain: Subdomain) -> list[Place]:
    """Return the places of the nameservers of a subdomain, as it is stored."""
    nameservers = subdomain.delegation.nameservers
    above = platform_domains_above(tx, subdomain.fqdn, nameservers)
    return places_of(tx, subdomain.fqdn, nameservers, above)


def _is_operators(tx: Tx, place: Place, label: str) -> bool:
    platform_domain = place.platform_domain
    # Which labels the operator has listed is not shown of a platform domain that not every user sees.
    listed = platform_domain_store.find_label(tx, platform_domain.id, label) if place.is_public else None
    is_reserved = (
        reserved_reason(label) is not None
        if listed is None
        else listed.label_class in ("reserved", "blocked")
    )
    return (
        is_reserved
        or carries_the_zone(platform_domain, place.name)
        or zone_store.has_names_at_or_below(tx, platform_domain.id, place.name)
    )


def unregistered_errors(
    places: Iterable[Place], nameservers: Sequence[str], kept: Collection[str], user_id: int
) -> list[FieldError]:
    """Return an error for each nameserver below a name that no user holds: its next holder could answer for the owner.

    The user's own names may be anywhere but in their cooling-off. Under a platform domain that not every user sees, others' names
    have to be in the DNS, which is all that is shown of them. Nameservers that are `kept` pass: they were stored before this rule, or
    the sweep removes them.
    """
    return [
        FieldError(f"nameservers[{nameservers.index(each.host)}]", "nameserver_unregistered", _sentence(each))
        for each in places
        if each.host not in kept and not _is_safe(each, user_id)
    ]


def _is_safe(place: Place, user_id: int) -> bool:
    is_own = place.holder is not None and place.holder.user_id == user_id
    return place.is_held and (is_own or place.is_public or place.is_delegated)


def _sentence(place: Place) -> str:
    if place.is_public:
        return (
            f"`{place.host}` lies at or below `{place.name}`, which is not registered, so its next holder could take over this "
            f"name. Register `{place.name}` first, or use another nameserver."
        )
    return f"`{place.host}` can't be found: `{place.name}` is not in the DNS. Check the spelling, or use another nameserver."


def refuse_unregistered(
    tx: Tx,
    user: User,
    owner: str,
    nameservers: Sequence[str],
    above: Sequence[PlatformDomain],
    *,
    kept: Collection[str] = (),
    owner_id: int | None = None,
) -> None:
    """Keep the names that the new nameservers lie below from being purged until the transaction ends.

    Called last before the write, since names are locked after users and zones. `owner_id` is the row that is changed, locked
    with them in the order of the ids; None for a new one.

    Raises:
        ValidationFailed: one of these names has no holder; it may have been purged since it was first looked at.
    """
    new = [host for host in nameservers if host not in kept]
    held = [each.holder.id for each in places_of(tx, owner, new, above) if each.holder is not None]
    if not held:
        return
    store.lock_subdomains(tx, {*held, *([] if owner_id is None else [owner_id])})
    errors = unregistered_errors(places_of(tx, owner, new, above), nameservers, kept, user.id)
    if errors:
        raise validation_failed(errors)
