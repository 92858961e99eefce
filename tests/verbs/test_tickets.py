"""Finding and listing tickets, their audit events and constraints; on SQLite."""

from dataclasses import replace

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from sublet.credits import store as _credit_store  # noqa: F401 - its tables are referred to
from sublet.ids import Position
from sublet.tickets import store
from sublet.tickets.find import find_for_staff, find_own_ticket
from sublet.tickets.model import Ticket, TicketFilter
from sublet.tickets.reply import reply
from sublet.tickets.staff import close, staff_reply
from support.help_desk import QUESTION, STAFF, HelpDesk


def test_a_ticket_is_found_by_id_and_number_in_any_case(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    with desk.tx() as tx:
        for form in ("{0}", "T-{0:06d}", "t-{0:06d}", "T-{0:09d}"):
            assert find_own_ticket(tx, desk.actor("ann"), form.format(ticket_id)).id == ticket_id
            assert find_for_staff(tx, form.format(ticket_id)).id == ticket_id


def test_lists_start_with_the_newest_message_and_have_no_messages(desk: HelpDesk) -> None:
    first, second, third = desk.open(), desk.open(), desk.open()
    foreign = desk.open("ben")
    desk.pass_time(minutes=1)
    with desk.tx() as tx:
        reply(tx, desk.actor("ann"), str(first), "And?", None)
        own = store.list_own(tx, desk.actor("ann"), TicketFilter(), 100, None)
        everyone = store.list_tickets(tx, TicketFilter())
    assert [each.id for each in own] == [first, third, second]
    assert [each.id for each in everyone] == [first, foreign, third, second]
    assert {each.messages for each in everyone} == {()}


def test_pages_join_without_gap_or_repetition(desk: HelpDesk) -> None:
    for minutes in (0, 0, 0, 1, 1, 2, 3):
        desk.pass_time(minutes=minutes)
        desk.open()
    with desk.tx() as tx:
        whole = store.list_own(tx, desk.actor("ann"), TicketFilter(), 100, None)
        for limit in (1, 2, 3):
            pages: list[Ticket] = []
            after: Position | None = None
            while page := store.list_own(tx, desk.actor("ann"), TicketFilter(), limit, after):
                assert len(page) <= limit
                pages += page
                assert len(pages) <= len(whole)  # a page that repeats would never end
                after = Position(page[-1].last_message_at, page[-1].id)
            assert pages == whole
        assert (
            store.list_tickets(tx, TicketFilter(), 2, Position(whole[1].last_message_at, whole[1].id))
            == (whole[2:4])
        )


def test_filters(desk: HelpDesk) -> None:
    support = desk.open()
    abuse = desk.open(command=replace(QUESTION, type="abuse"))
    closed = desk.open()
    with desk.tx() as tx:
        staff_reply(tx, STAFF, str(abuse), "We look at it.", "Olga")
        close(tx, STAFF, str(closed))
    table = [
        (TicketFilter(), {support, abuse, closed}),
        (TicketFilter(status="open"), {support}),
        (TicketFilter(status="answered"), {abuse}),
        (TicketFilter(status="closed"), {closed}),
        (TicketFilter(type="abuse"), {abuse}),
        (TicketFilter(type="contact"), set()),
        (TicketFilter(archived=True), {closed}),
        (TicketFilter(archived=False), {support, abuse}),
        (TicketFilter(type="support", archived=False), {support}),
        (TicketFilter(status="open", archived=True), set()),
    ]
    with desk.tx() as tx:
        for wanted, expected in table:
            assert {each.id for each in store.list_tickets(tx, wanted)} == expected, wanted
            own = store.list_own(tx, desk.actor("ann"), wanted, 100, None)
            assert {each.id for each in own} == expected, wanted
            assert store.list_own(tx, desk.actor("ben"), wanted, 100, None) == []


def test_every_change_is_one_event_without_the_text(desk: HelpDesk) -> None:
    subdomain_id = desk.subdomain("ann", "demo")
    ticket_id = desk.open(command=replace(QUESTION, subdomain_id=subdomain_id))
    with desk.tx() as tx:
        staff_reply(tx, STAFF, str(ticket_id), "Canary in the answer", "Olga")
        reply(tx, desk.actor("ann"), str(ticket_id), "Canary in the reply", None)
        close(tx, STAFF, str(ticket_id))
    events = desk.audit()
    assert [(each.action, each.actor_kind, each.object_type, each.object_id) for each in events] == [
        ("ticket.open", "user", "ticket", ticket_id),
        ("ticket.staff_reply", "operator", "ticket", ticket_id),
        ("ticket.reply", "user", "ticket", ticket_id),
        ("ticket.close", "operator", "ticket", ticket_id),
    ]
    assert [(each.before or {}).get("status") for each in events] == [None, "open", "answered", "open"]
    assert [each.after["status"] for each in events] == ["open", "answered", "open", "closed"]
    assert events[0].after["message_characters"] == len(QUESTION.message or "")
    assert events[0].after["subdomain_id"] == subdomain_id
    assert (events[2].user_id, events[2].token_id, events[2].request_id) == (desk.users["ann"], 7, "r-1")
    written = repr(events)
    assert "Canary" not in written
    assert "A question" not in written


def test_the_database_refuses_impossible_tickets_and_messages(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    with desk.engine.connect() as connection:
        of_ticket = dict(connection.execute(select(store.tickets)).mappings().one())
        of_message = dict(connection.execute(select(store.messages)).mappings().one())
    for table, row, wrong in (
        (
            store.tickets,
            of_ticket,
            {"status": "gone", "type": "x", "priority": "x", "user_id": 99, "subdomain_id": 99},
        ),
        (store.messages, of_message, {"author_type": "robot", "message_format": "html", "ticket_id": 99}),
    ):
        for name, value in wrong.items():
            with pytest.raises(IntegrityError), desk.tx() as tx:
                tx.connection.execute(insert(table).values(row | {"id": 7, name: value}))
        with desk.tx() as tx:
            tx.connection.execute(insert(table).values(row | {"id": 7}))
    assert ticket_id == of_ticket["id"]
