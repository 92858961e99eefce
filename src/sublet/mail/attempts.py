"""The rules of trying again, pure: how long a claim counts, when the next attempt is due, when a mail is given up."""

from datetime import datetime, timedelta

LEASE = timedelta(minutes=5)
"""How long a claim counts: a worker that is not heard of by then has died, and another sends the mail."""
BACK_OFF_MIN = timedelta(minutes=1)
BACK_OFF_MAX = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=3)
"""How old a mail has to be for a permanent refusal to be believed: until then it may be a server set up wrongly."""


def back_off(attempts: int, jitter: float) -> timedelta:
    """Return how long to wait after so many attempts (1 or more): doubling from a minute, at most an hour.

    `jitter`, 0 to 1, takes up to a half off, so that what failed together does not come back together.
    """
    doublings = min(max(attempts - 1, 0), 10)
    whole = min(BACK_OFF_MAX, BACK_OFF_MIN * (1 << doublings))
    return whole * (1 - jitter / 2)


def is_given_up(created_at: datetime, now: datetime, *, permanent: bool) -> bool:
    """Tell whether a mail that failed is not tried any more: refused for good, three days or more after it was put in.

    Everything else is tried for ever: a server that is away, a password that is wrong.
    """
    return permanent and now - created_at >= GIVEN_UP_AFTER
