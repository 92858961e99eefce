"""What waits for the user: broken names, names that others offer, tickets that staff has answered, and
invitations to organizations.

The head of each page counts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.accounts.model import Registrant
from sublet.db import Tx
from sublet.sign_up.codes import ReceivedInvitation
from sublet.sign_up.store import list_received_invitations
from sublet.subdomains.list_store import list_own
from sublet.subdomains.model import SubdomainFilter
from sublet.subdomains.transfers import store as transfer_store
from sublet.subdomains.transfers.model import NameTransfer, TransferFilter
from sublet.tickets import store as ticket_store
from sublet.tickets.model import Ticket, TicketFilter

WAITING_MAX = 10
"""The maximum number of counted names, and of shown offers, tickets and invitations."""
ANSWERED_FOR = timedelta(days=7)
"""How long an answered ticket waits, unless the browser has shown the answer."""
READ_COOKIE = "__Host-sublet_read"
"""The cookie with the marks of the answers that the browser has shown, the newest first."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of names whose delegation is broken, open offers to the user, tickets that were answered
    lately, and open invitations to the user, the newest first.
    """

    broken: int = 0
    offers: tuple[NameTransfer, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    invitations: tuple[ReceivedInvitation, ...] = ()

    @property
    def counts(self) -> Mapping[str, tuple[int, str]]:
        """The count of each page of the navigation, and what is counted."""
        return {
            "/names": (self.broken, "broken"),
            "/transfers": (len(self.offers), "offered to you"),
            "/tickets": (len(self.tickets), "answered"),
        }

    @property
    def account_counts(self) -> Mapping[str, tuple[int, str]]:
        """The count of each page of the user's menu, and what is counted."""
        return {"/organizations": (len(self.invitations), "invitations")}

    def without_read(self, marks: str) -> "Waiting":
        """Return what waits besides the answers of `READ_COOKIE`."""
        read = marks.split("_")
        unread = (each for each in self.tickets if read_mark(each.id, each.last_message_at) not in read)
        return replace(self, tickets=tuple(unread))


NOTHING_WAITS = Waiting()


def read_mark(ticket_id: int, last_message_at: datetime) -> str:
    """Return the mark of a ticket's newest message."""
    return f"{ticket_id}-{last_message_at:%Y%m%d%H%M%S%f}"


def add_mark(marks: str, mark: str) -> str:
    """Return the marks of `READ_COOKIE` with one more. Other text in the cookie is dropped."""
    kept = [
        each
        for each in marks.split("_")[: 2 * WAITING_MAX]
        if each.isascii() and each.replace("-", "").isdecimal()
    ]
    return "_".join(dict.fromkeys((mark, *kept)))


def read_waiting(tx: Tx, registrant: Registrant, request_id: str) -> Waiting:
    """Return what waits for the user or the organization for which the user acts.

    Invitations are the user's in any case.
    """
    offers = transfer_store.list_own(
        tx,
        registrant.user,
        registrant.holder,
        registrant.restrictions,
        TransferFilter(state="pending", direction="received"),
        WAITING_MAX,
        None,
    )
    broken = list_own(tx, registrant.actor(request_id), SubdomainFilter(health="broken"), WAITING_MAX, None)
    answered = ticket_store.list_own(
        tx, registrant.actor(request_id), TicketFilter(status="answered"), WAITING_MAX, None
    )
    since = tx.now - ANSWERED_FOR
    recent = tuple(each for each in answered if each.last_message_at > since)
    invitations = list_received_invitations(tx, registrant.user.email, WAITING_MAX)
    return Waiting(len(broken), tuple(offers), recent, tuple(invitations))
