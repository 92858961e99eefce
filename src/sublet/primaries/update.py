"""Build the UPDATE messages (RFC 2136) that change a zone on a primary, each with a fence.

The fence is a TXT record at a reserved name of the zone. Each message requires that the fence has the value
A, and sets it to a new value B. So the server applies only one of two messages that require A. If a server
that was frozen processes an old message after a newer one, the old message changes nothing.
"""

import re
import secrets
from collections.abc import Iterable

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.update

from sublet.dns.types import DELEGATION_TYPES, PUBLISHED_TYPES
from sublet.primaries.plan import ZoneChanges

FENCE_LABEL = "_sublet"
FENCE_TTL_SECONDS = 0
_FENCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


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
    for owner in changes.delete_owners:
        name = dns.name.from_text(owner)
        for rdtype in PUBLISHED_TYPES if owner in changes.with_records else DELEGATION_TYPES:
            # An added CNAME replaces the stored one. Knot 3.2 loses a CNAME that one message deletes and
            # adds.
            if rdtype != "CNAME" or owner not in aliases:
                message.delete(name, rdtype)
    for record in changes.adds:
        rdata = dns.rdata.from_text(dns.rdataclass.IN, record.type, record.rdata)
        message.add(dns.name.from_text(record.owner), record.ttl_seconds, rdata)
    message.delete(at_fence, dns.rdatatype.TXT)
    message.add(at_fence, FENCE_TTL_SECONDS, _txt(next_fence))
    return message


def _txt(value: str) -> dns.rdata.Rdata:
    return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.TXT, f'"{value}"')
