"""`sublet user …`: the users of the registry.

Each command imports its verb, because the verbs load most of the stores, which takes longer than the commands
run.
"""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sublet.accounts import store
from sublet.accounts.find import find_member, find_user
from sublet.accounts.membership_store import find_account, list_memberships
from sublet.accounts.model import Member, Membership, User
from sublet.audit import AuditEvent
from sublet.cli.options import Limit, containing_option
from sublet.cli.options import User as UserName
from sublet.cli.output import Answer, Column, key_value_lines, select_members, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.counted import counted
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.structs import replace

if TYPE_CHECKING:
    from sublet.registry.delete_user import DeletedUser

user_app = new_app("Add, edit, suspend and delete users.")

Organization = Annotated[
    str | None,
    Option(metavar="NAME", help="Name, slug or id of an organization. A new name adds an organization."),
]
FreeQuota = Annotated[
    int | None,
    Option(metavar="N", help="The user's maximum number of free names; default: the setting free_quota."),
]
Containing = Annotated[
    str | None, containing_option("Part of the address, the name, or the organization's name or slug.")
]
Reason = Annotated[
    str | None, Option("--reason", metavar="TEXT", help="The reason, for the audit and for staff.")
]

_MEMBERS = tuple(
    name for name in User.__struct_fields__ if name not in ("organization_id", "is_organization")
)


def _describe(member: Member) -> dict[str, Any]:
    return {**select_members(member.user, _MEMBERS), "organization": member.organization}


@audited_command(user_app, "add")
def add(
    session: Session,
    email: Annotated[str, Argument(metavar="EMAIL", help="The user's e-mail address.")],
    name: Annotated[str, Option(metavar="NAME", help="The user's name.")],
    organization: Organization = None,
    free_quota: FreeQuota = None,
) -> Answer:
    """Add a user. Without --organization, a new organization is named after the e-mail address."""
    from sublet.accounts.users import add_user  # noqa: PLC0415

    member = session.write(add_user, email, name, organization, free_quota=free_quota)
    line = (
        f"Added the user {member.user.email} (id {member.user.id}) in the organization "
        f"{member.organization.name}."
    )
    return Answer(_describe(member), (line,))


@audited_command(user_app, "invite")
def invite(
    session: Session,
    email: Annotated[str, Argument(metavar="EMAIL", help="The address for the invitation.")],
    name: Annotated[str, Option(metavar="NAME", help="The name of the new user.")],
    organization: Annotated[
        str | None, Option(metavar="NAME", help="Name, slug or id of an organization that the user joins.")
    ] = None,
) -> Answer:
    """Mail an invitation to open an account. It is valid for a week. Needs the setting public_url."""
    from sublet.sign_up.sign_up import invite as invite_verb  # noqa: PLC0415

    found = session.write(invite_verb, email, name, _public_url(session), organization=organization)
    line = (
        f"An invitation to {found.email} is in the outbox. It expires on {found.expires_at:%Y-%m-%d %H:%M} "
        "UTC."
    )
    return Answer({"email": found.email, "expires_at": found.expires_at}, (line, *session.not_mailed()))


@audited_command(user_app, "sign-in-link")
def sign_in_link(session: Session, user: UserName) -> Answer:
    """Print a link that signs in a user who can't sign in any more.

    It works once, within 15 minutes. Needs the setting public_url.

    Verify the person's identity first: the link counts as a sign-in with a passkey. The user gets a mail when
    the link is used.
    """
    from sublet.sign_in.codes import make_sign_in_link  # noqa: PLC0415

    made = session.write(make_sign_in_link, user, _public_url(session))
    link = made.link.reveal()
    value = {"email": made.user.email, "link": link, "expires_at": made.expires_at}
    return Answer(
        value, (f"This link signs {made.user.email} in once, until {made.expires_at:%H:%M} UTC:", link)
    )


@audited_command(user_app, "end-sessions")
def end_sessions(session: Session, user: UserName) -> Answer:
    """End all sessions of a user, which signs out every browser from the next request on.

    Tokens stay: see `sublet token revoke`.
    """
    from sublet.sign_in.sessions import end_all_sessions  # noqa: PLC0415

    found, ended = session.write(end_all_sessions, user)
    line = f"Ended {counted(ended, 'session')} of {found.email}."
    return Answer({"email": found.email, "ended": ended}, (line,))


def _public_url(session: Session) -> str:
    public_url = session.settings.public_url.rstrip("/")
    if not public_url:
        raise Conflict(
            "The link needs the public address of the service. Set public_url in the settings, and try again."
        )
    return public_url


