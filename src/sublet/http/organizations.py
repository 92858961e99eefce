"""Handlers of the organization endpoints, which extend the spec (docs/spec-choices.md, "Organizations")."""

from collections.abc import Callable, Iterator
from typing import Any

from sublet.accounts import membership_store
from sublet.accounts.model import Membership
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call, OpenCall
from sublet.http.idempotency import write_once
from sublet.http.paging import read_page
from sublet.http.render import invitation_shape, member_shape, organization_shape, token_shape
from sublet.http.request_structs import (
    AcceptBody,
    DeleteOrganizationBody,
    InvitationBody,
    NoBody,
    OrganizationBody,
    PageQuery,
    RoleBody,
)
from sublet.http.sign_in import cookie_headers, open_for_page
from sublet.ids import Position
from sublet.organizations.accept_invitation import Accepted, accept_invitation, opens_accounts
from sublet.organizations.create_organization import create_organization
from sublet.organizations.find import (
    find_organization_member,
    find_own_membership,
    list_own_memberships,
    refuse_unless_owner,
)
from sublet.organizations.invite_member import find_invitation, invite_member, revoke_invitation
from sublet.organizations.remove_member import remove_member
from sublet.organizations.rename_organization import rename_organization
from sublet.organizations.set_role import set_role
from sublet.sign_in.model import SignedIn
from sublet.sign_up import store
from sublet.sign_up.sign_up import code_refusal


async def list_organizations(call: Call[None, PageQuery]) -> Answer[response_structs.OrganizationsAnswer]:
    """List the user's organizations.

    Returns the organizations of which the user is a member, with the user's role, newest first. A token for an organization lists only
    this organization.
    """
    actor = call.actor()

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.OrganizationDetailShape]]:
        for each in list_own_memberships(tx, actor, limit, after):
            at = each.organization.created_at
            yield Position(at, each.organization.id), organization_shape(each)

    items, page, headers = await read_page(call, "organizations", find)
    return Answer(response_structs.OrganizationsAnswer(organizations=items, page=page), headers)


async def create_organization_(
    call: Call[OrganizationBody, None],
) -> Answer[response_structs.OrganizationDetailAnswer]:
    """Create an organization.

    The user becomes its owner. An organization has its own names, credits, free quota and tickets. Tokens with its `organization_id` act
    for it.
    """
    created_max = call.context.settings.organizations_per_user

    def verb(tx: Tx) -> Outcome:
        return Outcome(create_organization(tx, call.actor(), call.body.name, created_max=created_max).id)

    done = await write_once(call, 201, verb)
    return done.answer(await _read_organization(call, str(done.outcome.id)))


async def get_organization(call: Call[None, None]) -> Answer[response_structs.OrganizationDetailAnswer]:
    """Get an organization.

    Returns the organization with this id, and the user's role in it.
    """
    return Answer(await _read_organization(call, call.path["id"]))


async def change_organization(
    call: Call[OrganizationBody, None],
) -> Answer[response_structs.OrganizationDetailAnswer]:
    """Rename an organization.

    Only owners may rename it. The slug doesn't change.
    """
    done = await write_once(
        call, 200, _with_user_as_outcome(rename_organization), call.actor(), call.path["id"], call.body.name
    )
    return done.answer(await _read_organization(call, call.path["id"]))


async def delete_organization_(
    call: Call[DeleteOrganizationBody, None],
) -> Answer[response_structs.DeletedOrganizationAnswer]:
    """Delete an organization.

    Only owners may delete it. Requires its slug as `confirm`. Ends all memberships, revokes its tokens, and mails all members. Its names leave
    the DNS and can't be restored, and its credits are lost. Without `confirm` the answer (409) has the numbers.
    """
    path = call.path
    done = await write_once(
        call, 200, call.context.delete_organization, call.actor(), path["id"], call.body.confirm
    )
    deleted = response_structs.DeletedOrganizationShape(id=int(path["id"]))
    return done.answer(response_structs.DeletedOrganizationAnswer(deleted=deleted))


async def list_members(call: Call[None, PageQuery]) -> Answer[response_structs.MembersAnswer]:
    """List the members of an organization.

    Returns the members with their roles, newest first.
    """

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.MemberShape]]:
        own = find_own_membership(tx, call.actor(), call.path["id"])
        for each in membership_store.list_members(tx, own.organization.id, limit, after):
            yield Position(each.created_at, each.user.id), member_shape(each)

    items, page, headers = await read_page(call, "members", find)
    return Answer(response_structs.MembersAnswer(members=items, page=page), headers)


async def change_member(call: Call[RoleBody, None]) -> Answer[response_structs.MemberAnswer]:
    """Change the role of a member.

    Only owners may change roles. The new role takes effect with the member's next request.
    """
    path = call.path
    done = await write_once(
        call,
        200,
        _with_user_as_outcome(set_role),
        call.actor(),
        path["id"],
        path["user_id"],
        call.body.role,
    )

    def read(tx: Tx) -> Membership:
        return find_organization_member(
            tx, find_own_membership(tx, call.actor(), path["id"]).organization.id, path["user_id"]
        )

    member = await call.context.db.read(read)
    return done.answer(response_structs.MemberAnswer(member=member_shape(member)))


