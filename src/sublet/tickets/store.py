"""The SQL of tickets and their messages."""

from typing import Any

from msgspec.structs import asdict
from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Select,
    String,
    Table,
    Text,
    bindparam,
    func,
    insert,
    select,
    update,
)

from sublet.accounts.store import within_names
from sublet.audit import Actor
from sublet.db import Pages, Prepared, Tx
from sublet.ids import Position
from sublet.schema import BIG_ID, Instant, metadata, older
from sublet.subdomains.store import subdomains
from sublet.tickets.model import Message, NewMessage, Ticket, TicketFilter

tickets = Table(
    "tickets",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("subdomain_id", ForeignKey("subdomains.id")),
    Column("type", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", String(16), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("requester_email", String(254), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_message_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    CheckConstraint("type IN ('contact', 'abuse', 'support')", name="type"),
    CheckConstraint("status IN ('open', 'answered', 'closed')", name="status"),
    CheckConstraint("priority IN ('low', 'normal', 'high', 'urgent')", name="priority"),
    Index("ix_tickets_user_id_last_message_at", "user_id", "last_message_at", "id"),
    Index("ix_tickets_last_message_at", "last_message_at", "id"),
    sqlite_autoincrement=True,
)

messages = Table(
    "messages",
    metadata,
    Column("id", BIG_ID, primary_key=True),
    Column("ticket_id", ForeignKey("tickets.id"), nullable=False),
    Column("author_type", String(16), nullable=False),
    Column("author_name", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("message_format", String(16), nullable=False),
    Column("created_at", Instant, nullable=False),
    CheckConstraint("author_type IN ('user', 'staff', 'system')", name="author_type"),
    CheckConstraint("message_format IN ('text', 'markdown')", name="message_format"),
    Index("ix_messages_ticket_id", "ticket_id", "id"),
    sqlite_autoincrement=True,
)

_TICKETS: Select[Any] = select(
    *(subdomains.c.fqdn if name == "subdomain" else tickets.c[name] for name in Ticket.__struct_fields__[:-1])
).select_from(tickets.outerjoin(subdomains))
"""The fields of `Ticket` without the messages."""
_MESSAGE = tuple(messages.c[name] for name in Message.__struct_fields__)
_BY_ID = _TICKETS.where(tickets.c.id == bindparam("ticket_id"))
_ANY_BY_ID = Prepared(_BY_ID)
_OWN_BY_ID = Prepared(_BY_ID.where(tickets.c.user_id == bindparam("owner_id")))


def find_ticket(tx: Tx, ticket_id: int, *, user_id: int | None = None) -> Ticket | None:
    """Return the ticket with this id, without its messages, or None.

    With `user_id`, return only a ticket of that user.
    """
    if user_id is None:
        row = _ANY_BY_ID.one_or_none(tx, ticket_id=ticket_id)
    else:
        row = _OWN_BY_ID.one_or_none(tx, ticket_id=ticket_id, owner_id=user_id)
    return Ticket(*row) if row is not None else None


_OF_TICKET = messages.c.ticket_id == bindparam("of")
_MESSAGES = Prepared(select(*_MESSAGE).where(_OF_TICKET).order_by(messages.c.id))
_COUNT = Prepared(select(func.count()).select_from(messages).where(_OF_TICKET))


def list_messages(tx: Tx, ticket_id: int) -> tuple[Message, ...]:
    """Return the messages of a ticket, oldest first."""
    return tuple(Message(*row) for row in _MESSAGES.all(tx, of=ticket_id))


def count_messages(tx: Tx, ticket_id: int) -> int:
    """Return the number of messages of a ticket."""
    return int(_COUNT.value(tx, of=ticket_id))


_OWN = Pages(
    _TICKETS.where(tickets.c.user_id == bindparam("owner_id")),
    tickets.c.last_message_at,
    tickets.c.id,
    lambda rows: [Ticket(*row) for row in rows],
)


def list_own(tx: Tx, actor: Actor, wanted: TicketFilter, limit: int, after: Position | None) -> list[Ticket]:
    """Return the user's tickets that match the filters and the token's restrictions, newest message first,
    without their messages.
    """
    is_for_all = actor.restrictions.allows_all_names
    if wanted == TicketFilter() and is_for_all:
        return _OWN.read(tx, limit, after, owner_id=actor.holder_id)
    own = _TICKETS.where(tickets.c.user_id == actor.holder_id)
    if not is_for_all:
        own = own.where(within_names(actor.restrictions, subdomains.c.fqdn))
    query = _page(own, wanted, limit, after)
    return [Ticket(*row) for row in tx.connection.execute(query)]


ANSWERED_TICKETS = select(tickets.c.id, tickets.c.last_message_at).where(
    (tickets.c.user_id == bindparam("owner_id"))
    & (tickets.c.status == "answered")
    & (tickets.c.last_message_at > bindparam("since", type_=Instant))
)
"""A query of the tickets of the user `owner_id` that were answered after `since`, for the stores of other
tables.
"""


def list_tickets(tx: Tx, wanted: TicketFilter, limit: int) -> list[Ticket]:
    """Return the tickets of all users that match the filters, newest message first,
    without their messages.
    """
    return [Ticket(*row) for row in tx.connection.execute(_page(_TICKETS, wanted, limit, None))]


def _page(query: Select[Any], wanted: TicketFilter, limit: int, after: Position | None) -> Select[Any]:
    if wanted.status is not None:
        query = query.where(tickets.c.status == wanted.status)
    if wanted.type is not None:
        query = query.where(tickets.c.type == wanted.type)
    if wanted.subdomain is not None:
        query = query.where(subdomains.c.fqdn == wanted.subdomain)
    if wanted.archived is not None:
        is_closed = tickets.c.status == "closed"
        query = query.where(is_closed if wanted.archived else ~is_closed)
    if after is not None:
        query = query.where(older(tickets.c.last_message_at, tickets.c.id, after))
    return query.order_by(tickets.c.last_message_at.desc(), tickets.c.id.desc()).limit(limit)


_TICKET_ADDED = Prepared(insert(tickets).returning(tickets.c.id))
_MESSAGE_ADDED = Prepared(insert(messages).returning(messages.c.id))
_STATUS_CHANGED = Prepared(
    update(tickets)
    .where(tickets.c.id == bindparam("ticket_id"))
    .values(status=bindparam("to"), last_message_at=bindparam("at"), updated_at=bindparam("at"))
)


def insert_ticket(tx: Tx, **values: object) -> int:
    """Store a ticket without messages, and return its id."""
    at = {"created_at": tx.now, "last_message_at": tx.now, "updated_at": tx.now}
    return int(_TICKET_ADDED.value(tx, **at, **values))


def insert_message(tx: Tx, ticket_id: int, message: NewMessage) -> int:
    """Store a message of a ticket, and return its id. Doesn't change the ticket's row."""
    return int(_MESSAGE_ADDED.value(tx, ticket_id=ticket_id, created_at=tx.now, **asdict(message)))


def update_status(tx: Tx, ticket_id: int, status: str) -> None:
    """Store a ticket's status, and the current time as the time of its last message."""
    _STATUS_CHANGED.run(tx, ticket_id=ticket_id, to=status, at=tx.now)


def update_priority(tx: Tx, ticket_id: int, priority: str) -> None:
    """Store a ticket's priority."""
    changed = update(tickets).where(tickets.c.id == ticket_id).values(priority=priority, updated_at=tx.now)
    tx.connection.execute(changed)