@audited_command(user_app, "edit")
def edit(
    session: Session,
    user: UserName,
    email: Annotated[str | None, Option(metavar="EMAIL", help="The new e-mail address.")] = None,
    name: Annotated[str | None, Option(metavar="NAME", help="The user's name.")] = None,
    organization: Organization = None,
    free_quota: FreeQuota = None,
    default_free_quota: Annotated[
        bool, Option("--default-free-quota", help="Use the setting free_quota again.")
    ] = False,
    reminders: Annotated[bool | None, Option(help="Turn reminders about expiring names on or off.")] = None,
) -> Answer:
    """Change a user's e-mail address, name, organization, free quota or reminders."""
    from sublet.accounts.users import UserEdit, edit_user  # noqa: PLC0415

    wanted = UserEdit(email, name, organization, free_quota, default_free_quota, reminders)
    member = session.write(edit_user, user, wanted)
    return Answer(_describe(member), (f"The user {member.user.email} is saved.",))


@command(user_app, "list")
def list_users(session: Session, containing: Containing = None, limit: Limit = 100) -> Answer:
    """List users that are not deleted, newest first."""
    users = [_describe(each) for each in session.read(store.search_users, containing, limit)]
    organization: Column = ("organization", lambda each: each["organization"].name)
    columns = ("id", "email", "name", organization, "suspended_at")
    return Answer(users, table=table_of(users, columns, "There are no such users."))


@command(user_app, "show")
def show(session: Session, user: UserName) -> Answer:
    """Show a user, or an organization's account (`organization:ID`), with balance, free names and roles."""
    from sublet.subdomains.quota import default_quota, quota_limit  # noqa: PLC0415
    from sublet.subdomains.store import count_free  # noqa: PLC0415

    def query(tx: Tx) -> tuple[Member, int, int, list[Membership]]:
        found = find_user(tx, user)
        return (
            find_member(tx, found.id),
            find_balance(tx, found.id),
            count_free(tx, found.id),
            list_memberships(tx, found.id),
        )

    member, balance, used, memberships = session.read(query)
    limit = quota_limit(
        member.user.free_quota, default_quota(session.settings, member.user, session.read(lambda tx: tx.now))
    )
    value = {
        **_describe(member),
        "balance": balance,
        "usage": {"used": used, "limit": limit},
        "memberships": [{"organization_id": each.organization.id, "role": each.role} for each in memberships],
    }
    lines = key_value_lines(
        id=member.user.id,
        email=member.user.email,
        name=member.user.name,
        organization=f"{member.organization.name} (id "
        f"{member.organization.id}, slug "
        f"{member.organization.slug})",
        member_of=", ".join(
            f"{each.organization.name} (id {each.organization.id}, {each.role})" for each in memberships
        ),
        balance=counted(balance, "credit"),
        free_names=f"{used} of {limit}",
        reminders=member.user.reminders,
        suspended=member.user.suspended_at,
        reason=member.user.suspended_reason,
        added=member.user.created_at,
        deleted=member.user.deleted_at,
    )
    return Answer(value, lines)


@audited_command(user_app, "suspend")
def suspend(
    session: Session,
    user: UserName,
    with_names: Annotated[
        bool, Option("--with-names", help="Suspend the user's names too. They leave the DNS.")
    ] = False,
    reason: Reason = None,
) -> Answer:
    """Suspend a user. Suspended users can only read, and open tickets. Without --with-names the names stay in
    the DNS.
    """
    from sublet.accounts.users import suspend_user  # noqa: PLC0415
    from sublet.subdomains.suspend import suspend_with_names  # noqa: PLC0415

    if not with_names:
        member = session.write(suspend_user, user, reason)
        value = {**_describe(member), "names": []}
        return Answer(
            value, (f"The user {member.user.email} is suspended. The user's names stay in the DNS.",)
        )
    parts = session.write_parts(suspend_with_names, user, reason)
    names = [name for each in parts for name in each.names]
    member = parts[-1].member
    email, number = member.user.email, len(names)
    left = session.read(_list_organizations_with_names, member.user.id)
    lines = (
        f"The user {email} is suspended, with {counted(number, 'name')}. The names are leaving the DNS.",
        *(
            f"{each['name']} (role {each['role']}) keeps {counted(each['names'], 'name')}. To suspend it "
            f"too: sublet user suspend organization:{each['id']} --with-names"
            for each in left
        ),
        f"To see what was published: sublet user evidence {email}",
    )
    return Answer({**_describe(member), "names": names, "organizations": left}, lines)


def _list_organizations_with_names(tx: Tx, user_id: int) -> list[dict[str, Any]]:
    """Return a user's organizations that hold names and aren't suspended, as --json prints them."""
    from sublet.registry.erasure_store import count_held  # noqa: PLC0415

    found = []
    for each in list_memberships(tx, user_id):
        account = find_account(tx, each.organization.id)
        if account is not None and account.suspended_at is None:
            of, live = each.organization, count_held(tx, account.id).live
            found.append({"id": of.id, "name": of.name, "role": each.role, "names": live})
    return [each for each in found if each["names"]]


