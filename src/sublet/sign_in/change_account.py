"""Change the user's own name, reminders and e-mail address (PATCH /me, POST /me/email)."""

from msgspec import Struct

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.fields import check_email, check_text
from sublet.accounts.find import find_member, lock_acting_user
from sublet.accounts.model import Member, User
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, validation_failed
from sublet.limits import ADDRESS_CODES_OF_USER, WRONG_CODES
from sublet.mail.letter import render
from sublet.mail.outbox import enqueue, refuse_full_mailbox
from sublet.sign_in.notices import notify
from sublet.sign_in.sessions import end_others
from sublet.sign_up import store
from sublet.sign_up.codes import NEW_ADDRESS, TRIES_MAX, VALID_FOR, matches_code, new_code
from sublet.sign_up.mailed_codes import is_expired
from sublet.sign_up.sign_up import check_disposable

CODE_SENTENCE = "This code is wrong, used or too old. Give the newest code, or ask for a new one."


class AccountChange(Struct, frozen=True):
    """The values to change; None keeps a value."""

    name: str | None = None
    email: str | None = None
    reminders: bool | None = None


def change_account(tx: Tx, actor: Actor, change: AccountChange, public_url: str) -> Member:
    """Change the name and reminders, mail a code to a new address, and return the user.

    `confirm_email` changes the address.

    The present address gets a notice. The mail to the new address has no text of the user, because it may be
    a stranger's address. If another user has the new address, only the mail says so; the answer is the same.
    Unchanged values leave no audit event.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ValidationFailed: there is nothing to change; or all invalid fields.
        RateLimited: the user requested too many codes for a new address, or entered too many wrong codes; or
            the new address got too many mails from all requests.
    """
    user = lock_acting_user(tx, actor)
    values, email = _check_change(change)
    if email is not None and email != user.email:
        _mail_address_code(tx, actor, user, email, public_url)
    before = {name: getattr(user, name) for name, value in values.items() if getattr(user, name) != value}
    if before:
        after = {name: values[name] for name in before}
        account_store.update_user(tx, user.id, **after)
        audit.record(tx, actor, "user.edit", user.id, before=before, after=after)
    return find_member(tx, user.id)


def _check_change(change: AccountChange) -> tuple[dict[str, object], str | None]:
    if change == AccountChange():
        sentence = "Give a value to change: `name`, `email` or `reminders`."
        raise validation_failed([FieldError("name", "required", sentence)])
    values: dict[str, object] = {}
    email, errors = None, list[FieldError]()
    if change.name is not None:
        values["name"], errors = check_text("name", change.name)
    if change.email is not None:
        email, email_errors = check_email(change.email)
        errors = [*errors, *(email_errors or check_disposable(email))]
    if change.reminders is not None:
        values["reminders"] = change.reminders
    if errors:
        raise validation_failed(errors)
    return values, email


def _mail_address_code(tx: Tx, actor: Actor, user: User, email: str, public_url: str) -> None:
    limit = ADDRESS_CODES_OF_USER
    if store.count_of_user(tx, user.id, NEW_ADDRESS, limit.since(tx.now)) >= limit.most:
        raise limit.refusal(
            f"You asked for more than {limit.most} codes for a new address within an hour. Wait an hour."
        )
    if _entered_too_many(tx, user.id):
        raise WRONG_CODES.refusal(
            f"You entered {WRONG_CODES.most} wrong codes for a new address within a day. Wait a day."
        )
    refuse_full_mailbox(tx, email)
    new = new_code()
    is_taken = account_store.find_user_by_email(tx, email) is not None
    code_id = store.insert_code(tx, new, NEW_ADDRESS, email, name=user.name, user_id=user.id)
    template = "known_address" if is_taken else "new_address"
    message = render(template, code=new.code.reveal(), public_url=public_url)
    expires_at = tx.now + VALID_FOR[NEW_ADDRESS]
    enqueue(tx, user, message, reference=f"code:{code_id}", recipient=email, expires_at=expires_at)
    audit.record(tx, actor, "user.ask_address", user.id)
    sentence = (
        f"Your account's address is to change to {email}. It takes effect with a code that was mailed to "
        "that address."
    )
    notify(tx, user, "address_asked", code_id, sentence, public_url)


def _entered_too_many(tx: Tx, user_id: int) -> bool:
    return store.count_tries_of(tx, user_id, NEW_ADDRESS, WRONG_CODES.since(tx.now)) >= WRONG_CODES.most


def count_attempt(tx: Tx, actor: Actor, public_url: str = "") -> None:
    """Count an attempt to enter the code for a new address.

    Commit it before `confirm_email`, whose error rolls back.

    The attempt that reaches `WRONG_CODES` mails the user.
    """
    found = store.lock_newest_of_user(tx, actor.user_id or 0, NEW_ADDRESS)
    if found is None or found.user_id is None or found.used_at is not None or found.tries > TRIES_MAX:
        return
    was_void = _entered_too_many(tx, found.user_id)
    store.count_try(tx, found.id)
    if not was_void and _entered_too_many(tx, found.user_id):
        user = account_store.find_user(tx, found.user_id)
        assert user is not None  # noqa: S101 - user rows are never deleted
        sentence = (
            "A browser that is signed in to your account entered many wrong codes for a new address. For a "
            "day, no code for a new address works."
        )
        notify(tx, user, "wrong_codes", found.id, sentence, public_url)


def confirm_email(tx: Tx, actor: Actor, code: str | None, public_url: str) -> Member:
    """Change the user's address to the address that got the newest code, mail the former address, and end the
    user's other sessions.

    Call `count_attempt` first.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        ValidationFailed: the code is missing, wrong, void, used or expired, or another user has got the
            address in the meantime.
    """
    user = lock_acting_user(tx, actor)
    found = store.lock_newest_of_user(tx, user.id, NEW_ADDRESS)
    is_valid = (
        found is not None
        and found.used_at is None
        and not is_expired(tx, found)
        and found.tries <= TRIES_MAX
        and not _entered_too_many(tx, user.id)
        and matches_code(found, code or "")
        and account_store.find_user_by_email(tx, found.email) is None
    )
    if found is None or not is_valid:
        raise validation_failed([FieldError("code", "value_invalid", CODE_SENTENCE)])
    store.use_code(tx, found.id)
    account_store.update_user(tx, user.id, email=found.email)
    before, after = {"email": user.email}, {"email": found.email}
    audit.record(tx, actor, "user.edit", user.id, before=before, after=after)
    end_others(tx, actor, user)
    sentence = (
        f"The address of your account is {found.email} now. Sign in with the new address. All other "
        "browsers were signed out."
    )
    notify(tx, user, "address_changed", user.id, sentence, public_url, recipient=user.email)
    return find_member(tx, user.id)
