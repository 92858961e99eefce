"""The pages that open an account, with a code or a link from a sign-up, an operator's invitation, or an invitation to an organization."""

from starlette.responses import Response

from sublet.errors import Refusal, ValidationFailed
from sublet.web.page import PageCall
from sublet.web.sign_in import next_path


async def show(call: PageCall) -> Response:
    """Show the form for name and address."""
    return call.render("sign_up", next=next_path(call))


async def send_code(call: PageCall) -> Response:
    """Mail a code, and show the form for it."""
    members = {"email": call.form.text("email"), "name": call.form.text("name")}
    if challenge := call.form.text("challenge"):
        members["challenge"] = challenge
    sent = await call.api("sign_up", members)
    return call.render("sign_up_code", sent=sent.message, next=next_path(call))


async def show_link(call: PageCall) -> Response:
    """Show a button that confirms. Mail programs follow links, so the link alone must change nothing."""
    return call.render("sign_up_link", link_token=call.request.query_params.get("token", ""))


async def confirm(call: PageCall) -> Response:
    """Open the account, or accept the invitation to an organization, and show the first token."""
    if "token" not in call.form:
        members = {"email": call.form.text("email"), "code": call.form.get("code", "")}
        try:
            opened = await call.api("confirm_sign_up", members)
        except Refusal as refusal:
            call.refusal = refusal
            return call.render("sign_up_code", sent="", next=next_path(call))
        return call.render("sign_up_done", done=opened, organization=None, next=next_path(call))
    try:
        opened = await call.api("confirm_sign_up", {"token": call.form["token"]}, is_guess=False)
        return call.render("sign_up_done", done=opened, organization=None, next=next_path(call))
    except ValidationFailed:  # The token may be of an invitation. The failed sign-up doesn't use it up, and isn't counted as a failure.
        accepted = await call.api("accept_invitation", {}, code=call.form["token"])
    return call.render("sign_up_done", done=accepted, organization=accepted.organization, next="")
