"""`sublet organization …`: the organizations of the registry and their members."""

from typing import Annotated, Any

from typer import Option

from sublet.accounts import membership_store
from sublet.accounts.membership_store import list_members, list_owners
from sublet.accounts.model import ROLES, Membership, Organization, User
from sublet.accounts.organizations import account_email, find_organization
from sublet.cli.options import Limit, OrganizationName, containing_option
from sublet.cli.output import Answer, Column, as_object, key_value_lines, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.counted import counted
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.organizations.organization import rename_as_operator, set_role_as_operator
from sublet.subdomains.store import count_free

app = new_app("Show organizations, and change their members' roles.")


@command(app, "list")
def list_(
    session: Session,
    containing: Annotated[str | None, containing_option("Part of the name or slug.")] = None,
    limit: Limit = 100,
) -> Answer:
    """List organizations, newest first."""
    counted_members = session.read(membership_store.search_organizations, containing, limit)
    found = [{**as_object(each), "members": members} for each, members in counted_members]
    columns = ("id", "name", "slug", "members", "created_at")
    return Answer(found, table=table_of(found, columns, "There are no such organizations."))


@command(app, "show")
def show(session: Session, organization: OrganizationName) -> Answer:
    """Show an organization, with its owners, balance and free names."""

    def query(tx: Tx) -> tuple[Organization, list[User], User | None, int, int]:
        found = find_organization(tx, organization)
        account = membership_store.find_account(tx, found.id)
        balance, used = (
            (0, 0) if account is None else (find_balance(tx, account.id), count_free(tx, account.id))
        )
        return found, list_owners(tx, found.id), account, balance, used

    found, owners, account, balance, used = session.read(query)
    value = {
        **as_object(found),
        "owners": [each.email for each in owners],
        "account": account_email(found.id) if account is not None else None,
        "balance": balance,
        "free_names": used,
    }
    lines = key_value_lines(
        id=found.id,
        name=found.name,
        slug=found.slug,
        owners=", ".join(each.email for each in owners),
        account=account_email(found.id) if account is not None else "none",
        balance=counted(balance, "credit"),
        free_names=used,
        added=found.created_at,
    )
    return Answer(value, lines)


@command(app, "members")
def members(session: Session, organization: OrganizationName) -> Answer:
    """List the members of an organization with their roles, newest first."""

    def query(tx: Tx) -> list[Membership]:
        return list_members(tx, find_organization(tx, organization).id)

    found = [_describe_member(each) for each in session.read(query)]
    columns: list[Column] = ["user_id", "email", "name", "role", ("since", "created_at"), "suspended_at"]
    return Answer(found, table=table_of(found, columns, "It has no members."))


@audited_command(app, "set-role", former_arguments=("organization", "user", "role"))
def set_role(
    session: Session,
    organization: OrganizationName,
    user: Annotated[str, Option(metavar="USER", help="The user: e-mail address or id.")],
    role: Annotated[str, Option(metavar="ROLE", help=f"One of {', '.join(ROLES)}.")],
) -> Answer:
    """Give a user a role in an organization.

    A user who isn't a member becomes one. The owners and the user get a mail.
    """
    found = session.write(set_role_as_operator, organization, user, role)
    line = f"{found.user.email} is {found.role} of {found.organization.name}."
    return Answer(_describe_member(found), (line,))


@audited_command(app, "rename")
def rename(
    session: Session,
    organization: OrganizationName,
    name: Annotated[str, Option(metavar="NAME", help="The new name.")],
) -> Answer:
    """Rename an organization. Its slug stays."""
    found = session.write(rename_as_operator, organization, name)
    return Answer(found, (f"The organization {found.id} is {found.name}.",))


def _describe_member(membership: Membership) -> dict[str, Any]:
    user = membership.user
    return {
        "user_id": user.id,
        "email": user.email,
        "name": user.name,
        "role": membership.role,
        "created_at": membership.created_at,
        "suspended_at": user.suspended_at,
    }
