"""Edit a user (the operator's `sublet user edit`)."""

from dataclasses import dataclass

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_email, check_free_quota, check_text
from sublet.accounts.find import find_user, lock_user, member_of
from sublet.accounts.model import Member, User
from sublet.accounts.organizations import find_or_add_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, ValidationFailed, validation_failed


@dataclass(frozen=True, slots=True)
class UserEdit:
    """What is to change; None leaves it. `default_free_quota` takes a user back to the setting's quota."""

    email: str | None = None
    name: str | None = None
    organization: str | None = None
    free_quota: int | None = None
    default_free_quota: bool = False
    reminders: bool | None = None


def edit_user(tx: Tx, actor: Actor, identifier: str, edit: UserEdit) -> Member:
    """Change a user's address, name, organization, free quota or reminders. What is the same already leaves no event.

    Names, credits and tickets stay with the user; what was granted stays with the organization that it leaves.

    Raises, in this order:
        NotFound: no such user.
        ValidationFailed: nothing is to change, or all wrong fields.
        Conflict: another user has this address.
        Conflict: several organizations are meant.
        ValidationFailed: no organization is meant, and the text is no good name for a new one.
    """
    user = lock_user(tx, identifier)
    values = _checked(edit)
    if values.get("email", user.email) != user.email and store.find_user_by_email(tx, str(values["email"])):
        raise Conflict(f"There is another user {values['email']}. Give another e-mail address.")
    if edit.organization is not None:
        values["organization_id"] = find_or_add_organization(tx, actor, edit.organization).id
    before = {name: getattr(user, name) for name, value in values.items() if getattr(user, name) != value}
    if before:
        after = {name: values[name] for name in before}
        store.update_user(tx, user.id, **after)
        audit.record(tx, actor, "user.edit", "user", user.id, before=before, after=after)
    return _reread(tx, user)


def _checked(edit: UserEdit) -> dict[str, object]:
    if edit == UserEdit():
        raise ValidationFailed(
            "Say what is to change: the e-mail address, name, organization, free quota or reminders."
        )
    values: dict[str, object] = {}
    errors: list[FieldError] = []
    if edit.email is not None:
        values["email"], errors = check_email(edit.email)
    if edit.name is not None:
        values["name"], name_errors = check_text("name", edit.name)
        errors = [*errors, *name_errors]
    if edit.default_free_quota or edit.free_quota is not None:
        values["free_quota"] = edit.free_quota
        errors = [*errors, *check_free_quota(edit.free_quota)]
    if edit.reminders is not None:
        values["reminders"] = edit.reminders
    if edit.default_free_quota and edit.free_quota is not None:
        errors.append(FieldError("free_quota", "value_invalid", "Give a quota, or the default; not both."))
    if errors:
        raise validation_failed(errors)
    return values


def _reread(tx: Tx, user: User) -> Member:
    return member_of(tx, find_user(tx, str(user.id)))
