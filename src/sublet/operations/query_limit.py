"""Limit the requests of a process that query name servers at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sublet.errors import RateLimited, Unavailable
from sublet.limits import QUERYING_REQUESTS_MAX, QUERYING_REQUESTS_PER_USER_MAX
from sublet.operations.call import Call


@contextmanager
def counted_as_querying(call: Call[Any, Any]) -> Iterator[None]:
    """Count a request among those that query name servers, until the block ends.

    Raises, in this order:
        RateLimited: `QUERYING_REQUESTS_PER_USER_MAX` requests of the user are running.
        Unavailable: `QUERYING_REQUESTS_MAX` requests are running.
    """
    querying, user_id = call.context.querying, call.registrant.user.id
    if querying[user_id] >= QUERYING_REQUESTS_PER_USER_MAX:
        raise RateLimited(
            f"{QUERYING_REQUESTS_PER_USER_MAX} of your checks of name servers are running. Wait until one "
            "of them ends.",
            retry_after_seconds=1,
        )
    if querying.total() >= QUERYING_REQUESTS_MAX:
        raise Unavailable(
            "Too many checks of name servers are running. Try again in a moment.", retry_after_seconds=1
        )
    querying[user_id] += 1
    try:
        yield
    finally:
        querying[user_id] -= 1
        if not querying[user_id]:
            del querying[user_id]
