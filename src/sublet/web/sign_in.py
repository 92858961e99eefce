"""One form to sign in and to open an account, by a mailed code or link or by a passkey; the page of the link
that opens an account or accepts an invitation; and the sign-out.
"""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from starlette.responses import Response

from sublet.accounts.session_store import find_sign_in
from sublet.accounts.sessions import MAIL, sufficient_sign_in_methods
from sublet.db import Tx
from sublet.errors import InvalidRequest, RateLimited, ValidationFailed
from sublet.limits import CODES_TO_ADDRESS
from sublet.organizations.invitations import view_invitation
from sublet.web.page import PageCall, set_cookie

START_PATH = "/names"
"""The page after a sign-in if the browser didn't ask for another one."""
NEXT_COOKIE = "__Host-sublet_next"
"""The cookie with the page to open after the sign-in, because the mailed link doesn't contain it."""
NEXT_SECONDS = 3600
"""Longer than a code is valid: a code without this cookie means that the browser keeps none."""
NEXT_CHARACTERS_MAX = 1000
"""The maximum length of a path that is opened after the sign-in. Percent-encoding makes it up to three times
as long, and browsers keep 4096 bytes of a cookie (RFC 6265, section 6.1).
"""
SENT_COOKIE = "__Host-sublet_code_sent"
"""The cookie with the time of this browser's last request for a code, and a mark of the address."""


async def show(call: PageCall) -> Response:
    """Show the form for the address.

    With `again` a signed-in browser gets it too, because some actions need a recent sign-in.
    """
    if call.registrant is not None and call.refusal is None and not call.request.query_params.get("again"):
        return call.redirect(next_path(call))
    path = next_path(call)
    session = call.registrant.session if call.registrant is not None else None
    needs_passkey = session is not None and await call.shared.calls.context.db.read(
        _needs_passkey, session.id
    )
    return await call.render("sign_in", next=path, chosen=_chosen_name(path), needs_passkey=needs_passkey)


def _needs_passkey(tx: Tx, session_id: int) -> bool:
    """True if a code by mail isn't enough for a sensitive operation of the session's user."""
    last = find_sign_in(tx, session_id)
    return last is not None and MAIL not in sufficient_sign_in_methods(last, tx.now)


async def send_code(call: PageCall) -> Response:
    """Mail a code, and show the form for it. Another code to the same address needs a pause."""
    waits = _seconds_left(call)
    if not waits:
        await _mail_code(call)
    pause = int(CODES_TO_ADDRESS.within.total_seconds())
    response = await _render_code_form(call, seconds_left=waits or pause, is_too_soon=waits > 0)
    set_cookie(response, NEXT_COOKIE, quote(next_path(call)), NEXT_SECONDS)
    if not waits:
        sent_at = int(call.shared.calls.context.db.now().timestamp())
        set_cookie(response, SENT_COOKIE, f"{sent_at}.{_address_mark(call)}", pause)
    return response


async def _mail_code(call: PageCall) -> None:
    """Mail a code that signs in, or that opens an account if the address has none and sign-ups are open.

    Both requests answer alike, whether the address has an account or not. An address that can't open an
    account may have one, and a network that opens too many accounts may sign in.
    """
    email = call.form.text("email")
    if call.registrant is None and call.shared.calls.context.settings.signup == "open":
        members = {"email": email, "name": (email or "").partition("@")[0]}
        if challenge := call.form.text("challenge"):
            members["challenge"] = challenge
        try:
            await call.api("sign_up", members, is_guess=False)
        except (RateLimited, ValidationFailed):
            pass
        else:
            return
    await call.api("request_sign_in", {"email": email})


async def show_code(call: PageCall) -> Response:
    """Show the form for the code after a refusal.

    A reload has lost the address, so it is redirected to the form for the address.
    """
    if call.refusal is None:
        return call.redirect("/signin")
    call.form.pop("code", None)  # A person types the right code into an empty field.
    return await _render_code_form(call, seconds_left=_seconds_left(call))


async def enter_code(call: PageCall) -> Response:
    """Sign the browser in with the code, or open the account.

    Raises:
        InvalidRequest: the browser keeps no cookies, so it would be signed out on the next page. The code
            stays valid.
        Refusal: any of the operations.
    """
    if NEXT_COOKIE not in call.request.cookies:
        raise InvalidRequest(
            "Your browser has not kept the cookie of this page, so you can't be signed in. Allow cookies for "
            "this site, open it with https, and ask for another code."
        )
    members = {"email": call.form.text("email"), "code": call.form.get("code", "")}
    try:
        await call.api("confirm_sign_in", members, is_guess=False)
    except ValidationFailed:
        await call.api("confirm_sign_up", members)
        return show_opened(call, next_path(call))
    return call.redirect(next_path(call), "You are signed in.")


