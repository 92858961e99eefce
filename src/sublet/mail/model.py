"""The types of mail, and the rules for links and retries (no SQL, no clock)."""

from datetime import datetime, timedelta

from msgspec import Struct

from sublet.structs import replace

CONFIRM_PATH, SIGN_IN_PATH = "/signup/confirm", "/signin/confirm"
"""The pages that the links with a code open: an account or invitation is confirmed, a browser signs in."""


class Mail(Struct, frozen=True):
    """A mail in plain text.

    `user_id` is None if the address has no user. `page` is the path of a page of the console, or empty.

    `text` is empty once it is erased. `expires_at` is the end of the code in the text; None if the text has
    no code. Exactly one of `next_attempt_at`, `sent_at`, `logged_at` and `given_up_at` is set. `reference`
    identifies the event that the mail is about. It is unique, so that no event is mailed twice. `attempts`
    counts started attempts. `error` is the reason if the last attempt failed.
    """

    id: int
    reference: str
    user_id: int | None
    recipient: str
    subject: str
    text: str
    page: str
    attempts: int
    next_attempt_at: datetime | None
    error: str | None
    sent_at: datetime | None
    logged_at: datetime | None
    given_up_at: datetime | None
    created_at: datetime
    expires_at: datetime | None = None

    @property
    def state(self) -> str:
        """The state of the mail: waiting, sent, logged (`mail_transport` was log) or given up."""
        if self.sent_at is not None:
            return "sent"
        if self.logged_at is not None:
            return "logged"
        return "given up" if self.given_up_at is not None else "waiting"


class Notice(Struct, frozen=True):
    """A notice to the operator.

    `text` is the service's, `quoted` a user's. `user_id` is the holder whose deletion erases the notice, if
    any.
    """

    id: int
    kind: str
    text: str
    quoted: str
    user_id: int | None


class Failure(Struct, frozen=True):
    """The reason why a mail was not sent, as a sentence.

    `permanent` is true if the server refused the mail permanently (5xx), `is_server_away` if it takes no mail
    at all now.
    """

    sentence: str
    permanent: bool = False
    is_server_away: bool = False


class Outbox(Struct, frozen=True):
    """The number of waiting mails, and the time at which the oldest was enqueued."""

    waiting: int
    oldest_at: datetime | None


SIGNATURE = "\n\n-- \n"
"""The separator between the text of a mail and its signature."""


def with_link(mail: Mail, public_url: str) -> Mail:
    """Return a mail with the link to its page below the text.

    Without a page or a `public_url` the mail stays as it is.
    """
    if not mail.page or not public_url:
        return mail
    # A message of staff may contain a signature, so the last one is the mail's.
    text, separator, signature = mail.text.rpartition(SIGNATURE)
    if not separator:
        text, signature = mail.text.rstrip(), "\n"
    return replace(mail, text=f"{text}\n\n{public_url}{mail.page}{separator}{signature}")


DELETION_NOTICE = "user.delete:"
"""The prefix of the references of mails to deleted users. The address of such a mail is erased when it is
sent or given up.
"""
LEASE = timedelta(minutes=5)
"""The duration of a claim. Then another worker sends the mail, because the worker with the claim has probably
died.
"""
UNSENT_TEXT_KEPT_FOR = timedelta(days=30)
"""The age at which the text of a mail that was logged or given up is erased. Until then, `sublet mail retry`
can send it.
"""
ENVELOPE_KEPT_FOR = timedelta(days=90)
"""The age at which a mail without a text is deleted."""
EXPIRED = "The code in this mail expired before the mail was sent."
BACK_OFF_MIN = timedelta(minutes=1)
BACK_OFF_MAX = timedelta(hours=1)
ATTEMPTS_BEFORE_NOTICE = 5
"""The failed attempts, without a permanent refusal, after which the operator is notified: minutes while the
server takes no mail, otherwise about a quarter of an hour.
"""
GIVEN_UP_AFTER = timedelta(days=3)
"""The age at which a mail is given up after a permanent refusal. A younger mail is retried, because the
server may be misconfigured.
"""


def back_off(attempts: int, jitter: float) -> timedelta:
    """Return the pause after a number of attempts (1 or more). It doubles from a minute up to an hour.

    `jitter`, 0 to 1, shortens the pause by up to a half, so that mails that failed together are not retried
    together.
    """
    doublings = min(max(attempts - 1, 0), 10)
    whole = min(BACK_OFF_MAX, BACK_OFF_MIN * (1 << doublings))
    return whole * (1 - jitter / 2)


def is_given_up(created_at: datetime, now: datetime, *, permanent: bool) -> bool:
    """True if a failed mail is not retried: the server refused it permanently, and its age is
    `GIVEN_UP_AFTER` or more.

    Other failures, such as an unreachable server or a wrong password, are retried without limit.
    """
    return permanent and now - created_at >= GIVEN_UP_AFTER
