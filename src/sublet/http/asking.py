"""Limit the requests of a process that ask name servers at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sublet.errors import RateLimited, Unavailable
from sublet.http.endpoints import Call

ASKING_MAX = 32
"""The most requests of a process that ask name servers at once; each opens a connection to every server of a zone."""

ASKING_MAX_OF_USER = 4
"""The most of them for one user, so that a script doesn't keep others out."""


@contextmanager
def asking_place(call: Call[Any, Any]) -> Iterator[None]:
    """Take one of the places for asking name servers; refuse at once if there is none.

    Raises:
        RateLimited: the user has as many as one may.
        Unavailable: all are taken.
    """
    asking, user_id = call.context.asking, call.registrant.user.id
    if asking[user_id] >= ASKING_MAX_OF_USER:
        raise RateLimited(
            f"You already have {ASKING_MAX_OF_USER} questions to the name servers running. Wait until one is answered.",
            retry_after_seconds=1,
        )
    if asking.total() >= ASKING_MAX:
        raise Unavailable(
            "Too many requests ask the name servers right now; try again in a moment.", retry_after_seconds=1
        )
    asking[user_id] += 1
    try:
        yield
    finally:
        asking[user_id] -= 1
        if not asking[user_id]:
            del asking[user_id]
