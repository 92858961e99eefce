"""Plan the changes of a zone, and refuse implausible plans (rules)."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from sublet.dns.names import NAME_OCTETS_MAX, ancestors, is_below
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Record

DELETIONS_ALWAYS_PLAUSIBLE: Final = 20

_BELOW: Final = re.compile(r"(\*\.)?([a-z0-9_-]{1,63}\.)*")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")


class ImplausiblePlan(Exception):  # noqa: N818 - the registry or the code is wrong, not a request
    """The changes concern names or types that no registered name has. Nothing may be sent."""


class ZoneChanges(Struct, frozen=True):
    """The changes of one zone. `delete_owners` and `adds` are sorted.

    The update deletes each of `DELEGATION_TYPES` at each of `delete_owners`, and each of `PUBLISHED_TYPES` at
    those that are in `with_records`, because a server may refuse the type ANY, or delete too much. Then the
    update adds the records `adds`.
    """

    zone: str
    delete_owners: tuple[str, ...]
    adds: tuple[Record, ...]
    with_records: frozenset[str] = frozenset()


def plan_changes(
    zone: str, may_be_published: Iterable[str], desired: Iterable[Record], with_records: Iterable[str] = ()
) -> ZoneChanges:
    """Return the changes that leave exactly the desired records at the names that may be published.

    `may_be_published` are all owners at which an earlier update of ours may have added records. `desired` is
    all that names publish (`lifecycle.desired_records`). `with_records` are owners that may have records of
    other types than those of a delegation. Names are canonical. Not checked: the rdata, and that new owners
    are unused in the zone, which the server checks (a prerequisite of the update).

    Raises:
        ImplausiblePlan: an owner that is not canonical or not strictly below the zone; a type outside
            `PUBLISHED_TYPES`; two TTLs in one RRset (RFC 2181, section 5.2); DS records without NS; other
            records than DS and addresses at or below a name with NS records.
    """
    delete_owners = tuple(sorted(set(may_be_published)))
    adds = tuple(sorted(set(desired)))
    for owner in {*delete_owners, *(record.owner for record in adds)}:
        if not is_publishable(owner, zone):
            raise ImplausiblePlan(f"{owner!r} is not a canonical name strictly below {zone!r}")
    ttls_seconds: dict[tuple[str, str], int] = {}
    delegated = {record.owner for record in adds if record.type == "NS"}
    for record in adds:
        if record.type not in PUBLISHED_TYPES:
            raise ImplausiblePlan(f"{record.owner} would get a record of type {record.type!r}")
        if ttls_seconds.setdefault((record.owner, record.type), record.ttl_seconds) != record.ttl_seconds:
            raise ImplausiblePlan(f"the {record.type} records of {record.owner} have more than one TTL")
        # A server would serve such DS records as authoritative data of the parent zone.
        if record.type == "DS" and record.owner not in delegated:
            raise ImplausiblePlan(f"{record.owner} would get DS records and no NS records")
        # A server would hide such records (RFC 1034, section 4.2.1).
        if record.type not in DELEGATION_TYPES and not delegated.isdisjoint(
            (record.owner, *ancestors(record.owner))
        ):
            raise ImplausiblePlan(f"{record.owner} would get a {record.type} record below a delegation")
    return ZoneChanges(zone, delete_owners, adds, frozenset(with_records).intersection(delete_owners))


def is_publishable(owner: str, zone: str, *, with_records: bool = True) -> bool:
    """True if a registered name of the zone may have records at this owner: a canonical name at or below a
    host name directly below the zone.

    Without `with_records` the name has a delegation, whose owners are host names.
    """
    if not is_below(owner, zone) or len(owner) > NAME_OCTETS_MAX:
        return False
    below, _, label = owner.removesuffix(f".{zone}").rpartition(".")
    if not with_records and not all(map(_LABEL.fullmatch, below.split(".") if below else [])):
        return False
    return _LABEL.fullmatch(label) is not None and _BELOW.fullmatch(f"{below}." if below else "") is not None


def implausible_deletions(deleting: int, total: int) -> bool:
    """True if deleting this many of `total` names needs the operator's confirmation: more than 20, and more
    than 1 %.
    """
    return deleting > DELETIONS_ALWAYS_PLAUSIBLE and deleting * 100 > total
