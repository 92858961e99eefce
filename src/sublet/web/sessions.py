"""The pages of the user's sessions and passkeys."""

from starlette.responses import Response

from sublet.errors import Refusal
from sublet.web.page import PageCall

LISTED_MAX = 500


async def show_sessions(call: PageCall) -> Response:
    """Show the browsers that are signed in."""
    return await _render_sessions(call)


async def end_session(call: PageCall) -> Response:
    """End the session of another browser."""
    try:
        await call.api("end_session", id=str(call.parameters["id"]))
    except Refusal as refusal:
        return await _render_sessions(call, refusal)
    return call.redirect("/sessions", "The other browser is signed out.")


async def end_others(call: PageCall) -> Response:
    """Sign all other browsers out."""
    await call.api("end_other_sessions")
    return call.redirect("/sessions", "All other browsers are signed out.")


async def show_passkeys(call: PageCall) -> Response:
    """Show the passkeys and the recovery."""
    return await _render_passkeys(call)


async def remove_passkey(call: PageCall) -> Response:
    """Remove a passkey."""
    try:
        await call.api("remove_passkey", id=str(call.parameters["id"]))
    except Refusal as refusal:
        return await _render_passkeys(call, refusal)
    return call.redirect("/passkeys", "The passkey is removed.")


async def start_recovery(call: PageCall) -> Response:
    """Start the recovery from lost passkeys."""
    try:
        await call.api("start_recovery")
    except Refusal as refusal:
        return await _render_passkeys(call, refusal)
    return call.redirect("/passkeys", "The recovery has started.")


async def stop_recovery(call: PageCall) -> Response:
    """Stop the recovery."""
    try:
        await call.api("stop_recovery")
    except Refusal as refusal:
        return await _render_passkeys(call, refusal)
    return call.redirect("/passkeys", "The recovery is stopped.")


async def _render_sessions(call: PageCall, refusal: Refusal | None = None) -> Response:
    found = await call.api("list_sessions", query={"limit": LISTED_MAX})
    return call.render("sessions", refusal=refusal, sessions=found.sessions)


async def _render_passkeys(call: PageCall, refusal: Refusal | None = None) -> Response:
    found = await call.api("list_passkeys")
    return call.render("passkeys", refusal=refusal, passkeys=found.passkeys, recovery=found.recovery)
