"""`sublet_organization` and `sublet_organization_member`: organizations, their members and invitations."""

from tf.iface import CreateContext, UpdateContext
from tf.schema import Attribute
from tf.types import String
from tf.utils import Diagnostics

from sublet_client import Conflict, OrganizationDetail, OrganizationNotFound, SubletError
from sublet_client.models import Invitation, Member
from sublet_client.spelling import parse_mail_address
from sublet_terraform.resource import State, SubletResource, known
from sublet_terraform.values import Text, parse_id

ROLES = ("owner", "member", "billing", "viewer")


class OrganizationResource(SubletResource):
    """An organization. It is destroyed only when no names and credits would be lost."""

    name = "organization"
    description = (
        "An organization with its own names and credits. It can't be destroyed while it has names or credits."
    )
    attributes = (
        Attribute("name", Text(str.strip), "What people call it.", required=True),
        Attribute("id", String(), "The id.", computed=True),
        Attribute("slug", String(), "Its short name, which doesn't change.", computed=True),
        Attribute("role", String(), "Your role.", computed=True),
    )

    def create_new(self, ctx: CreateContext, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Create the organization, whose owner you are."""
        return organization_state(self.client.organizations.create(planned["name"]))

    def find(self, current: State) -> State | None:
        """Return the organization; None if it is deleted, or you are no member."""
        try:
            return organization_state(self.client.organizations.get(current["id"]))
        except OrganizationNotFound:
            return None

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Rename the organization."""
        return organization_state(self.client.organizations.rename(current["id"], planned["name"]))

    def remove(self, current: State) -> None:
        """Delete the organization, unless names in the DNS or credits would be lost."""
        try:
            self.client.organizations.delete(current["id"])
        except OrganizationNotFound:
            return
        except Conflict as refusal:  # without `confirm` it says what would be lost
            lost = refusal.details
            if "names" not in lost:
                raise
            if lost["names"] or lost["credits"]:
                raise SubletError(
                    f"{current['name']} still has names or credits, which would be lost: {lost['names']} "
                    f"names, {lost['credits']} credits. "
                    "Transfer the names and spend the credits, or delete it with `subletctl organizations "
                    "delete`."
                ) from None
            self.client.organizations.delete(current["id"], confirm=current["slug"])

    def identify(self, text: str) -> State:
        """Return the id."""
        return {"id": text}


class OrganizationMemberResource(SubletResource):
    """A person in an organization, who is invited first.

    Destroying it revokes the invitation or ends the membership.
    """

    name = "organization_member"
    description = (
        "A member of an organization. The person gets an invitation by mail, and is a member after "
        "accepting it."
    )
    attributes = (
        Attribute(
            "organization_id",
            Text(parse_id),
            "The id of the organization.",
            required=True,
            requires_replace=True,
        ),
        Attribute(
            "email", Text(parse_mail_address), "The mail address.", required=True, requires_replace=True
        ),
        Attribute("role", String(), "`owner`, `member`, `billing` or `viewer`.", required=True),
        Attribute(
            "state", String(), "`invited`, or `member` once the invitation is accepted.", computed=True
        ),
    )

    def check(self, diags: Diagnostics, config: State) -> None:
        """Refuse unknown roles."""
        role = known(config, "role", ROLES[0])
        if role not in ROLES:
            diags.add_error(f"There is no role {role}. Use one of {', '.join(ROLES)}.", path=["role"])

    def create_new(self, ctx: CreateContext, planned: State) -> State | None:
        """Invite the person. One who is a member already is not adopted silently."""
        if isinstance(self._find(planned), Member):
            identifier = f"{planned['organization_id']}/{parse_mail_address(planned['email'])}"
            ctx.diagnostics.add_error(
                f"{planned['email']} is a member already. Import it: terraform import "
                f"sublet_organization_member.NAME {identifier}",
                path=["email"],
            )
            return None
        return planned | self._invite(planned)

    def find(self, current: State) -> State | None:
        """Return the member, or the open invitation; None if there is neither."""
        try:
            found = self._find(current)
        except OrganizationNotFound:
            return None
        return None if found is None else current | _member_state(found)

    def change(self, ctx: UpdateContext, current: State, planned: State) -> State:  # noqa: ARG002 - the interface's
        """Give the person another role."""
        found = self._find(planned)
        if not isinstance(found, Member):
            return planned | self._invite(planned)
        changed = self.client.organizations.set_role(
            planned["organization_id"], str(found.user_id), planned["role"]
        )
        return planned | _member_state(changed)

    def remove(self, current: State) -> None:
        """Revoke the invitation, or end the membership."""
        organization = current["organization_id"]
        try:
            found = self._find(current)
            if isinstance(found, Member):
                self.client.organizations.remove_member(organization, str(found.user_id))
            elif found is not None:
                self.client.organizations.revoke_invitation(organization, str(found.id))
        except OrganizationNotFound:
            return

    def identify(self, text: str) -> State:
        """Return the organization and the address of `ID/ADDRESS`."""
        organization, _, email = text.partition("/")
        return {"organization_id": parse_id(organization), "email": parse_mail_address(email)}

    def _find(self, wanted: State) -> Member | Invitation | None:
        organization, email = wanted["organization_id"], parse_mail_address(wanted["email"])
        for member in self.client.organizations.members(organization):
            if member.email == email:
                return member
        invitations = self.client.organizations.invitations(organization)
        return next((each for each in invitations if each.email == email), None)

    def _invite(self, planned: State) -> State:
        invitation = self.client.organizations.invite(
            planned["organization_id"], planned["email"], planned["role"]
        )
        return _member_state(invitation)


def organization_state(found: OrganizationDetail) -> State:
    """Return what the service knows about an organization."""
    return {"id": str(found.id), "name": found.name, "slug": found.slug, "role": found.role}


def _member_state(found: Member | Invitation) -> State:
    return {
        "email": found.email,
        "role": found.role,
        "state": "member" if isinstance(found, Member) else "invited",
    }
