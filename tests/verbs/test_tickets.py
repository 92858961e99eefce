"""The pages of lists of tickets, their audit events and constraints; on both databases.

Filters and the order of lists: tests/contract/test_spec_tickets.py.
"""

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import DatabaseError

from sublet.audit import EventFilter, search_events
from sublet.ids import Position
from sublet.tickets import store
from sublet.tickets.model import Ticket, TicketFilter, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.staff import close, staff_reply
from support.registry import OPERATOR, Registry

SHOP = "shop.example.test"
QUESTION = TicketRequest(subject="A question", message="Canary in the body: how?", fqdn=SHOP)


def test_pages_join_without_gap_or_repetition(registry: Registry) -> None:
    for minutes in (0, 0, 0, 1, 1, 2, 3):
        registry.advance(minutes=minutes)
        registry.write(open_ticket, registry.actor(), TicketRequest("A question", "How?"))
    whole = registry.read(store.list_own, registry.actor(), TicketFilter(), 100, None)
    for limit in (1, 2, 3):
        pages: list[Ticket] = []
        after: Position | None = None
        while page := registry.read(store.list_own, registry.actor(), TicketFilter(), limit, after):
            assert len(page) <= limit
            pages += page
            assert len(pages) <= len(whole)  # a page that repeats would never end
            after = Position(page[-1].last_message_at, page[-1].id)
        assert pages == whole
    second = Position(whole[1].last_message_at, whole[1].id)
    filtered = registry.read(store.list_own, registry.actor(), TicketFilter(status="open"), 2, second)
    assert filtered == whole[2:4]


def test_every_change_is_one_event_without_the_text(registry: Registry) -> None:
    held = registry.register(SHOP)
    ticket_id = registry.write(open_ticket, registry.actor(), QUESTION).id
    registry.write(staff_reply, OPERATOR, str(ticket_id), "Canary in the answer", "Olga")
    registry.write(reply, registry.actor(), str(ticket_id), "Canary in the reply", None)
    registry.write(close, OPERATOR, str(ticket_id))
    events = registry.read(search_events, EventFilter(objects=[("ticket", ticket_id)]), 10)[::-1]
    assert [(each.action, each.actor_kind) for each in events] == [
        ("ticket.open", "user"),
        ("ticket.staff_reply", "operator"),
        ("ticket.reply", "user"),
        ("ticket.close", "operator"),
    ]
    after = [each.after or {} for each in events]
    assert [(each.before or {}).get("status") for each in events] == [None, "open", "answered", "open"]
    assert [each["status"] for each in after] == ["open", "answered", "open", "closed"]
    assert after[0]["message_characters"] == len(QUESTION.message or "")
    assert after[0]["subdomain_id"] == held.id
    ann = registry.users["ann"]
    assert (events[2].user_id, events[2].token_id, events[2].request_id) == (ann, 1, "r-1")
    written = repr(events)
    assert "Canary" not in written
    assert "A question" not in written


def test_the_database_refuses_impossible_tickets_and_messages(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(open_ticket, registry.actor(), QUESTION)
    for table, wrong in (
        (
            store.tickets,
            {"status": "gone", "type": "x", "priority": "x", "user_id": 99, "subdomain_id": 99},
        ),
        (store.messages, {"author_type": "robot", "message_format": "html", "ticket_id": 99}),
    ):
        row = registry.read(lambda tx, of=table: dict(tx.connection.execute(select(of)).mappings().one()))  # type: ignore[misc]
        for name, value in wrong.items():
            statement = insert(table).values(row | {"id": 7, name: value})
            with pytest.raises(DatabaseError):
                registry.write(lambda tx, statement=statement: tx.connection.execute(statement).rowcount)  # type: ignore[misc]
        good = insert(table).values(row | {"id": 7})
        registry.write(lambda tx, good=good: tx.connection.execute(good).rowcount)  # type: ignore[misc]
