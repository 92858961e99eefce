"""What the built-in name server answers: one query and a view of the zone in, one response out. Pure.

The server is authoritative only and the zone is unsigned (no RRSIG, no NSEC): it is for the first minute and for small
installations, see `nameserver.py`. Not done: DNAME, zone transfers, cookies, TSIG keys, and wildcards that own NS records, which
RFC 4592, section 4.2, leaves undefined: nothing is made from them.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping

import dns.rcode
import dns.rdataclass
import dns.rdatatype

from sublet.dns.names import is_at_or_below
from sublet.dns.query import Query
from sublet.dns.response import Content, Response, bare_response, fitted_response
from sublet.dns.rrsets import Labels, Rdata, RRset, labels_of_text, name_of, name_rdata, read_rdata
from sublet.dns.types import Apex, Record, ZoneView

_NS, _DS, _SOA, _CNAME, _ANY = (
    int(dns.rdatatype.NS),
    int(dns.rdatatype.DS),
    int(dns.rdatatype.SOA),
    int(dns.rdatatype.CNAME),
    int(dns.rdatatype.ANY),
)
_ADDRESS_TYPES = (int(dns.rdatatype.A), int(dns.rdatatype.AAAA))
_TRANSFERS = (int(dns.rdatatype.AXFR), int(dns.rdatatype.IXFR))
_IN = int(dns.rdataclass.IN)

_RRsets = dict[int, RRset]


def refusal(query: Query) -> dns.rcode.Rcode | None:
    """The rcode of a query that is answered without looking at any zone, or None.

    In this order: NOTAUTH (signed, and we have no keys: RFC 8945, section 5.2.1), FORMERR (not exactly one question, RFC 9619),
    BADVERS (EDNS version above 0, RFC 6891, section 6.1.3), REFUSED (another class than IN; AXFR or IXFR).
    """
    if query.tsig_reply:
        return dns.rcode.NOTAUTH
    if not query.question:
        return dns.rcode.FORMERR
    if query.edns_version > 0:
        return dns.rcode.BADVERS
    if query.rdclass != _IN or query.rdtype in _TRANSFERS:
        return dns.rcode.REFUSED
    return None


def answer(query: Query, views: Mapping[str, ZoneView], *, over_tcp: bool = False) -> Response:
    """The authoritative response to a query, small enough for its transport.

    `views` has what the zones hold around the query's name and around the targets of its aliases, by these names. A name that no
    zone of ours holds is left out: REFUSED. Over UDP the response is at most what the client announced (512 bytes without EDNS)
    and at most `UDP_PAYLOAD_BYTES`; what must be in it and does not fit sets TC and leaves the sections empty, so that the
    client asks again over TCP.

    - A name at or below a delegation gets the highest one's referral (RFC 1034, section 4.3.2), with DS records
      if DO is set (RFC 4035, section 3.1.4) and with glue, of which that at or below the delegated name must fit (RFC 9471).
      DS asked for exactly at the delegation is answered here, with authority (RFC 4035, section 3.1.4.1); so is DS at the apex
      of a zone below another zone of ours.
    - Aliases are followed; the rcode is that of the last target (RFC 6604, section 3), AA that of the query's name.
    - NXDOMAIN and NODATA carry the SOA for the time that they may be kept (RFC 2308, section 3).
    - Wildcards: RFC 4592. ANY gives one RRset of those there are (RFC 8482, section 4.1).

    Not checked: that the views are of these names, and that their records are valid; a record that dnspython can't read raises.
    """
    rcode = refusal(query)
    if rcode is not None:
        return bare_response(query, rcode)
    content = _look_up(views.get(query.name), query.labels, query)
    if content is None:
        return bare_response(query, dns.rcode.REFUSED)
    return fitted_response(query, _follow(views, content, query), over_tcp=over_tcp)


def alias_targets(view: ZoneView) -> set[str]:
    """Return the targets of all CNAME records in a view, in the form in which `ZoneView` has names."""
    return {
        record.rdata.removesuffix(".").lower()
        for records in view.records.values()
        for record in records
        if record.type == "CNAME"
    }


def _follow(views: Mapping[str, ZoneView], content: Content, query: Query) -> Content:
    """Append what the zones hold at the target of an alias, and at its target, as far as `views` has them."""
    first, found, followed = content, content.answer, {query.name}
    while query.rdtype not in (_CNAME, _ANY) and content.answer and content.answer[0].rdtype == _CNAME:
        (target,) = content.answer[0].rdatas[0].parts
        if isinstance(target, bytes) or name_of(target) in followed:
            break
        followed.add(name_of(target))
        further = _look_up(views.get(name_of(target)), target, query)
        if further is None:
            break
        content = further
        found += content.answer
    return content._replace(authoritative=first.authoritative, answer=found, wildcard=first.wildcard)


def _look_up(view: ZoneView | None, labels: Labels, query: Query) -> Content | None:
    """Return what a zone holds for a name, or None if the name is not in the zone. DS at the apex is looked up in the zone above."""
    below = _names_below(labels, view.apex.zone) if view is not None else None
    if view is None or below is None:
        return None
    if query.rdtype == _DS and below == 0:
        content = _look_up(view.parent, labels, query)
        if (
            content is not None and content.authoritative
        ):  # else a zone in between has the DS records, and is not ours
            return content
    return _find(view, labels, below, query)


def _names_below(labels: Labels, zone: str) -> int | None:
    """How many names of the path from this name up lie below the zone's apex; None: the name itself is not in the zone."""
    for count, (name, _) in enumerate(labels):
        if name == zone:
            return count
    return None


