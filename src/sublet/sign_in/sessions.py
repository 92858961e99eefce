"""Open and end the sessions of signed-in browsers (/sessions, /auth/sessions; `sublet user end-sessions`)."""

from datetime import timedelta

from sublet import audit
from sublet.accounts.find import find_member, lock_requesting_user, lock_user
from sublet.accounts.model import Session, User
from sublet.accounts.sessions import OPERATOR, PASSKEY, new_session_secret
from sublet.accounts.tokens.issue import digest
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import SessionNotFound
from sublet.ids import parse_id
from sublet.sign_in import store
from sublet.sign_in.model import Browser, IdentifiedUser, SignedIn
from sublet.sign_in.notices import notify

USER_AGENT_CHARACTERS_MAX = 200


def open_session(
    tx: Tx,
    identified: IdentifiedUser,
    browser: Browser,
    lifetime: timedelta,
    request_id: str,
    public_url: str,
) -> SignedIn:
    """Open a session for a browser, valid for `lifetime`, and return it with its secret.

    If the browser has a session of the same user, this session is renewed with a new secret. If it has a
    session of another user, that session ends. The user gets a notice of a sign-in with an operator's link,
    or with a passkey from a new network. After a sign-in by mail, the mail with the code is the notice.
    """
    secret = new_session_secret()
    unexpected = _describe_unexpected(tx, identified, browser)
    values = {
        "how": identified.how,
        "signed_in_at": tx.now,
        "expires_at": tx.now + lifetime,
        "last_used_at": tx.now,
        "last_used_from": browser.address,
        "network": browser.network,
        "user_agent": _one_line(browser.user_agent),
    }
    present = _present_session(tx, browser)
    # A session from before the clock was set back is replaced, because its sign-in would precede its
    # creation.
    if present is not None and present.user_id == identified.user.id and present.created_at <= tx.now:
        session = store.replace_session_secret(tx, present.id, digest(secret.reveal()), **values)
    else:
        if present is not None:
            end(tx, _actor(present, browser, request_id), present)
        session = store.insert_session(tx, identified.user.id, digest(secret.reveal()), **values)
    actor = _actor(session, browser, request_id)
    audit.record(
        tx, actor, "session.sign_in", session.id, after={"user_id": identified.user.id, "how": identified.how}
    )
    if unexpected is not None:
        sentence = f"A browser signed in to your account with {unexpected}."
        notify(tx, identified.user, "sign_in", session.id, sentence, public_url)
    return SignedIn(find_member(tx, identified.user.id), session, secret)


def _describe_unexpected(tx: Tx, identified: IdentifiedUser, browser: Browser) -> str | None:
    """Return the words for a sign-in that the user gets a notice of, or None."""
    if identified.how == OPERATOR:
        return "a link that the operator made"
    if identified.how == PASSKEY and not store.has_session_from(tx, identified.user.id, browser.network):
        return "a passkey, from a new network"
    return None


def _actor(session: Session, browser: Browser, request_id: str) -> Actor:
    return Actor(
        "user", session.user_id, session_id=session.id, request_id=request_id, address=browser.address
    )


def _present_session(tx: Tx, browser: Browser) -> Session | None:
    if browser.secret is None:
        return None
    return store.lock_session_by_digest(tx, digest(browser.secret.reveal()))


def end(tx: Tx, actor: Actor, session: Session) -> None:
    """End a session, starting with the next request."""
    audit.record(tx, actor, "session.end", session.id, after={"user_id": session.user_id})
    store.delete_session(tx, session.id)


def _one_line(text: str) -> str:
    return "".join(char for char in text[:USER_AGENT_CHARACTERS_MAX] if char.isprintable())


CURRENT = "current"
"""Stands for the id of the session of the request."""


def end_session(tx: Tx, actor: Actor, identifier: str) -> Session:
    """End the session with this id, starting with the next request, and return it.

    Suspended users may end sessions too.

    Raises:
        SessionNotFound: the user has no session with this id, or the session has ended.
    """
    user = lock_requesting_user(tx, actor)
    session_id = actor.session_id if identifier == CURRENT else parse_id(identifier)
    session = store.find_session(tx, session_id) if session_id is not None else None
    if session is None or session.user_id != user.id:
        raise SessionNotFound("You have no such session. Check its id in the list of your sessions.")
    end(tx, actor, session)
    return session


def end_other_sessions(tx: Tx, actor: Actor) -> int:
    """End all sessions of the user except the session of the request, and return their number.

    Suspended users may end sessions too.

    The number includes sessions that were idle for too long, because they are stored until they expire.
    """
    return end_others(tx, actor, lock_requesting_user(tx, actor))


def end_all_sessions(tx: Tx, actor: Actor, identifier: str) -> tuple[User, int]:
    """End all sessions of a user, as the operator.

    Return the user and the number of sessions, counted as in `end_other_sessions`.

    Raises:
        NotFound: no user has this address or id, or the user is deleted.
    """
    user = lock_user(tx, identifier)
    return user, end_others(tx, actor, user)


def end_others(tx: Tx, actor: Actor, user: User) -> int:
    """End all sessions of a user except the session of the request, and return their number.

    Lock the user first.
    """
    ended = [each for each in store.list_sessions(tx, user.id) if each.id != actor.session_id]
    for session in ended:
        end(tx, actor, session)
    return len(ended)
