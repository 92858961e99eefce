"""All SQL of the milestones' invariants: each question finds the rows that break one."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Select, and_, exists, func, or_, select, tuple_

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.mail.store import mails
from sublet.subdomains.milestone_store import milestones
from sublet.subdomains.store import subdomains, terms

OF_A_TERM = ("renewal_opens", "expires_in_30_days", "expires_in_7_days", "expires_in_1_day", "expired")
OF_AN_ATTEMPT = ("auto_renewed", "auto_renew_failed")
KINDS = (*OF_A_TERM, *OF_AN_ATTEMPT, "trashed", "trash_ends", "purged", "released")
"""All kinds of milestones: those about the end of a term, those about their own instant, those of the trash and after it."""

SWEPT = {"subdomain.trash": "trashed", "subdomain.purge": "purged", "subdomain.release": "released"}
"""The milestone of each action of the sweep that takes a name from its user, or frees it; of the operator's there is none."""


def list_wrong_milestones(tx: Tx) -> Iterator[Violation]:
    """Which milestones are about nothing that the name's terms, events or facts say?"""
    kind, about, at = milestones.c.kind, milestones.c.about, milestones.c.created_at
    this = tuple_(milestones.c.subdomain_id, about)
    ends_then = exists().where(
        (terms.c.subdomain_id == milestones.c.subdomain_id) & (terms.c.ends_at == about)
    )
    renewed_then = exists().where(
        (terms.c.subdomain_id == milestones.c.subdomain_id) & (terms.c.created_at == about)
    )
    well = or_(
        kind.in_(OF_A_TERM) & ends_then,
        and_(kind.in_(("expired", "trash_ends")), at >= about, this.in_(_events("subdomain.unsuspend"))),
        (kind == "auto_renewed") & renewed_then & (at == about),
        (kind == "auto_renew_failed") & (at == about),
        and_(kind == "trashed", at == about, this.in_(_events("subdomain.trash"))),
        and_(kind == "trash_ends", at >= about, this.in_(_events("subdomain.delete", "subdomain.trash"))),
        and_(kind == "purged", at == about, subdomains.c.purged_at == about),
        and_(kind == "released", subdomains.c.purged_at == about, subdomains.c.released_at == at),
    )
    query = select(milestones.c.id, milestones.c.subdomain_id, kind, about).select_from(
        milestones.outerjoin(subdomains, subdomains.c.id == milestones.c.subdomain_id)
    )
    for milestone_id, subdomain_id, what, instant in tx.connection.execute(
        query.where(subdomains.c.id.is_(None) | ~func.coalesce(well, False))
    ):
        sentence = (
            f"{what} about {instant.isoformat()} is nothing that happened to the subdomain {subdomain_id}"
        )
        yield Violation("milestones_are_facts", "milestone", milestone_id, sentence)
    for action, what in SWEPT.items():
        reached = select(milestones.c.subdomain_id, at).where(kind == what)
        events = audit_events.c
        untold = (
            _events(action)
            .add_columns(events.id)
            .where((events.actor_kind == "system") & tuple_(events.object_id, events.at).not_in(reached))
        )
        for subdomain_id, instant, event_id in tx.connection.execute(untold):
            sentence = f"event {event_id}: {action} of {instant.isoformat()} has no milestone `{what}`"
            yield Violation("milestones_are_facts", "subdomain", subdomain_id, sentence)


def _events(*actions: str) -> Select[Any]:
    events = audit_events.c
    told = (events.object_type == "subdomain") & events.action.in_(actions)
    return select(events.object_id, events.at).where(told)


def list_wrong_mails(tx: Tx) -> Iterator[Violation]:
    """Which milestones' mails are another user's, or of another instant? Which mails were put into the outbox twice?"""
    query = (
        select(
            milestones.c.id,
            mails.c.id,
            mails.c.user_id == subdomains.c.user_id,
            mails.c.created_at == milestones.c.created_at,
        )
        .select_from(
            milestones.join(subdomains, subdomains.c.id == milestones.c.subdomain_id).outerjoin(
                mails, mails.c.id == milestones.c.mail_id
            )
        )
        .where(
            milestones.c.mail_id.is_not(None)
            & (
                mails.c.id.is_(None)
                | (mails.c.user_id != subdomains.c.user_id)
                | (mails.c.created_at != milestones.c.created_at)
            )
        )
    )
    for milestone_id, mail_id, own, at_once in tx.connection.execute(query):
        if mail_id is not None and not own:
            sentence = f"its mail {mail_id} is to another user than its name's"
            yield Violation("rows_belong_together", "milestone", milestone_id, sentence)
        if not at_once:
            sentence = "its mail was not put into the outbox in its instant"
            yield Violation("mails_are_told_once", "milestone", milestone_id, sentence)
    for column, object_type in ((mails.c.reference, "mail"), (milestones.c.mail_id, "milestone")):
        first = select(column.label("told"), func.min(column.table.c.id).label("id")).group_by(column)
        repeated = first.where(column.is_not(None)).having(func.count() > 1).subquery()
        again = select(column.table.c.id, column).join(repeated, repeated.c.told == column)
        for row_id, told in tx.connection.execute(again.where(column.table.c.id != repeated.c.id)):
            yield Violation("mails_are_told_once", object_type, row_id, f"{told} was told before")
