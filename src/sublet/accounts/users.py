"""Add, edit, suspend and unsuspend users (`sublet user …`)."""

from msgspec import Struct

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_email, check_free_quota, check_reason, check_text
from sublet.accounts.find import find_member, lock_user, refuse_account
from sublet.accounts.model import Member
from sublet.accounts.organizations import (
    add_organization,
    find_or_add_organization,
    join_own,
    lock_organization,
    refuse_shared,
    remove_member_if_any,
)
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, FieldError, ValidationFailed, validation_failed


def add_user(
    tx: Tx,
    actor: Actor,
    email: str,
    name: str,
    organization: str | None = None,
    *,
    free_quota: int | None = None,
    signed_up: bool = False,
) -> Member:
    """Add a user, and return the user and the user's own organization.

    `organization` is the name, slug or id of an existing organization, or the name of a new one. Without
    `organization`, a new organization is named after the e-mail address. `signed_up` means that the user
    opened the account without the operator.

    Raises, in this order:
        ValidationFailed: all invalid fields: email, name, free_quota.
        Conflict: another user has this address.
        Conflict: `organization` matches several organizations.
        NotFound: the organization is deleted.
        Conflict: the organization has an account.
        ValidationFailed: `organization` matches no organization, and is not a valid name for a new one.
    """
    email, errors = check_email(email)
    name, name_errors = check_text("name", name)
    errors = [*errors, *name_errors, *check_free_quota(free_quota)]
    if errors:
        raise validation_failed(errors)
    if store.find_user_by_email(tx, email) is not None:
        raise Conflict(f"There is a user {email} already, so none was added. Give another e-mail address.")
    joined = (
        add_organization(tx, actor, email)
        if organization is None
        else find_or_add_organization(tx, actor, organization)
    )
    refuse_shared(tx, joined)
    lock_organization(tx, joined, ())
    user_id = store.insert_user(tx, email, name, joined.id, free_quota, tx.now if signed_up else None)
    after = {"email": email, "name": name, "organization_id": joined.id, "free_quota": free_quota}
    audit.record(tx, actor, "user.add", user_id, after=after)
    join_own(tx, actor, user_id, joined)
    return find_member(tx, user_id)


class UserEdit(Struct, frozen=True):
    """The values to change; None keeps a value.

    `default_free_quota` removes the user's own quota, so that the default applies.
    """

    email: str | None = None
    name: str | None = None
    organization: str | None = None
    free_quota: int | None = None
    default_free_quota: bool = False
    reminders: bool | None = None


def edit_user(tx: Tx, actor: Actor, identifier: str, edit: UserEdit) -> Member:
    """Change a user's address, name, organization, free quota or reminders.

    Unchanged values leave no audit event.

    Names, credits and tickets stay with the user. Grants stay with the organization that the user leaves, and
    the user's tokens for that organization are revoked.

    Raises, in this order:
        NotFound: no user has this address or id.
        ValidationFailed: there is nothing to change; or all invalid fields.
        Conflict: the user is the account of an organization, whose address, name and organization can't be
            changed.
        Conflict: another user has this address.
        Conflict: `organization` matches several organizations.
        NotFound: the organization is deleted.
        Conflict: the organization has an account.
        ValidationFailed: `organization` matches no organization, and is not a valid name for a new one.
    """
    user = lock_user(tx, identifier)
    values = _check_edit(edit)
    if edit.email is not None or edit.name is not None or edit.organization is not None:
        refuse_account(user)
    if values.get("email", user.email) != user.email and store.find_user_by_email(tx, str(values["email"])):
        raise Conflict(f"{values['email']} is the address of another user. Give another e-mail address.")
    if edit.organization is not None:
        joined = find_or_add_organization(tx, actor, edit.organization)
        refuse_shared(tx, joined)
        values["organization_id"] = joined.id
        store.lock_organizations(tx, {user.organization_id, joined.id})
    before = {name: getattr(user, name) for name, value in values.items() if getattr(user, name) != value}
    if "organization_id" in before:
        remove_member_if_any(tx, actor, user.id, user.organization_id)
        join_own(tx, actor, user.id, joined)
    if before:
        after = {name: values[name] for name in before}
        store.update_user(tx, user.id, **after)
        audit.record(tx, actor, "user.edit", user.id, before=before, after=after)
    return find_member(tx, user.id)


def _check_edit(edit: UserEdit) -> dict[str, object]:
    if edit == UserEdit():
        raise ValidationFailed(
            "Give a value to change: the e-mail address, name, organization, free quota or reminders."
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
        errors.append(
            FieldError("free_quota", "value_invalid", "Give either a quota or the default, not both.")
        )
    if errors:
        raise validation_failed(errors)
    return values


def suspend_user(tx: Tx, actor: Actor, identifier: str, reason: str | None = None) -> Member:
    """Suspend a user, who may then only read and open tickets. The user's names stay in the DNS.

    Raises, in this order:
        NotFound: no user has this address or id.
        ValidationFailed: the reason is too long or has unprintable characters.
        Conflict: the user is suspended already.
    """
    user = lock_user(tx, identifier)
    reason, errors = check_reason(reason)
    if errors:
        raise validation_failed(errors)
    if user.suspended_at is not None:
        raise Conflict(
            f"{user.email} is suspended already, since {user.suspended_at:%Y-%m-%d %H:%M} UTC. No action "
            "needed."
        )
    store.update_user(tx, user.id, suspended_at=tx.now, suspended_reason=reason)
    after = {"suspended_at": tx.now.isoformat(), "suspended_reason": reason}
    audit.record(tx, actor, "user.suspend", user.id, after=after)
    return find_member(tx, user.id)


def unsuspend_user(tx: Tx, actor: Actor, identifier: str) -> Member:
    """Lift a user's suspension.

    Raises, in this order:
        NotFound: no user has this address or id.
        Conflict: the user is not suspended.
    """
    user = lock_user(tx, identifier)
    if user.suspended_at is None:
        raise Conflict(f"{user.email} is not suspended. No action needed.")
    store.update_user(tx, user.id, suspended_at=None, suspended_reason=None)
    before = {"suspended_at": user.suspended_at.isoformat(), "suspended_reason": user.suspended_reason}
    audit.record(tx, actor, "user.unsuspend", user.id, before=before)
    return find_member(tx, user.id)
