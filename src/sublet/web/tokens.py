"""The pages of tokens: the list, a new token with its secret, and changes of a token."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from starlette.responses import Response

from sublet.accounts.tokens.api import TokenDetailShape
from sublet.accounts.tokens.tokens import (
    LIFE_DEFAULT,
    OVERLAP_SECONDS_DEFAULT,
    OVERLAP_SECONDS_MAX,
    OWN_LIFE_MAX,
)
from sublet.db import Tx
from sublet.errors import PreconditionFailed
from sublet.operations.call import Call
from sublet.operations.conditional import entity_tag
from sublet.restrictions import SCOPES
from sublet.subdomains.find import list_in_account
from sublet.subdomains.naming import canonical_domain
from sublet.web.filters import plural
from sublet.web.form import Form
from sublet.web.page import PageCall
from sublet.web.sign_in import sign_in_again

SCOPE_WORDS = {
    "account:read": "See the account, its credits and payments",
    "subdomains:read": "See names",
    "subdomains:write": "Register names, set nameservers, renew, give away and delete",
    "records:write": "Change the records of names",
    "credits:spend": "Spend credits",
    "tickets:read": "Read tickets",
    "tickets:write": "Open tickets and reply",
    "tokens:write": "Create and revoke tokens",
    "organization:write": "Manage organizations and their members",
}
SCOPES_DEFAULT = ("account:read", "subdomains:read", "subdomains:write")
OVERLAPS = (
    (str(OVERLAP_SECONDS_DEFAULT), "One hour"),
    (str(OVERLAP_SECONDS_MAX), "One day"),
    ("0", "End it now"),
)
"""How long the former secret of a rotated token stays valid: seconds and text."""


async def show_list(call: PageCall) -> Response:
    """Show the tokens."""
    filters = call.filters("cursor")
    found = await call.find_page("list_tokens", filters)
    return await call.render("tokens", filters=filters, found=found, now=_now(), limits_of=_limits_of)


def _limits_of(token: TokenDetailShape) -> list[str]:
    """Return what restricts a token besides its scopes, as the list shows it."""
    listed = {
        "Only names": token.names,
        "Only under": token.domains,
        "Only from": token.networks,
        "Only records at": token.record_names,
    }
    found = [f"{words}: {', '.join(values)}" for words, values in listed.items() if values]
    if token.daily_credits is not None:
        found.append(f"At most {plural(token.daily_credits, 'credit')} a day")
    return found


async def show_new(call: PageCall, unknown: Sequence[str] = ()) -> Response:
    """Show the form of a new token. `unknown` are the names in it that don't exist."""
    if asked := sign_in_again(call):
        return asked
    ticked = call.form.lists.get("scopes", []) if call.form else list(SCOPES_DEFAULT)
    until = _day(_now() + LIFE_DEFAULT)
    return await call.render(
        "token_new", scopes=_scopes(), ticked=ticked, until=until, latest=latest_day(), unknown=unknown
    )


async def create(call: PageCall) -> Response:
    """Create a token, and show its secret.

    The answer isn't a redirect, because the secret isn't stored and the next page couldn't show it.
    """
    if unknown := await _find_unconfirmed_names(call):
        return await show_new(call, unknown)
    created = await call.api("create_token", _members(call.form))
    return await call.render("token_secret", token=created.token, secret=created.secret, is_new=True)


async def _find_unconfirmed_names(call: PageCall) -> list[str]:
    """Return the names in the form that don't exist, unless the form was sent again after they were shown."""
    unknown = await _find_unknown_names(call, call.form.lines("names"))
    return [] if call.form.get("shown_names") == " ".join(unknown) else unknown


async def _find_unknown_names(call: PageCall, names: Sequence[str]) -> list[str]:
    """Return those of a token's names that its user or organization doesn't have, such as mistyped ones."""
    whole = [each for each in names if not each.startswith("*.")]
    found = await call.read("list_subdomains", partial(_read_names, names=whole)) if whole else ()
    return [each for each in whole if canonical_domain(each) not in found]


def _read_names(tx: Tx, call: Call[None, None], *, names: Sequence[str]) -> list[str]:
    return [each.fqdn for each in list_in_account(tx, call.actor(), names)]


async def show_one(call: PageCall, unknown: Sequence[str] = ()) -> Response:
    """Show a token with the forms that change it. `unknown` are the names in the form that don't exist."""
    answer = await call.api("get_token", id=str(call.parameters["id"]))
    token, is_outdated = answer.token, isinstance(call.refusal, PreconditionFailed)
    is_live = token.revoked_at is None and (token.expires_at is None or token.expires_at > _now())
    return await call.render(
        "token",
        token=token,
        # A form that is shown again keeps the tag of the token that the user saw. If the token has changed
        # since, the form was refused, and gets the tag of the token as it is now.
        etag=(not is_outdated and call.form.get("etag")) or entity_tag(answer),
        is_live=is_live,
        scopes=_scopes(),
        ticked=call.form.lists.get("scopes", token.scopes),
        until=_day(token.expires_at),
        latest=max(latest_day(), _day(token.expires_at)),
        overlaps=OVERLAPS,
        limits=_limits_of(token),
        unknown=unknown,
        missing=await _find_unknown_names(call, token.names or ()) if is_live and not unknown else [],
    )


async def change(call: PageCall) -> Response:
    """Change the members of the token that differ in the form."""
    if unknown := await _find_unconfirmed_names(call):
        return await show_one(call, unknown)
    token = (await call.api("get_token", id=str(call.parameters["id"]))).token
    sent = _members(call.form)
    if token.expires_at is not None and call.form.text("expires_at") == _day(token.expires_at):
        del sent["expires_at"]
    changed = {name: value for name, value in sent.items() if value != getattr(token, name)}
    if changed:  # otherwise the form was sent twice
        etag = call.form.get("etag", "")
        await call.api("change_token", changed, if_match=etag, id=str(call.parameters["id"]))
    return call.redirect(f"/tokens/{token.id}", "The token is changed.")


async def rotate(call: PageCall) -> Response:
    """Give a token a new secret, and show it."""
    members = {"overlap_seconds": call.form.number("overlap_seconds")}
    rotated = await call.api("rotate_token", members, id=str(call.parameters["id"]))
    return await call.render("token_secret", token=rotated.token, secret=rotated.secret, is_new=False)


async def revoke(call: PageCall) -> Response:
    """Revoke a token."""
    revoked = await call.api("revoke_token", id=str(call.parameters["id"]))
    return call.redirect("/tokens", f"The token {revoked.token.name} is revoked.")


def _scopes() -> list[tuple[str, str]]:
    return [(scope, SCOPE_WORDS[scope]) for scope in SCOPES]


def _members(form: Form) -> dict[str, Any]:
    """Return the members for the API.

    An empty field is no restriction; a token expires at the end of the chosen day in UTC.
    """
    until = form.text("expires_at")
    return {
        "name": form.text("name"),
        "scopes": form.lists.get("scopes", []),
        "names": form.lines("names") or None,
        "domains": form.lines("domains") or None,
        "networks": form.lines("networks") or None,
        "record_names": form.lines("record_names") or None,
        "daily_credits": form.number("daily_credits"),
        "expires_at": f"{until}T23:59:59Z" if until else None,
    }


def latest_day() -> str:
    """Return the last day whose end is at most `OWN_LIFE_MAX` from now."""
    return _day(_now() + OWN_LIFE_MAX - timedelta(days=1))


def _day(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d")


def _now() -> datetime:
    return datetime.now(UTC)
