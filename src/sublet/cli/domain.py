"""`sublet domain …`: the platform domains, their settings, offers and grants."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from sublet.accounts import store as account_store
from sublet.cli.options import Domain, invalid_option, parse_secondary
from sublet.cli.output import Answer, Column, key_value_lines, select_members, table_of
from sublet.cli.session import Session, audited_command, command, new_app, parameter
from sublet.config import Settings
from sublet.counted import counted
from sublet.db import Tx
from sublet.platform_domains import store
from sublet.platform_domains.model import (
    MODES,
    SETTING_TYPES,
    SETTINGS,
    Offer,
    PlatformDomain,
    Setting,
)
from sublet.platform_domains.offers import offer_mode, withdraw_offer
from sublet.platform_domains.platform_domain import (
    PlatformDomainGrant,
    add_platform_domain,
    find_platform_domain,
    grant_platform_domain,
    revoke_platform_domain,
)
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.end_platform_domain import (
    close_platform_domain,
    keep_platform_domain,
    remove_platform_domain,
)
from sublet.subdomains.store import list_unreleased_names

app = new_app("Platform domains: settings, offers, grants.")

OfOrganization = Annotated[
    str, Option("--organization", metavar="ORGANIZATION", help="The organization's name, slug or id.")
]
BUILT_IN = "built-in"
"""The value of --primary for the built-in name server."""


def _option(name: str, setting: Setting) -> Any:
    """Return the annotation of a setting's option. Its help includes the limits and the default."""
    flags = _flags(name, setting)
    kind, text = SETTING_TYPES[name], setting.help
    if setting.limits is not None:
        text += f" ({setting.limits[0]} to {setting.limits[1]}; default {setting.default})"
    elif kind is bool:
        text += f" (default {flags[0 if setting.default else 1]})"
    elif kind is not str:
        kind = list[str]
    return Annotated[kind | None, Option("/".join(flags), metavar=setting.metavar, help=text)]


def _flags(name: str, setting: Setting) -> list[str]:
    return [f"--{each}" for each in (setting.option or name.replace("_", "-")).split("/")]


SETTING_OPTIONS = [parameter(name, _option(name, setting)) for name, setting in SETTINGS.items()]


