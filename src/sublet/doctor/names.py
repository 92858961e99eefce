"""Check names: their rows, terms, quotas and delegations, and the index of nameservers."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import Select, Subquery, func, select

from sublet.accounts.store import users
from sublet.audit import audit_events
from sublet.db import Tx
from sublet.dns.delegation import check_delegation
from sublet.dns.look_alikes import stored_skeleton
from sublet.doctor.model import Violation, yield_violations
from sublet.doctor.name_history import StreamById
from sublet.platform_domains.store import platform_domains
from sublet.platform_domains.zone_store import zone_states
from sublet.schema import STREAMED
from sublet.subdomains import delegation_store
from sublet.subdomains.delegation_store import host_keys
from sublet.subdomains.model import Subdomain
from sublet.subdomains.naming import canonical_domain
from sublet.subdomains.store import UNPUBLISHED, select_subdomains, stream, subdomains, terms

WAITING_MAX = timedelta(minutes=5)


def check_names(tx: Tx) -> Iterator[Violation]:
    """Yield the broken invariants of names."""
    yield from _find_held_twice(tx)
    yield from _check_terms(tx)
    yield from _check_held_with_user(tx)
    yield from _find_without_domain(tx)
    yield from _check_skeletons(tx)
    yield from _find_waiting(tx)
    hosts = StreamById(delegation_store.stream_hosts(tx))
    for subdomain, counts in zip(stream_all(tx), _stream_counts(tx), strict=True):
        for invariant, problem in _check_row(subdomain, hosts.take(subdomain.id), counts):
            yield Violation(invariant, "subdomain", subdomain.id, problem)


def stream_all(tx: Tx) -> Iterator[Subdomain]:
    """Yield all subdomains, also released ones, in the order of their ids."""
    return stream(tx, select_subdomains().order_by(subdomains.c.id))


def _stream_counts(tx: Tx) -> Iterator[tuple[int, ...]]:
    """Yield the stored numbers of nameservers, DS records and RRsets of each name, like `stream_all`."""
    columns = subdomains.c
    query = select(columns.nameserver_count, columns.ds_record_count, columns.record_count)
    for row in tx.connection.execute(query.order_by(columns.id).execution_options(**STREAMED)):
        yield tuple(row)


def _find_held_twice(tx: Tx) -> Iterator[Violation]:
    """Yield names with several unreleased rows, and rows that were registered before the former row was
    released.

    Compare the ids of the events and not their times, because the clocks of two hosts may differ.
    """
    query = (
        select(subdomains.c.fqdn.label("id"))
        .where(subdomains.c.released_at.is_(None))
        .group_by(subdomains.c.fqdn)
        .having(func.count() > 1)
    )
    yield from yield_violations(tx, "one_row_a_name", "subdomain", query, "several rows hold the name")
    former_id = func.lag(subdomains.c.id).over(partition_by=subdomains.c.fqdn, order_by=subdomains.c.id)
    rows = select(subdomains.c.id, former_id.label("former_id")).subquery()
    registered, released = _first_events("subdomain.register"), _first_events("subdomain.release")
    query = (
        select(rows.c.id, rows.c.former_id)
        .select_from(
            rows.join(registered, registered.c.object_id == rows.c.id).join(
                released, released.c.object_id == rows.c.former_id
            )
        )
        .where(registered.c.event_id < released.c.event_id)
    )
    sentence = "it was registered while the row {former_id} held the name"
    yield from yield_violations(tx, "one_row_a_name", "subdomain", query, sentence)


def _first_events(action: str) -> Subquery:
    events = audit_events.c
    query = select(events.object_id, func.min(events.id).label("event_id"))
    chosen = (events.object_type == "subdomain") & (events.action == action)
    return query.where(chosen).group_by(events.object_id).subquery()


def _check_terms(tx: Tx) -> Iterator[Violation]:
    """Yield the names whose terms have a gap, overlap, or don't end at the expiry.

    A gap is correct if the name was renewed after it lapsed.
    """
    last_end = func.lag(terms.c.ends_at).over(partition_by=terms.c.subdomain_id, order_by=terms.c.starts_at)
    following = select(
        terms.c.subdomain_id.label("id"), terms.c.starts_at, terms.c.created_at, last_end.label("last_end")
    ).subquery()
    is_after_lapse = (following.c.last_end < following.c.starts_at) & (
        following.c.starts_at == following.c.created_at
    )
    gaps = select(following.c.id, following.c.starts_at).where(
        (following.c.last_end != following.c.starts_at) & ~is_after_lapse
    )
    sentence = "a term starts at {starts_at}, not at the end of the former term"
    yield from yield_violations(tx, "terms_are_whole", "subdomain", gaps, sentence)
    ends = (
        select(terms.c.subdomain_id, func.max(terms.c.ends_at).label("ends_at"))
        .group_by(terms.c.subdomain_id)
        .subquery()
    )
    query: Select[Any] = select(subdomains.c.id, subdomains.c.expires_at, ends.c.ends_at).select_from(
        subdomains.outerjoin(ends, ends.c.subdomain_id == subdomains.c.id)
    )
    without = query.where(ends.c.ends_at.is_(None))
    yield from yield_violations(tx, "terms_are_whole", "subdomain", without, "the name has no term")
    unpaid = query.where(ends.c.ends_at != subdomains.c.expires_at)
    sentence = "it expires at {expires_at}, its last term ends at {ends_at}"
    yield from yield_violations(tx, "expiry_is_paid", "subdomain", unpaid, sentence)


def _check_held_with_user(tx: Tx) -> Iterator[Violation]:
    query = (
        select(subdomains.c.id)
        .join(users, users.c.id == subdomains.c.user_id)
        .where(subdomains.c.held_with_user & subdomains.c.purged_at.is_(None))
        .where(subdomains.c.suspended_at.is_(None) | users.c.suspended_at.is_(None))
    )
    sentence = "it is marked as suspended with its user, but one of them isn't suspended"
    yield from yield_violations(tx, "held_with_user", "subdomain", query, sentence)


def _find_without_domain(tx: Tx) -> Iterator[Violation]:
    query = (
        select(subdomains.c.id, subdomains.c.fqdn)
        .join(platform_domains, platform_domains.c.id == subdomains.c.platform_domain_id)
        .where(platform_domains.c.removed_at.is_not(None) & subdomains.c.released_at.is_(None))
    )
    sentence = "{fqdn} is not released, but its platform domain was removed"
    yield from yield_violations(tx, "domain_is_there", "subdomain", query, sentence)


def _check_skeletons(tx: Tx) -> Iterator[Violation]:
    query = select(subdomains.c.id, subdomains.c.label, subdomains.c.skeleton).where(
        subdomains.c.released_at.is_(None)
    )
    for subdomain_id, label, stored in tx.connection.execute(query.execution_options(**STREAMED)):
        if stored != stored_skeleton(label):
            sentence = "the skeleton of its label is wrong, so a name that looks alike could be registered"
            yield Violation("skeleton_is_current", "subdomain", subdomain_id, sentence)


def _find_waiting(tx: Tx) -> Iterator[Violation]:
    query = (
        select(
            subdomains.c.id,
            subdomains.c.fqdn,
            subdomains.c.provision_error,
            zone_states.c.problem,
            zone_states.c.problem_detail,
        )
        .outerjoin(zone_states, zone_states.c.platform_domain_id == subdomains.c.platform_domain_id)
        .where(UNPUBLISHED & (subdomains.c.generation_at < tx.now - WAITING_MAX))
    )
    for subdomain_id, fqdn, error, problem, detail in tx.connection.execute(query):
        sentence = f"{fqdn} waits to be published: {error or 'is the worker running?'}"
        if problem is not None:
            sentence += f" (its zone's problem is {problem}: {detail})"
        yield Violation("nothing_waits", "subdomain", subdomain_id, sentence)


def _check_row(subdomain: Subdomain, hosts: list[str], counts: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Yield the invariants that a name's own row breaks, each with a sentence.

    `hosts` are its nameservers in the index, and `counts` come from `_stream_counts`.
    """
    delegation = subdomain.delegation
    right = (len(delegation.nameservers), len(delegation.ds_records), len(subdomain.records))
    if counts != right:
        yield (
            "counts_are_right",
            f"its stored numbers of nameservers, DS records and RRsets are {counts}, but it has {right}",
        )
    checked, errors = check_delegation(
        subdomain.fqdn,
        delegation.nameservers,
        delegation.glue,
        delegation.ds_records,
        nameservers_min=0,
        nameservers_max=13,
    )
    if errors:
        yield "delegation_is_valid", "; ".join(each.message for each in errors)
    elif checked != delegation:
        yield "delegation_is_valid", "its delegation isn't stored in canonical form"
    if subdomain.purged_at is not None and delegation.nameservers:
        yield "purged_is_empty", "a purged name still has its delegation"
    if subdomain.fqdn != f"{subdomain.label}.{subdomain.domain}":
        yield "fqdn", f"{subdomain.fqdn} isn't its label under its platform domain"
    elif subdomain.fqdn != canonical_domain(subdomain.fqdn):
        yield "fqdn", f"{subdomain.fqdn} isn't in canonical form, so another row may hold the same name"
    if set(hosts) != set(host_keys(subdomain.fqdn, delegation)):
        yield (
            "nameservers_are_indexed",
            "the index has other nameservers than the name, so a name that it needs could be released",
        )
