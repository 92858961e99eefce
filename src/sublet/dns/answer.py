"""What the built-in name server answers: one query and a view of the zone in, one response out. Pure.

The server is authoritative only and the zone is unsigned (no RRSIG, no NSEC): it is for the first minute and for small
installations, see `nameserver.py`. Not done: DNAME, zone transfers, cookies, TSIG, CNAME targets (the resolver asks for
them itself), and wildcards that own NS records, which RFC 4592, section 4.2, leaves undefined: nothing is made from them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.NS
import dns.rrset

from sublet.dns.types import Apex, Record, ZoneView

UDP_PAYLOAD_BYTES = 1232
"""The largest UDP response, and what we announce: unfragmented on any path of IPv6 (DNS flag day 2020)."""

_PLAIN_UDP_BYTES = 512
_TCP_BYTES = 65535
_NS, _DS, _SOA, _CNAME, _ANY = (
    dns.rdatatype.NS,
    dns.rdatatype.DS,
    dns.rdatatype.SOA,
    dns.rdatatype.CNAME,
    dns.rdatatype.ANY,
)
_ADDRESS_TYPES = (dns.rdatatype.A, dns.rdatatype.AAAA)
_TRANSFERS = (dns.rdatatype.AXFR, dns.rdatatype.IXFR)

_RRsets = dict[dns.rdatatype.RdataType, dns.rrset.RRset]


@dataclass(frozen=True, slots=True)
class _Content:
    """What a response says, before its size is looked at. `glue` must fit or be truncated, `extras` may be left out."""

    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    authoritative: bool = True
    answer: tuple[dns.rrset.RRset, ...] = ()
    authority: tuple[dns.rrset.RRset, ...] = ()
    glue: tuple[dns.rrset.RRset, ...] = ()
    extras: tuple[dns.rrset.RRset, ...] = ()


def name_key(name: dns.name.Name) -> str:
    r"""The name as `ZoneView` and `Record` write it: lower case, no final dot; odd octets as `\ddd`, the root as ""."""
    return "" if name == dns.name.root else name.to_text(omit_final_dot=True).lower()


def refusal(query: dns.message.Message) -> dns.rcode.Rcode | None:
    """The rcode of a query that is answered without looking at any zone, or None.

    In this order: NOTIMP (another opcode than QUERY), FORMERR (not exactly one question, RFC 9619), BADVERS (EDNS version
    above 0, RFC 6891, section 6.1.3), REFUSED (another class than IN; AXFR or IXFR).
    """
    if query.opcode() != dns.opcode.QUERY:
        return dns.rcode.NOTIMP
    if len(query.question) != 1:
        return dns.rcode.FORMERR
    if query.edns > 0:
        return dns.rcode.BADVERS
    question = query.question[0]
    if question.rdclass != dns.rdataclass.IN or question.rdtype in _TRANSFERS:
        return dns.rcode.REFUSED
    return None


def bare_response(query: dns.message.Message, rcode: dns.rcode.Rcode) -> dns.message.Message:
    """A response with a code and no records; the question is repeated as it was sent (so with its case) if there is one.

    An OPT record answers an OPT record, with our payload size and the DO bit of the query (RFC 6891, RFC 3225).
    """
    single = query.opcode() == dns.opcode.QUERY and len(query.question) == 1
    copied = dns.message.CopyMode.QUESTION if single else dns.message.CopyMode.NOTHING
    response = dns.message.make_response(query, our_payload=UDP_PAYLOAD_BYTES, pad=0, copy_mode=copied)
    if query.edns >= 0:
        response.ednsflags = query.ednsflags & dns.flags.DO
    response.set_rcode(rcode)
    return response


def answer(
    query: dns.message.Message, view: ZoneView | None, *, over_tcp: bool = False
) -> dns.message.Message:
    """The authoritative response to a query, small enough for its transport.

    `view` is what the zone holds around the query's name, None when no zone of ours holds that name (REFUSED). Over UDP the
    response is at most what the client announced (512 bytes without EDNS) and at most `UDP_PAYLOAD_BYTES`; what must
    be in it and does not fit sets TC and leaves the sections empty, so that the client asks again over TCP.

    - A name at or below a delegation gets the highest one's referral (RFC 1034, section 4.3.2), with DS records
      if DO is set (RFC 4035, section 3.1.4) and with glue, of which that at or below the delegated name must fit (RFC 9471).
      DS asked for exactly at the delegation is answered here, with authority (RFC 4035, section 3.1.4.1).
    - NXDOMAIN and NODATA carry the SOA for the time that they may be kept (RFC 2308, section 3).
    - Wildcards: RFC 4592. ANY gives one RRset of those there are (RFC 8482, section 4.1).

    Raises dns.message's FormError for a message that is itself a response. Not checked: that the view is of the query's
    name, and that its records are valid; a record that dnspython can't read raises.
    """
    rcode = refusal(query)
    if rcode is not None:
        return bare_response(query, rcode)
    name = query.question[0].name
    if view is None or not name.is_subdomain(dns.name.from_text(view.apex.zone)):
        return bare_response(query, dns.rcode.REFUSED)
    wants_dnssec = query.edns >= 0 and bool(query.ednsflags & dns.flags.DO)
    content = _find(view, name, query.question[0].rdtype, wants_dnssec=wants_dnssec)
    return _fitted(query, content, _TCP_BYTES if over_tcp else _udp_bytes(query))


def _find(
    view: ZoneView, name: dns.name.Name, rdtype: dns.rdatatype.RdataType, *, wants_dnssec: bool
) -> _Content:
    """The algorithm of RFC 1034, section 4.3.2, with what RFC 4035 and RFC 4592 made of it."""
    apex_name = dns.name.from_text(view.apex.zone)
    for ancestor in _path_down(apex_name, name):
        held = _rrsets_at(view, name_key(ancestor), ancestor)
        if _NS in held:
            if rdtype == _DS and ancestor == name:
                return _from_rrsets(view, held, rdtype)
            return _referral(view, ancestor, held, wants_dnssec=wants_dnssec)
    if _exists(view, name_key(name)):
        return _from_rrsets(view, _rrsets_at(view, name_key(name), name), rdtype)
    encloser = name.parent()
    while not _exists(view, name_key(encloser)):
        encloser = encloser.parent()
    wildcard = f"*.{name_key(encloser)}"
    made = _rrsets_at(view, wildcard, name)
    if not _exists(view, wildcard) or _NS in made:
        return _Content(dns.rcode.NXDOMAIN, authority=(_negative_soa(view.apex),))
    return _from_rrsets(view, made, rdtype)


def _path_down(apex_name: dns.name.Name, name: dns.name.Name) -> Iterator[dns.name.Name]:
    """The names below the apex, down to the query's name, in the query's case."""
    for depth in range(len(apex_name) + 1, len(name) + 1):
        yield name.split(depth)[1]


def _exists(view: ZoneView, key: str) -> bool:
    """Whether a name exists: it or a name below it owns a record (RFC 8499: an empty non-terminal exists too)."""
    if key == view.apex.zone or key in view.existing:
        return True
    owners = [owner for owner, records in view.records.items() if records]
    owners += [record.owner for record in view.apex.addresses]
    return any(owner == key or owner.endswith(f".{key}") for owner in owners)


def _rrsets_at(view: ZoneView, key: str, owner: dns.name.Name) -> _RRsets:
    """What the zone holds at a name, by type, written with the given owner (which differs for a wildcard)."""
    records: Iterable[Record] = (
        *view.records.get(key, ()),
        *(address for address in view.apex.addresses if address.owner == key),
    )
    held: _RRsets = {}
    if key == view.apex.zone:
        held = {_SOA: _soa(view.apex, owner), _NS: _apex_nameservers(view.apex, owner)}
        records = [record for record in records if record.type not in {"SOA", "NS"}]
    for record in records:
        rdata = _rdata(record.type, record.rdata)
        if rdata.rdtype not in held:
            held[rdata.rdtype] = dns.rrset.RRset(owner, rdata.rdclass, rdata.rdtype)
        held[rdata.rdtype].add(rdata, record.ttl_seconds)
    return held


def _from_rrsets(view: ZoneView, held: _RRsets, rdtype: dns.rdatatype.RdataType) -> _Content:
    """The answer from what an existing name holds: the RRset, an alias, or NODATA."""
    if rdtype == _ANY and held:
        return _Content(answer=(next(iter(held.values())),))
    found = held.get(rdtype) or held.get(_CNAME)
    if found is None:
        return _Content(authority=(_negative_soa(view.apex),))
    extras = _addresses(view, found) if found.rdtype == _NS else ()
    return _Content(answer=(found,), extras=tuple(extras))


def _referral(view: ZoneView, cut: dns.name.Name, held: _RRsets, *, wants_dnssec: bool) -> _Content:
    nameservers = held[_NS]
    authority = [nameservers]
    if wants_dnssec and _DS in held:
        authority.append(held[_DS])
    addresses = list(_addresses(view, nameservers))
    return _Content(
        authoritative=False,
        authority=tuple(authority),
        glue=tuple(rrset for rrset in addresses if rrset.name.is_subdomain(cut)),
        extras=tuple(rrset for rrset in addresses if not rrset.name.is_subdomain(cut)),
    )


def _addresses(view: ZoneView, nameservers: dns.rrset.RRset) -> Iterator[dns.rrset.RRset]:
    """The address RRsets that the zone holds for the hosts of an NS RRset."""
    for rdata in nameservers:
        host = cast("dns.rdtypes.ANY.NS.NS", rdata).target
        held = _rrsets_at(view, name_key(host), host)
        yield from (held[rdtype] for rdtype in _ADDRESS_TYPES if rdtype in held)


def _soa(apex: Apex, owner: dns.name.Name) -> dns.rrset.RRset:
    text = (
        f"{_absolute(apex.soa_mname)} {_absolute(apex.soa_rname)} {apex.serial} {apex.refresh_seconds} "
        f"{apex.retry_seconds} {apex.expire_seconds} {apex.negative_ttl_seconds}"
    )
    return dns.rrset.from_rdata(owner, apex.ttl_seconds, _rdata("SOA", text))


def _negative_soa(apex: Apex) -> dns.rrset.RRset:
    """The SOA as negative answers carry it: with the TTL that they are to be kept (RFC 2308, section 3)."""
    soa = _soa(apex, dns.name.from_text(apex.zone))
    soa.ttl = min(apex.ttl_seconds, apex.negative_ttl_seconds)
    return soa


def _apex_nameservers(apex: Apex, owner: dns.name.Name) -> dns.rrset.RRset:
    rdatas = [_rdata("NS", _absolute(host)) for host in apex.nameservers]
    return dns.rrset.from_rdata_list(owner, apex.ttl_seconds, rdatas)


def _absolute(name: str) -> str:
    return name if name.endswith(".") else f"{name}."


@lru_cache(maxsize=4096)
def _rdata(rdtype: str, text: str) -> dns.rdata.Rdata:
    """Reading text is most of an answer's work, and the same few records are asked for again and again."""
    return dns.rdata.from_text("IN", rdtype, text)


