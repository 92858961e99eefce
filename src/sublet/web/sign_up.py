"""The page of the link in a mail: it opens an account, or accepts an invitation to an organization."""

from urllib.parse import urlencode

from starlette.responses import Response

from sublet.errors import ValidationFailed
from sublet.organizations.invitations import view_invitation
from sublet.web.page import PageCall
from sublet.web.sign_in import kept_path, next_path, show_opened


async def show(call: PageCall) -> Response:
    """Redirect to the form that signs in and opens accounts."""
    return call.redirect(f"/signin?{urlencode({'next': next_path(call)})}")


async def show_link(call: PageCall) -> Response:
    """Show what the link does, and a button that does it.

    Mail programs follow links, so the link alone must change nothing.
    """
    token = call.request.query_params.get("token", "")
    invitation = await call.shared.calls.context.db.read(view_invitation, token)
    return call.render("sign_up_link", link_token=token, invitation=invitation)


async def confirm(call: PageCall) -> Response:
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
