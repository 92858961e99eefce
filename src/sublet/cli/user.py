"""`sublet user …`: the users of the registry."""

from typing import Annotated, Any

import typer

from sublet.accounts import store
from sublet.accounts.find import find_member, find_user
from sublet.accounts.model import Member
from sublet.accounts.users import UserEdit, add_user, edit_user, suspend_user
from sublet.audit import AuditEvent
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table, facts
from sublet.cli.session import Session, change, question
from sublet.counted import counted
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.subdomains.store import count_free, list_suspensions
from sublet.subdomains.suspend import suspend_with_names, unsuspend_with_names

app = new_app("Add, edit and suspend users.")

User = Annotated[str, typer.Argument(metavar="USER", help="The user's e-mail address or id.")]
Organization = Annotated[
    str | None,
    typer.Option(
        "--organization", metavar="NAME", help="Name, slug or id of an organization; a new name adds one."
    ),
]
FreeQuota = Annotated[
    int | None,
    typer.Option("--free-quota", metavar="N", help="How many free names, instead of the setting's."),
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the audit and for staff.")
]
ReasonForUser = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; the user reads it too.")
]


def describe(member: Member) -> dict[str, Any]:
    """Return a user with its organization as --json prints it."""
    user = member.user
    return {
        "id": user.id,
        "email": user.email,
        "name": user.name,
        "organization": member.organization,
        "free_quota": user.free_quota,
        "reminders": user.reminders,
        "suspended_at": user.suspended_at,
        "suspended_reason": user.suspended_reason,
        "created_at": user.created_at,
    }


@change(app, "add")
def add(
    session: Session,
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The user's e-mail address.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the user is called.")],
    organization: Organization = None,
    free_quota: FreeQuota = None,
) -> Answer:
    """Add a user; without --organization with a new one named after the e-mail address."""
    member = session.write(add_user, email, name, organization, free_quota=free_quota)
    line = f"Added the user {member.user.email} (id {member.user.id}) in {member.organization.name}."
    return Answer(describe(member), (line,))


@change(app, "edit")
def edit(
    session: Session,
    user: User,
    email: Annotated[
        str | None, typer.Option("--email", metavar="EMAIL", help="The new e-mail address.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the user is called.")
    ] = None,
    organization: Organization = None,
    free_quota: FreeQuota = None,
    default_free_quota: Annotated[
        bool, typer.Option("--default-free-quota", help="Go back to the setting's quota.")
    ] = False,
    reminders: Annotated[
        bool | None,
        typer.Option("--reminders/--no-reminders", help="Whether it wants mail on dates of its names."),
    ] = None,
) -> Answer:
    """Change a user's e-mail address, name, organization, free quota or reminders."""
    wanted = UserEdit(email, name, organization, free_quota, default_free_quota, reminders)
    member = session.write(edit_user, user, wanted)
    return Answer(describe(member), (f"The user {member.user.email} is stored as asked.",))


@question(app, "list")
def list_users(session: Session) -> Answer:
    """List all users, oldest first."""

    def ask(tx: Tx) -> list[Member]:
        organizations = store.list_organizations(tx)
        return [Member(user, organizations[user.organization_id]) for user in store.list_users(tx)]

    members = session.read(ask)
    rows = tuple(
        (each.user.id, each.user.email, each.user.name, each.organization.name, each.user.suspended_at)
        for each in members
    )
    table = Table(("id", "e-mail", "name", "organization", "suspended"), rows, "There are no users.")
    return Answer([describe(each) for each in members], table=table)


@question(app, "show")
def show(session: Session, user: User) -> Answer:
    """Show a user, with balance and free names."""

    def ask(tx: Tx) -> tuple[Member, int, int]:
        found = find_user(tx, user)
        return find_member(tx, found.id), find_balance(tx, found.id), count_free(tx, found.id)

    member, balance, used = session.read(ask)
    own = member.user.free_quota
    limit = session.settings.free_quota if own is None else own
    value = {**describe(member), "balance": balance, "usage": {"used": used, "limit": limit}}
    lines = facts(
        id=member.user.id,
        email=member.user.email,
        name=member.user.name,
        organization=f"{member.organization.name} (id {member.organization.id}, slug {member.organization.slug})",
        balance=counted(balance, "credit"),
        free_names=f"{used} of {limit}",
        reminders=member.user.reminders,
        suspended=member.user.suspended_at,
        reason=member.user.suspended_reason,
        added=member.user.created_at,
    )
    return Answer(value, lines)


@change(app, "suspend")
def suspend(
    session: Session,
    user: User,
    with_names: Annotated[
        bool, typer.Option("--with-names", help="Hold all its names too: they leave the DNS.")
    ] = False,
    reason: Reason = None,
) -> Answer:
    """Stop a user: it may read and open tickets, nothing else. Its names stay in the DNS, unless they are suspended with it."""
    if not with_names:
        member = session.write(suspend_user, user, reason)
        value = {**describe(member), "names": []}
        return Answer(value, (f"The user {member.user.email} is suspended; its names stay in the DNS.",))
    done = session.write(suspend_with_names, user, reason)
    email, number = done.member.user.email, len(done.names)
    lines = (
        f"The user {email} is suspended, and {counted(number, 'name')} with it. The DNS follows now.",
        f"What was published is kept: sublet user evidence {email}",
    )
    return Answer({**describe(done.member), "names": done.names}, lines)


@change(app, "unsuspend")
def unsuspend(
    session: Session,
    user: User,
    keep_names: Annotated[
        bool,
        typer.Option("--keep-names", help="Leave the names suspended that were suspended with it."),
    ] = False,
) -> Answer:
    """Let a suspended user act again; the names that were suspended with it come back into the DNS as they are stored."""
    done = session.write(unsuspend_with_names, user, keep_names=keep_names)
    line = f"The user {done.member.user.email} may act again; back into the DNS: {counted(len(done.names), 'name')}."
    return Answer({**describe(done.member), "names": done.names}, (line,))


@question(app, "evidence")
def evidence(session: Session, user: User) -> Answer:
    """Show what the audit keeps of suspensions of a user and its names: who, when, why, and what was published then."""

    def ask(tx: Tx) -> tuple[str, list[AuditEvent]]:
        found = find_user(tx, user)
        return found.email, list_suspensions(tx, found.id)

    email, events = session.read(ask)
    rows = tuple(
        (
            each.at,
            each.actor_name,
            each.action.partition(".")[2],
            _object(each, email),
            (each.before or {}).get("status"),
            (each.before or {}).get("nameservers"),
            each.reason,
        )
        for each in events
    )
    columns = ("at", "by", "what", "whom", "status then", "nameservers then", "why")
    return Answer(events, table=Table(columns, rows, f"{email} and its names were never suspended."))


def _object(event: AuditEvent, email: str) -> str:
    """Return whom a suspension concerned, as the audit names it."""
    if event.object_type == "user":
        return email
    return str((event.before or {}).get("fqdn", f"name {event.object_id}"))
