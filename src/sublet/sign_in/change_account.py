"""Change one's name, reminders and e-mail address (PATCH /me, POST /me/email)."""

from dataclasses import dataclass
from datetime import timedelta

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.fields import check_email, check_text
from sublet.accounts.find import find_member, lock_acting_user
from sublet.accounts.model import Member, User
from sublet.accounts.recent_sign_in import require_recent_sign_in
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, RateLimited, validation_failed
from sublet.mail.outbox import enqueue
from sublet.mail.templates import render
from sublet.sign_in.notices import notify
from sublet.sign_up import store
from sublet.sign_up.codes import NEW_ADDRESS, TRIES_MAX, VALID_FOR, is_right, new_code
from sublet.sign_up.sign_up import check_throw_away

CODES_PER_HOUR = 5
HOUR = timedelta(hours=1)
CODE_SENTENCE = "This code is wrong, used or too old. Send the newest one, or ask for another with PATCH /me."


@dataclass(frozen=True, slots=True)
class AccountChange:
    """The values to change; None keeps a value."""

    name: str | None = None
    email: str | None = None
    reminders: bool | None = None


def change_account(tx: Tx, actor: Actor, change: AccountChange, public_url: str) -> Member:
    """Change name and reminders at once. A new address gets a code, and the present one a notice; `confirm_email` changes it.

    An address of another user is answered alike: the mail says that it has an account. Unchanged values leave no audit event.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ValidationFailed: there is nothing to change; or all invalid fields.
        SignInRequired: the address changes, and the session was not signed in within the last ten minutes.
        RateLimited: the user asked for too many codes for a new address.
    """
    user = lock_acting_user(tx, actor)
    values, email = _checked(change)
    if email is not None and email != user.email:
        require_recent_sign_in(tx, actor)
        _ask_address(tx, actor, user, email, public_url)
    before = {name: getattr(user, name) for name, value in values.items() if getattr(user, name) != value}
    if before:
        after = {name: values[name] for name in before}
        account_store.update_user(tx, user.id, **after)
        audit.record(tx, actor, "user.edit", user.id, before=before, after=after)
    return find_member(tx, user.id)


def _checked(change: AccountChange) -> tuple[dict[str, object], str | None]:
    if change == AccountChange():
        sentence = "Send a value to change: `name`, `email` or `reminders`."
        raise validation_failed([FieldError("name", "required", sentence)])
    values: dict[str, object] = {}
    email, errors = None, list[FieldError]()
    if change.name is not None:
        values["name"], errors = check_text("name", change.name)
    if change.email is not None:
        email, email_errors = check_email(change.email)
        errors = [*errors, *(email_errors or check_throw_away(email))]
    if change.reminders is not None:
        values["reminders"] = change.reminders
    if errors:
        raise validation_failed(errors)
    return values, email


def _ask_address(tx: Tx, actor: Actor, user: User, email: str, public_url: str) -> None:
    store.lock_sign_ups(tx)
    if store.count_of_user(tx, user.id, NEW_ADDRESS, tx.now - HOUR) >= CODES_PER_HOUR:
        raise RateLimited(
            f"More than {CODES_PER_HOUR} codes for a new address were asked for within an hour. Wait an hour.",
            retry_after_seconds=int(HOUR.total_seconds()),
        )
    new = new_code()
    is_taken = account_store.find_user_by_email(tx, email) is not None
    code_id = store.insert_code(
        tx,
        new,
        purpose=NEW_ADDRESS,
        email=email,
        name=user.name,
        user_id=user.id,
        network="",
        is_proven=False,
        expires_at=tx.now + VALID_FOR[NEW_ADDRESS],
    )
    template = "known_address" if is_taken else "new_address"
    message = render(template, name=user.name, code=new.code.reveal(), public_url=public_url)
    enqueue(
        tx, user, reference=f"code:{code_id}", subject=message.subject, text=message.text, recipient=email
    )
    audit.record(tx, actor, "user.ask_address", user.id)
    sentence = f"The address of your account is about to become {email}, once a code that was mailed there is entered."
    notify(tx, user, "address_asked", code_id, sentence, public_url)


def count_attempt(tx: Tx, actor: Actor) -> None:
    """Count an attempt to enter the code for a new address. It commits before `confirm_email`, whose refusal rolls back."""
    found = store.lock_newest_of_user(tx, actor.user_id or 0, NEW_ADDRESS)
    if found is not None and found.used_at is None:
        store.count_try(tx, found.id)


def confirm_email(tx: Tx, actor: Actor, code: str | None, public_url: str) -> Member:
    """Change the user's address to the one that the newest code was mailed to, and mail the former one. Call `count_attempt` before.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ValidationFailed: the code is missing, wrong, void, used or expired, or the address has an account by now.
    """
    user = lock_acting_user(tx, actor)
    found = store.lock_newest_of_user(tx, user.id, NEW_ADDRESS)
    is_valid = (
        found is not None
        and found.used_at is None
        and found.expires_at > tx.now
        and found.tries <= TRIES_MAX
        and is_right(found, code or "")
        and account_store.find_user_by_email(tx, found.email) is None
    )
    if found is None or not is_valid:
        raise validation_failed([FieldError("code", "value_invalid", CODE_SENTENCE)])
    store.use_code(tx, found.id)
    account_store.update_user(tx, user.id, email=found.email)
    before, after = {"email": user.email}, {"email": found.email}
    audit.record(tx, actor, "user.edit", user.id, before=before, after=after)
    sentence = f"The address of your account is {found.email} now. Sign in with that one."
    notify(tx, user, "address_changed", user.id, sentence, public_url, recipient=user.email)
    return find_member(tx, user.id)
