"""Find and lock the user that an operator names, or the user and holder of a request; refuse suspended and
deleted users.
"""

from sublet.accounts import membership_store, session_store, store
from sublet.accounts.fields import normalise_email
from sublet.accounts.model import Member, User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.names import shown
from sublet.errors import (
    AccountSuspended,
    Conflict,
    NotFound,
    OrganizationNotFound,
    SessionInvalid,
    TokenRevoked,
)
from sublet.ids import parse_id


def find_user(tx: Tx, identifier: str) -> User:
    """Return the user with this e-mail address (in any case) or id. A deleted user has only an id.

    Raises:
        NotFound: no user has this address or id.
    """
    user_id = parse_id(identifier)
    user = (
        store.find_user(tx, user_id)
        if user_id is not None
        else store.find_user_by_email(tx, normalise_email(identifier))
    )
    if user is None:
        raise NotFound(f"There is no user `{shown(identifier)}`. See `sublet user list`.")
    return user


def lock_user(tx: Tx, identifier: str) -> User:
    """Find a user like `find_user`, lock the row until the end of the transaction, and return the user.

    Raises:
        NotFound: no user has this address or id, or the user is deleted.
    """
    user = store.lock_user(tx, find_user(tx, identifier).id)
    assert user is not None  # noqa: S101 - user rows are never deleted
    refuse_deleted(user)
    return user


def refuse_deleted(user: User) -> None:
    """Raise `NotFound` if a user is deleted."""
    if user.deleted_at is not None:
        raise NotFound(f"The user {user.id} is deleted. Add a new user with `sublet user add`.")


def list_addresses(tx: Tx, holder: User) -> list[str]:
    """Return the addresses that get a holder's mail: the user's, or the addresses of an organization's
    owners, the oldest member first.
    """
    if not holder.is_organization:
        return [holder.email]
    return [each.email for each in membership_store.list_owners(tx, holder.organization_id)]


def refuse_account(user: User) -> None:
    """Raise `Conflict` if this user is the account of an organization."""
    if user.is_organization:
        raise Conflict(
            f"{user.email} is the account of an organization, not a user. See `sublet organization show "
            f"{user.organization_id}`."
        )


def find_member(tx: Tx, user_id: int) -> Member:
    """Return the user with this id and the user's organization. The user must exist."""
    user = store.find_user(tx, user_id)
    assert user is not None  # noqa: S101 - user rows are never deleted
    organization = store.find_organization(tx, user.organization_id)
    assert organization is not None  # noqa: S101 - the foreign key ensures it
    return Member(user, organization)


def lock_requesting_user(tx: Tx, actor: Actor) -> User:
    """Return the user who sent the request, and lock the row. Suspended users are returned too.

    Raises, in this order:
        NotFound: the actor is not a user.
        SessionInvalid: the session ended after the request was authenticated.
        TokenRevoked: the user was deleted after the request was authenticated.
    """
    user = store.lock_user(tx, actor.user_id) if actor.user_id is not None else None
    if user is None:
        raise NotFound("There is no such user. Check the token.")
    refuse_ended_session(tx, actor)
    if user.deleted_at is not None:
        raise TokenRevoked("This token was revoked, because its account was deleted.")
    return user


def refuse_ended_session(tx: Tx, actor: Actor) -> None:
    """Raise `SessionInvalid` if the session of a request has ended.

    Call this after the lock of the user, which ending a session takes too.
    """
    if actor.session_id is not None and session_store.find_sign_in(tx, actor.session_id) is None:
        raise SessionInvalid("This session has ended. Sign in again.")


def lock_requesting_holder(tx: Tx, actor: Actor) -> tuple[User, User]:
    """Lock and return the user who sent the request, and the request's holder: the user, or an organization's
    account.

    Raises, in this order:
        NotFound: the actor is not a user.
        SessionInvalid: the session ended after the request was authenticated.
        TokenRevoked, OrganizationNotFound: the user was deleted, or has left the organization for which the
            token or session acts.
    """
    if actor.account_id is None or actor.user_id is None:
        user = lock_requesting_user(tx, actor)
        return user, user
    locked = store.lock_users(tx, {actor.user_id, actor.account_id})
    account = locked[actor.account_id]
    refuse_ended_session(tx, actor)
    # A removal of the member takes the same locks, so the role that is read here stays until the commit.
    if store.find_role(tx, actor.user_id, account.organization_id) is None:
        raise former_member_refusal() if actor.session_id is None else organization_not_found_refusal()
    return locked[actor.user_id], account


def lock_holder(tx: Tx, actor: Actor) -> User:
    """Lock the user of a request and the holder of its names, credits and tickets, and return the holder.

    Every verb that changes names, credits or tickets calls this first, except `open_ticket`.

    Raises, in this order:
        NotFound: the actor is not a user.
        SessionInvalid, TokenRevoked, OrganizationNotFound: raised by `lock_requesting_holder`.
        AccountSuspended: the user or the holder is suspended.
    """
    user, holder = lock_requesting_holder(tx, actor)
    refuse_suspended(user)
    refuse_suspended(holder)
    return holder


def former_member_refusal() -> TokenRevoked:
    """Return the error for a token of an organization that its user has left."""
    return TokenRevoked("You are no longer a member of this token's organization. Use a token of your own.")


def organization_not_found_refusal() -> OrganizationNotFound:
    """Return the error for an organization that doesn't exist or of which the user isn't a member.

    The two look the same.
    """
    return OrganizationNotFound(
        "You are not a member of this organization. Check its id in the list of your organizations."
    )


def lock_acting_user(tx: Tx, actor: Actor) -> User:
    """Return the user who sent the request, and lock the row.

    Every verb that changes the user's own tokens or settings calls this first.

    Raises, in this order:
        NotFound, SessionInvalid, TokenRevoked: raised by `lock_requesting_user`.
        AccountSuspended: the user is suspended.
    """
    user = lock_requesting_user(tx, actor)
    refuse_suspended(user)
    return user


def refuse_suspended_holder(user: User) -> None:
    """Raise `Conflict` if the user to whom the operator gives a name is suspended."""
    if user.suspended_at is not None:
        raise Conflict(
            f"{user.email} is suspended and can't get a name. Lift the suspension first with `sublet user "
            f"unsuspend {user.email}`."
        )


def refuse_suspended(user: User) -> None:
    """Raise `AccountSuspended` if a user is suspended.

    Suspended users can still read their data and open tickets.
    """
    if user.suspended_at is not None:
        raise AccountSuspended(
            "This account is suspended. You can still read your data and open tickets. Open a ticket to "
            "ask why."
        )
