"""Opening a ticket (spec, part 4); on SQLite."""

from dataclasses import replace
from typing import Any

import pytest

from sublet.credits import store as _credit_store  # noqa: F401 - its tables are referred to
from sublet.errors import (
    NotFound,
    Refusal,
    ValidationFailed,
)
from sublet.tickets.model import Ticket, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.help_desk import QUESTION, STAFF, START, HelpDesk


def _field_codes(caught: list[Refusal]) -> list[tuple[str, str]]:
    return [(each.field, each.code) for each in caught[0].errors]


def test_a_ticket_opens_with_its_first_message(desk: HelpDesk) -> None:
    ticket_id = desk.open()
    ticket = desk.ticket(ticket_id)
    assert replace(ticket, messages=()) == Ticket(
        id=ticket_id,
        user_id=desk.users["ann"],
        type="support",
        status="open",
        priority="normal",
        subject="A question",
        requester_email="ann@example.org",
        subdomain=None,
        created_at=START,
        last_message_at=START,
        updated_at=START,
    )
    (message,) = ticket.messages
    assert (message.author_type, message.author_name) == ("user", "Ann")
    assert (message.message, message.message_format) == ("Canary in the body: how?", "text")
    assert message.created_at == START


def test_a_message_is_stored_as_sent(desk: HelpDesk) -> None:
    body = "  # Straße\r\n\t<b>🙂</b>  "
    ticket = desk.ticket(
        desk.open(
            command=TicketRequest(subject=" Abuse! ", message=body, type="abuse", message_format="markdown")
        )
    )
    assert (ticket.subject, ticket.type, ticket.priority) == (" Abuse! ", "abuse", "high")
    assert (ticket.messages[0].message, ticket.messages[0].message_format) == (body, "markdown")


def test_opening_is_for_users(desk: HelpDesk) -> None:
    with desk.refuses(NotFound) as (tx, _):
        open_ticket(tx, STAFF, QUESTION)


def test_all_invalid_fields_of_a_ticket_are_reported_together(desk: HelpDesk) -> None:
    command = TicketRequest(
        subject=" ", message="x" * 20_001, type="billing", message_format="html", subdomain_id=99
    )
    with desk.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, desk.actor("ann"), command)
    assert _field_codes(caught) == [
        ("subject", "required"),
        ("message", "too_long"),
        ("type", "value_invalid"),
        ("message_format", "value_invalid"),
        ("subdomain_id", "ticket_subdomain_invalid"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"subdomain_id": "ID"},
        {"subdomain": "ID"},
        {"subdomain": "demo.example.net"},
        {"fqdn": "DEMO.Example.net."},
        {"subdomain_id": "ID", "subdomain": "Demo.example.net", "fqdn": "demo.example.net"},
    ],
)
def test_a_ticket_may_be_about_an_own_subdomain(desk: HelpDesk, fields: dict[str, str]) -> None:
    subdomain_id = desk.subdomain("ann", "demo")
    values: dict[str, Any] = {
        key: (subdomain_id if key == "subdomain_id" else str(subdomain_id)) if value == "ID" else value
        for key, value in fields.items()
    }
    ticket = desk.ticket(desk.open(command=replace(QUESTION, **values)))
    assert ticket.subdomain == "demo.example.net"
    desk.subdomain("ann", "trash", trashed_at=desk.now)
    desk.suspend("ann")  # who may still open tickets
    assert desk.ticket(desk.open(command=replace(QUESTION, fqdn="trash.example.net"))).subdomain is not None


def _subdomain_refusal(desk: HelpDesk, **fields: Any) -> list[Any]:
    with desk.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, desk.actor("ann"), replace(QUESTION, **fields))
    return [caught[0].message, caught[0].errors, caught[0].details]


def test_another_user_s_subdomain_and_a_missing_one_give_the_same_answer(desk: HelpDesk) -> None:
    foreign_id = desk.subdomain("ben", "foreign")
    trashed_id = desk.subdomain("ben", "trashed", trashed_at=desk.now)
    desk.subdomain("ann", "gone", trashed_at=desk.now, purged_at=desk.now)
    missing = _subdomain_refusal(desk, subdomain_id=9999)
    assert missing[1][0].code == "ticket_subdomain_invalid"
    assert _subdomain_refusal(desk, subdomain_id=foreign_id) == missing
    assert _subdomain_refusal(desk, subdomain_id=trashed_id) == missing
    for name in ("subdomain", "fqdn"):
        missing = _subdomain_refusal(desk, **{name: "missing.example.net"})
        assert _subdomain_refusal(desk, **{name: "foreign.example.net"}) == missing
        assert _subdomain_refusal(desk, **{name: "trashed.example.net"}) == missing
        assert _subdomain_refusal(desk, **{name: "gone.example.net"}) == missing
    for fields in (
        {"subdomain_id": 0},
        {"subdomain_id": 10**6000},
        {"subdomain": "\0"},
        {"fqdn": "example.net"},
    ):
        (error,) = _subdomain_refusal(desk, **fields)[1]
        assert (error.field, error.code) == (next(iter(fields)), "ticket_subdomain_invalid")


def test_the_three_fields_must_agree(desk: HelpDesk) -> None:
    one = desk.subdomain("ann", "one")
    desk.subdomain("ann", "two")
    errors = _subdomain_refusal(
        desk, subdomain_id=one, subdomain="two.example.net", fqdn="three.example.net"
    )[1]
    assert [(each.field, each.code) for each in errors] == [
        ("subdomain", "ticket_subdomain_invalid"),
        ("fqdn", "ticket_subdomain_invalid"),
    ]
    assert "`subdomain_id`" in errors[0].message
