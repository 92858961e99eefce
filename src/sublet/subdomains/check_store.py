"""All SQL of the registry's invariants: each question finds the rows that break one."""

from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import Subquery, func, select

from sublet.accounts.store import users
from sublet.audit import audit_events
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.platform_domains.zone_state_store import zone_states
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import select_subdomains, stream, subdomains, terms


def stream_all(tx: Tx) -> Iterator[Subdomain]:
    """Which subdomains were there ever? In the order of their ids."""
    return stream(tx, select_subdomains().order_by(subdomains.c.id))


def list_names_held_twice(tx: Tx) -> Iterator[Violation]:
    """Which names have more than one row that is not released, or were registered before the last row was released?

    That is told by the order of the events, not by instants, which two machines may not agree on.
    """
    query = (
        select(subdomains.c.fqdn)
        .where(subdomains.c.released_at.is_(None))
        .group_by(subdomains.c.fqdn)
        .having(func.count() > 1)
    )
    for row in tx.connection.execute(query):
        yield Violation("one_row_a_name", "subdomain", row[0], "the name is held by more than one row")
    rows = select(
        subdomains.c.id,
        func.lag(subdomains.c.id)
        .over(partition_by=subdomains.c.fqdn, order_by=subdomains.c.id)
        .label("last"),
    ).subquery()
    registered, released = _event_ids("subdomain.register"), _event_ids("subdomain.release")
    query = (
        select(rows.c.id, rows.c.last)
        .select_from(
            rows.join(registered, registered.c.object_id == rows.c.id).join(
                released, released.c.object_id == rows.c.last
            )
        )
        .where(registered.c.event_id < released.c.event_id)
    )
    for subdomain_id, last in tx.connection.execute(query):
        sentence = f"it was registered while the row {last} held the name"
        yield Violation("one_row_a_name", "subdomain", subdomain_id, sentence)


def _event_ids(action: str) -> Subquery:
    events = audit_events.c
    query = select(events.object_id, func.min(events.id).label("event_id"))
    told = (events.object_type == "subdomain") & (events.action == action)
    return query.where(told).group_by(events.object_id).subquery()


def list_broken_terms(tx: Tx) -> Iterator[Violation]:
    """Which names' terms leave a gap, overlap, or do not end at the expiry? A lapsed name's may start anew when it is renewed."""
    last_end = func.lag(terms.c.ends_at).over(partition_by=terms.c.subdomain_id, order_by=terms.c.starts_at)
    following = select(
        terms.c.subdomain_id,
        terms.c.starts_at,
        terms.c.created_at,
        last_end.label("last_end"),
    ).subquery()
    began_anew = (following.c.last_end < following.c.starts_at) & (
        following.c.starts_at == following.c.created_at
    )
    query = select(following.c.subdomain_id, following.c.starts_at).where(
        (following.c.last_end != following.c.starts_at) & ~began_anew
    )
    for subdomain_id, starts_at in tx.connection.execute(query):
        sentence = f"a term starts at {starts_at}, not where the last one ended"
        yield Violation("terms_are_whole", "subdomain", subdomain_id, sentence)
    last = select(terms.c.subdomain_id, func.max(terms.c.ends_at).label("ends_at"))
    ends = last.group_by(terms.c.subdomain_id).subquery()
    with_end = select(subdomains.c.id, subdomains.c.expires_at, ends.c.ends_at).select_from(
        subdomains.outerjoin(ends, ends.c.subdomain_id == subdomains.c.id)
    )
    unpaid = with_end.where(ends.c.ends_at.is_(None) | (ends.c.ends_at != subdomains.c.expires_at))
    for subdomain_id, expires_at, ends_at in tx.connection.execute(unpaid):
        if ends_at is None:
            yield Violation("terms_are_whole", "subdomain", subdomain_id, "the name has no term at all")
        else:
            sentence = f"expires at {expires_at}, its last term ends at {ends_at}"
            yield Violation("expiry_is_paid", "subdomain", subdomain_id, sentence)


def list_held_without_user(tx: Tx) -> Iterator[Violation]:
    """Which names are said to be suspended with their user, and are not suspended, or it is not?"""
    query = (
        select(subdomains.c.id)
        .join(users, users.c.id == subdomains.c.user_id)
        .where(subdomains.c.held_with_user & subdomains.c.purged_at.is_(None))
        .where(subdomains.c.suspended_at.is_(None) | users.c.suspended_at.is_(None))
    )
    for row in tx.connection.execute(query):
        sentence = "it is marked as suspended with its user, and one of them is not suspended"
        yield Violation("held_with_user", "subdomain", row[0], sentence)


def list_users_over_quota(tx: Tx, free_quota: int) -> Iterator[Violation]:
    """Which users hold more free names than their quota? Lowering it below what is held does that too."""
    held = (
        select(subdomains.c.user_id, func.count().label("held"))
        .where((subdomains.c.registration_type == "free") & subdomains.c.trashed_at.is_(None))
        .group_by(subdomains.c.user_id)
        .subquery()
    )
    limit = func.coalesce(users.c.free_quota, free_quota)
    query = (
        select(users.c.id, held.c.held, limit)
        .join(held, held.c.user_id == users.c.id)
        .where(held.c.held > limit)
    )
    for user_id, count, allowed in tx.connection.execute(query):
        yield Violation("free_quota", "user", user_id, f"holds {count} free names, the quota is {allowed}")


def list_waiting_too_long(tx: Tx, limit: timedelta) -> Iterator[Violation]:
    """Which names wait for their publication for longer than this?"""
    query = (
        select(
            subdomains.c.id,
            subdomains.c.fqdn,
            subdomains.c.provision_error,
            zone_states.c.problem,
            zone_states.c.problem_detail,
        )
        .outerjoin(zone_states, zone_states.c.platform_domain_id == subdomains.c.platform_domain_id)
        .where(
            (subdomains.c.generation != subdomains.c.published_generation)
            & (subdomains.c.generation_at < tx.now - limit)
        )
    )
    for subdomain_id, fqdn, error, problem, detail in tx.connection.execute(query):
        sentence = f"{fqdn} waits to be published: {error or 'is the worker running?'}"
        if problem is not None:
            sentence += f" (its zone's problem is {problem}: {detail})"
        yield Violation("nothing_waits", "subdomain", subdomain_id, sentence)
