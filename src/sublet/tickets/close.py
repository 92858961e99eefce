"""Close a ticket: the operator's verb; closed is final (docs/spec-choices.md, "Tickets")."""

from dataclasses import replace

from sublet import audit
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.tickets import store
from sublet.tickets.find import lock_for_staff
from sublet.tickets.lifecycle import refuse_closed
from sublet.tickets.mail_requester import mail_requester

CLOSING_MESSAGE = "This ticket was closed. To go on, open a new one; it may refer to this one by its number."
SYSTEM_AUTHOR_NAME = "System"


def close(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """Close any user's ticket, which is then archived too; return its id.

    A message of the system says so, for the user to see when and how the conversation ended; it goes to the requester by
    mail too. The actor's reason is the audit's alone. Not checked: that the actor is staff; only the operator's edge calls this.

    Raises, in this order:
        TicketNotFound: there is no such ticket.
        TicketClosed: it is closed already.
    """
    ticket = lock_for_staff(tx, identifier)
    refuse_closed(ticket.status)
    message_id = store.insert_message(
        tx,
        ticket.id,
        author_type="system",
        author_name=SYSTEM_AUTHOR_NAME,
        message=CLOSING_MESSAGE,
        message_format="text",
    )
    store.update_status(tx, ticket.id, "closed")
    audit.record(
        tx,
        actor,
        "ticket.close",
        "ticket",
        ticket.id,
        before={"status": ticket.status},
        after={"status": "closed"},
    )
    closed = replace(ticket, status="closed")
    mail_requester(tx, closed, message_id, SYSTEM_AUTHOR_NAME, CLOSING_MESSAGE)
    return Outcome(ticket.id)
