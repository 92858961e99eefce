"""All SQL of the tickets' invariants: each question finds the rows that break one."""

import re
from collections.abc import Iterator

from sqlalchemy import and_, func, select

from sublet.audit import audit_events, list_events_without_row, list_rows_without_event
from sublet.counted import counted
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.mail.store import mails
from sublet.schema import STREAMED
from sublet.subdomains.store import subdomains
from sublet.tickets.store import messages, tickets

MESSAGES = ("ticket.open", "ticket.reply", "ticket.staff_reply", "ticket.close")
"""The actions that add a message each."""
_OF_A_TICKET = re.compile(r"ticket:(?:T-)?([0-9]+)(?::.*)?")


def list_foreign_subjects(tx: Tx) -> Iterator[Violation]:
    """Which tickets are about a name that is not their user's?"""
    query = (
        select(tickets.c.id, tickets.c.subdomain_id)
        .select_from(tickets.outerjoin(subdomains, subdomains.c.id == tickets.c.subdomain_id))
        .where(
            tickets.c.subdomain_id.is_not(None)
            & (subdomains.c.id.is_(None) | (subdomains.c.user_id != tickets.c.user_id))
        )
    )
    for ticket_id, subdomain_id in tx.connection.execute(query):
        sentence = f"it is about the subdomain {subdomain_id}, which is not its user's"
        yield Violation("rows_belong_together", "ticket", ticket_id, sentence)


def list_unaudited(tx: Tx) -> Iterator[Violation]:
    """Which tickets' messages of an instant are not as many as the events of it? Which tickets does no event open?"""
    yield from list_rows_without_event(tx, "ticket", tickets.c.id, tickets.c.created_at, ["ticket.open"])
    yield from list_events_without_row(tx, "ticket", tickets.c.id)
    events = audit_events.c
    told = (
        select(events.object_id, events.at, func.count().label("number"))
        .where((events.object_type == "ticket") & events.action.in_(MESSAGES))
        .group_by(events.object_id, events.at)
        .subquery()
    )
    added = (
        select(messages.c.ticket_id, messages.c.created_at, func.count().label("number"))
        .group_by(messages.c.ticket_id, messages.c.created_at)
        .subquery()
    )
    same = and_(told.c.object_id == added.c.ticket_id, told.c.at == added.c.created_at)
    unsaid = select(told.c.object_id, told.c.at, told.c.number, added.c.number).select_from(
        told.outerjoin(added, same)
    )
    untold = select(added.c.ticket_id, added.c.created_at, told.c.number, added.c.number).select_from(
        added.outerjoin(told, same)
    )
    differing = added.c.number.is_(None) | (added.c.number != told.c.number)
    for query in (unsaid.where(differing), untold.where(told.c.number.is_(None))):
        for ticket_id, at, events_then, messages_then in tx.connection.execute(query):
            sentence = f"{counted(messages_then or 0, 'message')} of {at.isoformat()}, and {counted(events_then or 0, 'event')}"
            yield Violation("audited", "ticket", ticket_id, sentence)


def list_misdirected_mails(tx: Tx) -> Iterator[Violation]:
    """Which mails about a ticket, by their reference, are to another user than the ticket's, or about none?"""
    query = (
        select(mails.c.id, mails.c.user_id, mails.c.reference)
        .where(mails.c.reference.like("ticket:%"))
        .order_by(mails.c.id)
        .execution_options(**STREAMED)
    )
    for rows in tx.connection.execute(query).partitions(500):
        named = {
            mail_id: int(match[1]) if (match := _OF_A_TICKET.fullmatch(reference)) else 0
            for mail_id, _, reference in rows
        }
        theirs = select(tickets.c.id, tickets.c.user_id).where(tickets.c.id.in_(set(named.values())))
        owners: dict[int, int] = {row[0]: row[1] for row in tx.connection.execute(theirs)}
        for mail_id, user_id, reference in rows:
            if owners.get(named[mail_id]) != user_id:
                sentence = f"{reference} is about no ticket of the user {user_id}, whom it is to"
                yield Violation("rows_belong_together", "mail", mail_id, sentence)
