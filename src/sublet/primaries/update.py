"""The UPDATE messages (RFC 2136) that change a zone on a primary server, each behind a fence.

The fence is a TXT record at a reserved name of the zone. Every message has "the fence is A" as its prerequisite and sets it to a
fresh B: of two messages that expect A only one can ever be applied. So a message that was given up for lost, and is applied
after a newer one all the same (a frozen server does that), changes nothing.
"""

import re
import secrets
from collections.abc import Iterable

import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.update

from sublet.primaries.plan import RECORD_TYPES, ZoneChanges

FENCE_LABEL = "_sublet"
FENCE_TTL_SECONDS = 0
_FENCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


def fence_name(zone: str) -> str:
    """Return where the fence of a zone stands; no label that a user may register has the underscore."""
    return f"{FENCE_LABEL}.{zone}"


def new_fence() -> str:
    """Return a value for the fence that was never there before."""
    return secrets.token_hex(16)


def is_fence(text: str) -> bool:
    """Tell whether this is what `new_fence` makes, so may have been put there by a registry."""
    return _FENCE.fullmatch(text) is not None


def build_update(
    changes: ZoneChanges, *, fence: str | None, next_fence: str, unused: Iterable[str] = ()
) -> dns.update.UpdateMessage:
    """Return the message that applies `changes` if the fence still is `fence` (None: there never was one), unsigned.

    `unused` are owners that must not be in use (RFC 2136, section 2.4.5): those at which nothing of ours was ever put. A server
    answers YXDOMAIN if one is, NXRRSET if the fence is another, YXRRSET if there is one after all. The changes come as
    deletions of each type at each owner, then the additions (section 2.5), then the fence.
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
    for owner in changes.delete_owners:
        name = dns.name.from_text(owner)
        for rdtype in RECORD_TYPES:
            message.delete(name, rdtype)
    for record in changes.adds:
        rdata = dns.rdata.from_text(dns.rdataclass.IN, record.type, record.rdata)
        message.add(dns.name.from_text(record.owner), record.ttl_seconds, rdata)
    message.delete(at_fence, dns.rdatatype.TXT)
    message.add(at_fence, FENCE_TTL_SECONDS, _txt(next_fence))
    return message


def _txt(value: str) -> dns.rdata.Rdata:
    return dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.TXT, f'"{value}"')
