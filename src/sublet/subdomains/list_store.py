"""All SQL of lists of subdomains: the filters of GET /subdomains, and of the operator's list."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, false, literal, not_, or_, select, true

from sublet.accounts.store import users
from sublet.db import Pages, Tx
from sublet.ids import Position
from sublet.platform_domains.store import platform_domains
from sublet.schema import STREAMED, Instant, older
from sublet.subdomains.lifecycle import RENEWAL_REST
from sublet.subdomains.model import ShownSubdomain, Subdomain, SubdomainFilter
from sublet.subdomains.search import contains, needs_unicode, search_text
from sublet.subdomains.store import NOT_PURGED, UNPUBLISHED, read_subdomains, select_subdomains, subdomains

S = TypeVar("S", bound=ShownSubdomain)

_TRASHED = subdomains.c.trashed_at.is_not(None)
_IN_TRASH, _LIVE = NOT_PURGED & _TRASHED, NOT_PURGED & ~_TRASHED
_OWN = Pages(
    select_subdomains(ShownSubdomain).where((subdomains.c.user_id == bindparam("owner_id")) & _LIVE),
    subdomains.c.created_at,
    subdomains.c.id,
)


def list_own(
    tx: Tx, user_id: int, wanted: SubdomainFilter, limit: int, after: Position | None
) -> list[ShownSubdomain]:
    """Which subdomains of this user pass these filters? Newest first; those in the trash only when asked for."""
    if wanted.is_empty:
        return read_subdomains(ShownSubdomain, _OWN.rows(tx, limit, after, owner_id=user_id))
    query = _filtered(tx, select_subdomains(ShownSubdomain), wanted, user_id)
    if wanted.status == "trashed":
        query = query.where(_restorable_condition(tx))
    if after is not None:
        query = query.where(older(subdomains.c.created_at, subdomains.c.id, after))
    return _newest(tx, ShownSubdomain, query, wanted, limit)


def list_all(tx: Tx, wanted: SubdomainFilter, limit: int, *, user_id: int | None = None) -> list[Subdomain]:
    """Which subdomains, of all users or of one, pass these filters? Newest first."""
    return _newest(tx, Subdomain, _filtered(tx, select_subdomains(), wanted, user_id), wanted, limit)


def _newest(tx: Tx, of: type[S], query: Select[Any], wanted: SubdomainFilter, limit: int) -> list[S]:
    """Return the newest names of a filtered query. The database has no Unicode forms: a search that needs them reads on until it has enough."""
    query = query.order_by(subdomains.c.created_at.desc(), subdomains.c.id.desc())
    text = search_text(wanted.q or "")
    if not needs_unicode(text):
        return read_subdomains(of, tx.connection.execute(query.limit(limit)))
    with closing(tx.connection.execute(query.execution_options(**STREAMED))) as rows:
        found = (row for row in rows if contains(row.fqdn, text))
        return read_subdomains(of, islice(found, limit))


def stream_held(tx: Tx) -> Iterator[tuple[int, int, str, str, str]]:
    """Which names are held, live or in the trash? Each as its id, its platform domain's, label, fqdn and its user's address."""
    query = (
        select(
            subdomains.c.id,
            subdomains.c.platform_domain_id,
            subdomains.c.label,
            subdomains.c.fqdn,
            users.c.email,
        )
        .select_from(subdomains.join(users))
        .where(NOT_PURGED)
        .order_by(subdomains.c.fqdn)
    )
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield row[0], row[1], row[2], row[3], row[4]


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
    if wanted.registration_type is not None:
        query = query.where(subdomains.c.registration_type == wanted.registration_type)
    if wanted.expires_before is not None:
        query = query.where(subdomains.c.expires_at < wanted.expires_before)
    if wanted.expires_after is not None:
        query = query.where(subdomains.c.expires_at > wanted.expires_after)
    if wanted.dnssec_enabled is not None:
        signed = subdomains.c.ds_record_count > 0
        query = query.where(signed if wanted.dnssec_enabled else ~signed)
    if wanted.renewal_available is not None:
        renewable = false() if wanted.user_suspended else _renewal_condition(tx, user_id)
        query = query.where(renewable if wanted.renewal_available else not_(renewable))
    return query


def _restorable_condition(tx: Tx) -> ColumnElement[bool]:
    """`lifecycle.is_restorable` in SQL, for names in the trash: a name stays there until it is purged."""
    days = platform_domains.c.trash_days
    since = _instants(days, tx.connection.execute(select(days).distinct()).scalars(), lambda of: tx.now - of)
    return or_(
        subdomains.c.suspended_at.is_not(None),
        subdomains.c.trashed_at > since,
        subdomains.c.unsuspended_at > since,
    )


def _renewal_condition(tx: Tx, user_id: int | None) -> ColumnElement[bool]:
    """`lifecycle.renewal_available` in SQL, for filtering; a test holds the two together."""
    window, period = platform_domains.c.renewal_window_days, subdomains.c.period_days
    days = case((window < period, window), else_=period)
    of_these = true() if user_id is None else subdomains.c.user_id == user_id
    in_use = select(days).select_from(subdomains.join(platform_domains)).where(of_these).distinct()
    open_until = _instants(days, tx.connection.execute(in_use).scalars(), lambda of: tx.now + of)
    rested = or_(
        subdomains.c.last_renewed_at.is_(None), subdomains.c.last_renewed_at <= tx.now - RENEWAL_REST
    )
    return and_(
        subdomains.c.suspended_at.is_(None),
        subdomains.c.trashed_at.is_(None),
        rested,
        subdomains.c.expires_at <= open_until,
    )


def _instants(
    days: ColumnElement[int], in_use: Iterable[int], instant: Callable[[timedelta], datetime]
) -> ColumnElement[datetime]:
    """Return the instant that belongs to a row's number of days, of those in use: no two engines reckon with days alike.

    One CASE and not a condition for each, of which SQLite allows no thousand.
    """
    of_days = {each: literal(instant(timedelta(days=each)), Instant()) for each in in_use}
    return case(of_days, value=days) if of_days else literal(None, Instant())


def _status_condition(tx: Tx, status: str) -> ColumnElement[bool]:
    """`lifecycle.derive_status` in SQL, for filtering; a test holds the two together."""
    suspended = subdomains.c.suspended_at.is_not(None)
    expired = subdomains.c.expires_at <= tx.now
    failed = UNPUBLISHED & subdomains.c.provision_error.is_not(None)
    inactive = subdomains.c.nameserver_count == 0
    chain = [("suspended", suspended), ("expired", expired), ("failed", failed)]
    chain += [("provisioning", UNPUBLISHED), ("inactive", inactive), ("active", ~inactive)]
    names = [name for name, _ in chain]
    position = names.index(status)
    return and_(chain[position][1], *(~condition for _, condition in chain[:position]))
