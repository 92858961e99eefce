"""`tokens`: create, change, rotate and revoke tokens."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec.structs import asdict

from sublet_client import Client
from sublet_client._errors import TokenExpired, TokenInvalid, TokenRevoked
from sublet_client.cli.profiles import find_profile, prove_writable, save_profile
from sublet_client.cli.session import Ctl, Function, Stop, command, group, with_yes
from sublet_client.models import SecretAnswer, TokenDetail

COLUMNS = ("id", "name", "scopes", "expires_at", "last_used_at", "revoked_at")
DETAILS = (
    *("id", "name", "scopes", "names", "domains", "networks", "record_names", "daily_credits"),
    "organization_id",
    *("created_at", "expires_at", "last_used_at", "last_used_from", "revoked_at"),
)
SECRET = ("secret", *DETAILS)
OVERLAP_SECONDS = 3_600
ID_OR_NAME = "ID|NAME"


@group()
def tokens() -> None:
    """Create, rotate and revoke tokens."""


def _with_restrictions(function: Function) -> Function:
    for option in (
        click.option(
            "--expires-in-days",
            type=click.IntRange(min=1, max=365),
            metavar="N",
            help="The number of days until it expires, at most 365.",
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
            "--only-record",
            "record_names",
            multiple=True,
            metavar="OWNER",
            help="For the records at this owner only, such as _acme-challenge, or _acme-challenge.*.",
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


@command(tokens, "show", uses=("get_token", "list_tokens"), columns=DETAILS)
@click.argument("token", metavar=ID_OR_NAME)
def show_token(ctl: Ctl, token: str) -> TokenDetail:
    """Show a token."""
    with ctl.client() as client:
        return client.tokens.get(_find_id(client, token))


@command(tokens, "create", uses=("create_token", "rotate_token"), columns=SECRET)
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
        made = client.tokens.create(name, **_restrictions(given))
        if made.secret is None:  # the answer with the secret was lost
            made = client.tokens.rotate(made.token.id, overlap_seconds=0)
    return _with_secret(made)


@command(tokens, "change", uses=("change_token", "list_tokens"), columns=DETAILS)
@click.argument("token", metavar=ID_OR_NAME)
@click.option("--name", help="Its new name.")
@_with_restrictions
def change(ctl: Ctl, token: str, **given: Any) -> TokenDetail:
    """Change a token. What isn't given stays."""
    with ctl.client() as client:
        return client.tokens.change(_find_id(client, token), **_restrictions(given))


@command(tokens, "rotate", uses=("rotate_token", "list_tokens", "me"), columns=SECRET)
@click.argument("token", metavar=ID_OR_NAME)
@click.option(
    "--overlap-seconds",
    type=click.IntRange(min=0),
    default=OVERLAP_SECONDS,
    show_default=True,
    metavar="N",
    help="How long the former secret stays valid.",
)
def rotate(ctl: Ctl, token: str, overlap_seconds: int) -> dict[str, Any]:
    """Give a token a new secret, which is shown once; --quiet prints it alone.

    The former secret stays valid for the overlap. If you rotate again before it is over, the new overlap is
    that of the secret that was new, and the one before it ends at once. If it is the stored token of the
    profile, the new secret is stored.
    """
    url, used = ctl.account()
    stored_url, stored = find_profile(ctl.profile, environment={})
    with ctl.client() as client:
        token_id = _find_id(client, token)
        used_id = _own_id(client)
        stored_id = _id_of_secret(ctl, url, stored) if stored is not None and stored_url == url else None
        if token_id == stored_id:
            prove_writable()
        until = datetime.now(UTC) + timedelta(seconds=overlap_seconds)
        done = client.tokens.rotate(token_id, overlap_seconds=overlap_seconds)
    result, token_id = _with_secret(done), str(done.token.id)
    click.echo(f"The former secret is valid until {until:%Y-%m-%d %H:%M} UTC.", err=True)
    if token_id == stored_id:
        place = save_profile(ctl.profile, url, result["secret"].reveal())
        click.echo(f"The profile {ctl.profile} has the new secret now, in {place}.", err=True)
    if token_id == used_id and used != stored:
        click.echo("SUBLET_TOKEN has the former secret: set it to the new one.", err=True)
    return result


@command(tokens, "revoke", uses=("revoke_token", "list_tokens"), columns=DETAILS)
@click.argument("token", metavar=ID_OR_NAME)
@with_yes
def revoke(ctl: Ctl, token: str, yes: bool) -> TokenDetail:
    """Revoke a token for good."""
    with ctl.client() as client:
        ctl.ask(f"Revoke the token {token} for good?", "the same command with --yes", yes=yes)
        return client.tokens.revoke(_find_id(client, token))


def _find_id(client: Client, text: str) -> str:
    """Return the id of the token with this id or name.

    Raises:
        Stop: no valid token has this name, or several have it.
    """
    if text.isdigit():
        return text
    now = datetime.now(UTC)
    valid = [
        each
        for each in client.tokens.list()
        if each.revoked_at is None and (each.expires_at is None or each.expires_at > now)
    ]
    found = [str(each.id) for each in valid if each.name == text]
    if len(found) == 1:
        return found[0]
    how_many = f"{len(found)} tokens are" if found else "No token is"
    ids = f": {', '.join(found)}" if found else ""
    raise Stop(f"{how_many} called `{text}`{ids}. Give the id.", "subletctl tokens list")


def _own_id(client: Client) -> str | None:
    own = client.account.me().token
    return None if own is None else str(own.id)


def _id_of_secret(ctl: Ctl, url: str, secret: str) -> str | None:
    """Return the id of the token with this secret; None if it isn't valid."""
    try:
        with ctl.connect(url, secret) as client:
            return _own_id(client)
    except (TokenExpired, TokenInvalid, TokenRevoked):
        return None


def _with_secret(done: SecretAnswer) -> dict[str, Any]:
    """Return a token with its secret.

    Raises:
        Stop: the answer with the secret was lost.
    """
    if done.secret is None:
        again = f"subletctl tokens rotate {done.token.id}, before the former secret ends"
        raise Stop("The answer with the new secret was lost.", again)
    return {"secret": done.secret, **asdict(done.token)}
