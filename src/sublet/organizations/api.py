"""The API of organizations, which extends the spec (docs/spec-choices.md, "Organizations")."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from sublet.accounts import membership_store
from sublet.accounts.api import USER_EXAMPLE, UserShape
from sublet.accounts.model import ROLES, Membership
from sublet.accounts.tokens.api import TokenDetailShape
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    InsufficientRole,
    OrganizationNotFound,
    RateLimited,
    SignUpClosed,
    TokenRestricted,
    ValidationFailed,
)
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call, OpenCall
from sublet.operations.idempotency import write_once, write_parts_before
from sublet.operations.operation import API, AUTH, Operations, Parameter, Refusals, not_sensitive, sensitive
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NOW,
    PAGE,
    Body,
    Id,
    Moment,
    NoBody,
    PageQuery,
    PageShape,
    Shape,
    Success,
    one_of,
)
from sublet.organizations.find import (
    find_organization_member,
    find_own_membership,
    list_own_memberships,
    refuse_restricted_token,
    refuse_unless_owner,
)
from sublet.organizations.invitations import (
    Accepted,
    accept_invitation,
    accept_received_invitation,
    decline_invitation,
    find_invitation,
    invite_member,
    opens_accounts,
    revoke_invitation,
)
from sublet.organizations.organization import (
    create_organization,
    remove_member,
    rename_organization,
    set_role,
)
from sublet.registry.delete_organization import delete_organization, purge_some_names
from sublet.sign_in.api import cookie_headers
from sublet.sign_up import store
from sublet.sign_up.api import FirstCredential, first_credential
from sublet.sign_up.mailed_codes import code_refusal

api = Operations(
    API,
    tags.ORGANIZATIONS,
    id=Parameter("The organization's id.", "5"),
    user_id=Parameter("The id of the member.", "8"),
    invitation_id=Parameter("The invitation's id.", "4"),
)

open_api = Operations(
    AUTH,
    tags.OPEN_ACCOUNT,
    code=Parameter("The code of the link in the mail.", "Zt0cQm3mJ0cLr1h6o8XyqWnTf5bVd2aKp9sGe4uYiRk"),
)

_OF_OWNER: Refusals = (
    AccountSuspended,
    OrganizationNotFound,
    Conflict,
    InsufficientRole,
)

_ORGANIZATION: dict[str, Any] = {
    "id": 3,
    "name": "Example Cooperative",
    "slug": "example-cooperative-k3x9qd",
    "role": "owner",
    "created_at": NOW,
}

_MEMBER: dict[str, Any] = {
    "user_id": 8,
    "email": "bob@example.org",
    "name": "Bob",
    "role": "member",
    "created_at": NOW,
}

_INVITATION = {
    "id": 4,
    "email": "bob@example.org",
    "role": "member",
    "created_at": NOW,
    "expires_at": "2026-11-28T09:30:00.000000Z",
}

_RECEIVED: dict[str, Any] = {
    "id": 4,
    "organization_id": 3,
    "organization_name": "Example Cooperative",
    "organization_slug": "example-cooperative-k3x9qd",
    "role": "member",
    "inviter_name": "Ada",
    "inviter_email": "ada@example.org",
    "created_at": NOW,
    "expires_at": "2026-11-28T09:30:00.000000Z",
}

_OF_INVITED: Refusals = (AccountSuspended, TokenRestricted, OrganizationNotFound)

Role = Annotated[str, one_of(ROLES)]


class OrganizationDetailShape(Shape):
    """An organization, and the role of the user in it."""

    changed_by_requests: ClassVar = ("id", "name")

    id: Id
    name: str
    slug: str
    role: Role
    created_at: Moment


class OrganizationsAnswer(Success, kw_only=True):
    """The organizations of which the user is a member, newest first."""

    organizations: list[OrganizationDetailShape]
    page: PageShape


class OrganizationDetailAnswer(Success, kw_only=True):
    """One organization."""

    organization: OrganizationDetailShape


class MemberShape(Shape):
    """A member of an organization, who joined at `created_at`."""

    user_id: Id
    email: str
    name: str
    role: Role
    created_at: Moment


class MembersAnswer(Success, kw_only=True):
    """The members of an organization, newest first."""

    members: list[MemberShape]
    page: PageShape


class MemberAnswer(Success, kw_only=True):
    """One member."""

    member: MemberShape


class DeletedOrganizationShape(Shape):
    """The organization that was deleted."""

    id: Id


class DeletedOrganizationAnswer(Success, kw_only=True):
    """The organization is deleted, and its tokens are revoked."""

    deleted: DeletedOrganizationShape


class RemovedShape(Shape):
    """A membership that has ended."""

    organization_id: Id
    user_id: Id


class RemovedAnswer(Success, kw_only=True):
    """The membership has ended."""

    removed: RemovedShape


class InvitationShape(Shape):
    """An open invitation to an organization."""

    id: Id
    email: str
    role: Role
    created_at: Moment
    expires_at: Moment


class InvitationsAnswer(Success, kw_only=True):
    """The open invitations, newest first."""

    invitations: list[InvitationShape]
    page: PageShape


class InvitationAnswer(Success, kw_only=True):
    """One open invitation."""

    invitation: InvitationShape


class ReceivedInvitationShape(Shape):
    """An open invitation to the user."""

    id: Id
    organization_id: Id
    organization_name: str
    organization_slug: str
    role: Role
    inviter_name: str
    inviter_email: str
    created_at: Moment
    expires_at: Moment


class ReceivedInvitationsAnswer(Success, kw_only=True):
    """The open invitations to the user, newest first."""

    invitations: list[ReceivedInvitationShape]
    page: PageShape


class DeclinedInvitationShape(Shape):
    """An invitation that was declined."""

    id: Id


class DeclinedInvitationAnswer(Success, kw_only=True):
    """The invitation is declined."""

    declined: DeclinedInvitationShape


class RevokedInvitationShape(Shape):
    """An invitation that was revoked."""

    organization_id: Id
    id: Id


class RevokedInvitationAnswer(Success, kw_only=True):
    """The invitation is revoked."""

    revoked: RevokedInvitationShape


class AcceptedAnswer(Success, kw_only=True):
    """The new member and the organization.

    `token` and `secret` are a new user's first token, shown only once; null with the cookie of a session, or
    for a user who had an account.
    """

    user: UserShape
    organization: OrganizationDetailShape
    token: TokenDetailShape | None
    secret: str | None


WantedRole = Annotated[str, Meta(extra_json_schema={"enum": list(ROLES)})]


class OrganizationBody(Body):
    """The name of an organization."""

    required_members: ClassVar[tuple[str, ...]] = ("name",)

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class InvitationBody(Body):
    """An invitation to an organization."""

    required_members: ClassVar[tuple[str, ...]] = ("email", "role")

    email: (
        Annotated[str, Meta(max_length=254, description="The address that gets the invitation.")] | None
    ) = None
    role: WantedRole | None = None


class DeleteOrganizationBody(Body):
    """The deletion of an organization."""

    confirm: Annotated[str, Meta(max_length=64, description="The organization's slug.")] | None = None


class RoleBody(Body):
    """The new role of a member."""

    required_members: ClassVar[tuple[str, ...]] = ("role",)

    role: WantedRole | None = None


class AcceptBody(Body):
    """The acceptance of an invitation."""

    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The name of a new user; by default the part of the address before the `@`.",
            ),
        ]
        | None
    ) = None


def organization_shape(membership: Membership) -> OrganizationDetailShape:
    """Return the shape of a membership's organization, with the member's role."""
    found = membership.organization
    return OrganizationDetailShape(
        id=found.id, name=found.name, slug=found.slug, role=membership.role, created_at=found.created_at
    )


def member_shape(membership: Membership) -> MemberShape:
    """Return the shape of a member of an organization."""
    user = membership.user
    return MemberShape(
        user_id=user.id,
        email=user.email,
        name=user.name,
        role=membership.role,
        created_at=membership.created_at,
    )


@open_api.write(
    "POST",
    "/auth/invitations/{code}/accept",
    None,
    (SignUpClosed, AccountSuspended, ValidationFailed),
    status=201,
    gate=not_sensitive("the mailed code proves the address; an owner invited it behind the gate"),
    told="the owners, with the new one",
    example_body={"name": "Bob"},
    example={
        "user": {**USER_EXAMPLE, "id": 8, "email": "bob@example.org", "name": "Bob"},
        "organization": {**_ORGANIZATION, "role": "member"},
        "token": None,
        "secret": None,
    },
)
async def accept_invitation_(call: OpenCall[AcceptBody]) -> Answer[AcceptedAnswer]:
    """Accept an invitation to an organization.

    Takes the code of the link in the mail, which proves the address, so no token is needed. For an address
    without an account, opens an account for a user with this `name`, and returns the first token. Only this
    answer shows the secret. If a page of the service sends the request, the answer sets the cookie of a
    session instead. For an address with an account, `token` and `secret` are null.
    """
    actor = call.client.system_actor("invitation", call.request_id)
    may_open = opens_accounts(call.context.settings)

    def verb(tx: Tx) -> tuple[Accepted, FirstCredential] | None:
        done = accept_invitation(tx, actor, call.path["code"], call.body.name, opens_accounts=may_open)
        if done is None:
            return None
        if not done.is_new:
            return done, FirstCredential()
        return done, first_credential(tx, call, actor, done.member.user)

    accepted = await call.context.db.write(verb)
    if accepted is None:
        raise code_refusal()
    done, first = accepted
    return Answer(
        AcceptedAnswer(
            user=UserShape.of(done.member.user),
            organization=organization_shape(done.membership),
            token=first.token,
            secret=first.secret,
        ),
        cookie_headers(call, first.signed_in),
    )


def _with_user_as_outcome(verb: Callable[..., object]) -> Callable[..., Outcome]:
    """Return a verb with the acting user as its outcome.

    The handlers find the changed objects by the ids in the path.
    """

    def run(tx: Tx, actor: Actor, /, *args: Any) -> Outcome:
        verb(tx, actor, *args)
        return Outcome(actor.user_id or 0)

    return run


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> OrganizationDetailAnswer:
    return OrganizationDetailAnswer(
        organization=organization_shape(find_own_membership(tx, call.actor(), identifier))
    )


@api.get(
    "/organizations",
    "account:read",
    example={"organizations": [_ORGANIZATION], "page": PAGE},
)
def list_organizations(tx: Tx, call: Call[None, PageQuery]) -> Answer[OrganizationsAnswer]:
    """List the user's organizations.

    Returns the organizations of which the user is a member, with the user's role, newest first. A token for
    an organization lists only this organization.
    """
    paging = Paging[OrganizationDetailShape](call, "organizations")
    found = list_own_memberships(tx, call.actor(), paging.limit, paging.after)
    items, page, headers = paging.take(
        (Position(each.organization.created_at, each.organization.id), organization_shape(each))
        for each in found
    )
    return Answer(OrganizationsAnswer(organizations=items, page=page), headers)


@api.write(
    "POST",
    "/organizations",
    "organization:write",
    (AccountSuspended, TokenRestricted, ValidationFailed, Conflict),
    status=201,
    gate=not_sensitive("gives power over a new, empty organization to the user alone"),
    example_body={"name": "Example Cooperative"},
    example={"organization": _ORGANIZATION},
)
async def create_organization_(
    call: Call[OrganizationBody, None],
) -> Answer[OrganizationDetailAnswer]:
    """Create an organization.

    The user becomes its owner. An organization has its own names, credits, free quota and tickets. Tokens
    with its `organization_id` act for it.
    """
    created_max = call.context.settings.organizations_per_user

    def verb(tx: Tx) -> Outcome:
        return Outcome(create_organization(tx, call.actor(), call.body.name, created_max=created_max).id)

    done = await write_once(call, verb)
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


@api.get(
    "/organizations/{id}",
    "account:read",
    (OrganizationNotFound,),
    has_etag=True,
    example={"organization": _ORGANIZATION},
)
def get_organization(tx: Tx, call: Call[None, None]) -> OrganizationDetailAnswer:
    """Get an organization.

    Returns the organization with this id, and the user's role in it.
    """
    return _answer(tx, call, call.path["id"])


@api.write(
    "PATCH",
    "/organizations/{id}",
    "organization:write",
    (AccountSuspended, OrganizationNotFound, InsufficientRole, ValidationFailed),
    gate=not_sensitive("changes a shown name, and no right"),
    example_body={"name": "Example Collective"},
    example={"organization": {**_ORGANIZATION, "name": "Example Collective"}},
)
async def change_organization(
    call: Call[OrganizationBody, None],
) -> Answer[OrganizationDetailAnswer]:
    """Rename an organization.

    Only owners may rename it. The slug doesn't change.
    """
    done = await write_once(
        call, _with_user_as_outcome(rename_organization), call.actor(), call.path["id"], call.body.name
    )
    return done.answer(await call.context.db.read(_answer, call, call.path["id"]))


@api.get(
    "/organizations/{id}/members",
    "account:read",
    (OrganizationNotFound,),
    example={"members": [_MEMBER], "page": PAGE},
)
def list_members(tx: Tx, call: Call[None, PageQuery]) -> Answer[MembersAnswer]:
    """List the members of an organization.

    Returns the members with their roles, newest first.
    """
    paging = Paging[MemberShape](call, "members")
    own = find_own_membership(tx, call.actor(), call.path["id"])
    found = membership_store.list_members(tx, own.organization.id, paging.limit, paging.after)
    items, page, headers = paging.take(
        (Position(each.created_at, each.user.id), member_shape(each)) for each in found
    )
    return Answer(MembersAnswer(members=items, page=page), headers)


@api.write(
    "PATCH",
    "/organizations/{id}/members/{user_id}",
    "organization:write",
    (*_OF_OWNER, ValidationFailed),
    gate=sensitive("gives a person power"),
    told="the owners, and the member",
    example_body={"role": "billing"},
    example={"member": {**_MEMBER, "role": "billing"}},
)
async def change_member(call: Call[RoleBody, None]) -> Answer[MemberAnswer]:
    """Change the role of a member.

    Only owners may change roles. The new role takes effect with the member's next request.
    """
    path = call.path
    done = await write_once(
        call,
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
    return done.answer(MemberAnswer(member=member_shape(member)))


@api.write(
    "DELETE",
    "/organizations/{id}/members/{user_id}",
    "organization:write",
    _OF_OWNER,
    gate=sensitive("takes a person's power away"),
    told="the owners, and the removed member",
    example_body={},
    example={"removed": {"organization_id": 3, "user_id": 8}},
)
async def remove_member_(call: Call[NoBody, None]) -> Answer[RemovedAnswer]:
    """Remove a member, or leave.

    Owners may remove any member, and members may remove themselves. Revokes the member's tokens for the
    organization. The last owner can't be removed.
    """
    path = call.path
    done = await write_once(
        call, _with_user_as_outcome(remove_member), call.actor(), path["id"], path["user_id"]
    )
    removed = RemovedShape(organization_id=int(path["id"]), user_id=int(path["user_id"]))
    return done.answer(RemovedAnswer(removed=removed))


@api.get(
    "/organizations/{id}/invitations",
    "organization:write",
    (OrganizationNotFound, InsufficientRole),
    example={"invitations": [_INVITATION], "page": PAGE},
)
def list_invitations(tx: Tx, call: Call[None, PageQuery]) -> Answer[InvitationsAnswer]:
    """List the open invitations.

    Only owners may list them. Returns the invitations that were neither accepted nor revoked and haven't
    expired, newest first.
    """
    paging = Paging[InvitationShape](call, "invitations")
    own = find_own_membership(tx, call.actor(), call.path["id"])
    refuse_unless_owner(own)
    found = store.list_open_invitations(tx, own.organization.id, paging.limit, paging.after)
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), InvitationShape.of(each)) for each in found
    )
    return Answer(InvitationsAnswer(invitations=items, page=page), headers)


@api.write(
    "POST",
    "/organizations/{id}/invitations",
    "organization:write",
    (*_OF_OWNER, ValidationFailed, RateLimited),
    status=201,
    gate=sensitive("gives a person power"),
    told="the invited address",
    example_body={"email": "bob@example.org", "role": "member"},
    example={"invitation": _INVITATION},
)
async def invite_member_(call: Call[InvitationBody, None]) -> Answer[InvitationAnswer]:
    """Invite a person.

    Only owners may invite. Mails the address a link, valid for a week. The answer doesn't tell whether the
    address has an account. A new invitation replaces an open invitation to the same address.
    """
    organization_id, body = call.path["id"], call.body

    def verb(tx: Tx) -> Outcome:
        added = invite_member(
            tx, call.actor(), organization_id, body.email, body.role, call.client.public_url
        )
        return Outcome(added.id)

    def read(tx: Tx) -> InvitationShape:
        own = find_own_membership(tx, call.actor(), organization_id)
        return InvitationShape.of(find_invitation(tx, own.organization.id, str(done.outcome.id)))

    done = await write_once(call, verb)
    return done.answer(InvitationAnswer(invitation=await call.context.db.read(read)))


@api.write(
    "DELETE",
    "/organizations/{id}/invitations/{invitation_id}",
    "organization:write",
    _OF_OWNER,
    gate=not_sensitive("only takes back what was offered"),
    example_body={},
    example={"revoked": {"organization_id": 3, "id": 4}},
)
async def revoke_invitation_(call: Call[NoBody, None]) -> Answer[RevokedInvitationAnswer]:
    """Revoke an invitation.

    Only owners may revoke it. Its link becomes invalid.
    """
    path = call.path
    done = await write_once(
        call,
        _with_user_as_outcome(revoke_invitation),
        call.actor(),
        path["id"],
        path["invitation_id"],
    )
    revoked = RevokedInvitationShape(organization_id=int(path["id"]), id=int(path["invitation_id"]))
    return done.answer(RevokedInvitationAnswer(revoked=revoked))


@api.get(
    "/me/invitations",
    "account:read",
    (TokenRestricted,),
    example={"invitations": [_RECEIVED], "page": PAGE},
)
def list_received_invitations(tx: Tx, call: Call[None, PageQuery]) -> Answer[ReceivedInvitationsAnswer]:
    """List the invitations to the user.

    Returns the open invitations to organizations that were mailed to the user's address, newest first.
    """
    refuse_restricted_token(call.actor())
    paging = Paging[ReceivedInvitationShape](call, "invitations")
    email = call.registrant.user.email
    found = store.list_received_invitations(tx, email, paging.limit, paging.after)
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), ReceivedInvitationShape.of(each)) for each in found
    )
    return Answer(ReceivedInvitationsAnswer(invitations=items, page=page), headers)


@api.write(
    "POST",
    "/me/invitations/{invitation_id}/accept",
    "organization:write",
    _OF_INVITED,
    gate=not_sensitive("gives power to the user alone; an owner invited the user behind the gate"),
    told="the owners, with the new one",
    example_body={},
    example={"organization": {**_ORGANIZATION, "role": "member"}},
)
async def accept_received_invitation_(call: Call[NoBody, None]) -> Answer[OrganizationDetailAnswer]:
    """Accept an invitation to the user.

    The user becomes a member of the organization. A user who is a member already keeps the role.
    """
    identifier = call.path["invitation_id"]
    done = await write_once(call, _with_user_as_outcome(accept_received_invitation), call.actor(), identifier)

    def read(tx: Tx) -> OrganizationDetailAnswer:
        # The code is kept longer than the key of the request.
        code = store.find_code(tx, int(identifier))
        return _answer(tx, call, str(code.organization_id if code is not None else None))

    return done.answer(await call.context.db.read(read))


@api.write(
    "POST",
    "/me/invitations/{invitation_id}/decline",
    "organization:write",
    _OF_INVITED,
    gate=not_sensitive("only gives up what was offered"),
    example_body={},
    example={"declined": {"id": 4}},
)
async def decline_invitation_(call: Call[NoBody, None]) -> Answer[DeclinedInvitationAnswer]:
    """Decline an invitation to the user.

    Its link becomes invalid. An owner may invite the user again.
    """
    identifier = call.path["invitation_id"]
    done = await write_once(call, _with_user_as_outcome(decline_invitation), call.actor(), identifier)
    return done.answer(DeclinedInvitationAnswer(declined=DeclinedInvitationShape(id=int(identifier))))


@api.write(
    "DELETE",
    "/organizations/{id}",
    "organization:write",
    (*_OF_OWNER, ValidationFailed),
    gate=sensitive("deletes an organization with its names and credits"),
    told="the other members",
    example_body={"confirm": "example-cooperative-k3x9qd"},
    example={"deleted": {"id": 3}},
)
async def delete_organization_(
    call: Call[DeleteOrganizationBody, None],
) -> Answer[DeletedOrganizationAnswer]:
    """Delete an organization.

    Only owners may delete it. Requires its slug as `confirm`. Ends all memberships, revokes its tokens, and
    mails all members. Its names leave the DNS and can't be restored, and its credits are lost. Without
    `confirm` the answer (409) has the numbers.
    """
    actor, organization_id, confirm = call.actor(), call.path["id"], call.body.confirm
    parts = await write_parts_before(call, purge_some_names, actor, organization_id, confirm)
    purged = sum(len(each.names) for each in parts)
    done = await write_once(call, delete_organization, actor, organization_id, confirm, purged)
    deleted = DeletedOrganizationShape(id=int(organization_id))
    return done.answer(DeletedOrganizationAnswer(deleted=deleted))