def show_opened(call: PageCall, path: str) -> Response:
    """Redirect a new user to the page that the browser asked for, or to the form for the first name."""
    first = "/register" if path == START_PATH else path
    return call.redirect(first, "Your account is open, and you are signed in.")


async def show_link(call: PageCall) -> Response:
    """Show a button that signs in. Mail programs follow links, so the link alone must not open a session."""
    return await call.render("sign_in_link", link_token=call.request.query_params.get("token", ""))


async def use_link(call: PageCall) -> Response:
    """Sign the browser in with the link."""
    await call.api("confirm_sign_in", {"token": call.form.get("token", "")})
    return call.redirect(kept_path(call), "You are signed in.")


async def show_done(call: PageCall) -> Response:
    """Say that the browser is signed in, in a tab beside the one with the user's form."""
    return await call.render("sign_in_done")


async def show_sign_up(call: PageCall) -> Response:
    """Redirect to the form that signs in and opens accounts."""
    return call.redirect(f"/signin?{urlencode({'next': next_path(call)})}")


async def show_sign_up_link(call: PageCall) -> Response:
    """Show what the link does, and a button that does it.

    Mail programs follow links, so the link alone must change nothing.
    """
    token = call.request.query_params.get("token", "")
    invitation = await call.shared.calls.context.db.read(view_invitation, token)
    return await call.render("sign_up_link", link_token=token, invitation=invitation)


async def use_sign_up_link(call: PageCall) -> Response:
    """Open the account, or accept the invitation to an organization."""
    token = call.form.get("token", "")
    try:
        await call.api("confirm_sign_up", {"token": token}, is_guess=False)
    except ValidationFailed:
        # The token may be of an invitation. The failed sign-up doesn't use it up, and isn't counted as a
        # failure.
        accepted = await call.api("accept_invitation", {}, code=token)
        joined = accepted.organization
        told = f"{accepted.user.email} is in {joined.name} now, as {joined.role}."
        return call.redirect(f"/o/{joined.id}/names", told)
    return show_opened(call, kept_path(call))


async def sign_out(call: PageCall) -> Response:
    """End the session of the browser, if it has one."""
    if call.registrant is not None:
        await call.api("end_session", id="current")
    return call.redirect("/", "You are signed out.")


def sign_in_again(call: PageCall) -> Response | None:
    """Return a redirect to the sign-in and back if that of the browser is too old for a sensitive form, or
    None. A form that was filled in is shown again.
    """
    if not call.has_old_sign_in or call.refusal is not None or call.request.method == "POST":
        return None
    query = urlencode({"again": "yes", "next": call.asked})
    return call.redirect(f"/signin?{query}", is_personal=True)


def next_path(call: PageCall) -> str:
    """Return the path that the browser requested before it was redirected to the sign-in.

    Paths of other sites are ignored.
    """
    return _local_path(call.form.get("next") or call.request.query_params.get("next", ""))


def _chosen_name(path: str) -> str:
    """Return the name in the path of the form that registers it, or an empty text."""
    asked = urlsplit(path)
    return dict(parse_qsl(asked.query)).get("fqdn", "") if asked.path == "/register" else ""


def kept_path(call: PageCall) -> str:
    """Return the path in the cookie of the browser that requested the mail, for the link in the mail."""
    return _local_path(unquote(call.request.cookies.get(NEXT_COOKIE, "")))


async def _render_code_form(call: PageCall, *, seconds_left: int, is_too_soon: bool = False) -> Response:
    return await call.render(
        "sign_in_code", next=next_path(call), seconds_left=seconds_left, is_too_soon=is_too_soon
    )


def _seconds_left(call: PageCall) -> int:
    """Return the seconds until this browser may request another code to the address in the form.

    Requests of other browsers for the address don't count here: they are nothing that this browser may know.
    """
    sent_at, _, mark = call.request.cookies.get(SENT_COOKIE, "").partition(".")
    is_time = sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= 10
    if not is_time or mark != _address_mark(call):
        return 0
    passed = call.shared.calls.context.db.now() - datetime.fromtimestamp(int(sent_at), UTC)
    pause = CODES_TO_ADDRESS.within
    return int((pause - passed).total_seconds()) + 1 if timedelta(0) <= passed < pause else 0


def _address_mark(call: PageCall) -> str:
    return sha256(call.form.get("email", "").lower().encode()).hexdigest()[:16]


def _local_path(asked: str) -> str:
    is_path = asked.startswith("/") and asked.isprintable() and asked.isascii()
    is_local = is_path and not asked.startswith("//") and "\\" not in asked
    return asked if is_local and len(asked) <= NEXT_CHARACTERS_MAX else START_PATH
