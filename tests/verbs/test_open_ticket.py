"""Opening a ticket (spec, part 4); on both databases."""

from typing import Any

import pytest

from sublet.accounts.users import suspend_user
from sublet.errors import NotFound, ValidationFailed
from sublet.subdomains.delete import delete
from sublet.subdomains.purge import purge
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.model import Ticket, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.registry import OPERATOR, Registry

SHOP, TRASH, GONE = "shop.example.test", "trash.example.test", "gone.example.test"


def opened(registry: Registry, **members: Any) -> Ticket:
    command = TicketRequest(**{"subject": "A question", "message": "How?", **members})
    ticket_id = registry.write(open_ticket, registry.actor(), command).id
    return registry.read(find_own_ticket_with_messages, registry.actor(), str(ticket_id))


def errors_of(registry: Registry, **members: Any) -> list[tuple[str, str]]:
    with registry.refuses(ValidationFailed) as caught:
        opened(registry, **members)
    return [(each.field, each.code) for each in caught[0].errors]


def test_a_message_is_stored_as_sent(registry: Registry) -> None:
    body = "  # Straße\r\n\t<b>🙂</b>  "
    ticket = opened(registry, subject=" Abuse! ", message=body, type="abuse", message_format="markdown")
    assert (ticket.subject, ticket.type, ticket.priority) == (" Abuse! ", "abuse", "high")
    assert (ticket.messages[0].message, ticket.messages[0].message_format) == (body, "markdown")


def test_opening_is_for_users(registry: Registry) -> None:
    registry.refused(NotFound, open_ticket, OPERATOR, TicketRequest("A question", "How?"))


def test_all_invalid_fields_of_a_ticket_are_reported_together(registry: Registry) -> None:
    wrong: dict[str, Any] = {"subject": " ", "message": "x" * 20_001, "type": "billing"}
    assert errors_of(registry, **wrong, message_format="html", subdomain_id=99) == [
        ("subject", "required"),
        ("message", "too_long"),
        ("type", "value_invalid"),
        ("message_format", "value_invalid"),
        ("subdomain_id", "ticket_subdomain_invalid"),
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"subdomain": "1"},
        {"subdomain_id": 1, "subdomain": "Shop.example.test", "fqdn": SHOP},
    ],
)
def test_a_ticket_may_be_about_an_own_subdomain(registry: Registry, fields: dict[str, Any]) -> None:
    registry.register(SHOP)
    assert opened(registry, **fields).subdomain == SHOP
    registry.register(TRASH)
    registry.write(delete, registry.actor(), TRASH)
    registry.write(suspend_user, OPERATOR, "ann@example.org")  # who may still open tickets
    assert opened(registry, fqdn=TRASH).subdomain == TRASH


def test_a_missing_or_purged_subdomain_is_refused(registry: Registry) -> None:
    """Names of other users: tests/contract/test_tenancy_matrix.py."""
    registry.register(GONE)
    registry.write(delete, registry.actor(), GONE)
    registry.write(purge, OPERATOR, GONE)
    wrong = [("subdomain_id", 0), ("subdomain_id", 2**63), ("subdomain", "\0"), ("fqdn", "example.test")]
    for field, value in [*wrong, ("subdomain", GONE), ("fqdn", GONE)]:
        assert errors_of(registry, **{field: value}) == [(field, "ticket_subdomain_invalid")]


def test_the_three_fields_must_agree(registry: Registry) -> None:
    one = registry.register("one.example.test").id
    registry.register("two.example.test")
    fields: dict[str, Any] = {"subdomain": "two.example.test", "fqdn": "three.example.test"}
    assert errors_of(registry, subdomain_id=one, **fields) == [
        ("subdomain", "ticket_subdomain_invalid"),
        ("fqdn", "ticket_subdomain_invalid"),
    ]
