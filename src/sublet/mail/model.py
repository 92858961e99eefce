"""The types of mail, and the rules for retrying a mail that failed (no SQL, no clock)."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to a user, in plain text: it waits for `next_attempt_at`, or it was sent, or only logged, or given up.

    `reference` says what it is about, and is unique for ever: the same can't be told twice. `attempts` counts those
    begun, `error` is why the last one failed.
    """

    id: int
    reference: str
    user_id: int
    recipient: str
    subject: str
    text: str
    attempts: int
    next_attempt_at: datetime | None
    error: str | None
    sent_at: datetime | None
    logged_at: datetime | None
    given_up_at: datetime | None
    created_at: datetime

    @property
    def state(self) -> str:
        """What became of it: waiting, sent, logged (`mail_transport` was log) or given up."""
        if self.sent_at is not None:
            return "sent"
        if self.logged_at is not None:
            return "logged"
        return "given up" if self.given_up_at is not None else "waiting"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a mail could not be sent: a sentence; `permanent` when the server will refuse this mail for ever (5xx)."""

    sentence: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Outbox:
    """How much waits to be sent: the number of mails, and when the oldest of them was put in."""

    waiting: int
    oldest_at: datetime | None


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
