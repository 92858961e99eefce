"""What waits for the user: broken names, names that others offer, tickets that staff has answered, and
invitations to organizations.

The head of each page counts them, and the list of names shows them.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.accounts.model import Registrant
from sublet.db import Tx
from sublet.operations.call import Call
from sublet.sign_up.codes import ReceivedInvitation
from sublet.sign_up.store import list_received_invitations
from sublet.structs import replace
from sublet.subdomains.transfers import store as transfer_store
from sublet.subdomains.transfers.model import NameTransfer, TransferFilter
from sublet.tickets import store as ticket_store
from sublet.tickets.model import Ticket, TicketFilter
from sublet.web.waiting_store import BROKEN, INVITATION, OFFER, TICKET, list_waiting

WAITING_MAX = 10
"""The maximum number of counted names, and of shown offers, tickets and invitations."""
ANSWERED_FOR = timedelta(days=7)
"""How long an answered ticket waits, unless the browser has shown the answer."""
READ_COOKIE = "__Host-sublet_read"
"""The cookie with the marks of the answers that the browser has shown, the newest first."""


class Waiting(Struct, frozen=True):
    """The numbers of names whose delegation is broken, of open offers to the user, and of open invitations to
    the user; and the marks of the tickets that were answered lately.
    """

    broken: int = 0
    offers: int = 0
    invitations: int = 0
    answers: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[str, tuple[int, str]]:
        """The count of each page of the navigation, and what is counted."""
        return {
            "/names": (self.broken, "broken"),
            "/transfers": (self.offers, "offered to you"),
            "/tickets": (len(self.answers), "answered"),
        }

    @property
    def account_counts(self) -> Mapping[str, tuple[int, str]]:
        """The count of each page of the user's menu, and what is counted."""
        return {"/organizations": (self.invitations, "to answer")}

    def without_read(self, marks: str) -> "Waiting":
        """Return what waits besides the answers of `READ_COOKIE`."""
        read = marks.split("_")
        return replace(self, answers=tuple(each for each in self.answers if each not in read))


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


def count_waiting(tx: Tx, registrant: Registrant) -> Waiting:
    """Return the numbers of what waits for the user or the organization for which the user acts.

    Offers and invitations are the user's in any case.
    """
    found: dict[str, list[str]] = {BROKEN: [], OFFER: [], TICKET: [], INVITATION: []}
    for kind, row_id, at in list_waiting(tx, registrant, WAITING_MAX, answered_since=tx.now - ANSWERED_FOR):
        found[kind].append(read_mark(row_id, at))
    return Waiting(len(found[BROKEN]), len(found[OFFER]), len(found[INVITATION]), tuple(found[TICKET]))


class WaitingItems(Struct, frozen=True):
    """The offers, tickets and invitations that `Waiting` counts, the newest first."""

    offers: tuple[NameTransfer, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    invitations: tuple[ReceivedInvitation, ...] = ()


def list_waiting_items(tx: Tx, call: Call[None, None], waiting: Waiting) -> WaitingItems:
    """Return the items that `waiting` counts. A kind without items takes no query."""
    offers, answered, invitations = [], [], []
    if waiting.offers:
        received = TransferFilter(state="pending", direction="received")
        of = call.registrant.user, call.registrant.holder, call.registrant.restrictions
        offers = transfer_store.list_own(tx, *of, received, WAITING_MAX, None)
    if waiting.answers:
        answered = ticket_store.list_own(tx, call.actor(), TicketFilter(status="answered"), WAITING_MAX, None)
    if waiting.invitations:
        invitations = list_received_invitations(tx, call.registrant.user.email, WAITING_MAX)
    tickets = [each for each in answered if read_mark(each.id, each.last_message_at) in waiting.answers]
    return WaitingItems(tuple(offers), tuple(tickets), tuple(invitations))
