"""Warn of nameservers that can't be found, or are removed soon, or were: as far as the registry's own names tell.

A warning says only what the availability of a name and the DNS show every user, and, of a name in the trash, when the nameservers
below it are removed.
"""

from collections.abc import Sequence

from sublet import audit
from sublet.db import Tx
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_labels import Place, places_of, places_of_subdomain
from sublet.subdomains.nameserver_notices import CHANGES, REMOVAL, moment, removed_hosts


def nameserver_warnings(
    tx: Tx, subdomain: Subdomain, above: Sequence[PlatformDomain] | None = None
) -> tuple[str, ...]:
    """Return a sentence on each nameserver below another name that is not in the DNS, and on those that were removed since the last change.

    `above` are the `platform_domains_above` of its nameservers if they are known already: then the name was just registered, and
    nothing was removed.

    Not checked: whether the nameservers of the other name know the host.
    """
    if above is not None:
        removed: tuple[str, ...] = ()
        places = places_of(tx, subdomain.fqdn, subdomain.delegation.nameservers, above)
    else:
        removed, places = _removed(tx, subdomain), places_of_subdomain(tx, subdomain)
    return (*removed, *(_warning(each) for each in places if not each.is_delegated))


def _removed(tx: Tx, subdomain: Subdomain) -> tuple[str, ...]:
    last = audit.list_changes(tx, "subdomain", subdomain.id, CHANGES, 1)
    if not last or last[0].action != REMOVAL:
        return ()
    event = audit.list_events(tx, "subdomain", [subdomain.id], [REMOVAL])[-1]
    hosts = ", ".join(removed_hosts(event))
    return (
        f"Removed on {moment(event.at)}: {hosts}. The name that it lay below is not registered any more. Set other nameservers.",
    )


def _warning(place: Place) -> str:
    if place.is_in_trash:
        at = place.removed_at
        when = f"on {moment(at)}" if at is not None else "at the end of its time there"
        return (
            f"The nameserver {place.host} can't be found: {place.name} is in the trash. Unless it is restored, {place.host} is "
            f"removed {when}. Use another nameserver."
        )
    if place.is_public and not place.is_held:
        return f"The nameserver {place.host} can't be found: {place.name} is not registered. Use another nameserver."
    return f"The nameserver {place.host} can't be found: {place.name} is not in the DNS."
