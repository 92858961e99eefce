"""Replying to a ticket as its user or as staff (spec, part 4); on SQLite."""

from datetime import timedelta

from sublet.credits import store as _credit_store  # noqa: F401 - its tables are referred to
from sublet.credits.model import Outcome
from sublet.errors import (
    AccountSuspended,
    Conflict,
    TicketClosed,
    TicketNotFound,
    ValidationFailed,
)
from sublet.ids import ticket_number
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.lifecycle import MESSAGES_MAX
from sublet.tickets.reply import reply
from sublet.tickets.staff import close, staff_reply
from support.help_desk import STAFF, START, HelpDesk


def test_the_status_goes_open_answered_open_closed(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    desk.pass_time(hours=1)
    with desk.tx() as tx:
        assert staff_reply(tx, STAFF, str(ticket_id), "Like this.", "Olga") == Outcome(ticket_id)
    answered = desk.ticket(ticket_id)
    assert (answered.status, answered.last_message_at, answered.updated_at) == (
        "answered",
        desk.now,
        desk.now,
    )
    assert answered.created_at == START
    desk.pass_time(hours=1)
    with desk.tx() as tx:
        assert reply(tx, desk.actor("ann"), str(ticket_id), "*Thanks*", "markdown") == Outcome(ticket_id)
    assert (desk.ticket(ticket_id).status, desk.ticket(ticket_id).archived) == ("open", False)
    desk.pass_time(hours=1)
    with desk.tx() as tx:
        assert close(tx, STAFF, ticket_number(ticket_id)) == Outcome(ticket_id)
    closed = desk.ticket(ticket_id)
    assert (closed.status, closed.archived) == ("closed", True)
    assert (closed.last_message_at, closed.updated_at) == (desk.now, desk.now)
    assert [
        (each.author_type, each.author_name, each.message_format, each.created_at) for each in closed.messages
    ] == [
        ("user", "Ann", "text", START),
        ("staff", "Olga", "text", START + timedelta(hours=1)),
        ("user", "Ann", "markdown", START + timedelta(hours=2)),
        ("system", "System", "text", START + timedelta(hours=3)),
    ]
    assert "a reason for the audit alone" not in repr(closed)


def test_a_suspended_user_may_not_reply(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    desk.suspend("ann")
    with desk.refuses(AccountSuspended) as (tx, _):
        reply(tx, desk.actor("ann"), str(ticket_id), "But", None)
    with desk.refuses(AccountSuspended) as (tx, _):  # before anything is looked up
        reply(tx, desk.actor("ann"), "999", "But", None)
    with desk.tx() as tx:
        staff_reply(tx, STAFF, str(ticket_id), "Here is why.", "Olga")
    assert desk.ticket(ticket_id).status == "answered"


def test_another_user_s_ticket_and_a_missing_one_give_the_same_answer(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    answers = set()
    for identifier in (str(ticket_id), ticket_number(ticket_id), "999", "T-000999", "T-1", "0", "", "x"):
        with desk.refuses(TicketNotFound) as (tx, caught):
            reply(tx, desk.actor("ben"), identifier, "", None)
        answers.add((caught[0].message, repr(caught[0].details), caught[0].errors))
        with desk.refuses(TicketNotFound) as (tx, caught):
            find_own_ticket_with_messages(tx, desk.actor("ben"), identifier)
        answers.add((caught[0].message, repr(caught[0].details), caught[0].errors))
    assert len(answers) == 1


def test_a_reply_to_a_closed_ticket_is_refused_before_its_fields_are_checked(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    with desk.refuses(ValidationFailed) as (tx, caught):
        reply(tx, desk.actor("ann"), str(ticket_id), None, "html")
    assert [each.field for each in caught[0].errors] == ["message", "message_format"]
    with desk.tx() as tx:
        close(tx, STAFF, str(ticket_id))
    with desk.refuses(TicketClosed) as (tx, _):
        reply(tx, desk.actor("ann"), str(ticket_id), "", "html")
    with desk.refuses(TicketClosed) as (tx, _):
        staff_reply(tx, STAFF, str(ticket_id), "", "")


def test_a_full_ticket_takes_no_reply_of_its_user_but_staff_can_answer_and_close_it(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    with desk.tx() as tx:
        for _ in range(MESSAGES_MAX - 1):
            reply(tx, desk.actor("ann"), str(ticket_id), "And now?", None)
    for text in ("One more.", ""):  # before its fields are looked at
        with desk.refuses(Conflict) as (tx, caught):
            reply(tx, desk.actor("ann"), str(ticket_id), text, None)
        assert f"has {MESSAGES_MAX} messages" in caught[0].message
    with desk.tx() as tx:
        staff_reply(tx, STAFF, str(ticket_id), "Do open a new one.", "Olga")
        close(tx, STAFF, str(ticket_id))
    assert len(desk.ticket(ticket_id).messages) == MESSAGES_MAX + 2
    with desk.refuses(TicketClosed) as (tx, _):
        reply(tx, desk.actor("ann"), str(ticket_id), "But", None)
    # Another ticket of the same user is not touched by it.
    other = desk.open()
    with desk.tx() as tx:
        reply(tx, desk.actor("ann"), str(other), "As I said in the other one:", None)
