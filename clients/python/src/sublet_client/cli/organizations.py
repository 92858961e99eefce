"""`organizations`: organizations, their members and invitations."""

from collections.abc import Iterator
from typing import Any

import click

from sublet_client.cli.session import Ctl, command, group, with_yes
from sublet_client.models import (
    DeclinedInvitation,
    DeletedOrganization,
    Invitation,
    Member,
    OrganizationDetail,
    ReceivedInvitation,
    Removed,
    RevokedInvitation,
)

COLUMNS = ("id", "name", "role", "created_at")
MEMBERS = ("user_id", "email", "name", "role", "created_at")
INVITATIONS = ("id", "email", "role", "expires_at")
RECEIVED = ("id", "organization_name", "role", "inviter_email", "expires_at")
ROLE = click.Choice(["owner", "member", "billing", "viewer"])


@group()
def organizations() -> None:
    """Organizations and their members."""


@command(organizations, "list", uses=("list_organizations",), columns=COLUMNS)
def list_(ctl: Ctl) -> Iterator[OrganizationDetail]:
    """List your organizations."""
    with ctl.client() as client:
        yield from client.organizations.list()


@command(organizations, "show", uses=("get_organization",), columns=COLUMNS)
@click.argument("id")
def show_organization(ctl: Ctl, id: str) -> OrganizationDetail:
    """Show an organization."""
    with ctl.client() as client:
        return client.organizations.get(id)


@command(organizations, "create", uses=("create_organization",), columns=COLUMNS)
@click.argument("name")
def create(ctl: Ctl, name: str) -> OrganizationDetail:
    """Create an organization."""
    with ctl.client() as client:
        return client.organizations.create(name)


@command(organizations, "rename", uses=("change_organization",), columns=COLUMNS)
@click.argument("id")
@click.argument("name")
def rename(ctl: Ctl, id: str, name: str) -> OrganizationDetail:
    """Rename an organization."""
    with ctl.client() as client:
        return client.organizations.rename(id, name)


@command(organizations, "delete", uses=("delete_organization",), columns=("id",))
@click.argument("id")
@click.option(
    "--confirm",
    metavar="SLUG",
    help="The organization's slug. Without it, the command shows what would be lost.",
)
@with_yes
def delete(ctl: Ctl, id: str, confirm: str | None, yes: bool) -> DeletedOrganization:
    """Delete an organization. Its names leave the DNS, and its credits are lost."""
    with ctl.client() as client:
        ctl.ask(f"Delete the organization {id} for good?", "the same command with --yes", yes=yes)
        return client.organizations.delete(id, confirm=confirm)


@command(organizations, "members", uses=("list_members",), columns=MEMBERS)
@click.argument("id")
def members(ctl: Ctl, id: str) -> Iterator[Member]:
    """List the members of an organization."""
    with ctl.client() as client:
        yield from client.organizations.members(id)


@command(organizations, "set-role", uses=("change_member",), columns=MEMBERS)
@click.argument("id")
@click.argument("user_id")
@click.argument("role", type=ROLE)
def set_role(ctl: Ctl, id: str, user_id: str, role: Any) -> Member:
    """Give a member another role."""
    with ctl.client() as client:
        return client.organizations.set_role(id, user_id, role)


@command(organizations, "remove-member", uses=("remove_member",), columns=("user_id", "organization_id"))
@click.argument("id")
@click.argument("user_id")
@with_yes
def remove_member(ctl: Ctl, id: str, user_id: str, yes: bool) -> Removed:
    """Remove a member, or leave."""
    with ctl.client() as client:
        ctl.ask(
            f"Remove the user {user_id} from the organization {id}?", "the same command with --yes", yes=yes
        )
        return client.organizations.remove_member(id, user_id)


@command(organizations, "invitations", uses=("list_invitations",), columns=INVITATIONS)
@click.argument("id")
def invitations(ctl: Ctl, id: str) -> Iterator[Invitation]:
    """List the open invitations to an organization."""
    with ctl.client() as client:
        yield from client.organizations.invitations(id)


@command(organizations, "invite", uses=("invite_member",), columns=INVITATIONS)
@click.argument("id")
@click.argument("email")
@click.argument("role", type=ROLE)
def invite(ctl: Ctl, id: str, email: str, role: Any) -> Invitation:
    """Invite a person by mail."""
    with ctl.client() as client:
        return client.organizations.invite(id, email, role)


@command(organizations, "revoke-invitation", uses=("revoke_invitation",), columns=("id", "organization_id"))
@click.argument("id")
@click.argument("invitation_id")
def revoke_invitation(ctl: Ctl, id: str, invitation_id: str) -> RevokedInvitation:
    """Make an invitation void."""
    with ctl.client() as client:
        return client.organizations.revoke_invitation(id, invitation_id)


@command(organizations, "join", uses=("accept_invitation",), columns=COLUMNS)
@click.argument("code")
def join(ctl: Ctl, code: str) -> OrganizationDetail:
    """Accept an invitation: CODE is that of the link in the mail."""
    with ctl.client() as client:
        return client.sign_up.accept_invitation(code).organization


@group()
def invitation() -> None:
    """Invitations to you."""


@command(invitation, "list", uses=("list_received_invitations",), columns=RECEIVED)
def list_received(ctl: Ctl) -> Iterator[ReceivedInvitation]:
    """List the open invitations to your address."""
    with ctl.client() as client:
        yield from client.organizations.received_invitations()


@command(invitation, "accept", uses=("accept_received_invitation",), columns=COLUMNS)
@click.argument("id")
def accept(ctl: Ctl, id: str) -> OrganizationDetail:
    """Accept an invitation, and become a member of the organization."""
    with ctl.client() as client:
        return client.organizations.accept_invitation(id)


@command(invitation, "decline", uses=("decline_invitation",), columns=("id",))
@click.argument("id")
def decline(ctl: Ctl, id: str) -> DeclinedInvitation:
    """Decline an invitation."""
    with ctl.client() as client:
        return client.organizations.decline_invitation(id)
