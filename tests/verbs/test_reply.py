"""Replying to a ticket as its user or as staff (spec, part 4); on both databases."""

import pytest

from sublet.db import Tx
from sublet.errors import Conflict, TicketClosed, ValidationFailed
from sublet.structs import replace
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.lifecycle import MESSAGES_MAX
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.staff import close, staff_reply
from support.registry import OPERATOR, Registry


@pytest.fixture
def ticket(registry: Registry) -> str:
    """Return the id of a ticket of `ann`."""
    return str(registry.write(open_ticket, registry.actor(), TicketRequest("A question", "How?")).id)


def test_the_user_does_not_see_the_reasons_of_staff(registry: Registry, ticket: str) -> None:
    because = replace(OPERATOR, reason="a reason for the audit alone")
    registry.write(staff_reply, because, ticket, "Like this.", "Olga")
    registry.write(close, because, ticket)
    found = registry.read(find_own_ticket_with_messages, registry.actor(), ticket)
    assert [each.author_name for each in found.messages] == ["Ann", "Olga", "System"]
    assert "for the audit alone" not in repr(found)


def test_a_reply_to_a_closed_ticket_is_refused_before_its_fields_are_checked(
    registry: Registry, ticket: str
) -> None:
    wrong = registry.refused(ValidationFailed, reply, registry.actor(), ticket, None, "html")
    assert [each.field for each in wrong.errors] == ["message", "message_format"]
    registry.write(close, OPERATOR, ticket)
    registry.refused(TicketClosed, reply, registry.actor(), ticket, "", "html")
    registry.refused(TicketClosed, staff_reply, OPERATOR, ticket, "", "")


def test_a_full_ticket_takes_no_reply_of_its_user_but_staff_can_answer_and_close_it(
    registry: Registry, ticket: str
) -> None:
    def fill(tx: Tx) -> None:
        for _ in range(MESSAGES_MAX - 1):
            reply(tx, registry.actor(), ticket, "And now?", None)

    registry.write(fill)
    for text in ("One more.", ""):  # before its fields are looked at
        refused = registry.refused(Conflict, reply, registry.actor(), ticket, text, None)
        assert f"has {MESSAGES_MAX} messages" in refused.message
    registry.write(staff_reply, OPERATOR, ticket, "Do open a new one.", "Olga")
    registry.write(close, OPERATOR, ticket)
    registry.refused(TicketClosed, reply, registry.actor(), ticket, "But", None)
    # Another ticket of the same user is not touched by it.
    other = registry.write(open_ticket, registry.actor(), TicketRequest("Another", "How?"))
    registry.write(reply, registry.actor(), str(other.id), "As I said in the other one:", None)
