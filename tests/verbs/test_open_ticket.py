"""Opening a ticket (spec, part 4); on SQLite."""

from dataclasses import replace
from typing import Any

import pytest

from sublet.accounts import store as account_store
from sublet.credits import store as _credit_store  # noqa: F401 - its tables are referred to
from sublet.credits.model import Outcome
from sublet.errors import (
    NotFound,
    Refusal,
    ValidationFailed,
)
from sublet.ids import MAX_ID
from sublet.tickets.find import find_own_ticket
from sublet.tickets.model import Ticket, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.ticket_house import QUESTION, STAFF, START, House


def _field_codes(caught: list[Refusal]) -> list[tuple[str, str]]:
    return [(each.field, each.code) for each in caught[0].errors]


def test_a_ticket_opens_with_its_first_message(house: House) -> None:
    ticket_id = house.open()
    ticket = house.ticket(ticket_id)
    assert replace(ticket, messages=()) == Ticket(
        id=ticket_id,
        user_id=house.users["ann"],
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


def test_opening_returns_the_ticket_s_id_and_charges_nothing(house: House) -> None:
    with house.tx() as tx:
        outcome = open_ticket(tx, house.actor("ben"), QUESTION)
    assert outcome == Outcome(house.ticket(outcome.id).id)


def test_a_message_is_stored_as_sent(house: House) -> None:
    body = "  # Straße\r\n\t<b>🙂</b>  "
    ticket = house.ticket(
        house.open(
            command=TicketRequest(subject=" Abuse! ", message=body, type="abuse", message_format="markdown")
        )
    )
    assert (ticket.subject, ticket.type, ticket.priority) == (" Abuse! ", "abuse", "high")
    assert (ticket.messages[0].message, ticket.messages[0].message_format) == (body, "markdown")


def test_requester_email_is_the_address_at_opening(house: House) -> None:
    ticket_id = house.open()
    with house.tx() as tx:
        account_store.update_user(tx, house.users["ann"], email="new@example.org", name="Anna")
    ticket = house.ticket(ticket_id)
    assert ticket.requester_email == "ann@example.org"
    assert ticket.messages[0].author_name == "Ann"


def test_a_suspended_user_may_open_and_read_tickets(house: House) -> None:
    house.suspend("ann")
    ticket_id = house.open()
    with house.tx() as tx:
        assert find_own_ticket(tx, house.actor("ann"), str(ticket_id)).status == "open"


def test_opening_is_for_users(house: House) -> None:
    with house.refuses(NotFound) as (tx, _):
        open_ticket(tx, STAFF, QUESTION)


def test_all_invalid_fields_of_a_ticket_are_reported_together(house: House) -> None:
    command = TicketRequest(
        subject=" ", message="x" * 20_001, type="billing", message_format="html", subdomain_id=99
    )
    with house.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, house.actor("ann"), command)
    assert _field_codes(caught) == [
        ("subject", "required"),
        ("message", "too_long"),
        ("type", "value_invalid"),
        ("message_format", "value_invalid"),
        ("subdomain_id", "ticket_subdomain_invalid"),
    ]


def test_an_empty_ticket_lacks_subject_and_message(house: House) -> None:
    with house.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, house.actor("ann"), TicketRequest())
    assert _field_codes(caught) == [("subject", "required"), ("message", "required")]


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
def test_a_ticket_may_be_about_an_own_subdomain(house: House, fields: dict[str, str]) -> None:
    subdomain_id = house.subdomain("ann", "demo")
    values: dict[str, Any] = {
        key: (subdomain_id if key == "subdomain_id" else str(subdomain_id)) if value == "ID" else value
        for key, value in fields.items()
    }
    ticket = house.ticket(house.open(command=replace(QUESTION, **values)))
    assert ticket.subdomain == "demo.example.net"


def test_a_ticket_may_be_about_a_name_in_the_own_trash(house: House) -> None:
    house.subdomain("ann", "demo", trashed_at=house.now)
    ticket = house.ticket(house.open(command=replace(QUESTION, fqdn="demo.example.net")))
    assert ticket.subdomain == "demo.example.net"


def _subdomain_refusal(house: House, **fields: Any) -> list[Any]:
    with house.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, house.actor("ann"), replace(QUESTION, **fields))
    return [caught[0].message, caught[0].errors, caught[0].details]


def test_another_user_s_subdomain_and_a_missing_one_give_the_same_answer(house: House) -> None:
    foreign_id = house.subdomain("ben", "foreign")
    trashed_id = house.subdomain("ben", "trashed", trashed_at=house.now)
    missing = _subdomain_refusal(house, subdomain_id=9999)
    assert missing[1][0].code == "ticket_subdomain_invalid"
    assert _subdomain_refusal(house, subdomain_id=foreign_id) == missing
    assert _subdomain_refusal(house, subdomain_id=trashed_id) == missing
    for name in ("subdomain", "fqdn"):
        missing = _subdomain_refusal(house, **{name: "missing.example.net"})
        assert _subdomain_refusal(house, **{name: "foreign.example.net"}) == missing
        assert _subdomain_refusal(house, **{name: "trashed.example.net"}) == missing


def test_a_ticket_can_t_be_about_a_purged_subdomain(house: House) -> None:
    house.subdomain("ann", "gone", trashed_at=house.now, purged_at=house.now)
    gone = _subdomain_refusal(house, fqdn="gone.example.net")
    assert gone == _subdomain_refusal(house, fqdn="missing.example.net")


@pytest.mark.parametrize(
    "fields",
    [
        {"subdomain_id": 0},
        {"subdomain_id": -1},
        {"subdomain_id": MAX_ID + 1},
        {"subdomain_id": 10**6000},
        {"subdomain": ""},
        {"subdomain": "not a name"},
        {"subdomain": "\0"},
        {"fqdn": ""},
        {"fqdn": "demo"},
        {"fqdn": "1"},
        {"fqdn": "example.net"},
    ],
)
def test_a_field_that_names_no_subdomain_is_refused(house: House, fields: dict[str, Any]) -> None:
    assert house.subdomain("ann", "demo") == 1
    (error,) = _subdomain_refusal(house, **fields)[1]
    assert (error.field, error.code) == (next(iter(fields)), "ticket_subdomain_invalid")


def test_the_three_fields_must_agree(house: House) -> None:
    one = house.subdomain("ann", "one")
    house.subdomain("ann", "two")
    errors = _subdomain_refusal(
        house, subdomain_id=one, subdomain="two.example.net", fqdn="three.example.net"
    )[1]
    assert [(each.field, each.code) for each in errors] == [
        ("subdomain", "ticket_subdomain_invalid"),
        ("fqdn", "ticket_subdomain_invalid"),
    ]
    assert "`subdomain_id`" in errors[0].message