@audited_command(user_app, "unsuspend")
def unsuspend(
    session: Session,
    user: UserName,
    keep_names: Annotated[
        bool,
        Option("--keep-names", help="Keep the user's names suspended."),
    ] = False,
) -> Answer:
    """End a user's suspension, and the suspension of the names that were suspended with the user."""
    from sublet.subdomains.suspend import unsuspend_with_names  # noqa: PLC0415

    parts = session.write_parts(unsuspend_with_names, user, keep_names=keep_names)
    names = [name for each in parts for name in each.names]
    member = parts[-1].member
    line = f"The user {member.user.email} is no longer suspended, with {counted(len(names), 'name')}."
    return Answer({**_describe(member), "names": names}, (line,))


@audited_command(user_app, "delete")
def delete(
    session: Session,
    user: UserName,
    trash_names: Annotated[
        bool, Option("--trash-names", help="Move the user's live names to the trash.")
    ] = False,
    yes: Annotated[
        bool,
        Option("--yes", help="Confirm the deletion. Without it, the command only prints what it would do."),
    ] = False,
) -> Answer:
    """Delete a user, and erase address, name and texts permanently. Prints what remains, and why."""
    from sublet.registry.delete_user import delete_user, trash_some_names  # noqa: PLC0415
    from sublet.registry.erasure_store import count_remaining, find_mentions  # noqa: PLC0415

    parts = session.write_parts(trash_some_names, user, trash_names=trash_names, confirmed=yes)
    deleted = session.write(delete_user, user, trash_names=trash_names, confirmed=yes)
    deleted = replace(deleted, trashed=(*(name for each in parts for name in each.names), *deleted.trashed))

    def query(tx: Tx) -> tuple[dict[str, int], dict[str, int]]:
        addresses = [each for each in deleted.identities if "@" in each]
        return count_remaining(tx, deleted.user_id), find_mentions(tx, addresses)

    remains, mentions = session.read(query)
    value = {
        "id": deleted.user_id,
        "trashed": deleted.trashed,
        "forfeited_credits": deleted.forfeited_credits,
        "organization_erased": deleted.organization_erased,
        "remains": remains,
        "mentions": mentions,
    }
    return Answer(value, _deletion_lines(deleted, remains, mentions))


def _deletion_lines(
    deleted: "DeletedUser", remains: dict[str, int], mentions: dict[str, int]
) -> tuple[str, ...]:
    done = (
        f"{counted(len(deleted.trashed), 'name')} to the trash, "
        f"{counted(deleted.forfeited_credits, 'credit')} forfeited"
    )
    others = sorted(mentions.items())
    return (
        f"The user {deleted.user_id} is deleted: {done}.",
        "These rows remain, with the user's id but without address and name:",
        f"- {counted(remains['transfers'], 'transfer')}, because the ledger must balance.",
        (
            f"- {counted(remains['names'], 'name')}, with their nameservers in the audit, as evidence of who "
            "held a name."
        ),
        f"- {counted(remains['tickets'], 'ticket')} without texts, because ticket numbers are not reused.",
        (
            f"- {counted(remains['events'], 'audit event')} of the user without reasons and personal values, "
            "as the record of changes."
        ),
        "Check your backups and logs too.",
        *(
            f"Texts of other users have the address in {counted(number, 'row')} of {table}."
            for table, number in others
        ),
    )


@command(user_app, "evidence")
def evidence(session: Session, user: UserName) -> Answer:
    """Show the suspensions of a user and the user's names: operator, time, reason, and the published state at
    that time.
    """
    from sublet.subdomains.suspension_store import list_suspensions  # noqa: PLC0415

    def query(tx: Tx) -> tuple[str, list[AuditEvent]]:
        found = find_user(tx, user)
        return found.email, list_suspensions(tx, found.id)

    email, events = session.read(query)
    columns: list[Column] = [
        "at",
        ("by", "actor_name"),
        ("what", lambda each: each.action.partition(".")[2]),
        ("user or name", lambda each: email if each.object_type == "user" else _suspended_name(each)),
        ("status then", lambda each: (each.before or {}).get("status")),
        ("nameservers then", lambda each: (each.before or {}).get("nameservers")),
        "reason",
    ]
    return Answer(
        events, table=table_of(events, columns, f"{email} and the user's names were never suspended.")
    )


def _suspended_name(event: AuditEvent) -> object:
    return (event.before or {}).get("fqdn", f"name {event.object_id}")
