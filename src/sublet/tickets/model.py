"""The types of tickets, messages and requests, and their allowed values."""

from datetime import datetime

from msgspec import Struct

from sublet.ids import ticket_number

TICKET_TYPES = ("contact", "abuse", "support")
TICKET_STATUSES = ("open", "answered", "closed")
PRIORITIES = ("low", "normal", "high", "urgent")
AUTHOR_TYPES = ("user", "staff", "system")
TYPE_DEFAULT = "support"
MESSAGE_FORMAT_DEFAULT = "text"
MESSAGE_FORMATS = ("text", "markdown")


class Message(Struct, frozen=True):
    """A message of a ticket.

    `author_type` is one of `AUTHOR_TYPES`, `message_format` one of `MESSAGE_FORMATS`.
    """

    id: int
    author_type: str
    author_name: str
    message: str
    message_format: str
    created_at: datetime


class NewMessage(Struct, frozen=True):
    """A checked message that isn't stored yet."""

    author_type: str
    author_name: str
    message: str
    message_format: str = MESSAGE_FORMAT_DEFAULT


class Ticket(Struct, frozen=True):
    """A ticket (spec, part 2). `subdomain` is the fqdn of the name that the ticket is about.

    `messages` is empty in lists and after changes. `requester_email` is the address that the user had when
    the ticket was opened.
    """

    id: int
    user_id: int
    type: str
    status: str
    priority: str
    subject: str
    requester_email: str
    subdomain: str | None
    created_at: datetime
    last_message_at: datetime
    updated_at: datetime
    messages: tuple[Message, ...] = ()

    @property
    def ticket_number(self) -> str:
        """The number that users see: `T-000123` for the id 123."""
        return ticket_number(self.id)

    @property
    def archived(self) -> bool:
        """True if the ticket is closed. A closed ticket can be read, but gets no more messages."""
        return self.status == "closed"


class TicketRequest(Struct, frozen=True):
    """The unchecked body of POST /support/tickets. None means that the member was not sent."""

    subject: str | None = None
    message: str | None = None
    type: str | None = None
    subdomain_id: int | None = None
    subdomain: str | None = None
    fqdn: str | None = None
    message_format: str | None = None


class TicketFilter(Struct, frozen=True):
    """The filters of lists of tickets.

    None means any. Only the staff's list filters by `subdomain`, the fqdn of the ticket's name.
    """

    status: str | None = None
    type: str | None = None
    archived: bool | None = None
    subdomain: str | None = None
