"""The types of mail, and the rules for retrying a mail that failed (no SQL, no clock)."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to a user, or to an address that has none (`user_id` None), in plain text. It waits for `next_attempt_at`, or it was sent, only logged, or given up.

    `reference` names the event that the mail is about, and is unique, so that no event is mailed twice. `attempts` counts the
    attempts that began. `error` is the reason why the last one failed.
    """

    id: int
    reference: str
    user_id: int | None
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
        """The state of the mail: waiting, sent, logged (`mail_transport` was log) or given up."""
        if self.sent_at is not None:
            return "sent"
        if self.logged_at is not None:
            return "logged"
        return "given up" if self.given_up_at is not None else "waiting"


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a mail was not sent, as a sentence. `permanent` is true if the server refused it permanently (5xx)."""

    sentence: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Outbox:
    """The number of mails that wait, and when the oldest of them was enqueued."""

    waiting: int
    oldest_at: datetime | None


DELETION_NOTICE = "user.delete:"
"""How the references of notices to deleted users begin. The address of such a mail is erased once it waits no longer."""
LEASE = timedelta(minutes=5)
"""How long a claim is valid. After it, another worker sends the mail: the one that claimed it has probably died."""
BACK_OFF_MIN = timedelta(minutes=1)
BACK_OFF_MAX = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=3)
"""The age from which a permanent refusal is final. Before that, the cause may be a misconfigured server."""


def back_off(attempts: int, jitter: float) -> timedelta:
    """Return the pause after this many attempts (1 or more): it doubles from a minute up to an hour.

    `jitter`, 0 to 1, shortens it by up to a half, so that mails that failed together are not retried together.
    """
    doublings = min(max(attempts - 1, 0), 10)
    whole = min(BACK_OFF_MAX, BACK_OFF_MIN * (1 << doublings))
    return whole * (1 - jitter / 2)


def is_given_up(created_at: datetime, now: datetime, *, permanent: bool) -> bool:
    """True if a mail that failed is not retried: it was refused permanently, three days or more after it was enqueued.

    Other failures, such as an unreachable server or a wrong password, are retried without end.
    """
    return permanent and now - created_at >= GIVEN_UP_AFTER
