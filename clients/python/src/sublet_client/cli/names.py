"""`names`: list, show and search names, and look for free ones."""

from collections.abc import Iterator
from datetime import datetime

import click

from sublet_client import Client
from sublet_client.cli.session import Ctl, command, group
from sublet_client.models import Availability, Delegation, Subdomain, TimelineEvent

COLUMNS = ("fqdn", "status", "registration_type", "expires_at", "nameservers")
DETAILS = (
    *("fqdn", "status", "provision_error", "registration_type", "nameservers", "glue", "ds_records"),
    *("registered_at", "expires_at", "renewal_available"),
)

WAIT_SECONDS = 300.0
PRICE_REASONS = frozenset({"insufficient_credits", "insufficient_scope", "token_restricted"})
"""The reasons of GET /availability after which the name itself is free."""


@group()
def names() -> None:
    """List, show and search names, and look for free ones."""


@command(names, "list", uses=("list_subdomains",), columns=COLUMNS)
@click.option("--status", help="Only names with this status.")
@click.option("--domain", help="Only names under this platform domain.")
@click.option("--expires-before", type=click.DateTime(), help="Only names that expire before this date.")
@click.option("--renewable", is_flag=True, default=None, help="Only names that can be renewed now.")
@click.option("--health", "health_state", help="Only names whose delegation is in this state.")
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


@command(names, "show", uses=("get_subdomain",), columns=DETAILS)
@click.argument("name")
def show_name(ctl: Ctl, name: str) -> Subdomain:
    """Show a name."""
    with ctl.client() as client:
        return client.subdomains.get(name)


@command(names, "availability", uses=("availability",), columns=("fqdn", "available", "reason", "modes"))
@click.argument("names", nargs=-1, required=True)
def availability(ctl: Ctl, names: tuple[str, ...]) -> Iterator[Availability]:
    """Show whether names can be registered, and for how many credits and days in each mode."""
    with ctl.client() as client:
        for each in names:
            yield client.subdomains.availability(each)


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
    found = client.subdomains.wait(done.fqdn, deadline_seconds=WAIT_SECONDS)
    ctl.progress("")
    return found
