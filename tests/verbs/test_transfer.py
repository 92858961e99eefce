"""Moving a name to another user as the operator; on both databases."""

from typing import Any

from sqlalchemy import select

from sublet.accounts.users import suspend_user
from sublet.audit import ActivityFilter, audit_events
from sublet.errors import Conflict, NotFound, Refusal, SubdomainNotFound
from sublet.mail.store import list_mails
from sublet.registry.delete_user import delete_user
from sublet.structs import replace
from sublet.subdomains.activity import list_activity
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete
from sublet.subdomains.dependents import change_each
from sublet.subdomains.purge import purge
from sublet.subdomains.store import list_terms
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.suspension_store import list_suspensions
from sublet.subdomains.sweep.store import list_due
from sublet.subdomains.transfers.move import transfer
from sublet.tickets.find import find_own_ticket_with_messages
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from support.registry import FREE_QUOTA, OPERATOR, Registry

SHOP = "shop.example.test"
BEN = "ben@example.org"


def move(registry: Registry, to: str = BEN, name: str = SHOP) -> Any:
    return registry.write(transfer, OPERATOR, name, to)


def test_a_name_moves_with_its_delegation_and_dates(registry: Registry) -> None:
    """Its term stays, and the receiver's free quota doesn't matter. Automatic renewal, tickets and payments
    don't move.
    """
    for index in range(FREE_QUOTA):
        registry.register(f"n{index}.example.test", "ben")
    held = registry.register(SHOP, nameservers=("ns1.example.org",))
    registry.write(set_auto_renew, registry.actor(), SHOP, 50, may_spend=True)
    ticket = registry.write(open_ticket, registry.actor(), TicketRequest("Help", "Please.", fqdn=SHOP))
    before, terms = registry.subdomain(held.id), registry.read(list_terms, held.id, 10)
    moved = move(registry)
    assert moved == registry.subdomain(held.id)
    changed = {
        "user_id": registry.users["ben"],
        "auto_renew_max_credits": None,
        "updated_at": moved.updated_at,
    }
    assert moved == replace(before, **changed)
    assert registry.read(list_terms, held.id, 10) == terms
    registry.refused(SubdomainNotFound, delete, registry.actor(), SHOP)
    found = registry.read(find_own_ticket_with_messages, registry.actor("ann"), str(ticket.id))
    assert found.subdomain == SHOP
    seen = registry.read(list_activity, registry.users["ben"], ActivityFilter(), 9, None)
    assert ("subdomain.receive", "operator", SHOP) in [
        (each.action, each.by, each.subdomain) for each in seen
    ]
    assert registry.doctor() == []


def test_the_event_names_both_users_and_both_get_a_mail(registry: Registry) -> None:
    held = registry.register(SHOP)
    move(registry)
    ann, ben = registry.users["ann"], registry.users["ben"]
    query = select(audit_events.c.before, audit_events.c.after).where(
        audit_events.c.action == "subdomain.transfer"
    )
    ((before, after),) = registry.read(lambda tx: tx.connection.execute(query).all())
    assert (before["user_id"], after["user_id"]) == (ann, ben)
    mails = registry.read(list_mails, waiting=False, user_id=None, limit=9)
    assert [each.user_id for each in mails] == [ben, ann]
    assert f"{held.expires_at:%B %Y}" in mails[0].text
    assert "ben" not in mails[1].text
    registry.advance(seconds=1)
    move(registry, "ann@example.org")
    assert registry.subdomain(held.id).user_id == ann
    assert registry.doctor() == []


def test_refused_transfers(registry: Registry) -> None:
    names = [f"{label}.example.test" for label in ("live", "held", "trash", "cooling", "released")]
    for name in names:
        registry.register_by_operator(name)
    live, held, trash, cooling, released = names
    registry.write(suspend, OPERATOR, held)
    for name in (trash, cooling, released):
        registry.write(delete, registry.actor(), name)
    cooling_id = registry.write(purge, OPERATOR, cooling).id
    registry.write(purge, OPERATOR, released, release=True)
    registry.add_user("carl")
    registry.write(suspend_user, OPERATOR, "carl@example.org")
    registry.add_user("dora")
    registry.write(delete_user, OPERATOR, "dora@example.org", confirmed=True)
    refused: list[tuple[type[Refusal], str, str]] = [
        (NotFound, live, "nobody@example.org"),
        (NotFound, live, str(registry.users["dora"])),
        (NotFound, released, BEN),
        (Conflict, str(cooling_id), BEN),
        (Conflict, trash, BEN),
        (Conflict, held, BEN),
        (Conflict, live, "ann@example.org"),
        (Conflict, live, "carl@example.org"),
    ]
    for refusal, name, to in refused:
        with registry.refuses(refusal):
            move(registry, to, name)


def test_suspensions_stay_with_the_former_user(registry: Registry) -> None:
    registry.register(SHOP)
    for verb in (suspend, unsuspend):
        registry.write(verb, OPERATOR, SHOP)
    move(registry)
    registry.write(suspend, OPERATOR, SHOP)
    of = {
        name: [each.action for each in registry.read(list_suspensions, registry.users[name])]
        for name in ("ann", "ben")
    }
    assert of == {"ann": ["subdomain.suspend", "subdomain.unsuspend"], "ben": ["subdomain.suspend"]}


def test_a_sweep_that_selected_the_name_before_skips_it(registry: Registry) -> None:
    """The sweep reads the due names and then locks their users, and a transfer may commit between the two."""
    held = registry.register(SHOP)
    registry.live(days=334)
    registry.advance(days=1)
    (due,) = registry.read(list_due, 25)
    move(registry)
    changed = registry.write(change_each, [due], lambda *_: ["done"])
    assert (changed.done.total(), changed.faults) == (0, ())
    registry.sweep()
    reminded = registry.read(list_mails, waiting=False, user_id=None, limit=1)[0]
    assert (held.fqdn in reminded.subject, reminded.user_id) == (True, registry.users["ben"])
