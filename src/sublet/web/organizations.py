"""The pages of organizations: the user's list with the invitations to the user, and the members, roles and
open invitations of an organization.
"""

from typing import Any

from starlette.responses import Response

from sublet.accounts.model import OWNER, ROLES
from sublet.web.page import LISTED_MAX, PageCall


async def show_list(call: PageCall) -> Response:
    """Show the invitations to the user, the user's organizations, and the form for a new one."""
    received = await call.api("list_received_invitations", query={"limit": LISTED_MAX})
    found = await call.api("list_organizations", query={"limit": LISTED_MAX})
    return await call.render(
        "organizations", invitations=received.invitations, organizations=found.organizations
    )


async def create(call: PageCall) -> Response:
    """Create an organization, and redirect to its members."""
    created = await call.api("create_organization", {"name": call.form.text("name")})
    return call.redirect(f"/o/{created.organization.id}/members", "The organization is created.")


async def accept(call: PageCall) -> Response:
    """Accept an invitation, and redirect to the names of the organization."""
    invitation_id = str(call.parameters["invitation_id"])
    joined = (await call.api("accept_received_invitation", invitation_id=invitation_id)).organization
    return call.redirect(f"/o/{joined.id}/names", f"You are in {joined.name} now, as {joined.role}.")


async def decline(call: PageCall) -> Response:
    """Decline an invitation."""
    await call.api("decline_invitation", invitation_id=str(call.parameters["invitation_id"]))
    return call.redirect("/organizations", "The invitation is declined.")


async def show(call: PageCall) -> Response:
    """Show an organization."""
    assert call.registrant is not None  # noqa: S101 - the page isn't open
    organization = (await call.api("get_organization", id=_organization_id(call))).organization
    asked = {**call.filters("cursor"), "limit": LISTED_MAX}
    listed = await call.api("list_members", id=_organization_id(call), query=asked)
    # Only the operator changes the members of a user's own organization.
    is_managed = organization.role == OWNER and organization.id != call.registrant.user.organization_id
    invitations = []
    if is_managed:
        found = await call.api("list_invitations", id=_organization_id(call), query={"limit": LISTED_MAX})
        invitations = found.invitations
    return await call.render(
        "members",
        organization=organization,
        listed=listed,
        invitations=invitations,
        is_managed=is_managed,
        roles=[(each, each) for each in ROLES],
    )


async def rename(call: PageCall) -> Response:
    """Rename an organization."""
    return await _run_action(
        call, "change_organization", "The organization is renamed.", {"name": call.form.get("name", "")}
    )


async def invite(call: PageCall) -> Response:
    """Invite a person."""
    members = {name: call.form.text(name) for name in ("email", "role")}
    return await _run_action(call, "invite_member", "The invitation is on its way.", members)


async def revoke_invitation(call: PageCall) -> Response:
    """Revoke an invitation."""
    return await _run_action(call, "revoke_invitation", "The invitation is revoked.")


async def change_role(call: PageCall) -> Response:
    """Give a member another role."""
    return await _run_action(call, "change_member", "The role is changed.", {"role": call.form.text("role")})


async def remove(call: PageCall) -> Response:
    """Remove a member."""
    return await _run_action(call, "remove_member", "The member is removed.")


async def show_deletion(call: PageCall) -> Response:
    """Show what a deletion deletes: names, credits and members."""
    organization = (await call.api("get_organization", id=_organization_id(call))).organization
    listed = await call.api("list_subdomains", query={"limit": LISTED_MAX})
    lost = {
        "names": len(listed.subdomains),
        "has_more_names": listed.page.has_more,
        "credits": (await call.api("credits")).credit_balance,
    }
    return await call.render("organization_delete", organization=organization, lost=lost)


async def delete(call: PageCall) -> Response:
    """Delete the organization."""
    await call.api(
        "delete_organization", {"confirm": call.form.get("confirm", "")}, id=_organization_id(call)
    )
    call.organization_id = None  # The organization of this page is gone, so it has no pages any more.
    return call.redirect("/organizations", "The organization is deleted.")


async def leave(call: PageCall) -> Response:
    """Leave an organization.

    The request acts for the user, not the organization, because any member may leave.
    """
    assert call.registrant is not None  # noqa: S101 - the page isn't open
    await call.api("remove_member", id=_organization_id(call), user_id=str(call.registrant.user.id))
    return call.redirect("/organizations", "You have left the organization.")


async def _run_action(
    call: PageCall, operation: str, message: str, members: dict[str, str | None] | None = None
) -> Response:
    more: dict[str, Any] = {
        name: str(value) for name, value in call.parameters.items() if name != "organization"
    }
    await call.api(operation, members, id=_organization_id(call), **more)
    return call.redirect("/members", message)


def _organization_id(call: PageCall) -> str:
    return str(call.parameters.get("organization") or call.parameters["id"])
