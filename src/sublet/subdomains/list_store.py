"""The SQL of lists of names, with filters."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    column,
    false,
    literal,
    not_,
    or_,
    select,
    table,
    true,
)

from sublet.accounts.store import within_names
from sublet.audit import Actor
from sublet.db import Pages, Tx
from sublet.ids import Position
from sublet.platform_domains.model import ADMIN
from sublet.platform_domains.store import platform_domains
from sublet.restrictions import Restrictions
from sublet.schema import STREAMED, Instant, older
from sublet.subdomains.lifecycle import RENEWAL_REST
from sublet.subdomains.model import ShownSubdomain, Subdomain, SubdomainFilter
from sublet.subdomains.naming import contains, needs_unicode, search_text
from sublet.subdomains.store import (
    NOT_PURGED,
    TRASHED,
    UNPUBLISHED,
    read_subdomains,
    select_subdomains,
    subdomains,
)

S = TypeVar("S", bound=ShownSubdomain)
_HEALTH = table("delegation_health", column("subdomain_id"), column("state"))
"""The table of `health/store.py`, which this module can't import, because `health` imports `subdomains`."""
_IN_TRASH, _LIVE = NOT_PURGED & TRASHED, NOT_PURGED & ~TRASHED
_OWN_PAGES = Pages(
    select_subdomains(ShownSubdomain).where((subdomains.c.user_id == bindparam("owner_id")) & _LIVE),
    subdomains.c.created_at,
    subdomains.c.id,
    lambda rows: read_subdomains(ShownSubdomain, rows),
)


def own_pages(restrictions: Restrictions, wanted: SubdomainFilter) -> Pages[ShownSubdomain] | None:
    """Return the pages of the live subdomains of a user (`owner_id`), newest first.

    None if the filters or the token exclude names.
    """
    return _OWN_PAGES if wanted.is_empty and restrictions.allows_all_names else None


def list_own(
    tx: Tx, actor: Actor, wanted: SubdomainFilter, limit: int, after: Position | None
) -> list[ShownSubdomain]:
    """Return the user's subdomains that match the filters and the token's restrictions, newest first.

    Names in the trash are included only with the status `trashed`.
    """
    if (pages := own_pages(actor.restrictions, wanted)) is not None:
        return pages.read(tx, limit, after, owner_id=actor.holder_id)
    query = _filtered(tx, select_subdomains(ShownSubdomain), wanted, actor.holder_id)
    query = query.where(within_names(actor.restrictions, subdomains.c.fqdn))
    if wanted.status == "trashed":
        query = query.where(_restorable_condition(tx))
    if after is not None:
        query = query.where(older(subdomains.c.created_at, subdomains.c.id, after))
    return _newest(tx, ShownSubdomain, query, wanted, limit)


def list_all(tx: Tx, wanted: SubdomainFilter, limit: int, *, user_id: int | None = None) -> list[Subdomain]:
    """Return the subdomains of all users, or of the user `user_id`, that match the filters, newest first."""
    return _newest(tx, Subdomain, _filtered(tx, select_subdomains(), wanted, user_id), wanted, limit)


def ids_with_records(tx: Tx, ids: Sequence[int]) -> set[int]:
    """Return which of these subdomains have records."""
    query = select(subdomains.c.id).where(subdomains.c.id.in_(ids), subdomains.c.record_count > 0)
    return set(tx.connection.execute(query).scalars())


def _newest(tx: Tx, of: type[S], query: Select[Any], wanted: SubdomainFilter, limit: int) -> list[S]:
    """Return the newest names of a query.

    Python searches Unicode forms, because the database stores only A-labels.
    """
    query = query.order_by(subdomains.c.created_at.desc(), subdomains.c.id.desc())
    text = search_text(wanted.q or "")
    if not needs_unicode(text):
        return read_subdomains(of, tx.connection.execute(query.limit(limit)))
    with closing(tx.connection.execute(query.execution_options(**STREAMED))) as rows:
        found = (row for row in rows if contains(row.fqdn, text))
        return read_subdomains(of, islice(found, limit))


def _filtered(tx: Tx, query: Select[Any], wanted: SubdomainFilter, user_id: int | None) -> Select[Any]:
    if user_id is not None:
        query = query.where(subdomains.c.user_id == user_id)
    query = query.where(_IN_TRASH if wanted.status == "trashed" else _LIVE)
    if wanted.status not in (None, "trashed"):
        query = query.where(_status_condition(tx, str(wanted.status)))
    if wanted.domain is not None:
        query = query.where(platform_domains.c.domain == wanted.domain)
    if wanted.q is not None:
        text = search_text(wanted.q)
        found = subdomains.c.fqdn.contains(text, autoescape=True)
        query = query.where(found | subdomains.c.fqdn.contains("xn--") if needs_unicode(text) else found)
    query = query.where(*_conditions_without_clock(wanted))
    if wanted.renewal_available is not None:
        renewable = false() if wanted.user_suspended else _renewal_condition(tx, user_id)
        query = query.where(renewable if wanted.renewal_available else not_(renewable))
    return query


