"""Add, edit and find platform domains as the operator, and let organizations register under restricted ones
(`sublet domain add`, `edit`, `grant`, `revoke`).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from sublet import audit
from sublet.accounts.model import Organization
from sublet.accounts.organizations import find_organization, refuse_deleted_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import InvalidName, ancestors, parse_domain_name, shown
from sublet.dns.serial import next_serial, went_back
from sublet.errors import Conflict, FieldError, NotFound, ValidationFailed, validation_failed
from sublet.ids import parse_id
from sublet.platform_domains import store, zone_store
from sublet.platform_domains.model import SETTINGS, Offer, PlatformDomain, default_settings
from sublet.platform_domains.nested import refuse_missing_cuts
from sublet.platform_domains.settings import check_settings, storable
from sublet.platform_domains.zone_file import InvalidZoneFile, ZoneFile, parse_zone_file

FIRST_OFFER = ("free", 0, 0, 365)
"""The offer of a new platform domain: mode, price and renewal price in credits, days (docs/spec-choices.md,
"Modes and prices").
"""


def find_platform_domain(tx: Tx, identifier: str) -> PlatformDomain:
    """Return the platform domain with this name (in any form) or id.

    Raises:
        NotFound: no such platform domain.
    """
    platform_domain_id = parse_id(identifier)
    if platform_domain_id is not None:
        found = store.find_platform_domain(tx, platform_domain_id)
    else:
        try:
            found = store.find_platform_domain_by_name(tx, parse_domain_name(identifier))
        except InvalidName:
            found = None
    if found is None:
        raise NotFound(f"There is no platform domain `{shown(identifier)}`. See `sublet domain list`.")
    return found


class PlatformDomainAdded(Struct, frozen=True):
    """A new platform domain, and the number of records that were adopted from its zone file."""

    platform_domain: PlatformDomain
    adopted_records: int


def add_platform_domain(
    tx: Tx,
    actor: Actor,
    domain: str,
    settings: Mapping[str, Any],
    *,
    names_held: Callable[[Tx, Collection[str]], list[str]],
    zone_file: str | None = None,
    force: bool = False,
) -> PlatformDomainAdded:
    """Add a platform domain that is open and offers `free`. Omitted settings get their defaults.

    The SOA and apex NS records of a zone file become settings, unless `settings` has them. The other records
    of the file are adopted into the zone, and names at or above them can't be registered. A removed platform
    domain that is added again keeps its id and history. `names_held` returns which names of a collection
    registrants hold, also in the trash or cooling off. This package can't import that function, because
    `subdomains` imports this package.

    Raises, in this order:
        ValidationFailed: the domain is not a name, or the zone file can't be adopted.
        ValidationFailed: any wrong settings.
        Conflict: the domain is a platform domain already.
        Conflict: the domain, or a name above it, is a registered subdomain, whose holder controls all names
            below.
        Conflict, without `force`: the zone above is on a primary and lacks the delegation of the domain, or
            the domain's own zone is on a primary and lacks the delegation of a platform domain below.
    """
    canonical, adopted = _parse(domain, zone_file)
    chosen = {**(adopted.settings if adopted else {}), **settings}
    values, errors = check_settings({**default_settings(canonical, chosen.get("apex_nameservers")), **chosen})
    if errors:
        raise validation_failed(errors)
    if store.find_platform_domain_by_name(tx, canonical) is not None:
        raise Conflict(f"{canonical} is a platform domain already. Change it with `sublet domain edit`.")
    _raise_serial_above(tx, canonical)
    held = names_held(tx, (canonical, *ancestors(canonical)))
    if held:
        raise Conflict(
            f"{held[0]} is registered, or was registered recently. A platform domain can't be at or below "
            "a registered name. Choose another name."
        )
    platform_domain_id, action = _insert(tx, canonical, values)
    mode, price, renewal_price, period_days = FIRST_OFFER
    store.replace_offer(tx, Offer(platform_domain_id, mode, price, renewal_price, period_days, None))
    records = adopted.records if adopted else ()
    zone_store.insert_records(tx, platform_domain_id, records)
    after = {"domain": canonical, **storable(values), "adopted_records": len(records)}
    audit.record(tx, actor, action, platform_domain_id, after=after)
    platform_domain = store.find_platform_domain(tx, platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - just added
    if not force:
        refuse_missing_cuts(tx, platform_domain)
    return PlatformDomainAdded(platform_domain, len(records))


def _raise_serial_above(tx: Tx, domain: str) -> None:
    """Raise the serial of the closest zone above a new platform domain, if there is one.

    First wait until the running registrations in that zone end. Later ones wait for this transaction. They
    find the new serial, and run again.
    """
    for each in store.find_platform_domains_among(tx, ancestors(domain))[:1]:
        store.lock_against_registrations(tx, each.id)
        # Find it again, because another change may have committed before the lock.
        for locked in store.find_platform_domains_among(tx, [each.domain]):
            store.update_platform_domain(tx, locked.id, serial=next_serial(locked.serial))


def _insert(tx: Tx, domain: str, values: dict[str, Any]) -> tuple[int, str]:
    """Store a new or removed platform domain, and return its id and the action of the audit event.

    The serial never goes back.
    """
    removed = store.find_removed(tx, domain)
    if removed is None:
        return store.insert_platform_domain(tx, domain, **storable(values)), "platform_domain.add"
    platform_domain_id, serial = removed
    if went_back(values["serial"], before=serial):
        values["serial"] = serial
    store.update_platform_domain(tx, platform_domain_id, removed_at=None, **storable(values))
    return platform_domain_id, "platform_domain.add_again"


def _parse(domain: str, zone_file: str | None) -> tuple[str, ZoneFile | None]:
    try:
        canonical = parse_domain_name(domain)
    except InvalidName as error:
        raise validation_failed([FieldError("domain", "value_invalid", str(error))]) from None
    try:
        return canonical, parse_zone_file(zone_file, canonical) if zone_file is not None else None
    except InvalidZoneFile as error:
        raise validation_failed([FieldError("zone_file", "value_invalid", str(error))]) from None


def edit_platform_domain(
    tx: Tx, actor: Actor, identifier: str, settings: Mapping[str, Any]
) -> PlatformDomain:
    """Change settings of a platform domain. Unchanged settings leave no event in the audit.

    After hiding, closing or restricting, registrants can still see, change and renew the names that they
    hold. A change of the apex records gives the zone a new serial. A new TTL of delegations applies to each
    name from its next publication.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: no settings, or any wrong ones, such as an older serial.
    """
    zone_store.lock_zone(tx, find_platform_domain(tx, identifier).id)
    # Find it again, because another edit may have committed before the lock.
    found = find_platform_domain(tx, identifier)
    if not settings:
        raise ValidationFailed("Give a setting to change. `sublet domain edit --help` lists them.")
    before = {name: getattr(found, name) for name in SETTINGS}
    values, errors = check_settings({**before, **settings})
    if went_back(values["serial"], before=found.serial):
        sentence = (
            f"Secondaries would not transfer the zone, because they have the serial {found.serial} (RFC "
            "1982). Give a newer serial."
        )
        errors.append(FieldError("serial", "value_invalid", sentence))
    if errors:
        raise validation_failed(errors)
    after: dict[str, Any] = {name: values[name] for name in settings if values[name] != before[name]}
    if after:
        if "serial" not in after and any(SETTINGS[name].in_apex for name in after):
            after["serial"] = next_serial(found.serial)
        store.update_platform_domain(tx, found.id, **storable(after))
        audit.record(
            tx,
            actor,
            "platform_domain.edit",
            found.id,
            before=storable({name: before[name] for name in after}),
            after=storable(after),
        )
    return find_platform_domain(tx, str(found.id))


class PlatformDomainGrant(Struct, frozen=True):
    """The result of granting or revoking.

    `granted` is the new state; `changed` is False if the state was the same before.
    """

    platform_domain: PlatformDomain
    organization: Organization
    granted: bool
    changed: bool


def grant_platform_domain(tx: Tx, actor: Actor, identifier: str, organization: str) -> PlatformDomainGrant:
    """Grant a platform domain to an organization (name, slug or id). A second grant changes nothing.

    A grant has an effect only while the platform domain is restricted.

    Raises, in this order:
        NotFound: no such platform domain; no such organization.
        Conflict: several organizations match.
        NotFound: the organization is deleted.
    """
    platform_domain = find_platform_domain(tx, identifier)
    granted_to = find_organization(tx, organization)
    refuse_deleted_organization(tx, granted_to)
    if platform_domain.id in store.granted_platform_domain_ids(tx, granted_to.id):
        return PlatformDomainGrant(platform_domain, granted_to, granted=True, changed=False)
    store.insert_grant(tx, platform_domain.id, granted_to.id)
    after = {"organization_id": granted_to.id}
    audit.record(tx, actor, "platform_domain.grant", platform_domain.id, after=after)
    return PlatformDomainGrant(platform_domain, granted_to, granted=True, changed=True)


def revoke_platform_domain(tx: Tx, actor: Actor, identifier: str, organization: str) -> PlatformDomainGrant:
    """End new registrations of an organization under a restricted platform domain.

    Names that the organization holds stay.

    Raises, in this order:
        NotFound: no such platform domain; no such organization.
        Conflict: several organizations match.
        NotFound: the platform domain was not granted to the organization.
    """
    platform_domain = find_platform_domain(tx, identifier)
    revoked_from = find_organization(tx, organization)
    if not store.delete_grant(tx, platform_domain.id, revoked_from.id):
        raise NotFound(f"{platform_domain.domain} was not granted to {revoked_from.name}. No action needed.")
    before = {"organization_id": revoked_from.id}
    audit.record(tx, actor, "platform_domain.revoke", platform_domain.id, before=before)
    return PlatformDomainGrant(platform_domain, revoked_from, granted=False, changed=True)
