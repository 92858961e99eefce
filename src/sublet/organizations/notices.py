"""Mail about new and former members of an organization, and about changes of roles."""

from collections.abc import Iterable, Sequence

from sublet.accounts.membership_store import find_account, list_members
from sublet.accounts.model import Organization, User
from sublet.db import Tx
from sublet.ids import new_request_id
from sublet.mail.outbox import enqueue
from sublet.mail.templates import render


def notify_owners(
    tx: Tx, organization: Organization, sentence: str, *others: User, about: Sequence[User]
) -> None:
    """Mail a sentence to all owners of an organization and to `others`, regardless of `reminders`. Call `lock_members` first.

    `about` are the users whose addresses the sentence contains. The mail's reference has their ids, so that deleting one of these users
    erases the mail.
    """
    account = find_account(tx, organization.id)
    assert account is not None  # noqa: S101 - the caller has locked it
    _notify(tx, organization, sentence, (account, *others), about)


def notify_members(tx: Tx, organization: Organization, sentence: str, *, about: Sequence[User]) -> None:
    """Mail a sentence to all members of an organization that is about to end. `about` is as in `notify_owners`."""
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
