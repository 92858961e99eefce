"""The types of mail: one mail of the outbox."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to a user, in plain text; it waits for `next_attempt_at` until it is sent.

    `reference` says what it is about, and is unique for ever: the same can't be told twice.
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
    created_at: datetime
