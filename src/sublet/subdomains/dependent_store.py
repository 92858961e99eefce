"""All SQL of dependents: the names with nameservers at or below another name."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Integer, bindparam, or_, select, true, update

from sublet.db import Prepared, Tx
from sublet.dns.names import owner_key
from sublet.schema import STREAMED
from sublet.subdomains.delegation_store import nameserver_hosts
from sublet.subdomains.store import subdomains

_HOSTS = nameserver_hosts.c
# One range, which the index answers, as in `zone_store`.
_AT_OR_BELOW = (
    (_HOSTS.host_key >= bindparam("at"))
    & (_HOSTS.host_key < bindparam("end"))
    & ((_HOSTS.host_key == bindparam("at")) | (_HOSTS.host_key > bindparam("below")))
)
_STANDS = _HOSTS.dropped_generation.is_(None)
_JOINED = nameserver_hosts.join(subdomains, subdomains.c.id == _HOSTS.subdomain_id)


@dataclass(frozen=True, slots=True)
class Dependent:
    """A name with a nameserver at or below another name, and its user."""

    id: int
    user_id: int


def _range(name: str) -> dict[str, str]:
    key = owner_key(name)
    return {"at": key, "below": key + ".", "end": key + "/"}


def _dependents(of: ColumnElement[bool]) -> Prepared:
    # Not a join: SQLite would walk through all names in the order that is asked for.
    found = select(_HOSTS.subdomain_id).where(_AT_OR_BELOW & _STANDS & of)
    query = select(subdomains.c.id, subdomains.c.user_id).where(subdomains.c.id.in_(found))
    return Prepared(query.order_by(subdomains.c.id).limit(bindparam("at_most", type_=Integer)))


_DEPENDENTS = _dependents(true())
_UNTOLD = _dependents(
    or_(
        _HOSTS.told_since.is_(None), _HOSTS.told_since != bindparam("since"), _HOSTS.told < bindparam("stage")
    )
)


def list_dependents(tx: Tx, name: str, limit: int) -> list[Dependent]:
    """Which names have a nameserver at or below this one?"""
    return [Dependent(*row) for row in _DEPENDENTS.all(tx, **_range(name), at_most=limit)]


def list_untold(tx: Tx, name: str, stage: int, since: datetime, limit: int) -> list[Dependent]:
    """Which names have a nameserver at or below this one, and were not told of this stage of its stay in the trash?"""
    rows = _UNTOLD.all(tx, **_range(name), stage=stage, since=since, at_most=limit)
    return [Dependent(*row) for row in rows]


_TOLD = Prepared(
    update(nameserver_hosts)
    .where(_AT_OR_BELOW & _STANDS & (_HOSTS.subdomain_id == bindparam("of")))
    .values(told=bindparam("stage"), told_since=bindparam("since"))
)


def mark_told(tx: Tx, subdomain_id: int, name: str, stage: int, since: datetime) -> None:
    """Store that the holder of a name was told what becomes of its nameservers at or below another one."""
    _TOLD.run(tx, of=subdomain_id, **_range(name), stage=stage, since=since)


OF_OTHERS = (
    select(_HOSTS.subdomain_id)
    .select_from(_JOINED)
    .where(
        _AT_OR_BELOW
        & (subdomains.c.user_id != bindparam("besides_user"))
        & (_STANDS | (_HOSTS.dropped_generation > subdomains.c.published_generation))
    )
)
"""The nameservers at or below a name that names of other users have, or that the DNS may still have; for `free_name_store`."""
_ANY_OF_OTHERS = Prepared(OF_OTHERS.limit(1))


def has_dependents(tx: Tx, name: str, *, besides_user_id: int = 0) -> bool:
    """Does any name have a nameserver at or below this one, or had one that the DNS may still have?

    Names of the user `besides_user_id` don't count.
    """
    return bool(_ANY_OF_OTHERS.all(tx, **_range(name), besides_user=besides_user_id))


def stream_hosts(tx: Tx) -> Iterator[tuple[int, str]]:
    """Which nameservers are indexed? The ids of their names and their owner keys, by id."""
    query = select(_HOSTS.subdomain_id, _HOSTS.host_key).where(_STANDS)
    query = query.order_by(_HOSTS.subdomain_id, _HOSTS.host_key).execution_options(**STREAMED)
    for row in tx.connection.execute(query):
        yield row[0], row[1]


def stream_hosts_below(tx: Tx, domain: str) -> Iterator[tuple[int, str, str]]:
    """Which names have a nameserver below this domain? Their ids, names and the nameservers' owner keys."""
    key = owner_key(domain)
    query = select(_HOSTS.subdomain_id, subdomains.c.fqdn, _HOSTS.host_key).select_from(_JOINED)
    below = (_HOSTS.host_key > key + ".") & (_HOSTS.host_key < key + "/") & _STANDS
    query = query.where(below).order_by(_HOSTS.host_key, _HOSTS.subdomain_id)
    for row in tx.connection.execute(query.execution_options(**STREAMED)):
        yield row[0], row[1], row[2]
