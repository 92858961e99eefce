"""`tokens`: create, change, rotate and revoke tokens."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from sublet_client.cli.session import Ctl, Function, command, group, with_yes
from sublet_client.models import SecretAnswer, TokenDetail

COLUMNS = ("id", "name", "scopes", "expires_at", "last_used_at", "revoked_at")
DETAILS = (
    *("id", "name", "scopes", "names", "domains", "networks", "daily_credits", "organization_id"),
    *("created_at", "expires_at", "last_used_at", "last_used_from", "revoked_at"),
)
SECRET = ("secret", *DETAILS)


@group()
def tokens() -> None:
    """Create, rotate and revoke tokens."""


def _with_restrictions(function: Function) -> Function:
    for option in (
        click.option(
            "--expires-in-days",
            type=click.IntRange(min=1),
            metavar="N",
            help="The number of days until it expires.",
        ),
        click.option(
            "--daily-credits", type=click.IntRange(min=0), metavar="N", help="Most it may spend in a day."
        ),
        click.option(
            "--only-network", "networks", multiple=True, metavar="CIDR", help="Usable from this network only."
        ),
        click.option(
            "--only-domain", "domains", multiple=True, metavar="DOMAIN", help="For this platform domain only."
        ),
        click.option(
            "--only-name", "names", multiple=True, metavar="NAME", help="For this name only, or *.DOMAIN."
        ),
        click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="What it may do; repeat it."),
    ):
        function = option(function)
    return function


def _restrictions(given: dict[str, Any]) -> dict[str, Any]:
    """Return the restrictions that were given, as the client takes them."""
    days = given.pop("expires_in_days")
    if days is not None:
        given["expires_at"] = datetime.now(UTC) + timedelta(days=days)
    return {name: value for name, value in given.items() if value not in (None, ())}


@command(tokens, "list", uses=("list_tokens",), columns=COLUMNS)
def list_(ctl: Ctl) -> Iterator[TokenDetail]:
    """List tokens."""
    with ctl.client() as client:
        yield from client.tokens.list()


@command(tokens, "show", uses=("get_token",), columns=DETAILS)
@click.argument("id")
def show_token(ctl: Ctl, id: str) -> TokenDetail:
    """Show a token."""
    with ctl.client() as client:
        return client.tokens.get(id)


@command(tokens, "create", uses=("create_token",), columns=SECRET)
@click.argument("name")
@click.option(
    "--organization", "organization_id", type=int, metavar="ID", help="For the names of this organization."
)
@_with_restrictions
def create(ctl: Ctl, name: str, **given: Any) -> dict[str, Any]:
    """Create a token that may do no more than yours. Its secret is shown once; --quiet prints it alone."""
    if not given["scopes"]:
        raise click.UsageError("Give at least one --scope, such as --scope subdomains:read.")
    with ctl.client() as client:
        return _with_secret(client.tokens.create(name, **_restrictions(given)))


@command(tokens, "change", uses=("change_token",), columns=DETAILS)
@click.argument("id")
@click.option("--name", help="Its new name.")
@_with_restrictions
def change(ctl: Ctl, id: str, **given: Any) -> TokenDetail:
    """Change a token. What isn't given stays."""
    with ctl.client() as client:
        return client.tokens.change(id, **_restrictions(given))


@command(tokens, "rotate", uses=("rotate_token",), columns=SECRET)
@click.argument("id")
@click.option(
    "--overlap-seconds",
    type=click.IntRange(min=0),
    metavar="N",
    help="The former secret stays valid so long.",
)
def rotate(ctl: Ctl, id: str, overlap_seconds: int | None) -> dict[str, Any]:
    """Give a token a new secret, which is shown once; --quiet prints it alone."""
    with ctl.client() as client:
        return _with_secret(client.tokens.rotate(id, overlap_seconds=overlap_seconds))


@command(tokens, "revoke", uses=("revoke_token",), columns=DETAILS)
@click.argument("id")
@with_yes
def revoke(ctl: Ctl, id: str, yes: bool) -> TokenDetail:
    """Revoke a token for good."""
    with ctl.client() as client:
        ctl.ask(f"Revoke the token {id} for good?", "the same command with --yes", yes=yes)
        return client.tokens.revoke(id)


def _with_secret(done: SecretAnswer) -> dict[str, Any]:
    members = {name: getattr(done.token, name) for name in TokenDetail.__struct_fields__}
    return {"secret": done.secret, **members}
