"""The page of the user's account: name, address, reminders, export, deletion."""

from typing import Any

from starlette.responses import Response

from sublet.errors import Conflict, Refusal
from sublet.web.page import PageCall


async def show(call: PageCall) -> Response:
    """Show the account."""
    return await _render_account(call)


async def change(call: PageCall) -> Response:
    """Change the name."""
    try:
        await call.api("change_account", {"name": call.form.get("name", "")})
    except Refusal as refusal:
        return await _render_account(call, refusal)
    return call.redirect("/account", "The name is changed.")


async def change_reminders(call: PageCall) -> Response:
    """Turn the mails about dates of names on or off."""
    try:
        await call.api("set_reminders", {"enabled": call.form.is_on("enabled")})
    except Refusal as refusal:
        return await _render_account(call, refusal)
    words = "on" if call.form.is_on("enabled") else "off"
    return call.redirect("/account", f"Reminders are {words}.")


async def send_email_code(call: PageCall) -> Response:
    """Mail a code to the new address, and show the form for it."""
    try:
        await call.api("change_account", {"email": call.form.text("email")})
    except Refusal as refusal:
        return await _render_account(call, refusal)
    return call.render("account_code", email=call.form.get("email", ""))


async def show_code(call: PageCall) -> Response:
    """Show the form for the mailed code."""
    return call.render("account_code", email="")


async def confirm_email(call: PageCall) -> Response:
    """Change the address with the code."""
    try:
        await call.api("confirm_email", {"code": call.form.get("code", "").replace(" ", "")})
    except Refusal as refusal:
        return call.render("account_code", refusal=refusal, email=call.form.get("email", ""))
    return call.redirect("/account", "The address is changed.")


async def show_deletion(call: PageCall) -> Response:
    """Show what a deletion deletes: the API lists it when it refuses a request without `confirm`."""
    return await _render_deletion(call)


async def delete(call: PageCall) -> Response:
    """Delete the account."""
    try:
        await call.api("delete_me", {"confirm": call.form.get("confirm", "")})
    except Refusal as refusal:
        return await _render_deletion(call, refusal)
    return call.redirect("/", "Your account is deleted.")


async def _render_account(call: PageCall, refusal: Refusal | None = None) -> Response:
    me = await call.api("me")
    return call.render("account", refusal=refusal, user=me.user)


async def _render_deletion(call: PageCall, refusal: Refusal | None = None) -> Response:
    lost: dict[str, Any] = {}
    try:
        await call.api("delete_me")
    except Conflict as conflict:
        lost = conflict.details
        refusal = refusal if "names" in lost else conflict
    return call.render("account_delete", refusal=refusal, lost=lost)
