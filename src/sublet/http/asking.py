"""Limit the concurrent requests of a process that query name servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sublet.errors import RateLimited, Unavailable
from sublet.http.endpoints import Call

ASKING_MAX = 32
"""The maximum number of concurrent requests in a process. Each opens a connection to every server of a zone."""

ASKING_MAX_OF_USER = 4
"""The maximum number of concurrent requests of a user, so that a script doesn't keep other users out."""


@contextmanager
def asking_place(call: Call[Any, Any]) -> Iterator[None]:
    """Count a request as long as it queries name servers.

    Raises, in this order:
        RateLimited: `ASKING_MAX_OF_USER` requests of the user are running.
        Unavailable: `ASKING_MAX` requests are running.
    """
    asking, user_id = call.context.asking, call.registrant.user.id
    if asking[user_id] >= ASKING_MAX_OF_USER:
        raise RateLimited(
            f"{ASKING_MAX_OF_USER} of your requests are querying name servers. Wait until one of them is answered.",
            retry_after_seconds=1,
        )
    if asking.total() >= ASKING_MAX:
        raise Unavailable(
            "Too many requests are querying name servers. Try again in a moment.", retry_after_seconds=1
        )
    asking[user_id] += 1
    try:
        yield
    finally:
        asking[user_id] -= 1
        if not asking[user_id]:
            del asking[user_id]
