"""The pages of the user's sessions and passkeys."""

from starlette.responses import Response

from sublet.web.page import LISTED_MAX, PageCall


async def show_sessions(call: PageCall) -> Response:
    """Show the browsers that are signed in."""
    found = await call.api("list_sessions", query={"limit": LISTED_MAX})
    return call.render("sessions", sessions=found.sessions)


async def end_session(call: PageCall) -> Response:
    """End the session of another browser."""
    await call.api("end_session", id=str(call.parameters["id"]))
    return call.redirect("/sessions", "The other browser is signed out.")


async def end_others(call: PageCall) -> Response:
    """Sign all other browsers out."""
    await call.api("end_other_sessions")
    return call.redirect("/sessions", "All other browsers are signed out.")


async def show_passkeys(call: PageCall) -> Response:
    """Show the passkeys and the recovery."""
    found = await call.api("list_passkeys")
    return call.render("passkeys", passkeys=found.passkeys, recovery=found.recovery)


async def remove_passkey(call: PageCall) -> Response:
    """Remove a passkey."""
    await call.api("remove_passkey", id=str(call.parameters["id"]))
    return call.redirect("/passkeys", "The passkey is removed.")


async def start_recovery(call: PageCall) -> Response:
    """Start the recovery from lost passkeys."""
    await call.api("start_recovery")
    return call.redirect("/passkeys", "The recovery has started.")


async def stop_recovery(call: PageCall) -> Response:
    """Stop the recovery."""
    await call.api("stop_recovery")
    return call.redirect("/passkeys", "The recovery is stopped.")
