"""Sign in by a mailed code or link, and sign out."""

from urllib.parse import quote, unquote

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import COOKIE_ATTRIBUTES, PageCall

START = "/names"
"""Where a browser goes that has signed in."""
NEXT_COOKIE = "__Host-sublet_next"
"""Keeps the page to open after the sign-in, because the mailed link doesn't contain it."""
NEXT_SECONDS = 900


async def show(call: PageCall) -> Response:
    """Show the form for the address. `again` is for what needs a recent sign-in."""
    if call.registrant is not None and not call.request.query_params.get("again"):
        return call.redirect(target(call))
    return call.render("sign_in", next=target(call))


async def send_code(call: PageCall) -> Response:
    """Mail a code, and show the form for it."""
    try:
        sent = await call.api("request_sign_in", {"email": call.form.text("email")})
    except Refusal as refusal:
        return call.render("sign_in", refusal=refusal, next=target(call))
    response = call.render("sign_in_code", sent=sent.message, next=target(call))
    kept = f"{NEXT_COOKIE}={quote(target(call))}; Max-Age={NEXT_SECONDS}; {COOKIE_ATTRIBUTES}"
    response.headers.append("set-cookie", kept)
    return response


async def show_code(call: PageCall) -> Response:
    """Send a browser without an address back to the first form."""
    return call.redirect("/signin")


async def enter_code(call: PageCall) -> Response:
    """Sign the browser in with the code."""
    members = {"email": call.form.text("email"), "code": call.form.get("code", "").replace(" ", "")}
    try:
        await call.api("confirm_sign_in", members)
    except Refusal as refusal:
        return call.render("sign_in_code", refusal=refusal, sent="", next=target(call))
    return call.redirect(target(call), "You are signed in.")


async def show_link(call: PageCall) -> Response:
    """Show the button of a mailed link: mail programs follow links, so a link alone opens no session."""
    return call.render("sign_in_link", link_token=call.request.query_params.get("token", ""))


async def use_link(call: PageCall) -> Response:
    """Sign the browser in with the link."""
    link_token = call.form.get("token", "")
    try:
        await call.api("confirm_sign_in", {"token": link_token})
    except Refusal as refusal:
        return call.render("sign_in_link", refusal=refusal, link_token=link_token)
    kept = unquote(call.request.cookies.get(NEXT_COOKIE, ""))
    return call.redirect(_path_here(kept), "You are signed in.")


async def sign_out(call: PageCall) -> Response:
    """End the session of the browser."""
    await call.api("end_session", id="current")
    return call.redirect("/", "You are signed out.")


def target(call: PageCall) -> str:
    """Return the path that the browser asked for before it was sent to sign in: one of this site."""
    return _path_here(call.form.get("next") or call.request.query_params.get("next", ""))


def _path_here(asked: str) -> str:
    is_path = asked.startswith("/") and asked.isprintable() and asked.isascii()
    return asked if is_path and not asked.startswith("//") and "\\" not in asked else START
