"""Mails about who joins and leaves an organization, and about roles."""

from sublet.accounts.memberships import find_or_add_account
from sublet.accounts.model import Organization, User
from sublet.db import Tx
from sublet.ids import new_request_id
from sublet.mail.outbox import enqueue
from sublet.mail.templates import render


def tell(tx: Tx, organization: Organization, sentence: str, *others: User) -> None:
    """Mail a sentence to all owners of an organization, and to these users. Users without reminders get it too."""
    owners = find_or_add_account(tx, organization.id)
    for each in (owners, *others):
        message = render("organization", name=each.name, organization=organization.name, sentence=sentence)
        reference = f"organization:{organization.id}:{new_request_id()}"
        enqueue(tx, each, reference=reference, subject=message.subject, text=message.text)
