"""Add a user (the operator's `sublet user add`)."""

from sublet import audit
from sublet.accounts import store
from sublet.accounts.fields import check_email, check_free_quota, check_text
from sublet.accounts.find import member_of
from sublet.accounts.model import Member
from sublet.accounts.organizations import add_organization, find_or_add_organization
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, validation_failed


def add_user(
    tx: Tx,
    actor: Actor,
    email: str,
    name: str,
    organization: str | None = None,
    *,
    free_quota: int | None = None,
) -> Member:
    """Add a user, with an organization of its own named after the address, or in the one that is named.

    An organization is named by name, slug or id; where none is meant, one of this name is added.

    Raises, in this order:
        ValidationFailed: all wrong fields: email, name, free_quota.
        Conflict: a user has this address.
        Conflict: several organizations are meant.
        ValidationFailed: no organization is meant, and the text is no good name for a new one.
    """
    email, errors = check_email(email)
    name, name_errors = check_text("name", name)
    errors = [*errors, *name_errors, *check_free_quota(free_quota)]
    if errors:
        raise validation_failed(errors)
    if store.find_user_by_email(tx, email) is not None:
        raise Conflict(
            f"There is a user {email} already. Give another e-mail address, or change that user with `sublet user edit`."
        )
    joined = (
        add_organization(tx, actor, email)
        if organization is None
        else find_or_add_organization(tx, actor, organization)
    )
    user_id = store.insert_user(tx, email, name, joined.id, free_quota)
    audit.record(
        tx,
        actor,
        "user.add",
        "user",
        user_id,
        after={"email": email, "name": name, "organization_id": joined.id, "free_quota": free_quota},
    )
    user = store.find_user(tx, user_id)
    assert user is not None  # noqa: S101 - just added
    return member_of(tx, user)
