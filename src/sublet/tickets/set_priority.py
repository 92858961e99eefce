"""Set a ticket's priority: the operator's verb (docs/spec-choices.md, "Tickets")."""

from sublet import audit
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.tickets import store
from sublet.tickets.find import lock_for_staff
from sublet.tickets.lifecycle import check_priority, refuse_closed


def set_priority(tx: Tx, actor: Actor, identifier: str, priority: str) -> Outcome:
    """Set the priority of any user's ticket; return its id. The priority that it has already changes nothing.

    The user sees the priority, and gets no mail about it. Not checked: that the actor is staff; only the operator's edge calls this.

    Raises, in this order:
        TicketNotFound: there is no such ticket.
        TicketClosed: it is closed, which is final.
        ValidationFailed: `priority` is none of those there are.
    """
    ticket = lock_for_staff(tx, identifier)
    refuse_closed(ticket.status)
    if errors := check_priority(priority):
        raise validation_failed(errors)
    # From here on it must succeed.
    if priority != ticket.priority:
        store.update_priority(tx, ticket.id, priority)
        audit.record(
            tx,
            actor,
            "ticket.set_priority",
            "ticket",
            ticket.id,
            before={"priority": ticket.priority},
            after={"priority": priority},
        )
    return Outcome(ticket.id)
