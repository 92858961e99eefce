"""Invite a user to an organization, and revoke invitations (docs/spec-choices.md, "Organizations")."""

from datetime import timedelta

from sublet import audit
from sublet.accounts import membership_store
from sublet.accounts.fields import check_email
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import (
    Conflict,
    OrganizationNotFound,
    RateLimited,
    validation_failed,
)
from sublet.ids import parse_id
from sublet.mail.outbox import enqueue_to
from sublet.mail.templates import render
from sublet.organizations.find import check_role, lock_as_owner
from sublet.sign_up import store
from sublet.sign_up.codes import MEMBERSHIP, VALID_FOR, MailedCode, new_code
from sublet.sign_up.mailbox_limit import refuse_full_mailbox
from sublet.sign_up.sign_up import CONFIRM_PATH

DAY = timedelta(days=1)
OF_ORGANIZATION_PER_DAY = 50
"""The maximum number of invitations that an organization sends within 24 hours."""
TO_ADDRESS_PER_DAY = 5
"""The maximum number of invitations that an address gets within 24 hours, from all organizations."""


def invite_member(
    tx: Tx, actor: Actor, identifier: str, email: str | None, role: str | None, public_url: str
) -> MailedCode:
    """Mail an invitation, valid for a week, and return it. An open invitation to the same address becomes invalid.

    Addresses with and without an account get the same answer in the same time.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_as_owner`.
        ValidationFailed: all invalid fields: email, role; a role that allows more than the token (`exceeds_token`).
        Conflict: a member has this address.
        RateLimited: the address got too many mails from all requests within an hour; the organization has sent, or the address has got, the
            maximum number of invitations within 24 hours.
    """
    own = lock_as_owner(tx, actor, identifier)
    organization = own.organization
    email, errors = check_email(email or "")
    errors = [*errors, *check_role(actor, role)]
    if errors or role is None:
        raise validation_failed(errors)
    member_id = membership_store.find_member_id(tx, organization.id, email)
    if member_id is not None:
        raise Conflict(f"{email} is already a member. Change the role with PATCH …/members/{member_id}.")
    refuse_full_mailbox(tx, email)
    _refuse_too_many(tx, organization.id, email)
    for each in store.list_open_invitations(tx, organization.id):
        if each.email == email:
            store.use_code(tx, each.id)
    new = new_code()
    code_id = store.insert_code(
        tx,
        new,
        purpose=MEMBERSHIP,
        email=email,
        name="",
        organization_id=organization.id,
        role=role,
        invited_by_user_id=own.user.id,
        network="",
        is_proven=True,
        expires_at=tx.now + VALID_FOR[MEMBERSHIP],
    )
    secret = new.link_token.reveal()
    message = render(
        "membership",
        role=role,
        inviter=own.user.email,
        slug=organization.slug,
        link=f"{public_url}{CONFIRM_PATH}?token={secret}",
        public_url=public_url,
    )
    expires_at = tx.now + VALID_FOR[MEMBERSHIP]
    enqueue_to(tx, email, message, reference=f"code:{code_id}", expires_at=expires_at)
    after = {"email": email, "role": role, "organization_id": organization.id}
    audit.record(tx, actor, "organization.invite", code_id, object_type="mailed_code", after=after)
    return find_invitation(tx, organization.id, str(code_id))


def find_invitation(tx: Tx, organization_id: int, identifier: str) -> MailedCode:
    """Return an open invitation to an organization.

    Raises:
        OrganizationNotFound: no invitation has this id, or it was accepted or revoked, or has expired.
    """
    code_id = parse_id(identifier)
    found = store.find_open_invitation(tx, organization_id, code_id) if code_id is not None else None
    if found is None:
        raise OrganizationNotFound(
            "No open invitation has this id. Check the id; GET …/invitations lists the open invitations."
        )
    return found


def revoke_invitation(tx: Tx, actor: Actor, identifier: str, invitation: str) -> MailedCode:
    """Revoke an open invitation, and return it.

    Raises, in this order:
        AccountSuspended, OrganizationNotFound, Conflict, InsufficientRole: raised by `lock_as_owner`.
        OrganizationNotFound: no open invitation has this id.
    """
    own = lock_as_owner(tx, actor, identifier)
    found = find_invitation(tx, own.organization.id, invitation)
    store.use_code(tx, found.id)
    after = {"organization_id": own.organization.id}
    audit.record(
        tx, actor, "organization.revoke_invitation", found.id, object_type="mailed_code", after=after
    )
    return found


def _refuse_too_many(tx: Tx, organization_id: int, email: str) -> None:
    since = tx.now - DAY
    wait = int(DAY.total_seconds())
    if store.count_invitations(tx, since, organization_id=organization_id) >= OF_ORGANIZATION_PER_DAY:
        raise RateLimited(
            f"The organization sent {OF_ORGANIZATION_PER_DAY} invitations within 24 hours, which is the maximum. Wait a day.",
            retry_after_seconds=wait,
        )
    if store.count_invitations(tx, since, email=email) >= TO_ADDRESS_PER_DAY:
        raise RateLimited(
            f"This address got {TO_ADDRESS_PER_DAY} invitations within 24 hours, which is the maximum. Wait a day.",
            retry_after_seconds=wait,
        )
