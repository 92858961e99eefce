"""Check the nameservers of a name against the registry: cycles, nameservers at or below other names, and
warnings.

The holder of a name controls the addresses of all nameservers at or below the name. So a nameserver at or
below another registrable name is enclosed by that name. Not enclosed are nameservers at or below the name
that uses them, because these have glue (`dns/delegation.py`), and the operator's nameservers: at a platform
domain, at a label that can't be registered, or at records that the registry didn't write.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import Actor, Change
from sublet.dates import moment
from sublet.db import Tx
from sublet.dns.delegation import delegation_warnings, find_nameserver_cycle
from sublet.dns.names import ancestors, is_at_or_below, is_reserved
from sublet.dns.types import Delegation
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain, has_zone_nameserver
from sublet.platform_domains.zone_store import is_zone_signed
from sublet.subdomains import store
from sublet.subdomains.delegation_changes import DELEGATION_CHANGES, REMOVAL, removed_hosts
from sublet.subdomains.lifecycle import is_in_dns, restorable_until
from sublet.subdomains.model import Subdomain
from sublet.subdomains.naming import registrable_name

CHAIN_MAX = 1000
"""The maximum number of steps in the search for a cycle. Each step is one query. A longer chain is accepted
as no cycle.
"""


def platform_domains_above(tx: Tx, owner: str, nameservers: Iterable[str]) -> list[PlatformDomain]:
    """Return the platform domains at or above these nameservers of `owner`, the longest name first.

    Nameservers at or below `owner` are skipped, because they have glue.
    """
    hosts = [host for host in nameservers if not is_at_or_below(host, owner)]
    names = {name for host in hosts for name in (host, *ancestors(host))}
    return platform_domain_store.find_platform_domains_among(tx, names) if names else []


def cycle_errors(
    tx: Tx, owner: str, delegation: Delegation, above: Iterable[PlatformDomain]
) -> list[FieldError]:
    """Return an error if resolvers can find the nameservers of `owner` only through `owner` itself.

    `above` is the result of `platform_domains_above`. If a cycle is possible, serialize with other cross-zone
    changes, because two concurrent changes could each add one half of a cycle.
    """
    if not _can_be_in_cycle(owner, delegation, above):
        return []
    platform_domain_store.serialize_cross_zone_changes(tx)
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
            f"Resolvers can find these nameservers only through the name itself ({' → '.join(chain)}). "
            "Use a nameserver outside this chain, or a nameserver below the name with glue.",
        )
    ]


def _can_be_in_cycle(owner: str, delegation: Delegation, above: Iterable[PlatformDomain]) -> bool:
    """True if all nameservers are below platform domains and none is at or below the name itself.

    Otherwise a cycle is impossible.
    """
    hosts = delegation.nameservers
    if not hosts or any(is_at_or_below(host, owner) for host in hosts):
        return False
    return all(any(is_at_or_below(host, each.domain) for each in above) for host in hosts)


class EnclosedNameserver(Struct, frozen=True):
    """A nameserver at or below a registrable name, this name, and the name's unreleased row `holder` (None if
    the name is free).
    """

    host: str
    name: str
    platform_domain: PlatformDomain
    holder: Subdomain | None

    @property
    def is_held(self) -> bool:
        """True if a user holds the name, live or in the trash."""
        return self.holder is not None and self.holder.purged_at is None

    @property
    def is_in_trash(self) -> bool:
        """True if the name is in the trash, but not purged."""
        return self.is_held and self.holder is not None and self.holder.trashed_at is not None

    @property
    def is_purged(self) -> bool:
        """True if the name is purged, but not released. The sweep will remove the nameserver."""
        return self.holder is not None and self.holder.purged_at is not None

    @property
    def removal_at(self) -> datetime | None:
        """The time when the name will be purged and the nameserver removed.

        None if the name is suspended or not in the trash.
        """
        return restorable_until(self.holder) if self.holder is not None else None

    @property
    def is_in_dns(self) -> bool:
        """True if the name is in the DNS: delegated, or with records."""
        return self.holder is not None and is_in_dns(self.holder)

    @property
    def is_public(self) -> bool:
        """True if every user may know which names are registered under the platform domain."""
        return not (self.platform_domain.hidden or self.platform_domain.restricted)


def find_enclosed_nameservers(
    tx: Tx, owner: str, nameservers: Iterable[str], above: Sequence[PlatformDomain]
) -> list[EnclosedNameserver]:
    """Return the nameservers of `owner` that are at or below another registrable name.

    `above` is the result of `platform_domains_above`.
    """
    found = []
    for host in nameservers:
        nearest = next((each for each in above if is_at_or_below(host, each.domain)), None)
        if nearest is not None and host != nearest.domain and not is_at_or_below(host, owner):
            found.append(find_enclosed_nameserver(tx, host, nearest))
    return [enclosed for enclosed in found if enclosed is not None]


def find_enclosed_nameserver(tx: Tx, host: str, platform_domain: PlatformDomain) -> EnclosedNameserver | None:
    """Return a nameserver with its enclosing name, or None if it is the operator's.

    `platform_domain` is the longest one above the nameserver.
    """
    name = registrable_name(host, platform_domain.domain)
    enclosed = EnclosedNameserver(host, name, platform_domain, store.find_unreleased(tx, name))
    return None if enclosed.holder is None and _is_operators(tx, enclosed) else enclosed


def find_enclosed_nameservers_of_subdomain(tx: Tx, subdomain: Subdomain) -> list[EnclosedNameserver]:
    """Return the stored nameservers of a subdomain that are at or below another registrable name."""
    nameservers = subdomain.delegation.nameservers
    above = platform_domains_above(tx, subdomain.fqdn, nameservers)
    return find_enclosed_nameservers(tx, subdomain.fqdn, nameservers, above)


def _is_operators(tx: Tx, enclosed: EnclosedNameserver) -> bool:
    platform_domain, label = enclosed.platform_domain, enclosed.name.partition(".")[0]
    # The result must not reveal the operator's list of labels under a hidden or restricted platform domain.
    listed = platform_domain_store.find_label(tx, platform_domain.id, label) if enclosed.is_public else None
    is_unregistrable = is_reserved(label) if listed is None else listed.label_class in ("reserved", "blocked")
    return (
        is_unregistrable
        or has_zone_nameserver(platform_domain, enclosed.name)
        or zone_store.has_records_at_or_below(tx, platform_domain.id, enclosed.name)
    )


def unregistered_errors(
    owner: str,
    enclosed: Iterable[EnclosedNameserver],
    nameservers: Sequence[str],
    kept: Collection[str],
    actor: Actor,
    user_id: int,
) -> list[FieldError]:
    """Return an error for each nameserver of `owner` whose enclosing name has no holder, because the next
    holder could take over `owner`.

    Under a hidden or restricted platform domain, the enclosing name must be in the DNS or be the user's own
    name that the token is for. So the result doesn't reveal which other names exist. Nameservers in `kept`
    were stored before, and are accepted.
    """
    return [
        FieldError(
            f"nameservers[{nameservers.index(each.host)}]",
            "nameserver_unregistered",
            _unregistered_message(each, owner),
        )
        for each in enclosed
        if each.host not in kept and not _is_safe(each, actor, user_id)
    ]


def _is_safe(enclosed: EnclosedNameserver, actor: Actor, user_id: int) -> bool:
    is_own = enclosed.holder is not None and enclosed.holder.user_id == user_id
    is_own = is_own and actor.restrictions.allows_name(enclosed.name)
    return enclosed.is_held and (is_own or enclosed.is_public or enclosed.is_in_dns)


def _unregistered_message(enclosed: EnclosedNameserver, owner: str) -> str:
    if enclosed.is_public:
        return (
            f"`{enclosed.name}` is not registered. Another user could register it and control `{owner}`. "
            f"Register `{enclosed.name}` first, or use another nameserver than `{enclosed.host}`."
        )
    return (
        f"`{enclosed.host}` doesn't resolve: `{enclosed.name}` is not in the DNS. Check the spelling, or "
        "use another nameserver."
    )


def refuse_unregistered(
    tx: Tx,
    actor: Actor,
    user: User,
    owner: str,
    nameservers: Sequence[str],
    above: Sequence[PlatformDomain],
    *,
    kept: Collection[str] = (),
    owner_id: int | None = None,
) -> None:
    """Lock the names that enclose the new nameservers, so that they can't be purged before the transaction
    ends.

    Then check them again.

    Call it directly before the writes, because names are locked after users and zones. `owner_id` is the id
    of the changed name, which is locked too, in order of id; None for a new name.

    Raises:
        ValidationFailed: an enclosing name has no holder, because it was purged after the first check.
    """
    new = [host for host in nameservers if host not in kept]
    holder_ids = [
        each.holder.id for each in find_enclosed_nameservers(tx, owner, new, above) if each.holder is not None
    ]
    if not holder_ids:
        return
    store.lock_subdomains(tx, {*holder_ids, *([] if owner_id is None else [owner_id])})
    errors = unregistered_errors(
        owner, find_enclosed_nameservers(tx, owner, new, above), nameservers, kept, actor, user.id
    )
    if errors:
        raise validation_failed(errors)


def _removal_warnings(changes: Sequence[Change]) -> tuple[str, ...]:
    last = next((each for each in reversed(changes) if each.action in DELEGATION_CHANGES), None)
    if last is None or last.action != REMOVAL:
        return ()
    hosts = ", ".join(removed_hosts(last))
    return (
        (
            f"{hosts}: removed on {moment(last.at)}, because the registered name that encloses them was "
            "purged. Set other nameservers."
        ),
    )


def _warning(enclosed: EnclosedNameserver) -> str:
    if enclosed.is_in_trash:
        at = enclosed.removal_at
        when = f"on {moment(at)}" if at is not None else "at the purge"
        return (
            f"The nameserver {enclosed.host} doesn't resolve: {enclosed.name} is in the trash. If "
            f"{enclosed.name} isn't restored, {enclosed.host} will be removed {when}. Use another "
            "nameserver."
        )
    if enclosed.is_public and not enclosed.is_held:
        return (
            f"The nameserver {enclosed.host} doesn't resolve: {enclosed.name} is not registered. Use "
            "another nameserver."
        )
    return (
        f"The nameserver {enclosed.host} doesn't resolve: {enclosed.name} is not in the DNS. Use another "
        "nameserver."
    )


def stored_warnings(
    tx: Tx,
    subdomain: Subdomain,
    enclosed: Sequence[EnclosedNameserver] | None = None,
    changes: Sequence[Change] | None = None,
) -> tuple[str, ...]:
    """Return the warnings about a stored delegation: about its own values, then the `registry_warnings`."""
    return (*delegation_warnings(subdomain.delegation), *registry_warnings(tx, subdomain, enclosed, changes))


def registry_warnings(
    tx: Tx,
    subdomain: Subdomain,
    enclosed: Sequence[EnclosedNameserver] | None = None,
    changes: Sequence[Change] | None = None,
) -> tuple[str, ...]:
    """Return a warning about nameservers that the sweep removed last, one for each nameserver whose enclosing
    name isn't in the DNS, and one about the parent zone.

    `enclosed` are the name's nameservers below other names, and `changes` its newest changes with those of
    `DELEGATION_CHANGES`, oldest first, if the caller has them. A new name has no changes. Warnings reveal
    only public facts, and when a name in the trash will be purged. Not checked: whether the nameservers of
    the enclosing name have records of the nameserver.
    """
    if changes is None:
        changes = audit.list_changes(tx, "subdomain", subdomain.id, DELEGATION_CHANGES, 1)
    if enclosed is None:
        enclosed = find_enclosed_nameservers_of_subdomain(tx, subdomain)
    return (
        *_removal_warnings(changes),
        *(_warning(each) for each in enclosed if not each.is_in_dns),
        *_parent_warnings(tx, subdomain),
    )


def _parent_warnings(tx: Tx, subdomain: Subdomain) -> tuple[str, ...]:
    """Return the warning `parent_not_signed` if a name has DS records, and its parent zone is known to be
    unsigned.

    Validators ignore such DS records (RFC 4035, section 5.2).
    """
    if not subdomain.delegation.ds_records or is_zone_signed(tx, subdomain.platform_domain_id) is not False:
        return ()
    warning = (
        f"parent_not_signed: The zone {subdomain.domain} is not signed, so the DS records have no effect "
        f"and resolvers treat {subdomain.fqdn} as unsigned. Ask the operator to sign the zone."
    )
    return (warning,)
