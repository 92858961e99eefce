"""The pages of the user: account, reminders, export, deletion, sessions, passkeys, and credits."""

from typing import Any

from starlette.responses import Response

from sublet.accounts.fields import normalise_email
from sublet.errors import Conflict
from sublet.web.page import LISTED_MAX, PageCall


async def show(call: PageCall) -> Response:
    """Show the account."""
    return await call.render("account", user=(await call.api("me")).user)


async def change(call: PageCall) -> Response:
    """Change the name."""
    await call.api("change_account", {"name": call.form.get("name", "")})
    return call.redirect("/account", "The name is changed.")


async def change_reminders(call: PageCall) -> Response:
    """Turn the mails about dates of names on or off."""
    await call.api("set_reminders", {"enabled": call.form.is_on("enabled")})
    words = "on" if call.form.is_on("enabled") else "off"
    return call.redirect("/account", f"Reminders are {words}.")


async def send_email_code(call: PageCall) -> Response:
    """Mail a code to the new address, and show the form for it. The present address gets none."""
    email = call.form.get("email", "")
    user = (await call.api("change_account", {"email": email})).user
    if normalise_email(email) == user.email:
        return call.redirect("/account", f"{user.email} is your address already.")
    return await show_code(call)


async def show_code(call: PageCall) -> Response:
    """Show the form for the mailed code."""
    return await call.render("account_code", email=call.form.get("email", ""))


async def confirm_email(call: PageCall) -> Response:
    """Change the address with the code."""
    await call.api("confirm_email", {"code": call.form.get("code", "")})
    return call.redirect("/account", "The address is changed.")


async def show_deletion(call: PageCall) -> Response:
    """Show what a deletion deletes: the API lists it when it refuses a request without `confirm`."""
    lost: dict[str, Any] = {}
    try:
        await call.api("delete_me")
    except Conflict as conflict:
        lost = conflict.details
        if "names" not in lost:
            call.refusal = conflict
    return await call.render("account_delete", lost=lost)


async def delete(call: PageCall) -> Response:
    """Delete the account."""
    await call.api("delete_me", {"confirm": call.form.get("confirm", "")})
    return call.redirect("/", "Your account is deleted.")


async def show_sessions(call: PageCall) -> Response:
    """Show the browsers that are signed in."""
    found = await call.api("list_sessions", query={"limit": LISTED_MAX})
    return await call.render("sessions", sessions=found.sessions)


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
    return await call.render("passkeys", passkeys=found.passkeys, recovery=found.recovery)


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


async def show_credits(call: PageCall) -> Response:
    """Show the balance, the packages, the free quota, and a page of the history."""
    filters = call.filters("cursor")
    held = await call.api("credits")
    usage = (await call.api("free_subdomains")).usage
    found = await call.find_page("payments", filters)
    return await call.render("credits", held=held, usage=usage, filters=filters, found=found)
