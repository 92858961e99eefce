"""Add a platform domain (the operator's `sublet domain add`), perhaps with the zone that it has already."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import InvalidName, ancestors, parse_domain_name
from sublet.errors import Conflict, FieldError, validation_failed
from sublet.platform_domains import store, zone_store
from sublet.platform_domains.model import Offer, PlatformDomain
from sublet.platform_domains.settings import PlatformDomainSettings, check_settings, default_settings, plain
from sublet.platform_domains.zone_file import InvalidZoneFile, ZoneFile, parse_zone_file

FIRST_OFFER = ("free", 0, 0, 365)
"""What a new platform domain offers: mode, price and renewal price in credits, days (docs/spec-choices.md, "Modes and prices")."""


@dataclass(frozen=True, slots=True)
class PlatformDomainAdded:
    """A new platform domain, its offers, and how many records were adopted from its zone file."""

    platform_domain: PlatformDomain
    offers: tuple[Offer, ...]
    adopted_records: int


def add_platform_domain(
    tx: Tx,
    actor: Actor,
    domain: str,
    settings: PlatformDomainSettings,
    *,
    names_held: Callable[[Tx, Collection[str]], list[str]],
    zone_file: str | None = None,
) -> PlatformDomainAdded:
    """Add a platform domain, open, offering `free`, with defaults for what is not said.

    A zone file's SOA and apex NS become settings that are not said; its other records are in the zone from then on, and the
    names at which they stand can't be registered. `names_held` tells which of some names registrants hold, in the trash and
    cooling off too (it is the store of subdomains that knows, which stands above this noun).

    Raises, in this order:
        ValidationFailed: the domain is no name, or the zone file can't be adopted.
        ValidationFailed: all other wrong fields.
        Conflict: it is a platform domain already. Change it with `sublet domain edit`.
        Conflict: the name, or one above it, is a registered subdomain: its holder has what lies below it.
    """
    canonical, adopted = _parse(domain, zone_file)
    from_zone = adopted.settings if adopted else PlatformDomainSettings()
    said = {**from_zone.given(), **settings.given()}
    values, errors = check_settings({**default_settings(canonical, said.get("apex_nameservers")), **said})
    if errors:
        raise validation_failed(errors)
    if store.find_platform_domain_by_name(tx, canonical) is not None:
        raise Conflict(f"{canonical} is a platform domain already. Change it with `sublet domain edit`.")
    held = names_held(tx, (canonical, *ancestors(canonical)))
    if held:
        raise Conflict(
            f"{held[0]} is registered, or was until a short while ago; a platform domain can't lie at or below it. Take another name."
        )
    platform_domain_id = store.insert_platform_domain(tx, canonical, **plain(values))
    mode, price, renewal_price, period_days = FIRST_OFFER
    offer = Offer(platform_domain_id, mode, price, renewal_price, period_days, None)
    store.replace_offer(tx, offer)
    records = adopted.records if adopted else ()
    zone_store.insert_records(tx, platform_domain_id, records)
    audit.record(
        tx,
        actor,
        "platform_domain.add",
        "platform_domain",
        platform_domain_id,
        after={"domain": canonical, **plain(values), "adopted_records": len(records)},
    )
    platform_domain = store.find_platform_domain(tx, platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - just added
    return PlatformDomainAdded(platform_domain, (offer,), len(records))


def _parse(domain: str, zone_file: str | None) -> tuple[str, ZoneFile | None]:
    try:
        canonical = parse_domain_name(domain)
    except InvalidName as error:
        raise validation_failed([FieldError("domain", "value_invalid", str(error))]) from None
    try:
        return canonical, parse_zone_file(zone_file, canonical) if zone_file is not None else None
    except InvalidZoneFile as error:
        raise validation_failed(
            [FieldError("zone_file", "value_invalid", f"{error}. Check the file.")]
        ) from None