def _udp_bytes(query: dns.message.Message) -> int:
    announced = query.payload if query.edns >= 0 else _PLAIN_UDP_BYTES
    return min(max(announced, _PLAIN_UDP_BYTES), UDP_PAYLOAD_BYTES)


def _longest_bytes(response: dns.message.Message) -> int:
    """How long a response is at most: as it would be with no name compressed, and an OPT record without options."""
    questions = sum(_name_bytes(each.name) + 4 for each in response.question)
    rrsets = (*response.answer, *response.authority, *response.additional)
    records = sum(
        _name_bytes(rrset.name) + 10 + len(rdata.to_digestable()) for rrset in rrsets for rdata in rrset.items
    )
    return 12 + questions + records + 11


def _name_bytes(name: dns.name.Name) -> int:
    return sum(len(label) + 1 for label in name.labels)


def _fitted(query: dns.message.Message, content: _Content, size_bytes: int) -> dns.message.Message:
    """The response with as many extras as fit; with TC and no records when not even the rest does."""
    response = bare_response(query, content.rcode)
    if content.authoritative:
        response.flags |= dns.flags.AA
    response.answer = list(content.answer)
    response.authority = list(content.authority)
    response.additional = [*content.glue, *content.extras]
    if _fits(response, size_bytes):
        return response
    # The longest run of extras that fits, by halving: a render costs more than everything else here.
    fitting, too_many = -1, len(content.extras)
    while too_many - fitting > 1:
        count = (fitting + too_many) // 2
        response.additional = [*content.glue, *content.extras[:count]]
        if _fits(response, size_bytes):
            fitting = count
        else:
            too_many = count
    if fitting >= 0:
        response.additional = [*content.glue, *content.extras[:fitting]]
        return response
    response.answer, response.authority, response.additional = [], [], []
    response.flags |= dns.flags.TC
    return response


def _fits(response: dns.message.Message, size_bytes: int) -> bool:
    if _longest_bytes(response) <= size_bytes:
        return True  # most do, and to render one is most of its work
    try:
        response.to_wire(max_size=size_bytes)
    except dns.exception.TooBig:
        return False
    return True
