"""All SQL of the registry's invariants: each question finds the rows that break one."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import func, select

from sublet.accounts.store import users
from sublet.audit import audit_events
from sublet.credits.store import transfers
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import fetch, select_subdomains, subdomains
from sublet.subdomains.term_store import terms


def list_all(tx: Tx) -> list[Subdomain]:
    """Which subdomains were there ever?"""
    return fetch(tx, select_subdomains().order_by(subdomains.c.id))


def list_names_held_twice(tx: Tx) -> Iterator[Violation]:
    """Which names have more than one row that is not released?"""
    query = (
        select(subdomains.c.fqdn)
        .where(subdomains.c.released_at.is_(None))
        .group_by(subdomains.c.fqdn)
        .having(func.count() > 1)
    )
    for row in tx.connection.execute(query):
        yield Violation("one_row_a_name", "subdomain", row[0], "the name is held by more than one row")


def list_broken_terms(tx: Tx) -> Iterator[Violation]:
    """Which names' terms leave a gap, overlap, or do not end at the expiry? A lapsed name's may start anew when it is renewed."""
    query = (
        select(
            terms.c.subdomain_id,
            terms.c.starts_at,
            terms.c.ends_at,
            terms.c.created_at,
            subdomains.c.expires_at,
        )
        .join(subdomains)
        .order_by(terms.c.subdomain_id, terms.c.starts_at)
    )
    ends: dict[int, datetime] = {}
    expiries: dict[int, object] = {}
    for subdomain_id, starts_at, ends_at, created_at, expires_at in tx.connection.execute(query):
        if (
            subdomain_id in ends
            and ends[subdomain_id] != starts_at
            and not (ends[subdomain_id] < starts_at == created_at)
        ):
            yield Violation(
                "terms_are_whole",
                "subdomain",
                subdomain_id,
                f"a term starts at {starts_at}, not where the last one ended",
            )
        ends[subdomain_id], expiries[subdomain_id] = ends_at, expires_at
    for subdomain_id, expires_at in expiries.items():
        if ends[subdomain_id] != expires_at:
            yield Violation(
                "expiry_is_paid",
                "subdomain",
                subdomain_id,
                f"expires at {expires_at}, its last term ends at {ends[subdomain_id]}",
            )
    without = select(subdomains.c.id).where(subdomains.c.id.not_in(select(terms.c.subdomain_id)))
    for row in tx.connection.execute(without):
        yield Violation("terms_are_whole", "subdomain", row[0], "the name has no term at all")


def list_wrong_charges(tx: Tx) -> Iterator[Violation]:
    """Which charges belong to no term, or to one that says another amount or another name?"""
    query = (
        select(
            transfers.c.id,
            transfers.c.credits,
            transfers.c.subdomain_id,
            terms.c.charged_credits,
            terms.c.subdomain_id,
        )
        .select_from(transfers.outerjoin(terms, terms.c.transfer_id == transfers.c.id))
        .where(transfers.c.kind == "charge")
    )
    for transfer_id, charged, of_subdomain, wanted, term_of in tx.connection.execute(query):
        if wanted is None:
            yield Violation(
                "charge_has_its_term",
                "transfer",
                transfer_id,
                "the charge belongs to no registration or renewal",
            )
        elif charged != wanted or of_subdomain != term_of:
            yield Violation(
                "charge_has_its_term", "transfer", transfer_id, f"charged {charged}, the term says {wanted}"
            )
    kinds = select(terms.c.id).join(transfers).where(transfers.c.kind != "charge")
    for row in tx.connection.execute(kinds):
        yield Violation(
            "charge_has_its_term", "term", row[0], "the term is paid by something that is no charge"
        )


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


def list_unaudited(tx: Tx) -> Iterator[Violation]:
    """Which subdomains have no event that tells of their registration?"""
    told = select(audit_events.c.object_id).where(
        (audit_events.c.object_type == "subdomain") & (audit_events.c.action == "subdomain.register")
    )
    for row in tx.connection.execute(select(subdomains.c.id).where(subdomains.c.id.not_in(told))):
        yield Violation("audited", "subdomain", row[0], "no audit event tells of the registration")


def list_waiting_too_long(tx: Tx, limit: timedelta) -> Iterator[Violation]:
    """Which names wait for their publication for longer than this?"""
    query = select(subdomains.c.id, subdomains.c.fqdn, subdomains.c.provision_error).where(
        (subdomains.c.generation != subdomains.c.published_generation)
        & (subdomains.c.updated_at < tx.now - limit)
    )
    for subdomain_id, fqdn, error in tx.connection.execute(query):
        yield Violation(
            "nothing_waits",
            "subdomain",
            subdomain_id,
            f"{fqdn} waits to be published: {error or 'is the worker running?'}",
        )
