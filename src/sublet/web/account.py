"""The page of the user's account: name, address, reminders, export, deletion."""

from typing import Any

from starlette.responses import Response

from sublet.errors import Conflict
from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the account."""
    return call.render("account", user=(await call.api("me")).user)


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
    """Mail a code to the new address, and show the form for it."""
    await call.api("change_account", {"email": call.form.text("email")})
    return await show_code(call)


async def show_code(call: PageCall) -> Response:
    """Show the form for the mailed code."""
    return call.render("account_code", email=call.form.get("email", ""))


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
    return call.render("account_delete", lost=lost)


async def delete(call: PageCall) -> Response:
    """Delete the account."""
    await call.api("delete_me", {"confirm": call.form.get("confirm", "")})
    return call.redirect("/", "Your account is deleted.")
