"""Mail about new and former members of an organization, and about changes of roles."""

from collections.abc import Sequence

from sublet.accounts.membership_store import find_account
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
    people = ":".join(str(each.id) for each in about)
    account = find_account(tx, organization.id)
    assert account is not None  # noqa: S101 - the caller has locked it
    for each in (account, *others):
        message = render("organization", name=each.name, organization=organization.name, sentence=sentence)
        reference = f"organization:{organization.id}:{people}:{new_request_id()}"
        enqueue(
            tx,
            each,
            message,
            reference=reference,
            page="/members" if each.is_organization else "/organizations",
        )
