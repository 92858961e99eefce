"""Mail about members and roles of an organization, and about tokens."""

from collections.abc import Iterable, Sequence

from sublet.accounts.membership_store import find_account, list_members
from sublet.accounts.model import OWNER, Organization, Token, User
from sublet.accounts.store import find_organization, find_role
from sublet.db import Tx
from sublet.ids import new_request_id
from sublet.mail.letter import render
from sublet.mail.outbox import enqueue
from sublet.sign_in.notices import notify


def notify_owners(
    tx: Tx, organization: Organization, sentence: str, *others: User, about: Sequence[User]
) -> None:
    """Mail a sentence to all owners of an organization and to `others`, regardless of `reminders`.

    Call `lock_members` first.

    `about` are the users whose addresses the sentence contains. The mail's reference has their ids, so that
    deleting one of these users erases the mail.
    """
    account = find_account(tx, organization.id)
    assert account is not None  # noqa: S101 - the caller has locked it
    _notify(tx, organization, sentence, (account, *others), about)


def notify_members(tx: Tx, organization: Organization, sentence: str, *, about: Sequence[User]) -> None:
    """Mail a sentence to all members of an organization that is about to end.

    `about` is as in `notify_owners`.
    """
    _notify(tx, organization, sentence, [each.user for each in list_members(tx, organization.id)], about)


def _notify(
    tx: Tx, organization: Organization, sentence: str, recipients: Iterable[User], about: Sequence[User]
) -> None:
    people = ":".join(str(each.id) for each in about)
    for each in recipients:
        message = render("organization", name=each.name, organization=organization.name, sentence=sentence)
        reference = f"organization:{organization.id}:{people}:{new_request_id()}"
        page = "/members" if each.is_organization else "/organizations"
        enqueue(tx, each, message, reference=reference, page=page)


def notify_of_token(tx: Tx, user: User, token: Token, what: str, public_url: str) -> None:
    """Mail what happened to a token of this user, such as `was created`.

    The mail doesn't have the token's name, because its creator chose it.
    """
    scopes = ", ".join(token.scopes)
    until = (
        f"until {token.expires_at:%Y-%m-%d %H:%M} UTC" if token.expires_at is not None else "without an end"
    )
    sentence = f"The token {token.id} {what}. It is valid {until}, and may use: {scopes}."
    page = f"/tokens/{token.id}"
    if token.organization_id is None:
        notify(tx, user, "token", token.id, f"{sentence} It acts for your account.", public_url, page=page)
        return
    organization = find_organization(tx, token.organization_id)
    assert organization is not None  # noqa: S101 - organizations are never deleted
    others = [] if find_role(tx, user.id, organization.id) == OWNER else [user]
    notify_owners(
        tx,
        organization,
        f"{sentence} It belongs to {user.email} and acts for the organization.",
        *others,
        about=[user],
    )
