"""Tickets that staff opens about a name: whose they are, what is mailed, what is refused; and those about one name."""

from sublet import audit
from sublet.errors import Conflict, NotFound, TicketClosed, TicketNotFound, ValidationFailed
from sublet.mail.store import find_by_reference
from sublet.subdomains.delete import delete
from sublet.subdomains.purge import purge
from sublet.subdomains.suspend_with_names import suspend_with_names
from sublet.tickets.close import close
from sublet.tickets.find import show_for_staff, show_own
from sublet.tickets.mail_requester import mail_reference
from sublet.tickets.model import OpenTicket, TicketFilter
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.set_priority import set_priority
from sublet.tickets.staff_open import staff_open
from sublet.tickets.store import list_tickets
from support.registry import OPERATOR, Registry

SHOP, BLOG = "shop.example.test", "blog.example.test"
SAID = ("Phishing", "Please remove it.", "Support")


def test_the_holder_of_the_name_gets_it_by_mail_and_answers(registry: Registry) -> None:
    registry.register(SHOP)
    ticket_id = registry.write(staff_open, OPERATOR, SHOP, *SAID).id
    found = registry.read(show_own, registry.users["ann"], str(ticket_id))
    assert (found.type, found.status, found.priority) == ("abuse", "answered", "high")
    assert (found.subdomain, found.requester_email) == (SHOP, "ann@example.org")
    (message,) = found.messages
    assert (message.author_type, message.author_name, message.message) == ("staff", "Support", SAID[1])
    mail = registry.read(find_by_reference, mail_reference(ticket_id, message.id))
    assert mail is not None
    assert mail.recipient == "ann@example.org"
    registry.write(reply, registry.actor(), str(ticket_id), "It is gone.")
    assert registry.read(show_for_staff, str(ticket_id)).status == "open"
    assert registry.doctor() == []


def test_a_suspended_user_and_a_name_in_the_trash_are_no_hindrance(registry: Registry) -> None:
    registry.register(SHOP)
    registry.write(delete, registry.actor(), SHOP)
    registry.write(suspend_with_names, OPERATOR, "ann@example.org")
    registry.write(staff_open, OPERATOR, SHOP, *SAID, ticket_type="contact", message_format="markdown")
    assert registry.doctor() == []


def test_tickets_about_one_name_whoever_holds_it(registry: Registry) -> None:
    held = registry.register(SHOP)
    registry.register(BLOG)
    first = registry.write(staff_open, OPERATOR, SHOP, *SAID).id
    registry.write(staff_open, OPERATOR, BLOG, *SAID)
    registry.write(delete, registry.actor(), SHOP)
    registry.write(purge, OPERATOR, SHOP, release=True)
    assert registry.register(SHOP, "ben").id != held.id
    second = registry.write(open_ticket, registry.actor("ben"), OpenTicket("Why?", "I am new.", fqdn=SHOP)).id
    about = registry.read(list_tickets, TicketFilter(subdomain=SHOP))
    assert {each.id for each in about} == {first, second}
    assert [each.id for each in registry.read(list_tickets, TicketFilter(subdomain=SHOP, type="abuse"))] == [
        first
    ]


def test_refusals(registry: Registry) -> None:
    held = registry.register(SHOP)
    with registry.refuses(NotFound):
        registry.write(staff_open, OPERATOR, BLOG, *SAID)
    with registry.refuses(ValidationFailed) as wrong:
        registry.write(staff_open, OPERATOR, SHOP, "a\nb", " ", "", ticket_type="spam", message_format="html")
    assert [each.field for each in wrong[0].errors] == [
        "subject", "author_name", "message", "type", "message_format",
    ]  # fmt: skip
    registry.write(delete, registry.actor(), SHOP)
    registry.write(purge, OPERATOR, SHOP)
    with registry.refuses(Conflict):
        registry.write(staff_open, OPERATOR, str(held.id), *SAID)


def test_staff_sets_the_priority_at_opening_and_afterwards(registry: Registry) -> None:
    registry.register(SHOP)
    ticket_id = registry.write(staff_open, OPERATOR, SHOP, *SAID, priority="urgent").id
    assert registry.read(show_own, registry.users["ann"], str(ticket_id)).priority == "urgent"
    registry.advance(hours=1)
    registry.write(set_priority, OPERATOR, f"T-{ticket_id:06}", "low")
    found = registry.read(show_own, registry.users["ann"], str(ticket_id))
    assert (found.priority, found.updated_at, len(found.messages)) == ("low", registry.now, 1)
    assert found.last_message_at == found.created_at
    registry.advance(hours=1)
    registry.write(set_priority, OPERATOR, str(ticket_id), "low")
    events = registry.read(audit.list_changes, "ticket", ticket_id, ("ticket.set_priority",), 10)
    assert [each.at for each in events] == [found.updated_at]
    assert registry.doctor() == []


def test_the_refusals_of_a_priority(registry: Registry) -> None:
    registry.register(SHOP)
    with registry.refuses(ValidationFailed) as wrong:
        registry.write(staff_open, OPERATOR, SHOP, *SAID, priority="hot")
    assert [(each.field, each.code) for each in wrong[0].errors] == [("priority", "value_invalid")]
    ticket = str(registry.write(staff_open, OPERATOR, SHOP, *SAID).id)
    with registry.refuses(TicketNotFound):
        registry.write(set_priority, OPERATOR, "T-777777", "low")
    with registry.refuses(ValidationFailed):
        registry.write(set_priority, OPERATOR, ticket, "hot")
    registry.write(close, OPERATOR, ticket)
    with registry.refuses(TicketClosed):
        registry.write(set_priority, OPERATOR, ticket, "low")
