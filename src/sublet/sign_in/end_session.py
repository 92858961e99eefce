"""End a session of one's own, which signs a browser out (DELETE /sessions/{id})."""

from sublet.accounts.find import lock_requesting_user
from sublet.accounts.model import Session
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import SessionNotFound
from sublet.ids import parse_id
from sublet.sign_in import store
from sublet.sign_in.open_session import end

CURRENT = "current"
"""Stands for the id of the session of the request."""


def end_session(tx: Tx, actor: Actor, identifier: str) -> Session:
    """End a session by its id, from the next request on, also as a suspended user.

    Raises:
        SessionNotFound: the user has no such session, or it has ended.
    """
    user = lock_requesting_user(tx, actor)
    session_id = actor.session_id if identifier == CURRENT else parse_id(identifier)
    session = store.find_session(tx, session_id) if session_id is not None else None
    if session is None or session.user_id != user.id:
        raise SessionNotFound("You have no such session. Check the id; GET /sessions lists yours.")
    end(tx, actor, session)
    return session
