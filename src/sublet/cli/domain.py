"""`sublet domain …`: the platform domains, what they offer, and who sees them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sublet.accounts import store as account_store
from sublet.accounts.model import Organization
from sublet.cli import domain_options as option
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table, facts
from sublet.cli.session import Session, change, question
from sublet.counted import counted
from sublet.db import Tx
from sublet.errors import FieldError, validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.add_platform_domain import add_platform_domain
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.grant_platform_domain import PlatformDomainGrant, grant_platform_domain
from sublet.platform_domains.model import MODES, Offer, PlatformDomain
from sublet.platform_domains.offer_mode import offer_mode
from sublet.platform_domains.revoke_platform_domain import revoke_platform_domain
from sublet.platform_domains.withdraw_offer import withdraw_offer
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.store import list_names_held

app = new_app("Platform domains: settings, offers, grants.")

Domain = Annotated[str, typer.Argument(metavar="DOMAIN", help="The platform domain's name or id.")]
GrantedOrganization = Annotated[
    str, typer.Argument(metavar="ORGANIZATION", help="The organization's name, slug or id.")
]


@dataclass(frozen=True, slots=True)
class _Shown:
    platform_domain: PlatformDomain
    offers: list[Offer]
    organizations: list[Organization]


def _look(tx: Tx, platform_domain: PlatformDomain) -> _Shown:
    organizations = account_store.list_organizations(tx)
    granted = store.list_granted_organization_ids(tx, platform_domain.id)
    return _Shown(
        platform_domain,
        _in_order(store.list_offers(tx, platform_domain.id)),
        [organizations[each] for each in granted],
    )


def _in_order(offers: list[Offer]) -> list[Offer]:
    return sorted(offers, key=lambda each: MODES.index(each.mode))


def _describe(shown: _Shown) -> dict[str, Any]:
    own = {name: getattr(shown.platform_domain, name) for name in PlatformDomain.__struct_fields__}
    modes = [_describe_offer(each) for each in shown.offers]
    return {**own, "modes": modes, "granted_to": shown.organizations}


def _describe_offer(offer: Offer) -> dict[str, Any]:
    return {name: getattr(offer, name) for name in Offer.__slots__ if name != "platform_domain_id"}


@change(app, "add")
def add(
    session: Session,
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="The name to let subdomains of.")],
    public_name: option.PublicName = None,
    description: option.Description = None,
    hidden: option.Hidden = None,
    restricted: option.Restricted = None,
    registration_open: option.RegistrationOpen = None,
    idn: option.Idn = None,
    look_alike_check: option.LookAlikeCheck = None,
    dnssec_signed: option.DnssecSigned = None,
    nameservers_min: option.NameserversMin = None,
    nameservers_max: option.NameserversMax = None,
    label_length_min: option.LabelLengthMin = None,
    premium_length_max: option.PremiumLengthMax = None,
    renewal_window_days: option.RenewalWindowDays = None,
    grace_days: option.GraceDays = None,
    trash_days: option.TrashDays = None,
    cooling_off_days: option.CoolingOffDays = None,
    apex_nameserver: option.ApexNameserver = None,
    soa_mname: option.SoaMname = None,
    soa_rname: option.SoaRname = None,
    serial: option.Serial = None,
    refresh_seconds: option.RefreshSeconds = None,
    retry_seconds: option.RetrySeconds = None,
    expire_seconds: option.ExpireSeconds = None,
    negative_ttl_seconds: option.NegativeTtlSeconds = None,
    apex_ttl_seconds: option.ApexTtlSeconds = None,
    delegation_ttl_seconds: option.DelegationTtlSeconds = None,
    primary: option.Primary = None,
    secondary: option.SecondaryOption = None,
    zone_file: Annotated[
        Path | None, typer.Option("--zone-file", metavar="FILE", help="Adopt the records of this zone file.")
    ] = None,
) -> Answer:
    """Add a platform domain: open, offering `free`, unless said otherwise."""
    said = option.settings_from(session.settings, locals())
    text = _read(zone_file) if zone_file is not None else None

    added = session.write(add_platform_domain, domain, said, names_held=list_names_held, zone_file=text)
    shown = _Shown(added.platform_domain, list(added.offers), [])
    lines = [f"Added the platform domain {added.platform_domain.domain} (id {added.platform_domain.id})."]
    if zone_file is not None:
        lines.append(
            f"Adopted {counted(added.adopted_records, 'record')}; no registrant can take a name at which one stands."
        )
    return Answer({**_describe(shown), "adopted_records": added.adopted_records}, tuple(lines))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} can't be read: {error}. Check the path."
        raise validation_failed([FieldError("zone_file", "value_invalid", message)]) from None


@change(app, "edit")
def edit(
    session: Session,
    domain: Domain,
    public_name: option.PublicName = None,
    description: option.Description = None,
    hidden: option.Hidden = None,
    restricted: option.Restricted = None,
    registration_open: option.RegistrationOpen = None,
    idn: option.Idn = None,
    look_alike_check: option.LookAlikeCheck = None,
    dnssec_signed: option.DnssecSigned = None,
    nameservers_min: option.NameserversMin = None,
    nameservers_max: option.NameserversMax = None,
    label_length_min: option.LabelLengthMin = None,
    premium_length_max: option.PremiumLengthMax = None,
    renewal_window_days: option.RenewalWindowDays = None,
    grace_days: option.GraceDays = None,
    trash_days: option.TrashDays = None,
    cooling_off_days: option.CoolingOffDays = None,
    apex_nameserver: option.ApexNameserver = None,
    soa_mname: option.SoaMname = None,
    soa_rname: option.SoaRname = None,
    serial: option.Serial = None,
    refresh_seconds: option.RefreshSeconds = None,
    retry_seconds: option.RetrySeconds = None,
    expire_seconds: option.ExpireSeconds = None,
    negative_ttl_seconds: option.NegativeTtlSeconds = None,
    apex_ttl_seconds: option.ApexTtlSeconds = None,
    delegation_ttl_seconds: option.DelegationTtlSeconds = None,
    primary: option.Primary = None,
    secondary: option.SecondaryOption = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even where names would go to the trash or be purged at once, or adopted records be lost.",
        ),
    ] = False,
) -> Answer:
    """Change a platform domain; names that are held stay visible, changeable and renewable."""
    edited = session.write(
        edit_zone_settings, domain, option.settings_from(session.settings, locals()), force=force
    )
    shown = session.read(lambda tx: _look(tx, edited))
    return Answer(_describe(shown), (f"The platform domain {edited.domain} is stored as asked.",))


@question(app, "list")
def list_domains(session: Session) -> Answer:
    """List all platform domains, hidden ones too, newest first."""
    found = session.read(lambda tx: [_look(tx, each) for each in store.list_platform_domains(tx)])
    rows = tuple(
        (
            each.platform_domain.id,
            each.platform_domain.domain,
            each.platform_domain.public_name,
            each.platform_domain.hidden,
            each.platform_domain.restricted,
            each.platform_domain.registration_open,
            [offer.mode for offer in each.offers if offer.withdrawn_at is None],
        )
        for each in found
    )
    columns = ("id", "domain", "public name", "hidden", "restricted", "open", "modes")
    return Answer(
        [_describe(each) for each in found], table=Table(columns, rows, "There are no platform domains.")
    )


@question(app, "show")
def show(session: Session, domain: Domain) -> Answer:
    """Show a platform domain with its settings, offers and grants."""
    shown = session.read(lambda tx: _look(tx, find_platform_domain(tx, domain)))
    values = {name: getattr(shown.platform_domain, name) for name in PlatformDomain.__struct_fields__}
    lines = facts(**values, granted_to=[each.name for each in shown.organizations])
    rows = tuple(
        (each.mode, each.price_credits, each.renewal_price_credits, each.period_days, each.withdrawn_at)
        for each in shown.offers
    )
    table = Table(("mode", "price", "renewal price", "days", "withdrawn"), rows)
    return Answer(_describe(shown), lines, table)


@change(app, "grant")
def grant(session: Session, domain: Domain, organization: GrantedOrganization) -> Answer:
    """Let an organization see a restricted platform domain and register under it."""
    given = session.write(grant_platform_domain, domain, organization)
    line = f"{given.platform_domain.domain} is granted to {given.organization.name}."
    return Answer(_describe_grant(given), (line,))


@change(app, "revoke")
def revoke(session: Session, domain: Domain, organization: GrantedOrganization) -> Answer:
    """Take a grant back; names that the organization's users hold stay."""
    taken = session.write(revoke_platform_domain, domain, organization)
    line = f"{taken.platform_domain.domain} is no longer granted to {taken.organization.name}."
    return Answer(_describe_grant(taken), (line,))


