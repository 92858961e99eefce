"""The outbox: enqueue a mail, limit the mails to an address, claim a mail, record the outcome, retry."""

import random
from datetime import datetime

from sublet import audit
from sublet.accounts.find import list_addresses
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.db import LockedKind, Tx, lock_text
from sublet.errors import Conflict, NotFound
from sublet.limits import MAILS_TO_ADDRESS
from sublet.mail import store
from sublet.mail.letter import Message
from sublet.mail.model import (
    ATTEMPTS_BEFORE_NOTICE,
    DELETION_NOTICE,
    GIVEN_UP_AFTER,
    LEASE,
    Failure,
    Mail,
    back_off,
    is_given_up,
)
from sublet.mail.operator_notices import OPERATOR_REFERENCE, notify_operator
from sublet.structs import replace


def enqueue(
    tx: Tx,
    user: User,
    message: Message,
    *,
    reference: str,
    page: str = "",
    recipient: str | None = None,
    expires_at: datetime | None = None,
) -> int:
    """Add a mail to a user or organization, and return its id.

    Without a `recipient` it goes to the user's current address, or to each owner of the organization; then
    the id is the first mail's. Call this in the transaction of the event that the mail is about, so that the
    mail is sent if and only if the event is committed. `reference` must be unique. `page` is the path of the
    console's page about the same, for a link. A mail with a code has the code's end as `expires_at`. Not
    checked: the user's reminders setting.
    """
    first_id = None
    if page and user.is_organization:
        page = f"/o/{user.organization_id}{page}"
    for number, to in enumerate([recipient] if recipient else list_addresses(tx, user)):
        mail_id = store.insert_mail(
            tx,
            user_id=user.id,
            recipient=to,
            reference=f"{reference}:owner:{number}" if number else reference,
            message=message,
            page=page,
            expires_at=expires_at,
        )
        first_id = first_id or mail_id
    assert first_id is not None  # noqa: S101 - an organization that holds something has an owner
    return first_id


def enqueue_to(
    tx: Tx, recipient: str, message: Message, *, reference: str, expires_at: datetime | None = None
) -> int:
    """Add a mail to an address that may have no user, and return its id. `reference` must be unique.

    The message must not contain texts of users: the address may never have agreed to get them. A mail with a
    code has the code's end as `expires_at`.
    """
    return store.insert_mail(
        tx,
        user_id=None,
        recipient=recipient,
        reference=reference,
        message=message,
        page="",
        expires_at=expires_at,
    )


def lock_and_count_mails(tx: Tx, email: str) -> int:
    """Return the number of mails that a mailbox got within an hour because of other people's requests.

    No other request mails it until this transaction ends. Counted are codes to sign up, sign in and change an
    address, invitations, and offers of names, but no notices to users (docs/spec-choices.md, "Part 8:
    limits"). `email` is in its canonical form. Lock users first.
    """
    lock_text(tx, LockedKind.MAILBOX, email)
    return store.count_requested(tx, email, MAILS_TO_ADDRESS.since(tx.now))


def refuse_full_mailbox(tx: Tx, email: str) -> None:
    """Raise `RateLimited` if a mailbox got the maximum number of mails within an hour, from all requests.

    Locks like `lock_and_count_mails`.
    """
    if lock_and_count_mails(tx, email) >= MAILS_TO_ADDRESS.most:
        raise MAILS_TO_ADDRESS.refusal(
            f"This address got {MAILS_TO_ADDRESS.most} mails within an hour, which is the maximum. Wait an "
            "hour."
        )


def claim(tx: Tx) -> Mail | None:
    """Claim and return the mail that has been due longest, or None.

    Other workers don't send it for the duration of `LEASE`.

    Increments `attempts`. Send the mail outside the transaction, then call `record_delivery`. If the worker
    dies before that call, another worker sends the mail again: delivery is at least once.
    """
    mail = store.lock_due(tx)
    if mail is None:
        return None
    claimed = replace(mail, attempts=mail.attempts + 1, next_attempt_at=tx.now + LEASE)
    store.record_attempt(tx, mail.id, claimed.attempts, tx.now + LEASE)
    return claimed


