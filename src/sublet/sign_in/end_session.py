"""Sign browsers out by ending their sessions (DELETE /sessions/{id}, DELETE /sessions, `sublet user end-sessions`)."""

from sublet.accounts.find import lock_requesting_user, lock_user
from sublet.accounts.model import Session, User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import SessionNotFound
from sublet.ids import parse_id
from sublet.sign_in import store
from sublet.sign_in.open_session import end

CURRENT = "current"
"""Stands for the id of the session of the request."""


def end_session(tx: Tx, actor: Actor, identifier: str) -> Session:
    """End the session with this id, starting with the next request, and return it. Suspended users may end sessions too.

    Raises:
        SessionNotFound: the user has no session with this id, or the session has ended.
    """
    user = lock_requesting_user(tx, actor)
    session_id = actor.session_id if identifier == CURRENT else parse_id(identifier)
    session = store.find_session(tx, session_id) if session_id is not None else None
    if session is None or session.user_id != user.id:
        raise SessionNotFound("You have no such session. Check the id; GET /sessions lists yours.")
    end(tx, actor, session)
    return session


def end_other_sessions(tx: Tx, actor: Actor) -> int:
    """End all sessions of the user except the session of the request, and return their number. Suspended users may end sessions too.

    The number includes sessions that were idle for too long, because they are stored until they expire.
    """
    return end_others(tx, actor, lock_requesting_user(tx, actor))


def end_all_sessions(tx: Tx, actor: Actor, identifier: str) -> tuple[User, int]:
    """End all sessions of a user, as the operator. Return the user and the number of sessions, counted as in `end_other_sessions`.

    Raises:
        NotFound: no user has this address or id, or the user is deleted.
    """
    user = lock_user(tx, identifier)
    return user, end_others(tx, actor, user)


def end_others(tx: Tx, actor: Actor, user: User) -> int:
    """End all sessions of a user except the session of the request, and return their number. Lock the user first."""
    ended = [each for each in store.list_sessions(tx, user.id) if each.id != actor.session_id]
    for session in ended:
        end(tx, actor, session)
    return len(ended)
