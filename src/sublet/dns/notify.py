"""Answer NOTIFY messages about a child's CDS, CDNSKEY and CSYNC records (RFC 9859, section 4).

Anyone may send them.
"""

from collections import Counter
from collections.abc import Collection

import dns.exception
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype

from sublet.dns.write_response import UDP_PAYLOAD_BYTES, Response, header_response
from sublet.limits import NOTIFIES_PER_SECOND

_TYPES = (dns.rdatatype.CDS, dns.rdatatype.CSYNC)

NOTIFY_OCTETS_MAX = 512
"""The maximum length of a message. A name, EDNS and a record fit."""


def is_notify(wire: bytes) -> bool:
    """True if a message is a NOTIFY request."""
    return len(wire) >= 12 and not wire[2] & 0x80 and (wire[2] >> 3) & 0xF == dns.opcode.NOTIFY


class NotifyLimit:
    """Counts the messages of each second by zone and by network."""

    def __init__(self) -> None:
        self._second = 0
        self._counts: Counter[str | bytes] = Counter()

    def count_message(self, keys: Collection[str | bytes], at_seconds: float) -> bool:
        """Count a message for its zone and its network, and return True if one of them has exceeded the
        maximum of this second.
        """
        if self._second != int(at_seconds):
            self._second = int(at_seconds)
            self._counts.clear()
        self._counts.update(keys)
        return any(self._counts[each] > NOTIFIES_PER_SECOND for each in keys)


def answer_notify(wire: bytes) -> tuple[Response, str | None]:
    """Return the response to a NOTIFY request, and the name of the child to check.

    The name is None if the request is refused. A signed request gets NOTAUTH, because we have no keys. An
    EDNS version above 0 gets BADVERS (RFC 6891, section 6.1.3).

    Not checked: the sender, and that the child exists.
    """
    if len(wire) > NOTIFY_OCTETS_MAX:
        return header_response(wire, dns.rcode.FORMERR), None
    try:
        message = dns.message.from_wire(wire, ignore_trailing=True)
        (question,) = message.question
    except dns.message.UnknownTSIGKey:
        return header_response(wire, dns.rcode.NOTAUTH), None
    except (dns.exception.DNSException, ValueError):
        return header_response(wire, dns.rcode.FORMERR), None
    if question.rdtype not in _TYPES or question.rdclass != dns.rdataclass.IN:
        return header_response(wire, dns.rcode.NOTIMP), None
    response = dns.message.make_response(message, our_payload=UDP_PAYLOAD_BYTES)
    if message.edns > 0:
        response.set_rcode(dns.rcode.BADVERS)
        return Response(response.rcode(), response.to_wire()), None
    return Response(response.rcode(), response.to_wire()), question.name.to_text(omit_final_dot=True).lower()