def record_delivery(tx: Tx, mail: Mail, failure: Failure | None, *, delivers: bool = True) -> str:
    """Record and return the outcome of an attempt to send a claimed mail: `sent`, `logged` (by a transport
    that doesn't deliver), `failed` or `given_up`.

    A failure is not recorded if a newer attempt has started or the operator has requested a retry. Success is
    always recorded.
    """
    if failure is None:
        store.record_sent(tx, mail.id) if delivers else store.record_logged(tx, mail.id)
        _erase_notice(tx, mail)
        return "sent" if delivers else "logged"
    given_up = is_given_up(mail.created_at, tx.now, permanent=failure.permanent)
    # While the server takes no mail, the mailer pauses for all mails. Longer pauses would make codes late.
    attempts = 1 if failure.is_server_away else mail.attempts
    again_at = None if given_up else tx.now + back_off(attempts, random.random())  # noqa: S311 - jitter, not a secret
    store.record_failure(tx, mail, failure.sentence, again_at)
    _notify_of_failure(tx, mail, failure, given_up=given_up)
    if given_up:
        _erase_notice(tx, mail)
    return "given_up" if given_up else "failed"


def _notify_of_failure(tx: Tx, mail: Mail, failure: Failure, *, given_up: bool) -> None:
    """Notify the operator of a mail at its first permanent refusal, its `ATTEMPTS_BEFORE_NOTICE`th failed
    attempt, or its end.

    The server's reply isn't in the notice, because it may have the recipient's address. There is no notice
    about mails to the operator, because each would cause the next.
    """
    if mail.reference.startswith(OPERATOR_REFERENCE):
        return
    if given_up:
        sentence = (
            f"Mail {mail.id} was given up, because the mail server refused it for {GIVEN_UP_AFTER.days} days."
        )
    elif failure.permanent:  # Only the first one is stored, because of the reference.
        sentence = (
            f"The mail server refused mail {mail.id}. It is tried again for {GIVEN_UP_AFTER.days} days."
        )
    elif mail.attempts == ATTEMPTS_BEFORE_NOTICE:
        sentence = f"Mail {mail.id} could not be sent in {mail.attempts} attempts. It is tried again."
    else:
        return
    text = f"{sentence} `sublet mail list` shows why."
    reference = f"mail:{mail.id}:{'given_up' if given_up else 'failed'}"
    notify_operator(tx, "mail", text, reference=reference, user_id=mail.user_id)


def _erase_notice(tx: Tx, mail: Mail) -> None:
    """Erase the address in a notice to a deleted user. It is the last copy of the address in the registry."""
    if mail.reference.startswith(DELETION_NOTICE):
        store.erase_recipient(tx, mail.id)


def retry(tx: Tx, actor: Actor, mail_id: int) -> Mail:
    """Make a mail due now, even if it was logged or given up (`sublet mail retry`).

    A mail that a worker is sending now may arrive twice.

    Raises, in this order:
        NotFound: there is no such mail.
        Conflict: the mail was sent already, or its text was erased.
    """
    mail = store.lock_mail(tx, mail_id)
    if mail is None:
        raise NotFound(f"There is no mail {mail_id}. See `sublet mail list`.")
    if mail.sent_at is not None:
        raise Conflict(
            f"The mail {mail_id} was sent already, at {mail.sent_at:%Y-%m-%d %H:%M} UTC. No action needed."
        )
    if not mail.text:
        raise Conflict(
            f"The text of the mail {mail_id} was erased, because its code has expired or it is too old. "
            "Repeat the action that sent it."
        )
    before = {"attempts": mail.attempts, "given_up": mail.given_up_at is not None}
    audit.record(tx, actor, "mail.retry", mail.id, before=before)
    return store.set_due(tx, mail.id)
