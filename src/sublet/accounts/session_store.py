"""The tables of sessions, passkeys and recoveries, and the queries that authenticate a request by its
session.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ForeignKey,
    Index,
    String,
    Table,
    bindparam,
    exists,
    func,
    select,
    update,
)

from sublet.accounts.model import Organization, Recovery, Registrant, Session, SignIn, User
from sublet.accounts.store import Use, memberships, organizations, users
from sublet.db import Prepared, Query, Tx
from sublet.schema import BIG_ID, Instant, metadata

sessions = Table(
    "sessions",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("how", String(16), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("signed_in_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False, index=True),
    Column("last_used_at", Instant, nullable=False),
    Column("last_used_from", String(45)),
    Column("network", String(64), nullable=False),
    Column("user_agent", String(200), nullable=False),
    sqlite_autoincrement=True,
)
passkeys = Table(
    "passkeys",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("credential_id", String(1400), nullable=False),
    Column("public_key", String, nullable=False),
    Column("sign_count", BIG_ID, nullable=False),
    Column("transports", JSON, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    Index("uq_passkeys_credential_id", "credential_id", unique=True),
    sqlite_autoincrement=True,
)
recoveries = Table(
    "recoveries",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True, autoincrement=False),
    Column("asked_at", Instant, nullable=False),
    Column("ready_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False, index=True),
)

_USER = tuple(users.c[name] for name in User.__struct_fields__)
_ORGANIZATION = tuple(organizations.c[name] for name in Organization.__struct_fields__)
_SESSION = tuple(sessions.c[name] for name in Session.__struct_fields__)
_RECOVERY = tuple(recoveries.c[name] for name in Recovery.__struct_fields__)


def _registrant(rows: Sequence[Sequence[Any]]) -> Registrant | None:
    if not rows:
        return None
    values = iter(rows[0])
    user, organization, session, account = (
        tuple(islice(values, len(columns))) for columns in (_USER, _ORGANIZATION, _SESSION, _USER)
    )
    is_for_account = account[0] is not None
    return Registrant(
        User(*user),
        Organization(*organization),
        None,
        User(*account) if is_for_account else None,
        next(values) if is_for_account else None,
        Session(*session),
    )


_ACCOUNT = users.alias("account")
REGISTRANT_BY_SESSION = Query(
    select(
        *_USER,
        *_ORGANIZATION,
        *_SESSION,
        *(_ACCOUNT.c[name] for name in User.__struct_fields__),
        memberships.c.role,
    )
    .select_from(
        sessions.join(users, users.c.id == sessions.c.user_id)
        .outerjoin(
            memberships,
            (memberships.c.user_id == users.c.id)
            & (memberships.c.organization_id == bindparam("organization_id", type_=BIG_ID)),
        )
        .outerjoin(
            _ACCOUNT,
            (_ACCOUNT.c.organization_id == memberships.c.organization_id) & _ACCOUNT.c.is_organization,
        )
        .join(
            organizations,
            organizations.c.id == func.coalesce(_ACCOUNT.c.organization_id, users.c.organization_id),
        )
    )
    .where((sessions.c.digest == bindparam("session_digest")) & users.c.deleted_at.is_(None)),
    _registrant,
)
"""The registrant of the session whose secret has the digest `session_digest`, or None.

If the user is a member of the organization `organization_id`, and the organization has an account, the
registrant has this account and the user's role.
"""


def find_sign_in(tx: Tx, session_id: int) -> SignIn | None:
    """Return the last sign-in of a session, or None if the session has ended."""
    has_passkeys = exists(passkeys.c.id).where(passkeys.c.user_id == sessions.c.user_id)
    query = (
        select(sessions.c.signed_in_at, sessions.c.how, has_passkeys.label("has_passkeys"), *_RECOVERY)
        .select_from(sessions.outerjoin(recoveries, recoveries.c.user_id == sessions.c.user_id))
        .where(sessions.c.id == session_id)
    )
    row = tx.connection.execute(query).one_or_none()
    if row is None:
        return None
    signed_in_at, how, has_passkeys, *recovery = row
    found = Recovery(*recovery) if recovery[0] is not None else None
    return SignIn(signed_in_at, how, bool(has_passkeys), found)


_UPDATE_USE = Prepared(
    update(sessions)
    .where(sessions.c.id == bindparam("of"))
    .values(last_used_at=bindparam("at"), last_used_from=bindparam("address"))
)


def touch_sessions(tx: Tx, uses: dict[int, Use]) -> None:
    """Store when and from which addresses sessions were last used."""
    # Sorted, because two processes may store uses of the same sessions at the same time.
    _UPDATE_USE.run_many(
        tx, [{"of": session_id, **use._asdict()} for session_id, use in sorted(uses.items())]
    )