async def remove_member_(call: Call[NoBody, None]) -> Answer[response_structs.RemovedAnswer]:
    """Remove a member, or leave.

    Owners may remove any member, and members may remove themselves. Revokes the member's tokens for the organization. The last owner can't
    be removed.
    """
    path = call.path
    done = await write_once(
        call, 200, _with_user_as_outcome(remove_member), call.actor(), path["id"], path["user_id"]
    )
    removed = response_structs.RemovedShape(organization_id=int(path["id"]), user_id=int(path["user_id"]))
    return done.answer(response_structs.RemovedAnswer(removed=removed))


async def list_invitations(call: Call[None, PageQuery]) -> Answer[response_structs.InvitationsAnswer]:
    """List the open invitations.

    Only owners may list them. Returns the invitations that were neither accepted nor revoked and haven't expired, newest first.
    """

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.InvitationShape]]:
        own = find_own_membership(tx, call.actor(), call.path["id"])
        refuse_unless_owner(own)
        for each in store.list_open_invitations(tx, own.organization.id, limit, after):
            yield Position(each.created_at, each.id), invitation_shape(each)

    items, page, headers = await read_page(call, "invitations", find)
    return Answer(response_structs.InvitationsAnswer(invitations=items, page=page), headers)


async def invite_member_(call: Call[InvitationBody, None]) -> Answer[response_structs.InvitationAnswer]:
    """Invite a person.

    Only owners may invite. Mails the address a link, valid for a week. The answer doesn't tell whether the address has an account. A new
    invitation replaces an open invitation to the same address.
    """
    organization_id, body = call.path["id"], call.body

    def verb(tx: Tx) -> Outcome:
        added = invite_member(
            tx, call.actor(), organization_id, body.email, body.role, call.client.public_url
        )
        return Outcome(added.id)

    def read(tx: Tx) -> response_structs.InvitationShape:
        own = find_own_membership(tx, call.actor(), organization_id)
        return invitation_shape(find_invitation(tx, own.organization.id, str(done.outcome.id)))

    done = await write_once(call, 201, verb)
    return done.answer(response_structs.InvitationAnswer(invitation=await call.context.db.read(read)))


async def revoke_invitation_(call: Call[NoBody, None]) -> Answer[response_structs.RevokedInvitationAnswer]:
    """Revoke an invitation.

    Only owners may revoke it. Its link becomes invalid.
    """
    path = call.path
    done = await write_once(
        call,
        200,
        _with_user_as_outcome(revoke_invitation),
        call.actor(),
        path["id"],
        path["invitation_id"],
    )
    revoked = response_structs.RevokedInvitationShape(
        organization_id=int(path["id"]), id=int(path["invitation_id"])
    )
    return done.answer(response_structs.RevokedInvitationAnswer(revoked=revoked))


async def accept_invitation_(call: OpenCall[AcceptBody]) -> Answer[response_structs.AcceptedAnswer]:
    """Accept an invitation to an organization.

    Takes the code of the link in the mail, which proves the address, so no token is needed. For an address without an account, opens an
    account for a user with this `name`, and returns the first token. Only this answer shows the secret. If a page of the service sends the
    request, the answer also sets the cookie of a session. For an address with an account, `token` and `secret` are null.
    """
    actor = call.client.system_actor("invitation", call.request_id)
    may_open = opens_accounts(call.context.settings)

    def verb(tx: Tx) -> tuple[Accepted, SignedIn | None] | None:
        done = accept_invitation(tx, actor, call.path["code"], call.body.name, opens_accounts=may_open)
        if done is None:
            return None
        return done, open_for_page(tx, call, done.member.user) if done.issued is not None else None

    accepted = await call.context.db.write(verb)
    if accepted is None:
        raise code_refusal()
    done, signed_in = accepted
    issued = done.issued
    return Answer(
        response_structs.AcceptedAnswer(
            user=response_structs.UserShape.of(done.member.user),
            organization=organization_shape(done.membership),
            token=token_shape(issued.token, done.member.user) if issued is not None else None,
            secret=issued.secret.reveal() if issued is not None else None,
        ),
        cookie_headers(call, signed_in),
    )


def _with_user_as_outcome(verb: Callable[..., object]) -> Callable[..., Outcome]:
    """Return a verb with the acting user as its outcome. The handlers find the changed objects by the ids in the path."""

    def run(tx: Tx, actor: Actor, /, *args: Any) -> Outcome:
        verb(tx, actor, *args)
        return Outcome(actor.user_id or 0)

    return run


async def _read_organization(
    call: Call[Any, Any], identifier: str
) -> response_structs.OrganizationDetailAnswer:
    membership = await call.context.db.read(find_own_membership, call.actor(), identifier)
    return response_structs.OrganizationDetailAnswer(organization=organization_shape(membership))
