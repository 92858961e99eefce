"""Check that users, members, tokens, sessions, passkeys and mailed codes agree with the audit and have
possible values.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, exists, select

from sublet.accounts.fields import normalise_email
from sublet.accounts.model import OWNER, Recovery
from sublet.accounts.session_store import passkeys, recoveries, sessions
from sublet.accounts.sessions import RECOVERY_WAIT, RECOVERY_WINDOW, SIGN_IN_METHODS
from sublet.accounts.store import find_user_by_email, memberships, organizations, tokens, users
from sublet.audit import audit_events
from sublet.credits.store import ledger_accounts
from sublet.db import Tx
from sublet.doctor.model import Violation, yield_violations
from sublet.doctor.name_history import StreamById
from sublet.schema import STREAMED
from sublet.sign_up.codes import NEW_ADDRESS, OPERATOR_LINK, SIGN_IN, VALID_FOR
from sublet.sign_up.store import mailed_codes
from sublet.subdomains.store import subdomains

_REPLAYED = (
    ("user", users, ("email", "organization_id", "free_quota", "reminders")),
    (
        "token",
        tokens,
        (
            "user_id",
            "organization_id",
            "scopes",
            "names",
            "domains",
            "networks",
            "record_names",
            "daily_credits",
            "expires_at",
        ),
    ),
)
_ALWAYS_HAS_USER = {SIGN_IN: False, OPERATOR_LINK: True, NEW_ADDRESS: True}
"""The purposes of codes for users. True if every code of the purpose has a user; a code to sign in may go to
an unknown address.
"""


def check_accounts(tx: Tx) -> Iterator[Violation]:
    """Yield users and tokens that differ from their events, and wrong members, sessions, passkeys, codes and
    recoveries.
    """
    for object_type, table, names in _REPLAYED:
        yield from _find_unreplayed(tx, object_type, table, names)
    yield from check_addresses(tx)
    yield from _check_members(tx)
    yield from check_owners(tx)
    yield from _check_sign_ins(tx)
    yield from _check_recoveries(tx)


def check_addresses(tx: Tx) -> Iterator[Violation]:
    """Yield the users whose address is stored in another spelling than its canonical form.

    The migration that introduced the form leaves some.
    """
    query = select(users.c.id, users.c.email).where(users.c.deleted_at.is_(None) & ~users.c.is_organization)
    for user_id, email in tx.connection.execute(query.order_by(users.c.id)).all():
        canonical = normalise_email(email)
        if canonical == email:
            continue
        holder = find_user_by_email(tx, canonical)
        whose = f" of the user {holder.id}" if holder is not None else ""
        sentence = (
            f"its address {email} is another spelling of the address {canonical}{whose}, so no sign-in by "
            "mail finds it"
        )
        yield Violation("address_is_canonical", "user", user_id, sentence)


def _check_members(tx: Tx) -> Iterator[Violation]:
    owners = select(memberships.c.organization_id).where(memberships.c.role == OWNER)
    query = select(memberships.c.organization_id.label("id")).distinct()
    query = query.where(memberships.c.organization_id.not_in(owners))
    yield from yield_violations(
        tx, "members_are_right", "organization", query, "it has members, but no owner"
    )
    query = select(users.c.id, users.c.organization_id).where(
        users.c.deleted_at.is_(None)
        & ~users.c.is_organization
        & ~exists().where(
            (memberships.c.user_id == users.c.id) & (memberships.c.organization_id == users.c.organization_id)
        )
    )
    sentence = "the user is not a member of their own organization {organization_id}"
    yield from yield_violations(tx, "members_are_right", "user", query, sentence)
    is_gone = users.c.is_organization | users.c.deleted_at.is_not(None)
    query = select(users.c.id, memberships.c.organization_id).join(memberships).where(is_gone)
    sentence = (
        "the user is a member of the organization {organization_id}, but is deleted or the account of an "
        "organization"
    )
    yield from yield_violations(tx, "members_are_right", "user", query, sentence)
    query = select(tokens.c.id, tokens.c.organization_id).where(
        tokens.c.organization_id.is_not(None)
        & tokens.c.revoked_at.is_(None)
        & ~exists().where(
            (memberships.c.user_id == tokens.c.user_id)
            & (memberships.c.organization_id == tokens.c.organization_id)
        )
    )
    sentence = "its user is not a member of its organization {organization_id}"
    yield from yield_violations(tx, "members_are_right", "token", query, sentence)
    shared = select(users.c.organization_id).where(users.c.is_organization)
    query = select(users.c.id, users.c.organization_id).where(
        ~users.c.is_organization & users.c.organization_id.in_(shared)
    )
    sentence = "the user's own organization {organization_id} has an account"
    yield from yield_violations(tx, "members_are_right", "user", query, sentence)
    query = select(users.c.id, users.c.organization_id).join(organizations)
    query = query.where(users.c.is_organization & (users.c.name != organizations.c.name))
    sentence = "this account has another name than its organization {organization_id}"
    yield from yield_violations(tx, "members_are_right", "user", query, sentence)


def check_owners(tx: Tx) -> Iterator[Violation]:
    """Yield names and credits of deleted users and organizations, and organizations that could hold some
    without a living owner.
    """
    query: Select[Any] = select(subdomains.c.id, subdomains.c.fqdn, users.c.id.label("user_id")).join(
        users, users.c.id == subdomains.c.user_id
    )
    is_live = subdomains.c.trashed_at.is_(None) & subdomains.c.purged_at.is_(None)
    sentence = "{fqdn} is live, but its user {user_id} is deleted"
    yield from yield_violations(
        tx, "has_living_owner", "subdomain", query.where(users.c.deleted_at.is_not(None) & is_live), sentence
    )
    balances: Select[Any] = select(users.c.id, ledger_accounts.c.balance).join(
        ledger_accounts, ledger_accounts.c.user_id == users.c.id
    )
    gone_with_credits = users.c.deleted_at.is_not(None) & (ledger_accounts.c.balance != 0)
    sentence = "the user is deleted, but has {balance} credits"
    yield from yield_violations(tx, "has_living_owner", "user", balances.where(gone_with_credits), sentence)
    member = users.alias("member")
    owners = (
        exists()
        .where((memberships.c.organization_id == users.c.organization_id) & (memberships.c.role == OWNER))
        .where((member.c.id == memberships.c.user_id) & member.c.deleted_at.is_(None))
    )
    accounts: Select[Any] = select(users.c.id, users.c.organization_id).where(
        users.c.is_organization & users.c.deleted_at.is_(None) & ~owners
    )
    sentence = "no living user owns its organization {organization_id}"
    yield from yield_violations(tx, "has_living_owner", "user", accounts, sentence)


def _check_sign_ins(tx: Tx) -> Iterator[Violation]:
    """Yield sessions and passkeys without an event or with a deleted user, and sessions and codes with
    impossible values.
    """
    for table, name, action in (
        (sessions, "session", "session.sign_in"),
        (passkeys, "passkey", "passkey.add"),
    ):
        event = (audit_events.c.object_type == name) & (audit_events.c.object_id == table.c.id)
        by_user = (audit_events.c.user_id == table.c.user_id) & (audit_events.c.action == action)
        query = select(table.c.id, table.c.user_id).where(~exists(audit_events.c.id).where(event & by_user))
        yield from yield_violations(
            tx, "audited", name, query, f"the user {{user_id}} has no event {action} for it"
        )
        is_gone = users.c.id.is_(None) | users.c.deleted_at.is_not(None)
        query = select(table.c.id, table.c.user_id).select_from(table.outerjoin(users)).where(is_gone)
        sentence = "its user {user_id} doesn't exist or is deleted"
        yield from yield_violations(tx, "rows_belong_together", name, query, sentence)
    session = sessions.c
    disorder = (
        (session.signed_in_at < session.created_at)
        | (session.last_used_at < session.signed_in_at)
        | (session.expires_at <= session.signed_in_at)
    )
    query = select(session.id, session.signed_in_at).where(disorder | session.how.not_in(SIGN_IN_METHODS))
    sentence = "its sign-in at {signed_in_at} contradicts its other times, or has an unknown kind"
    yield from yield_violations(tx, "session_is_possible", "session", query, sentence)
    code = mailed_codes.c
    needs_user = code.purpose.in_([purpose for purpose, always in _ALWAYS_HAS_USER.items() if always])
    no_user = needs_user & code.user_id.is_(None)
    foreign_user = code.purpose.not_in(_ALWAYS_HAS_USER) & code.user_id.is_not(None)
    too_long = (code.used_at > code.expires_at) | (code.expires_at <= code.created_at)
    query = select(code.id, code.purpose).where(
        no_user | foreign_user | too_long | code.purpose.not_in(VALID_FOR)
    )
    sentence = "a code for {purpose} has the wrong kind of user, or was used after its time"
    yield from yield_violations(tx, "code_is_possible", "mailed_code", query, sentence)


def _check_recoveries(tx: Tx) -> Iterator[Violation]:
    """Yield the users whose recovery has a wrong start or end, and deleted users with a recovery."""
    query = select(*(recoveries.c[name] for name in Recovery.__struct_fields__), users.c.deleted_at)
    for *values, deleted_at in tx.connection.execute(query.select_from(recoveries.outerjoin(users))):
        found = Recovery(*values)
        times = (found.ready_at - found.asked_at, found.ends_at - found.ready_at)
        if times != (RECOVERY_WAIT, RECOVERY_WINDOW):
            sentence = (
                f"its recovery, started at {found.asked_at:%Y-%m-%d %H:%M}, is valid from "
                f"{found.ready_at:%Y-%m-%d %H:%M} to {found.ends_at:%Y-%m-%d %H:%M}"
            )
            yield Violation("recovery_is_possible", "user", found.user_id, sentence)
        if deleted_at is not None:
            yield Violation(
                "recovery_is_possible", "user", found.user_id, "the user is deleted, but has a recovery"
            )


def _find_unreplayed(tx: Tx, object_type: str, table: Table, names: tuple[str, ...]) -> Iterator[Violation]:
    events = StreamById(_stream_events(tx, object_type))
    query = select(table.c.id, *(table.c[name] for name in names)).order_by(table.c.id)
    for row in tx.connection.execute(query.execution_options(**STREAMED)).mappings():
        replayed: dict[str, Any] = {}
        for after in events.take(row["id"]):
            replayed |= after
        for name in names:
            stored = row[name].isoformat() if isinstance(row[name], datetime) else row[name]
            if name in replayed and stored != replayed[name]:
                sentence = f"its {name} is {stored}, by its events {replayed[name]}"
                yield Violation("row_is_replayed", object_type, row["id"], sentence)


def _stream_events(tx: Tx, object_type: str) -> Iterator[tuple[int, dict[str, Any]]]:
    events = audit_events.c
    query = (
        select(events.object_id, events.after)
        .where(events.object_type == object_type)
        .order_by(events.object_id, events.id)
    )
    for object_id, after in tx.connection.execute(query.execution_options(**STREAMED)):
        yield object_id, after or {}