def _describe_grant(grant: PlatformDomainGrant) -> dict[str, Any]:
    return {
        "domain": grant.platform_domain.domain,
        "organization": grant.organization,
        "granted": grant.granted,
        "changed": grant.changed,
    }


@change(app, "offer")
def offer(
    session: Session,
    domain: Domain,
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help=f"One of {', '.join(MODES)}.")],
    price: Annotated[
        int | None, typer.Option("--price", metavar="CREDITS", help="What a registration costs.")
    ] = None,
    renewal_price: Annotated[
        int | None,
        typer.Option("--renewal-price", metavar="CREDITS", help="What a renewal costs; at first as --price."),
    ] = None,
    period_days: Annotated[
        int | None, typer.Option("--period-days", metavar="N", help="The term; at first 365.")
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="End new registrations in this mode; renewals go on.")
    ] = False,
) -> Answer:
    """Offer a mode at a price, change its offer, or withdraw it. What is not said stays as it is."""
    terms = {"price_credits": price, "renewal_price_credits": renewal_price, "period_days": period_days}
    if withdraw:
        if any(value is not None for value in terms.values()):
            raise typer.BadParameter("--withdraw takes no price and no period")
        offered = session.write(withdraw_offer, domain, mode)
        line = f"The mode {mode} is withdrawn; names held in it are still renewed."
    else:
        offered = session.write(
            offer_mode,
            domain,
            mode,
            price_credits=price,
            renewal_price_credits=renewal_price,
            period_days=period_days,
        )
        line = (
            f"{offered.mode}: {counted(offered.price_credits, 'credit')}, renewal {offered.renewal_price_credits}, "
            f"for {counted(offered.period_days, 'day')}."
        )
    return Answer(_describe_offer(offered), (line,))
