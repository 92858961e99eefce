"""Opening, answering, prioritizing and closing tickets as staff; on both databases."""

from typing import Any

from sublet import audit
from sublet.accounts.set_reminders import set_reminders
from sublet.accounts.users import UserEdit, edit_user, suspend_user
from sublet.credits import store as _credit_store  # noqa: F401 - its tables are referred to
from sublet.errors import (
    Conflict,
    NotFound,
    TicketClosed,
    TicketNotFound,
    ValidationFailed,
)
from sublet.mail.store import find_by_reference
from sublet.subdomains.delete import delete
from sublet.subdomains.purge import purge
from sublet.subdomains.suspend import suspend_with_names
from sublet.tickets.find import find_for_staff_with_messages, find_own_ticket_with_messages
from sublet.tickets.model import TicketFilter, TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.staff import close, mail_reference, set_priority, staff_open, staff_reply
from sublet.tickets.store import list_tickets
from support.registry import OPERATOR, Registry

SHOP, BLOG = "shop.example.test", "blog.example.test"


SAID = ("Phishing", "Please remove it.", "Support")


def test_the_holder_of_the_name_gets_the_ticket_by_mail_and_replies(registry: Registry) -> None:
    registry.register(SHOP)
    ticket_id = registry.write(staff_open, OPERATOR, SHOP, *SAID).id
    found = registry.read(find_own_ticket_with_messages, registry.actor(), str(ticket_id))
    assert (found.type, found.status, found.priority) == ("abuse", "answered", "high")
    assert (found.subdomain, found.requester_email) == (SHOP, "ann@example.org")
    (message,) = found.messages
    assert (message.author_type, message.author_name, message.message) == ("staff", "Support", SAID[1])
    mail = registry.read(find_by_reference, mail_reference(ticket_id, message.id))
    assert mail is not None
    assert mail.recipient == "ann@example.org"
    registry.write(reply, registry.actor(), str(ticket_id), "It is gone.")
    assert registry.read(find_for_staff_with_messages, str(ticket_id)).status == "open"
    assert registry.doctor() == []


def test_tickets_about_a_name_are_listed_for_all_its_holders(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.register(BLOG)
    first = registry.write(staff_open, OPERATOR, SHOP, *SAID).id
    registry.write(staff_open, OPERATOR, BLOG, *SAID)
    registry.write(delete, registry.actor(), SHOP)
    registry.write(purge, OPERATOR, SHOP, release=True)
    assert registry.register(SHOP, "ben").id != held.id
    second = registry.write(
        open_ticket, registry.actor("ben"), TicketRequest("Why?", "I am new.", fqdn=SHOP)
    ).id
    about = registry.read(list_tickets, TicketFilter(subdomain=SHOP), 10)
    assert {each.id for each in about} == {first, second}
    (abuse,) = registry.read(list_tickets, TicketFilter(subdomain=SHOP, type="abuse"), 10)
    assert abuse.id == first


def test_refusals(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.refused(NotFound, staff_open, OPERATOR, BLOG, *SAID)
    other = {"ticket_type": "spam", "message_format": "html"}
    wrong = registry.refused(ValidationFailed, staff_open, OPERATOR, SHOP, "a\nb", " ", "", **other)
    assert [each.field for each in wrong.errors] == [
        "subject", "author_name", "message", "type", "message_format",
    ]  # fmt: skip
    registry.write(delete, registry.actor(), SHOP)
    registry.write(suspend_with_names, OPERATOR, "ann@example.org")
    registry.write(staff_open, OPERATOR, SHOP, *SAID, ticket_type="contact", message_format="markdown")
    registry.write(purge, OPERATOR, SHOP)
    registry.refused(Conflict, staff_open, OPERATOR, str(held.id), *SAID)


def test_staff_sets_the_priority_at_opening_and_afterwards(registry: Registry) -> None:
    registry.register(SHOP)
    ticket_id = registry.write(staff_open, OPERATOR, SHOP, *SAID, priority="urgent").id
    assert registry.read(find_own_ticket_with_messages, registry.actor(), str(ticket_id)).priority == "urgent"
    registry.advance(hours=1)
    registry.write(set_priority, OPERATOR, f"T-{ticket_id:06}", "low")
    found = registry.read(find_own_ticket_with_messages, registry.actor(), str(ticket_id))
    assert (found.priority, found.updated_at, len(found.messages)) == ("low", registry.now, 1)
    assert found.last_message_at == found.created_at
    registry.advance(hours=1)
    registry.write(set_priority, OPERATOR, str(ticket_id), "low")
    events = registry.read(audit.list_changes, "ticket", ticket_id, ("ticket.set_priority",), 10)
    assert [each.at for each in events] == [found.updated_at]
    assert registry.doctor() == []


def test_refusals_of_priorities_answers_and_closings(registry: Registry) -> None:
    registry.register(SHOP)
    wrong = registry.refused(ValidationFailed, staff_open, OPERATOR, SHOP, *SAID, priority="hot")
    assert [(each.field, each.code) for each in wrong.errors] == [("priority", "value_invalid")]
    ticket = str(registry.write(staff_open, OPERATOR, SHOP, *SAID).id)
    verbs: tuple[tuple[Any, tuple[str, ...]], ...] = (
        (set_priority, ("low",)),
        (staff_reply, ("Hello", "Olga")),
        (close, ()),
    )
    for verb, arguments in verbs:
        registry.refused(TicketNotFound, verb, OPERATOR, "T-777777", *arguments)
    registry.refused(ValidationFailed, set_priority, OPERATOR, ticket, "hot")
    wrong = registry.refused(ValidationFailed, staff_reply, OPERATOR, ticket, " ", " ", message_format="html")
    assert [each.field for each in wrong.errors] == ["author_name", "message", "message_format"]
    registry.write(close, OPERATOR, ticket)
    for verb, arguments in verbs:
        registry.refused(TicketClosed, verb, OPERATOR, ticket, *arguments)


def opened(registry: Registry, name: str = "ann") -> int:
    command = TicketRequest(subject="Wo ist er?", message="Weg.")
    return registry.write(open_ticket, registry.actor(name), command).id


def test_an_answer_is_mailed_to_the_requester(registry: Registry) -> None:
    ticket_id = opened(registry)
    registry.write(set_reminders, registry.actor(), False)  # which is about names
    registry.write(edit_user, OPERATOR, "ann@example.org", UserEdit(email="new@example.org"))
    registry.write(suspend_user, OPERATOR, "new@example.org")
    registry.write(staff_reply, OPERATOR, str(ticket_id), "Dort drüben.", "Olga")
    (told,) = registry.mails()
    assert told.reference.startswith(f"ticket:{ticket_id}:message:")
    assert (told.recipient, told.user_id) == ("ann@example.org", registry.users["ann"])
    assert told.subject == f"Re: [T-{ticket_id:06d}] Wo ist er?"
    assert "Olga wrote" in told.text
    assert "\nDort drüben.\n" in told.text
    registry.write(close, OPERATOR, str(ticket_id))
    closing, _ = registry.mails()
    assert closing.subject == f"Closed: [T-{ticket_id:06d}] Wo ist er?"
    assert "/reply" not in closing.text
    assert "This ticket was closed." in closing.text