def _find(view: ZoneView, labels: Labels, below: int, query: Query) -> Content:
    """The algorithm of RFC 1034, section 4.3.2, with what RFC 4035 and RFC 4592 made of it."""
    rdtype = query.rdtype
    for depth in range(below - 1, -1, -1):
        held = _rrsets_at(view, labels[depth:])
        if _NS in held:
            if rdtype == _DS and depth == 0:
                return _from_rrsets(view, held, rdtype)
            return _referral(view, held, wants_dnssec=query.wants_dnssec)
    if _exists(view, name_of(labels)):
        return _from_rrsets(view, _rrsets_at(view, labels), rdtype)
    encloser = next(name for name, _ in labels[1:] if _exists(view, name))
    wildcard = f"*.{encloser}"
    made = _rrsets_at(view, labels, at=wildcard)
    if not _exists(view, wildcard) or _NS in made:
        return Content(dns.rcode.NXDOMAIN, authority=(_negative_soa(view.apex),))
    content = _from_rrsets(view, made, rdtype)
    return content._replace(wildcard=wildcard) if content.answer else content


def _exists(view: ZoneView, name: str) -> bool:
    """Whether a name exists: it or a name below it owns a record (RFC 8499: an empty non-terminal exists too)."""
    return (
        name == view.apex.zone
        or name in view.existing
        or bool(view.records.get(name))
        or any(is_at_or_below(record.owner, name) for record in view.apex.addresses)
    )


def _rrsets_at(view: ZoneView, owner: Labels, *, at: str | None = None) -> _RRsets:
    """What the zone holds at a name, by type, written with the given owner (which differs from `at` for a wildcard)."""
    name = name_of(owner) if at is None else at
    records: Iterable[Record] = view.records.get(name, ())
    if view.apex.addresses:
        records = (*records, *(address for address in view.apex.addresses if address.owner == name))
    held: _RRsets = {}
    if name == view.apex.zone:
        held = {_SOA: _soa(view.apex, owner)}
        if view.apex.nameservers:
            held[_NS] = _apex_nameservers(view.apex, owner)
        records = [record for record in records if record.type not in {"SOA", "NS"}]
    for record in records:
        rdata = read_rdata(record.type, record.rdata)
        held[rdata.rdtype] = _with(
            held.get(rdata.rdtype), RRset(owner, rdata.rdtype, record.ttl_seconds, (rdata,))
        )
    return held


def _with(before: RRset | None, added: RRset) -> RRset:
    """A record set with one more record: no record twice, the lowest TTL (RFC 2181, section 5); of an alias there is one, the last."""
    if before is None:
        return added
    ttl_seconds = min(before.ttl_seconds, added.ttl_seconds)
    rdatas = before.rdatas
    if added.rdtype == _CNAME:
        rdatas = added.rdatas
    elif added.rdatas[0].canonical not in [rdata.canonical for rdata in rdatas]:
        rdatas += added.rdatas
    return added._replace(ttl_seconds=ttl_seconds, rdatas=rdatas)


def _from_rrsets(view: ZoneView, held: _RRsets, rdtype: int) -> Content:
    """The answer from what an existing name holds: the RRset, an alias, or NODATA."""
    if rdtype == _ANY and held:
        return Content(answer=(next(iter(held.values())),))
    found = held.get(rdtype) or held.get(_CNAME)
    if found is None:
        return Content(authority=(_negative_soa(view.apex),))
    extras = _addresses(view, found) if found.rdtype == _NS else ()
    return Content(answer=(found,), extras=tuple(extras))


def _referral(view: ZoneView, held: _RRsets, *, wants_dnssec: bool) -> Content:
    nameservers = held[_NS]
    cut = name_of(nameservers.owner)
    authority = [nameservers]
    if wants_dnssec and _DS in held:
        authority.append(held[_DS])
    glue: list[RRset] = []
    extras: list[RRset] = []
    for rrset in _addresses(view, nameservers):
        is_below = any(name == cut for name, _ in rrset.owner)
        (glue if is_below else extras).append(rrset)
    return Content(authoritative=False, authority=tuple(authority), glue=tuple(glue), extras=tuple(extras))


def _addresses(view: ZoneView, nameservers: RRset) -> Iterator[RRset]:
    """The address RRsets that the zone holds for the hosts of an NS RRset."""
    for rdata in nameservers.rdatas:
        (host,) = rdata.parts
        if not isinstance(host, bytes):
            held = _rrsets_at(view, host)
            yield from (held[rdtype] for rdtype in _ADDRESS_TYPES if rdtype in held)


def _soa(apex: Apex, owner: Labels) -> RRset:
    # By hand, and not remembered: the serial is another one after each change.
    numbers = struct.pack(
        "!5I",
        apex.serial,
        apex.refresh_seconds,
        apex.retry_seconds,
        apex.expire_seconds,
        apex.negative_ttl_seconds,
    )
    rdata = Rdata(_SOA, (labels_of_text(apex.soa_mname), labels_of_text(apex.soa_rname), numbers), b"")
    return RRset(owner, _SOA, apex.ttl_seconds, (rdata,))


def _negative_soa(apex: Apex) -> RRset:
    """The SOA as negative answers carry it: with the TTL that they are to be kept (RFC 2308, section 3)."""
    soa = _soa(apex, labels_of_text(apex.zone))
    return soa._replace(ttl_seconds=min(apex.ttl_seconds, apex.negative_ttl_seconds))


def _apex_nameservers(apex: Apex, owner: Labels) -> RRset:
    rdatas = tuple(name_rdata(_NS, labels_of_text(host)) for host in apex.nameservers)
    return RRset(owner, _NS, apex.ttl_seconds, rdatas)
