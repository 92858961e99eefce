"""`names`: list, show and search names, and look for free ones."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
from msgspec.structs import asdict

from sublet_client import Client
from sublet_client._errors import (
    InsufficientScope,
    PlatformDomainNotFound,
    SubdomainNotFound,
    TokenRestricted,
    ValidationFailed,
)
from sublet_client.cli.advice import UNREACHED
from sublet_client.cli.session import Ctl, Stop, command, group, stop_of
from sublet_client.exceptions import NotReached
from sublet_client.models import Availability, Delegation, Subdomain, TimelineEvent

COLUMNS = ("fqdn", "status", "registration_type", "expires_at", "nameservers")
DETAILS = (
    *("fqdn", "status", "provision_error", "registration_type", "nameservers", "glue", "ds_records"),
    *("registered_at", "expires_at", "renewal_available", "auto_renew"),
)

STATUSES = ("inactive", "provisioning", "active", "failed", "expired", "suspended", "trashed")
HEALTH_STATES = ("healthy", "degraded", "broken", "unknown")
WAIT_SECONDS = 300.0
UNPAYABLE = {
    "free_quota_exceeded": "your free names are used",
    "insufficient_scope": "this token may not pay",
    "token_restricted": "more than this token may pay in a day",
}
PRICE_REASONS = frozenset({"insufficient_credits", *UNPAYABLE})
"""The reasons of GET /availability after which the name itself is free."""
CLOSED = {
    "account_suspended": "your account is suspended",
    "clock_implausible": "not now: try again in an hour",
    "registration_closed": "the platform domain takes no registrations",
    "registration_mode_not_allowed": "in no mode that you may use",
    "subdomain_unavailable": "taken or reserved",
}
"""Why a name is not open, by the reason of GET /availability."""


@group()
def names() -> None:
    """List, show and search names, and look for free ones."""


@command(names, "list", uses=("list_subdomains",), columns=COLUMNS)
@click.option("--status", type=click.Choice(STATUSES), help="Only names with this status.")
@click.option("--domain", help="Only names under this platform domain.")
@click.option("--expires-before", type=click.DateTime(), help="Only names that expire before this date.")
@click.option("--renewable", is_flag=True, default=None, help="Only names that can be renewed now.")
@click.option(
    "--health",
    "health_state",
    type=click.Choice(HEALTH_STATES),
    help="Only names whose delegation is in this state.",
)
def list_(
    ctl: Ctl,
    status: str | None,
    domain: str | None,
    expires_before: datetime | None,
    renewable: bool | None,
    health_state: str | None,
) -> Iterator[Subdomain]:
    """List your names."""
    with ctl.client() as client:
        yield from client.subdomains.list(
            status=status,
            domain=domain,
            expires_before=expires_before.astimezone() if expires_before else None,
            renewal_available=renewable,
            health=health_state,
        )


@command(names, "search", uses=("list_subdomains",), columns=COLUMNS)
@click.argument("text")
def search(ctl: Ctl, text: str) -> Iterator[Subdomain]:
    """List your names that contain TEXT."""
    with ctl.client() as client:
        yield from client.subdomains.list(q=text)


@command(names, "show", uses=("get_subdomain", "get_auto_renew"), columns=DETAILS)
@click.argument("name")
def show_name(ctl: Ctl, name: str) -> dict[str, Any]:
    """Show a name."""
    with ctl.client() as client:
        found = client.subdomains.get(name)
        return {**asdict(found), "auto_renew": client.subdomains.get_auto_renew(name)}


@command(
    names,
    "availability",
    uses=("availability", "credits", "get_subdomain"),
    columns=("fqdn", "open", "why", "payment", "modes"),
)
@click.argument("names", nargs=-1, required=True)
def availability(ctl: Ctl, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Show whether names are open to you, whether you can pay for them now, and what
    they cost in each mode.
    """
    rows: list[dict[str, Any]] = []
    wrong: list[Stop] = []
    with ctl.client() as client:
        for each in names:
            try:
                rows.append(_as_row(client, client.subdomains.availability(each)))
            except (ValidationFailed, PlatformDomainNotFound, SubdomainNotFound, TokenRestricted) as error:
                wrong.append(stop_of(error, each))
                rows.append(_row_of_wrong(each, error.code))
    if wrong:
        message = "\n".join(each.message for each in wrong)
        raise Stop(message, wrong[0].next_command, wrong[0].exit_code, result=rows)
    return rows


def _as_row(client: Client, found: Availability) -> dict[str, Any]:
    is_open = found.available or found.reason in PRICE_REASONS
    return {
        **asdict(found),
        "open": is_open,
        "why": None if is_open else why_closed(client, found),
        "payment": _payment(client, found) if is_open else None,
    }


def _row_of_wrong(fqdn: str, code: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys((*Availability.__struct_fields__, "payment"))
    return {**row, "fqdn": fqdn, "available": False, "reason": code, "modes": (), "open": False, "why": code}


def why_closed(client: Client, found: Availability) -> str:
    """Return why a name is not open to the account."""
    if found.available_at is None:
        return CLOSED.get(str(found.reason), str(found.reason))
    try:
        client.subdomains.get(found.fqdn)
    except SubdomainNotFound as error:
        if error.details.get("in_trash"):
            return "in your trash: see subletctl restore"
    except InsufficientScope:
        pass
    else:
        return "yours: see subletctl ns set"
    return f"not free before {found.available_at:%Y-%m-%d}"


def _payment(client: Client, found: Availability) -> str:
    """Return whether the account can pay for an open name, in the mode that the registry takes by default."""
    if found.reason == "insufficient_credits":
        try:
            missing = found.modes[0].price_credits - client.credits.get().credit_balance
        except InsufficientScope:
            return "too few credits"
        return f"{missing} credits are missing"
    if found.reason is not None:
        return UNPAYABLE[str(found.reason)]
    return "enough credits" if found.modes and found.modes[0].price_credits else "free"


@command(
    names,
    "delegation",
    uses=("delegation",),
    columns=("summary", "in_agreement", "stored", "published", "servers"),
)
@click.argument("name")
def delegation(ctl: Ctl, name: str) -> Delegation:
    """Show what is stored for a name, and what each name server answers."""
    with ctl.client() as client:
        return client.subdomains.delegation(name).delegation


@command(names, "timeline", uses=("timeline",), columns=("at", "event", "past", "detail", "charged_credits"))
@click.argument("name")
def timeline(ctl: Ctl, name: str) -> tuple[TimelineEvent, ...]:
    """Show what happened to a name, and what its dates will bring."""
    with ctl.client() as client:
        return client.subdomains.timeline(name).timeline


@command(names, "retry", uses=("retry",), columns=("fqdn", "status", "provision_error"))
@click.argument("name")
def retry(ctl: Ctl, name: str) -> Subdomain:
    """Publish a name again that failed."""
    with ctl.client() as client:
        return client.subdomains.retry(name).subdomain


def waited(ctl: Ctl, client: Client, done: Subdomain, *, waits: bool) -> Subdomain:
    """Return a name, after it has been published if the user wants to wait."""
    if not waits:
        return done
    ctl.progress(f"{done.fqdn} is being published …")
    try:
        return client.subdomains.wait(done.fqdn, deadline_seconds=WAIT_SECONDS)
    except NotReached as error:
        sentence = f"{done.fqdn} is stored, but perhaps not in the DNS yet. {error}"
        raise Stop(sentence, f"subletctl watch --settled {done.fqdn}", UNREACHED) from error
    finally:
        ctl.progress("")
