"""The types of mail: one mail of the outbox."""

from dataclasses import dataclass
from datetime import datetime


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
