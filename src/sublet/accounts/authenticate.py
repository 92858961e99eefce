"""Authenticate a request by its bearer token (spec, part 5) or its session."""

from datetime import datetime, timedelta

from sublet.accounts import session_store, store
from sublet.accounts.find import former_member_refusal, organization_not_found_refusal, refuse_suspended
from sublet.accounts.model import Registrant
from sublet.accounts.sessions import check_session
from sublet.accounts.tokens.issue import check_token, digest, is_well_formed
from sublet.db import Database
from sublet.errors import TokenInvalid
from sublet.secret import Secret


async def authenticate(db: Database, secret: Secret) -> Registrant:
    """Return the stored user, organization and token to which a bearer token belongs.

    Raises:
        TokenInvalid: the token has a typing error (found without the database), was never issued, or was
            replaced by a rotation and its overlap is over.
        TokenRevoked: the token was revoked, or its user has left the organization for which the token acts.
        TokenExpired: the token has expired.
        AccountSuspended: the token acts for an organization, and its user is suspended.
        Unavailable: the database can't be read.

    Not checked: the token's restrictions (`restrictions.py` lists where each is enforced), and that the
    holder isn't suspended (verbs check this).
    """
    token_text = secret.reveal()
    if not is_well_formed(token_text):
        raise TokenInvalid("This is not a token of this service: check for a typing error or a missing part.")
    now, token_digest = db.now(), digest(token_text)
    found = await db.fetch_remembered(store.REGISTRANT_BY_DIGEST, token_digest=token_digest)
    if found is None:
        found = await db.fetch(store.REGISTRANT_BY_FORMER_DIGEST, token_digest=token_digest, at=now)
    return _check_registrant(found, now)


async def authenticate_update_key(db: Database, token_id: int) -> Registrant:
    """Return the stored user, organization and token to which an update key belongs.

    Not checked: its signature, and as for `authenticate`.

    Raises:
        TokenInvalid, TokenRevoked, TokenExpired, AccountSuspended, Unavailable: as `authenticate`.
    """
    return _check_registrant(
        await db.fetch_remembered(store.REGISTRANT_BY_UPDATE_KEY, token_id=token_id), db.now()
    )


def _check_registrant(found: Registrant | None, now: datetime) -> Registrant:
    check_token(found.token if found else None, now)
    assert found is not None  # noqa: S101 - check_token raised otherwise
    assert found.token is not None  # noqa: S101 - the registrant was found by a token
    if found.token.organization_id is not None:
        if found.role is None or found.account is None:
            raise former_member_refusal()
        refuse_suspended(found.user)
    return found


async def authenticate_session(
    db: Database, secret: Secret, idle: timedelta, organization_id: int | None = None
) -> Registrant:
    """Return the user, organization and session to which a cookie's secret belongs.

    `idle` is the setting `session_idle_hours`.

    With an `organization_id`, the session acts for that organization, like a token of the organization. The
    id of the user's own organization means the user.

    Raises, in this order:
        SessionInvalid: no session has this secret, the session has expired or was unused for `idle`, or its
            user is deleted.
        OrganizationNotFound: the organization doesn't exist, or the user isn't a member of it.
        AccountSuspended: the session acts for an organization, and its user is suspended.
        Unavailable: the database can't be read.
    """
    found = await db.fetch_remembered(
        session_store.REGISTRANT_BY_SESSION,
        session_digest=digest(secret.reveal()),
        organization_id=organization_id,
    )
    check_session(found.session if found else None, db.now(), idle)
    assert found is not None  # noqa: S101 - check_session raised otherwise
    if organization_id not in (None, found.user.organization_id):
        if found.account is None:
            raise organization_not_found_refusal()
        refuse_suspended(found.user)
    return found
