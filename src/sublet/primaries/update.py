"""Plan the changes of a zone on a primary, refuse implausible plans, and build the UPDATE messages for them
(RFC 2136), each with a fence (rules).

The fence is a TXT record at a reserved name of the zone. Each message requires that the fence has the value
A, and sets it to a new value B. So the server applies only one of two messages that require A. If a server
that was frozen processes an old message after a newer one, the old message changes nothing. If a change needs
several messages, those after the first require B and leave it.
"""

import re
import secrets
from collections.abc import Iterable

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.update
from msgspec import Struct

from sublet.dns.names import NAME_OCTETS_MAX, ancestors, is_below
from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES, Record

FENCE_LABEL = "_sublet"
FENCE_TTL_SECONDS = 0
PART_BYTES_MAX = 64_000
"""The maximum octets of the message of a part. They leave space for the signature (TSIG)."""
_FENCE = re.compile(r"[0-9a-f]{32}", re.ASCII)
_BELOW = re.compile(r"(\*\.)?([a-z0-9_-]{1,63}\.)*")
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")


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


def fence_name(zone: str) -> str:
    """Return the name of a zone's fence.

    Users can't register this name, because labels have no underscore.
    """
    return f"{FENCE_LABEL}.{zone}"


def new_fence() -> str:
    """Return a new random value for a fence."""
    return secrets.token_hex(16)


def is_fence(text: str) -> bool:
    """True if a text may be the fence of a registry: it has the form of `new_fence`."""
    return _FENCE.fullmatch(text) is not None


def split_changes(changes: ZoneChanges) -> list[ZoneChanges]:
    """Return the changes in parts that each fit into a message. An owner is in one part only.

    Raises:
        dns.exception.TooBig: the changes of one owner are too long for a message.
    """
    new = {record.owner for record in changes.adds}
    owners = sorted({*changes.delete_owners, *new})
    fence = new_fence()  # any, because only the size of the message counts
    message = build_update(changes, fence=fence, next_fence=fence, unused=new)
    try:
        message.to_wire(max_size=PART_BYTES_MAX)
    except dns.exception.TooBig:
        if len(owners) == 1:
            raise
    else:
        return [changes]
    middle = len(owners) // 2
    return [
        part for half in (owners[:middle], owners[middle:]) for part in split_changes(_at(changes, set(half)))
    ]


def _at(changes: ZoneChanges, owners: set[str]) -> ZoneChanges:
    """Return the changes at some owners."""
    return ZoneChanges(
        changes.zone,
        tuple(owner for owner in changes.delete_owners if owner in owners),
        tuple(record for record in changes.adds if record.owner in owners),
        changes.with_records & owners,
    )


def build_update(
    changes: ZoneChanges, *, fence: str | None, next_fence: str, unused: Iterable[str] = ()
) -> dns.update.UpdateMessage:
    """Return the unsigned message that applies `changes` if the zone's fence is `fence` (None: the zone must
    have none).

    `unused` are owners that must have no records (RFC 2136, section 2.4.5), because we never added any. The
    server answers YXDOMAIN if an owner is in use, NXRRSET if the fence differs, and YXRRSET if there is a
    fence and should be none. The message deletes each type at each owner (except a CNAME that stays: RFC
    2136, section 3.4.2.2), adds records (section 2.5), and replaces the fence, in this order.
    """
    zone = dns.name.from_text(changes.zone)
    message = dns.update.UpdateMessage(zone)
    at_fence = dns.name.from_text(fence_name(changes.zone))
    if fence is None:
        message.absent(at_fence, dns.rdatatype.TXT)
    else:
        message.present(at_fence, _txt(fence))
    for owner in sorted(set(unused)):
        message.absent(dns.name.from_text(owner))
    aliases = {record.owner for record in changes.adds if record.type == "CNAME"}
    deleted = {owner: dns.name.from_text(owner) for owner in changes.delete_owners}
    # By type, because a name is compressed only if it first occurs in the first 16 KiB of the message.
    for rdtype in PUBLISHED_TYPES:
        for owner, name in deleted.items():
            # An added CNAME replaces the stored one. Knot 3.2 loses a CNAME that one message deletes and
            # adds.
            if (rdtype in DELEGATION_TYPES or owner in changes.with_records) and not (
                rdtype == "CNAME" and owner in aliases
            ):
                message.delete(name, rdtype)
    for record in changes.adds:
        _add(message, record)
    message.delete(at_fence, dns.rdatatype.TXT)
    message.add(at_fence, FENCE_TTL_SECONDS, _txt(next_fence))
    return message


def build_aliases(changes: ZoneChanges, *, fence: str) -> dns.update.UpdateMessage | None:
    """Return the unsigned message that adds the CNAME records again at owners that may have had other
    records; None if there are none.

    Knot (3.2) loses a CNAME in a signed zone if the same message deletes other records of its owner. `fence`
    is the one that the first message has set, so the server applies this message only before the next batch.
    """
    message = dns.update.UpdateMessage(dns.name.from_text(changes.zone))
    message.present(dns.name.from_text(fence_name(changes.zone)), _txt(fence))
    for record in changes.adds:
        if record.type == "CNAME" and record.owner in changes.delete_owners:
            _add(message, record)
    return message if message.update else None


def _add(message: dns.update.UpdateMessage, record: Record) -> None:
    rdata = dns.rdata.from_text(dns.rdataclass.IN, record.type, record.rdata)
    message.add(dns.name.from_text(record.owner), record.ttl_seconds, rdata)


def _txt(value: str) -> dns.rdata.Rdata:
    return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.TXT, f'"{value}"')
