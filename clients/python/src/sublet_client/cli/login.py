"""`login`, `logout`, `whoami`, `profiles`, `signup`: how a token gets here, and whose it is."""

import platform
import sys
import time
import webbrowser
from collections.abc import Iterator

import click

from sublet_client import Client
from sublet_client._errors import AuthorizationPending, SlowDown, TokenExpired, TokenInvalid, TokenRevoked
from sublet_client._settings import base_url_of
from sublet_client.cli.advice import SIGNED_OUT
from sublet_client.cli.profiles import (
    delete_profile,
    find_profile,
    prove_writable,
    read_profiles,
    save_profile,
)
from sublet_client.cli.session import Ctl, Stop, command
from sublet_client.exceptions import NotReached
from sublet_client.models import DeviceAnswer, MeAnswer

SLOWER_BY_SECONDS = 5
"""RFC 8628, section 3.5."""
ACCOUNT = ("user", "email", "organization", "profile", "url", "token", "token_id", "scopes", "expires_at")


@command(None, "login", uses=("start_device", "poll_device", "me"), columns=ACCOUNT)
@click.argument("url", required=False)
@click.option("--token", "from_stdin", is_flag=True, help="Read a token from standard input.")
@click.option(
    "--name", metavar="TEXT", help="What the token is called; by default the name of this computer."
)
@click.option("--no-browser", is_flag=True, help="Only print the address of the page.")
def login(
    ctl: Ctl, url: str | None, from_stdin: bool, name: str | None, no_browser: bool
) -> dict[str, object]:
    """Sign in at the registry at URL, and store the token.

    Opens a page in a browser, on which you allow this computer. With --token it reads a token from standard
    input instead.
    """
    address = url or find_profile(ctl.profile)[0]
    if address is None:
        raise Stop("Give the address of the registry.", "subletctl login https://HOST", SIGNED_OUT)
    base_url = base_url_of(address)
    prove_writable()
    token = _read_token() if from_stdin else _device_token(ctl, base_url, name, opens=not no_browser)
    with ctl.connect(base_url, token) as client:
        me = client.account.me()
    place = save_profile(ctl.profile, base_url, token)
    click.echo(f"Signed in. The token is in {place}.", err=True)
    return _account(ctl, base_url, me)


def _read_token() -> str:
    text = click.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise ValueError(
            "There is no token on standard input. Give one: echo TOKEN | subletctl login --token"
        )
    return str(text).strip()


def _device_token(ctl: Ctl, base_url: str, name: str | None, *, opens: bool) -> str:
    """Return the token that a person allows in a browser (RFC 8628)."""
    with ctl.connect(base_url) as client:
        started = client.devices.start(name=name or platform.node() or None)
        click.echo(f"Open {started.verification_uri} and enter {started.user_code}", err=True)
        if opens and ctl.is_interactive:
            webbrowser.open(started.verification_uri_complete)
        return _poll(client, started)


def _poll(client: Client, started: DeviceAnswer) -> str:
    pause = started.interval
    until = time.monotonic() + started.expires_in
    while True:
        time.sleep(pause)
        try:
            secret = client.devices.poll(device_code=started.device_code.reveal()).secret
        except AuthorizationPending:
            continue
        except SlowDown:
            pause += SLOWER_BY_SECONDS
            continue
        except NotReached:
            if time.monotonic() > until:
                raise
            pause += SLOWER_BY_SECONDS
            continue
        if secret is None:
            raise Stop("The registry answered without a token.", "subletctl login", SIGNED_OUT)
        return secret.reveal()


@command(None, "logout", uses=("me", "revoke_token"))
@click.option("--revoke", is_flag=True, help="Revoke the token at the registry too.")
def logout(ctl: Ctl, revoke: bool) -> str:
    """Forget the stored token of the profile."""
    url, token = find_profile(ctl.profile, environment={})
    is_revoked = revoke and url is not None and token is not None and _revoke(ctl, url, token)
    if not delete_profile(ctl.profile):
        raise Stop(f"There is no profile {ctl.profile}.", "subletctl profiles")
    left = " It had no valid token, so none was revoked." if revoke and not is_revoked else ""
    return f"The profile {ctl.profile} is forgotten.{left}"


def _revoke(ctl: Ctl, url: str, token: str) -> bool:
    """Revoke a token; False if the registry doesn't accept it any more."""
    try:
        with ctl.connect(url, token) as client:
            own = client.account.me().token
            if own is not None:
                client.tokens.revoke(own.id)
    except (TokenExpired, TokenInvalid, TokenRevoked):
        return False
    return True


@command(None, "whoami", uses=("me",), columns=ACCOUNT)
def whoami(ctl: Ctl) -> dict[str, object]:
    """Show the account and the token."""
    with ctl.client() as client:
        me = client.account.me()
    return _account(ctl, find_profile(ctl.profile)[0] or "", me)


def _account(ctl: Ctl, url: str, me: MeAnswer) -> dict[str, object]:
    token = me.token
    return {
        "user": me.user.name,
        "email": me.user.email,
        "user_id": me.user.id,
        "reminders": me.user.reminders,
        "organization": me.organization.name,
        "organization_id": me.organization.id,
        "profile": ctl.profile,
        "url": url,
        "token": token.name if token else None,
        "token_id": token.id if token else None,
        "scopes": token.scopes if token else (),
        "expires_at": token.expires_at if token else None,
    }


@command(None, "profiles", columns=("profile", "url", "token_in"))
def profiles(ctl: Ctl) -> Iterator[dict[str, object]]:
    """List the stored accounts."""
    del ctl
    for name, stored in read_profiles().items():
        yield {
            "profile": name,
            "url": stored.get("url"),
            "token_in": "file" if "token" in stored else "keyring",
        }


@command(None, "signup", uses=("sign_up", "confirm_sign_up"), columns=("email", "profile", "url"))
@click.argument("url")
@click.argument("email")
@click.argument("name")
@click.option("--code", metavar="CODE", help="The code of the mail, if you have it already.")
def signup(ctl: Ctl, url: str, email: str, name: str, code: str | None) -> dict[str, object] | str:
    """Open an account at the registry at URL, and store its first token.

    The registry mails a code to EMAIL. Without a terminal run the same command again with --code.
    """
    base_url = base_url_of(url)
    prove_writable()
    with ctl.connect(base_url) as client:
        if code is None:
            client.sign_up.start(email, name)
            if not ctl.is_interactive:
                return f"A code is on its way to {email}. Run the same command with --code CODE."
            code = str(click.prompt("The code of the mail", err=True))
        done = client.sign_up.confirm(email=email, code=code)
    assert done.secret is not None  # noqa: S101 - only a page of the service gets none
    place = save_profile(ctl.profile, base_url, done.secret.reveal())
    click.echo(f"Your account is open. The token is in {place}.", err=True)
    return {"email": done.user.email, "profile": ctl.profile, "url": base_url}
