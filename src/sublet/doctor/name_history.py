"""Check the history of names: replay the events and terms of each row, and check that each milestone has an
event, term or date.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, tuple_

from sublet.audit import audit_events
from sublet.db import Tx
from sublet.doctor.model import Violation, select_repeated, was_transferred, yield_violations
from sublet.mail.store import mails
from sublet.schema import STREAMED
from sublet.subdomains.replay import EMPTY_DELEGATION, Event, PastTerm, RowFields, replay
from sublet.subdomains.store import subdomains, terms
from sublet.subdomains.sweep.store import milestones

T = TypeVar("T")

TERM_MILESTONES = ("renewal_opens", "expires_in_30_days", "expires_in_7_days", "expires_in_1_day", "expired")
"""The milestones about the end of a term."""
SWEEP_MILESTONES = {
    "subdomain.trash": "trashed",
    "subdomain.purge": "purged",
    "subdomain.release": "released",
}
"""The milestones of the sweep's actions. The operator's actions have no milestones."""
_PUBLISHER_ACTIONS = ("subdomain.publish", "subdomain.publish_failed", "subdomain.hand_over")
"""The publisher's events, which are most of the audit. They don't change the row of a name."""
_ROW_COLUMNS = tuple(name for name in RowFields.__struct_fields__ if name != "delegation")
_TERM_COLUMNS = tuple(PastTerm.__struct_fields__)


def check_name_history(tx: Tx) -> Iterator[Violation]:
    """Yield the contradictions between the row, the events and the terms of each name.

    One name at a time is in memory.
    """
    events = StreamById(_stream_events(tx))
    terms_ = StreamById(_stream_terms(tx))
    for subdomain_id, row in _stream_rows(tx):
        for fault in replay(events.take(subdomain_id), terms_.take(subdomain_id), row):
            yield Violation(fault.invariant, "subdomain", subdomain_id, fault.message)
        yield from _find_missing_rows(events)
    events.take(None)
    yield from _find_missing_rows(events)


def _find_missing_rows(events: "StreamById[Event]") -> Iterator[Violation]:
    for subdomain_id in events.unmatched_ids:
        sentence = "the audit has events for it, but its row is missing"
        yield Violation("rows_stay", "subdomain", subdomain_id, sentence)
    events.unmatched_ids.clear()


class StreamById(Generic[T]):
    """A stream of items ordered by the id of their row.

    The caller takes the items of each row, in the same order of ids.

    `unmatched_ids` are the ids in the stream that the caller skipped.
    """

    def __init__(self, rows: Iterator[tuple[int, T]]) -> None:
        self._rows = rows
        self._next = next(rows, None)
        self.unmatched_ids: list[int] = []

    def take(self, subdomain_id: int | None) -> list[T]:
        """Return the items of this id. With None, read the stream to its end."""
        taken: list[T] = []
        while self._next is not None and (subdomain_id is None or self._next[0] <= subdomain_id):
            owner_id, item = self._next
            if owner_id == subdomain_id:
                taken.append(item)
            elif self.unmatched_ids[-1:] != [owner_id]:
                self.unmatched_ids.append(owner_id)
            self._next = next(self._rows, None)
        return taken


def _stream_rows(tx: Tx) -> Iterator[tuple[int, RowFields]]:
    columns = [subdomains.c[name] for name in ("id", *_ROW_COLUMNS, *EMPTY_DELEGATION)]
    query = select(*columns).order_by(subdomains.c.id).execution_options(**STREAMED)
    for row in tx.connection.execute(query).mappings():
        values = {name: row[name] for name in _ROW_COLUMNS}
        yield row["id"], RowFields(delegation={name: row[name] for name in EMPTY_DELEGATION}, **values)


def _stream_events(tx: Tx) -> Iterator[tuple[int, Event]]:
    names = ("object_id", "id", "at", "actor_kind", "user_id", "action", "before", "after")
    query = (
        select(*(audit_events.c[name] for name in names))
        .where((audit_events.c.object_type == "subdomain") & audit_events.c.action.not_in(_PUBLISHER_ACTIONS))
        .order_by(audit_events.c.object_id, audit_events.c.id)
        .execution_options(**STREAMED)
    )
    for subdomain_id, event_id, at, actor_kind, user_id, action, before, after in tx.connection.execute(
        query
    ):
        verb = action.removeprefix("subdomain.")
        yield subdomain_id, Event(event_id, at, actor_kind, verb, before or {}, after or {}, user_id)


def _stream_terms(tx: Tx) -> Iterator[tuple[int, PastTerm]]:
    query = (
        select(terms.c.subdomain_id, *(terms.c[name] for name in _TERM_COLUMNS))
        .order_by(terms.c.subdomain_id, terms.c.id)
        .execution_options(**STREAMED)
    )
    for subdomain_id, *values in tx.connection.execute(query):
        yield subdomain_id, PastTerm(*values)


def check_milestones(tx: Tx) -> Iterator[Violation]:
    """Yield the broken invariants of the milestones and their mails."""
    yield from _find_unfounded_milestones(tx)
    yield from _find_missing_milestones(tx)
    yield from _find_wrong_mails(tx)
    yield from _find_repeated_mails(tx)


def _find_unfounded_milestones(tx: Tx) -> Iterator[Violation]:
    """Yield the milestones without a matching term, event or date of their name."""
    kind, about, at = milestones.c.kind, milestones.c.about, milestones.c.created_at
    its_terms = terms.c.subdomain_id == milestones.c.subdomain_id
    is_founded = or_(
        kind.in_(TERM_MILESTONES) & exists().where(its_terms & (terms.c.ends_at == about)),
        and_(kind.in_(("expired", "trash_ends")), at >= about, _happened("subdomain.unsuspend")),
        and_(kind == "auto_renewed", at == about, exists().where(its_terms & (terms.c.created_at == about))),
        (kind == "auto_renew_failed") & (at == about),
        and_(kind == "trashed", at == about, _happened("subdomain.trash")),
        and_(kind == "trash_ends", at >= about, _happened("subdomain.delete", "subdomain.trash")),
        and_(kind == "purged", at == about, subdomains.c.purged_at == about),
        and_(kind == "released", subdomains.c.purged_at == about, subdomains.c.released_at == at),
    )
    query = (
        select(milestones.c.id, milestones.c.subdomain_id, kind, about)
        .select_from(milestones.outerjoin(subdomains, subdomains.c.id == milestones.c.subdomain_id))
        .where(subdomains.c.id.is_(None) | ~func.coalesce(is_founded, False))
    )
    sentence = "the subdomain {subdomain_id} has no term, event or date for {kind} at {about}"
    yield from yield_violations(tx, "milestones_are_facts", "milestone", query, sentence)


def _find_missing_milestones(tx: Tx) -> Iterator[Violation]:
    """Yield the names with an action of the sweep that has no milestone."""
    events = audit_events.c
    for action, kind in SWEEP_MILESTONES.items():
        reached = select(milestones.c.subdomain_id, milestones.c.created_at).where(milestones.c.kind == kind)
        query = select(events.object_id.label("id"), events.id.label("event_id"), events.at).where(
            (events.object_type == "subdomain")
            & (events.action == action)
            & (events.actor_kind == "system")
            & tuple_(events.object_id, events.at).not_in(reached)
        )
        sentence = f"event {{event_id}}: {action} at {{at}} has no milestone `{kind}`"
        yield from yield_violations(tx, "milestones_are_facts", "subdomain", query, sentence)


def _happened(*actions: str) -> ColumnElement[bool]:
    """Return the condition that one of these events happened to the milestone's name at the time that the
    milestone is about.
    """
    events = audit_events.c
    of_name = (events.object_type == "subdomain") & (events.object_id == milestones.c.subdomain_id)
    # Not IN, for which SQLite reads all events of these actions for each milestone without one.
    return exists().where(of_name & events.action.in_(actions) & (events.at == milestones.c.about))


def _find_wrong_mails(tx: Tx) -> Iterator[Violation]:
    query = (
        select(milestones.c.id, milestones.c.mail_id)
        .select_from(
            milestones.join(subdomains, subdomains.c.id == milestones.c.subdomain_id).outerjoin(
                mails, mails.c.id == milestones.c.mail_id
            )
        )
        .where(milestones.c.mail_id.is_not(None))
    )
    foreign = query.where(
        (mails.c.user_id != subdomains.c.user_id) & ~was_transferred(subdomains.c.id, mails.c.user_id)
    )
    sentence = "its mail {mail_id} goes to another user than the holder of the name"
    yield from yield_violations(tx, "rows_belong_together", "milestone", foreign, sentence)
    mismatched = query.where(mails.c.id.is_(None) | (mails.c.created_at != milestones.c.created_at))
    sentence = "its mail was not added to the outbox at the same time"
    yield from yield_violations(tx, "mails_are_told_once", "milestone", mismatched, sentence)


def _find_repeated_mails(tx: Tx) -> Iterator[Violation]:
    for column, object_type in ((mails.c.reference, "mail"), (milestones.c.mail_id, "milestone")):
        sentence = f"an earlier {object_type} has {{value}}, too"
        yield from yield_violations(tx, "mails_are_told_once", object_type, select_repeated(column), sentence)
