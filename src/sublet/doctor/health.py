"""Check that the rows of delegation health, automatic DS and CSYNC don't contradict themselves or the
history.
"""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Select, Table, func, or_, select

from sublet.child_zones.model import CSYNC_REFUSALS, DS_REFUSALS
from sublet.db import Tx
from sublet.doctor.model import Violation, yield_violations
from sublet.health.model import BROKEN, STATES, UNKNOWN
from sublet.health.schedule import WORKING
from sublet.health.store import delegation_health, health_changes
from sublet.subdomains.child_state_store import automatic_ds, csync_states


def check_health(tx: Tx) -> Iterator[Violation]:
    """Yield every row whose columns contradict each other, and every state that isn't the last in the
    history.
    """
    health = delegation_health.c
    wrong = or_(
        health.state.not_in(STATES),
        health.next_state.is_(None) != health.next_since.is_(None),
        health.state.in_(WORKING) & health.mailed_at.is_not(None),
        (health.state != BROKEN) & health.warned_at.is_not(None),
        health.failures < 0,
    )
    query = select(health.subdomain_id.label("id"), health.state).where(wrong)
    sentence = "its health ({state}) contradicts its other columns"
    yield from yield_violations(tx, "health_is_possible", "subdomain", query, sentence)
    yield from yield_violations(
        tx,
        "health_is_recorded",
        "subdomain",
        _select_unrecorded(),
        "its health is {state}, and the last change in its history is to {changed_to}",
    )
    yield from yield_violations(
        tx,
        "wait_is_possible",
        "subdomain",
        select(automatic_ds.c.subdomain_id.label("id")).where(_is_wait_impossible()),
        "its wait for first DS records lacks a column, or automatic DS is off",
    )
    for table, codes in ((automatic_ds, DS_REFUSALS), (csync_states, CSYNC_REFUSALS)):
        query = select(table.c.subdomain_id.label("id"), table.c.refusal).where(_is_impossible(table, codes))
        sentence = f"the refusal in {table.name} ({{refusal}}) is unknown, or contradicts its other columns"
        yield from yield_violations(tx, "refusal_is_possible", "subdomain", query, sentence)


def _select_unrecorded() -> Select[tuple[int, str, str]]:
    """Return the query for states that differ from the last change in the history.

    A row that was never checked may be newer than its history.
    """
    last = select(func.max(health_changes.c.id)).group_by(health_changes.c.subdomain_id)
    return (
        select(
            delegation_health.c.subdomain_id.label("id"),
            delegation_health.c.state,
            health_changes.c.state.label("changed_to"),
        )
        .join(health_changes, health_changes.c.subdomain_id == delegation_health.c.subdomain_id)
        .where(
            health_changes.c.id.in_(last)
            & (delegation_health.c.state != UNKNOWN)
            & (delegation_health.c.state != health_changes.c.state)
        )
    )


def _is_wait_impossible() -> ColumnElement[bool]:
    known = automatic_ds.c
    others = (known.awaited_generation, known.awaited_since, known.awaited_seen_at)
    return or_(
        *(known.awaited_digest.is_(None) != each.is_(None) for each in others),
        known.awaited_digest.is_not(None) & ~(known.enabled & known.bootstrap),
    )


def _is_impossible(table: Table, codes: dict[str, str]) -> ColumnElement[bool]:
    known = table.c
    wrong = or_(
        known.refusal.is_(None) != known.message.is_(None),
        known.refusal.is_(None) != known.refused_since.is_(None),
        known.refusal.not_in(tuple(codes)),
    )
    return or_(wrong, ~known.enabled & known.refusal.is_not(None)) if "enabled" in known else wrong