def _settings_from(settings: Settings, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a platform domain that the options change.

    Raises:
        ValidationFailed: the primary is not in the settings file, or a secondary is invalid.
    """
    chosen = {name: value for name, value in options.items() if value is not None and value != []}
    if "primary" in chosen:
        known = [each.name for each in settings.primaries]
        if chosen["primary"] not in (BUILT_IN, *known):
            sentence = (
                f"The settings have no primary {chosen['primary']!r}. Give one of "
                f"{', '.join([BUILT_IN, *known])}, or add it to the settings; see docs/settings.md."
            )
            raise invalid_option("primary", sentence)
        if chosen["primary"] == BUILT_IN:
            chosen["primary"] = ""
    if "apex_nameservers" in chosen:
        chosen["apex_nameservers"] = tuple(chosen["apex_nameservers"])
    if "secondaries" in chosen:
        texts = chosen["secondaries"]
        chosen["secondaries"] = () if texts == ["none"] else tuple(parse_secondary(text) for text in texts)
    return chosen


def _describe(tx: Tx, platform_domain: PlatformDomain) -> dict[str, Any]:
    organizations = account_store.list_organizations(tx)
    offers = sorted(store.list_offers(tx, platform_domain.id), key=lambda each: MODES.index(each.mode))
    granted = store.list_granted_organization_ids(tx, platform_domain.id)
    return {
        **select_members(platform_domain, PlatformDomain.__struct_fields__),
        "modes": [_describe_offer(each) for each in offers],
        "granted_to": [organizations[each] for each in granted],
    }


def _describe_offer(offer: Offer) -> dict[str, Any]:
    return select_members(offer, Offer.__struct_fields__[1:])  # without the platform domain's id


@audited_command(app, "add", SETTING_OPTIONS)
def add(
    session: Session,
    /,
    domain: Annotated[str, Argument(metavar="DOMAIN", help="The domain whose subdomains users register.")],
    zone_file: Annotated[
        Path | None, Option(metavar="FILE", help="Adopt the records of this zone file.")
    ] = None,
    force: Annotated[
        bool,
        Option(
            "--force",
            help="Add it even if the zone above is on a primary without a delegation of the domain.",
        ),
    ] = False,
    **options: Any,
) -> Answer:
    """Add a platform domain. By default it takes registrations and offers the mode `free`."""
    settings = _settings_from(session.settings, options)
    text = _read(zone_file) if zone_file is not None else None
    added = session.write(
        add_platform_domain, domain, settings, names_held=list_unreleased_names, zone_file=text, force=force
    )
    found = session.read(_describe, added.platform_domain)
    lines = [f"Added the platform domain {added.platform_domain.domain} (id {added.platform_domain.id})."]
    if zone_file is not None:
        lines.append(f"Adopted {counted(added.adopted_records, 'record')}. Their names can't be registered.")
    return Answer({**found, "adopted_records": added.adopted_records}, tuple(lines))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{path} can't be read: {error.strerror}. Check the path."
    except UnicodeDecodeError:
        message = f"{path} is not a text in UTF-8. Check that it is a zone file."
    raise invalid_option("zone_file", message)


@audited_command(app, "edit", SETTING_OPTIONS)
def edit(
    session: Session,
    /,
    domain: Domain,
    force: Annotated[
        bool,
        Option(
            "--force",
            help="Save even if names would be trashed or purged at once, or if adopted records or the "
            "delegation of a platform "
            "domain below would be lost.",
        ),
    ] = False,
    **options: Any,
) -> Answer:
    """Change a platform domain. Registered names stay visible, changeable and renewable."""
    settings = _settings_from(session.settings, options)
    edited = session.write(edit_zone_settings, domain, settings, force=force)
    lines = [f"The platform domain {edited.domain} is saved."]
    in_apex = [_flags(name, SETTINGS[name])[0] for name in settings if SETTINGS[name].in_apex]
    if edited.primary and in_apex:
        lines.append(
            f"The zone is on the primary {edited.primary}, and Sublet doesn't write its SOA and NS records. "
            f"Make the change there too: {', '.join(in_apex)}."
        )
    return Answer(session.read(_describe, edited), tuple(lines))


@audited_command(app, "remove")
def remove(
    session: Session,
    domain: Domain,
    names_until: Annotated[
        datetime | None,
        Option(
            formats=["%Y-%m-%d"],
            metavar="DATE",
            help="Don't remove it yet: keep its names until this date (00:00 UTC), and mail their holders.",
        ),
    ] = None,
    withdraw: Annotated[bool, Option("--withdraw", help="Withdraw the date, and mail the holders.")] = False,
    force: Annotated[
        bool,
        Option(
            "--force",
            help="With --names-until, set the date even if paid terms end later. With --withdraw, withdraw "
            "it even if names would be trashed "
            "at once. Otherwise, remove the domain even if names elsewhere have nameservers below it.",
        ),
    ] = False,
) -> Answer:
    """Remove a platform domain that is closed and has no names, or set the date at which it closes."""
    if names_until is not None and withdraw:
        raise typer.BadParameter("Give --names-until or --withdraw, not both.")
    if names_until is None and not withdraw:
        removed = session.write(remove_platform_domain, domain, force=force)
        lines = [f"{removed.domain} is removed. Its history stays."]
        if removed.primary:
            lines.append(f"Remove the zone from the primary {removed.primary}, which still serves it.")
        lines.append("Remove the delegation from the parent zone.")
        return Answer({"id": removed.id, "domain": removed.domain}, tuple(lines))
    if names_until is None:
        edited, mails = session.write(keep_platform_domain, domain, force=force)
        line = f"{edited.domain} stays open."
    else:
        until = names_until.replace(tzinfo=UTC)
        edited, mails = session.write(close_platform_domain, domain, until, force=force)
        line = f"{edited.domain} closes on {until:%Y-%m-%d}."
    outbox = f"The outbox has {counted(mails, 'mail')} to the holders of its names."
    return Answer({**session.read(_describe, edited), "mails": mails}, (line, outbox, *session.not_mailed()))


@command(app, "list")
def list_domains(session: Session) -> Answer:
    """List all platform domains, including hidden ones, newest first."""
    domains = session.read(lambda tx: [_describe(tx, each) for each in store.list_platform_domains(tx)])
    columns: list[Column] = [
        *("id", "domain", "public_name", "hidden", "restricted", ("open", "registration_open")),
        ("names until", "names_until"),
        ("modes", lambda each: [mode["mode"] for mode in each["modes"] if mode["withdrawn_at"] is None]),
    ]
    return Answer(domains, table=table_of(domains, columns, "There are no platform domains."))


@command(app, "show")
def show(session: Session, domain: Domain) -> Answer:
    """Show a platform domain with its settings, offers and grants."""
    found = session.read(lambda tx: _describe(tx, find_platform_domain(tx, domain)))
    shown = {
        **found,
        "primary": found["primary"] or BUILT_IN,
        "secondaries": [f"{each.host} at {each.address}, port {each.port}" for each in found["secondaries"]],
        "granted_to": [each.name for each in found["granted_to"]],
    }
    lines = key_value_lines(**{name: value for name, value in shown.items() if name != "modes"})
    columns = ("mode", "price_credits", "renewal_price_credits", "period_days", "withdrawn_at")
    return Answer(found, lines, table_of(found["modes"], columns))


@audited_command(app, "grant", former_arguments=("domain", "organization"))
def grant(session: Session, domain: Domain, organization: OfOrganization) -> Answer:
    """Let an organization see a restricted platform domain and register under it."""
    granted = session.write(grant_platform_domain, domain, organization)
    line = f"{granted.platform_domain.domain} is granted to {granted.organization.name}."
    return Answer(_describe_grant(granted), (line,))


@audited_command(app, "revoke", former_arguments=("domain", "organization"))
def revoke(session: Session, domain: Domain, organization: OfOrganization) -> Answer:
    """Revoke a grant. The names of the organization's users stay."""
    revoked = session.write(revoke_platform_domain, domain, organization)
    line = f"{revoked.platform_domain.domain} is no longer granted to {revoked.organization.name}."
    return Answer(_describe_grant(revoked), (line,))


def _describe_grant(grant: PlatformDomainGrant) -> dict[str, Any]:
    return {
        "domain": grant.platform_domain.domain,
        "organization": grant.organization,
        "granted": grant.granted,
        "changed": grant.changed,
    }


@audited_command(app, "offer")
def offer(
    session: Session,
    domain: Domain,
    mode: Annotated[str, Option(metavar="MODE", help=f"One of {', '.join(MODES)}.")],
    price: Annotated[int | None, Option(metavar="CREDITS", help="The price of a registration.")] = None,
    renewal_price: Annotated[
        int | None,
        Option(metavar="CREDITS", help="The price of a renewal; default for a new offer: --price."),
    ] = None,
    period_days: Annotated[
        int | None, Option(metavar="N", help="The term in days; default for a new offer: 365.")
    ] = None,
    withdraw: Annotated[
        bool,
        Option(
            "--withdraw",
            help="Accept no more registrations in this mode until you change the offer. Names can still be "
            "renewed.",
        ),
    ] = False,
) -> Answer:
    """Offer a mode at a price, change the offer, or withdraw it. Omitted options keep their values."""
    terms = {"price_credits": price, "renewal_price_credits": renewal_price, "period_days": period_days}
    if not withdraw:
        offered = session.write(offer_mode, domain, mode, **terms)
        line = (
            f"{offered.mode}: {counted(offered.price_credits, 'credit')}, renewal "
            f"{offered.renewal_price_credits}, for {counted(offered.period_days, 'day')}."
        )
        return Answer(_describe_offer(offered), (line,))
    if any(value is not None for value in terms.values()):
        raise typer.BadParameter("Give --withdraw without a price and a period.")
    withdrawn = session.write(withdraw_offer, domain, mode)
    line = f"The mode {mode} is withdrawn. Names registered in it can still be renewed."
    return Answer(_describe_offer(withdrawn), (line,))
