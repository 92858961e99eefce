"""Sign in by a mailed code or link, and sign out."""

from urllib.parse import quote, unquote

from starlette.responses import Response

from sublet.web.page import COOKIE_ATTRIBUTES, PageCall

START_PATH = "/names"
"""The page after a sign-in if the browser didn't ask for another one."""
NEXT_COOKIE = "__Host-sublet_next"
"""The cookie with the page to open after the sign-in, because the mailed link doesn't contain it."""
NEXT_SECONDS = 900


async def show(call: PageCall) -> Response:
    """Show the form for the address. With `again` a signed-in browser gets it too, because some actions need a recent sign-in."""
    if call.registrant is not None and call.refusal is None and not call.request.query_params.get("again"):
        return call.redirect(next_path(call))
    return call.render("sign_in", next=next_path(call))


async def send_code(call: PageCall) -> Response:
    """Mail a code, and show the form for it."""
    sent = await call.api("request_sign_in", {"email": call.form.text("email")})
    response = call.render("sign_in_code", sent=sent.message, next=next_path(call))
    kept = f"{NEXT_COOKIE}={quote(next_path(call))}; Max-Age={NEXT_SECONDS}; {COOKIE_ATTRIBUTES}"
    response.headers.append("set-cookie", kept)
    return response


async def show_code(call: PageCall) -> Response:
    """Show the form for the code after a refusal. A reload has lost the address, so it is redirected to the form for the address."""
    if call.refusal is None:
        return call.redirect("/signin")
    return call.render("sign_in_code", sent="", next=next_path(call))


async def enter_code(call: PageCall) -> Response:
    """Sign the browser in with the code."""
    members = {"email": call.form.text("email"), "code": call.form.get("code", "")}
    await call.api("confirm_sign_in", members)
    return call.redirect(next_path(call), "You are signed in.")


async def show_link(call: PageCall) -> Response:
    """Show a button that signs in. Mail programs follow links, so the link alone must not open a session."""
    return call.render("sign_in_link", link_token=call.request.query_params.get("token", ""))


async def use_link(call: PageCall) -> Response:
    """Sign the browser in with the link."""
    await call.api("confirm_sign_in", {"token": call.form.get("token", "")})
    kept = unquote(call.request.cookies.get(NEXT_COOKIE, ""))
    return call.redirect(_local_path(kept), "You are signed in.")


async def sign_out(call: PageCall) -> Response:
    """End the session of the browser."""
    await call.api("end_session", id="current")
    return call.redirect("/", "You are signed out.")


def next_path(call: PageCall) -> str:
    """Return the path that the browser requested before it was redirected to the sign-in. Paths of other sites are ignored."""
    return _local_path(call.form.get("next") or call.request.query_params.get("next", ""))


def _local_path(asked: str) -> str:
    is_path = asked.startswith("/") and asked.isprintable() and asked.isascii()
    return asked if is_path and not asked.startswith("//") and "\\" not in asked else START_PATH