def _conditions_without_clock(wanted: SubdomainFilter) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of the filters that don't depend on the clock."""
    if wanted.registration_type is not None:
        yield subdomains.c.registration_type == wanted.registration_type
    if wanted.expires_before is not None:
        yield subdomains.c.expires_at < wanted.expires_before
    if wanted.expires_after is not None:
        yield subdomains.c.expires_at > wanted.expires_after
    if wanted.dnssec_enabled is not None:
        signed = subdomains.c.ds_record_count > 0
        yield signed if wanted.dnssec_enabled else ~signed
    if wanted.health is not None:
        yield _health_condition(wanted.health)


def _health_condition(state: str) -> ColumnElement[bool]:
    """Return the condition for names with this state of health.

    Names that were never checked have the state unknown.
    """
    known = select(_HEALTH.c.subdomain_id).where(_HEALTH.c.subdomain_id == subdomains.c.id)
    if state == "unknown":
        return ~known.where(_HEALTH.c.state != "unknown").exists()
    return known.where(_HEALTH.c.state == state).exists()


BROKEN_NAMES = select(subdomains.c.id, subdomains.c.created_at).where(
    (subdomains.c.user_id == bindparam("owner_id")) & _LIVE & _health_condition("broken")
)
"""A query of the live names of the user `owner_id` with broken delegations, for other tables' stores."""


def _restorable_condition(tx: Tx) -> ColumnElement[bool]:
    """Return the rule `lifecycle.is_restorable` as an SQL condition, for names in the trash."""
    days = platform_domains.c.trash_days
    since = _instants(days, tx.connection.execute(select(days).distinct()).scalars(), lambda of: tx.now - of)
    return or_(
        subdomains.c.suspended_at.is_not(None),
        subdomains.c.trashed_at > since,
        subdomains.c.unsuspended_at > since,
    )


def _renewal_condition(tx: Tx, user_id: int | None) -> ColumnElement[bool]:
    """Return the rule `lifecycle.renewal_available` as an SQL condition. A test compares the two."""
    window, period = platform_domains.c.renewal_window_days, subdomains.c.period_days
    days = case((window < period, window), else_=period)
    of_these = true() if user_id is None else subdomains.c.user_id == user_id
    in_use = select(days).select_from(subdomains.join(platform_domains)).where(of_these).distinct()
    open_until = _instants(days, tx.connection.execute(in_use).scalars(), lambda of: tx.now + of)
    rested = or_(
        subdomains.c.last_renewed_at.is_(None), subdomains.c.last_renewed_at <= tx.now - RENEWAL_REST
    )
    return and_(
        subdomains.c.registration_type != ADMIN,
        subdomains.c.suspended_at.is_(None),
        subdomains.c.trashed_at.is_(None),
        platform_domains.c.names_until.is_(None),
        rested,
        subdomains.c.expires_at <= open_until,
    )


def _instants(
    days: ColumnElement[int], in_use: Iterable[int], instant: Callable[[timedelta], datetime]
) -> ColumnElement[datetime]:
    """Return an SQL expression that maps each row's number of days to an instant.

    SQLite and PostgreSQL differ in date arithmetic, so Python computes the instant of each number `in_use`.
    One CASE maps all of them, because SQLite doesn't allow a thousand conditions.
    """
    of_days = {each: literal(instant(timedelta(days=each)), Instant()) for each in in_use}
    return case(of_days, value=days) if of_days else literal(None, Instant())


def _status_condition(tx: Tx, status: str) -> ColumnElement[bool]:
    """Return the rule `lifecycle.derive_status` as an SQL condition. A test compares the two."""
    suspended = subdomains.c.suspended_at.is_not(None)
    expired = subdomains.c.expires_at <= tx.now
    failed = UNPUBLISHED & subdomains.c.provision_error.is_not(None)
    inactive = (subdomains.c.nameserver_count == 0) & (subdomains.c.record_count == 0)
    chain = [("suspended", suspended), ("expired", expired), ("failed", failed)]
    chain += [("provisioning", UNPUBLISHED), ("inactive", inactive), ("active", ~inactive)]
    names = [name for name, _ in chain]
    position = names.index(status)
    return and_(chain[position][1], *(~condition for _, condition in chain[:position]))
