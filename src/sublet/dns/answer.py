"""Make the built-in name server's response from a query and a view of the zones (rules; no network).

The server is only authoritative, and its zones are unsigned (no RRSIG, no NSEC). Not supported: DNAME, zone
transfers, cookies, TSIG keys, and wildcards that own NS records, which RFC 4592, section 4.2, leaves
undefined. Such a wildcard creates no records.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping

import dns.rcode
import dns.rdataclass
import dns.rdatatype

from sublet.dns.names import is_at_or_below
from sublet.dns.query import Query
from sublet.dns.rrsets import Labels, Rdata, RRset, labels_of_text, name_of, name_rdata, read_rdata
from sublet.dns.types import Apex, Record, ZoneView
from sublet.dns.write_response import Content, Response, bare_response, fitted_response

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


def refusal_rcode(query: Query) -> dns.rcode.Rcode | None:
    """Return the rcode that refuses a query before its zone is read, or None.

    The checks are in this order: NOTAUTH (the query is signed, and we have no keys: RFC 8945, section 5.2.1),
    FORMERR (not exactly one question, RFC 9619), BADVERS (EDNS version above 0, RFC 6891, section 6.1.3),
    REFUSED (another class than IN; AXFR or IXFR).
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
    """Return the authoritative response to a query, small enough for its transport.

    `views` has, by name, the view of the query name and the views of the targets of its aliases. A query name
    without a view is in no zone of ours, and gets REFUSED. A UDP response has at most the size that the
    client announced (512 bytes without EDNS), and at most `UDP_PAYLOAD_BYTES`. If the required records don't
    fit, the response has TC and no records, and the client repeats its query over TCP.

    - A name at or below a delegation gets the referral of the highest delegation (RFC 1034, section 4.3.2),
      with DS records if DO is set (RFC 4035, section 3.1.4), and with glue. Glue at or below the delegated
      name is required (RFC 9471). A DS query at the delegation gets an authoritative answer (RFC 4035,
      section 3.1.4.1), also at the apex of a zone below another zone of ours.
    - The response follows aliases. The rcode is about the last target (RFC 6604, section 3), AA is about the
      query name.
    - NXDOMAIN and NODATA responses have the SOA record with the TTL of the negative answer (RFC 2308, section
      3).
    - Wildcards follow RFC 4592. ANY gives one of the RRsets (RFC 8482, section 4.1).

    Not checked: that each view is the view of its name. Raises dnspython's errors if a record of a view can't
    be parsed.
    """
    rcode = refusal_rcode(query)
    if rcode is not None:
        return bare_response(query, rcode)
    content = _look_up(views.get(query.name), query.labels, query)
    if content is None:
        return bare_response(query, dns.rcode.REFUSED)
    return fitted_response(query, _follow(views, content, query), over_tcp=over_tcp)


def alias_targets(view: ZoneView) -> set[str]:
    """Return the targets of all CNAME records in a view, in the form of `ZoneView`."""
    return {
        record.rdata.removesuffix(".").lower()
        for records in view.records.values()
        for record in records
        if record.type == "CNAME"
    }


def _follow(views: Mapping[str, ZoneView], content: Content, query: Query) -> Content:
    """Follow a CNAME chain through `views`, and append each target's records to the answer."""
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
    """Return the content that answers a query for a name, from the name's view; None if the name isn't in the
    view's zone.

    The DS records of an apex come from the zone above.
    """
    count_below = _count_labels_below(labels, view.apex.zone) if view is not None else None
    if view is None or count_below is None:
        return None
    if query.rdtype == _DS and count_below == 0:
        content = _look_up(view.parent, labels, query)
        # A referral from the zone above means that a zone between the two, on other servers, has the DS
        # records.
        if content is not None and content.authoritative:
            return content
    return _find(view, labels, count_below, query)


def _count_labels_below(labels: Labels, zone: str) -> int | None:
    for count, (name, _) in enumerate(labels):
        if name == zone:
            return count
    return None


def _find(view: ZoneView, labels: Labels, count_below: int, query: Query) -> Content:
    """Apply the algorithm of RFC 1034, section 4.3.2, with the changes of RFC 4035 and RFC 4592."""
    rdtype = query.rdtype
    for start in range(count_below - 1, -1, -1):
        rrsets = _rrsets_at(view, labels[start:])
        if _NS in rrsets:
            if rdtype == _DS and start == 0:
                return _from_rrsets(view, rrsets, rdtype)
            return _referral(view, rrsets, wants_dnssec=query.wants_dnssec)
    if _exists(view, name_of(labels)):
        return _from_rrsets(view, _rrsets_at(view, labels), rdtype)
    encloser = next(name for name, _ in labels[1:] if _exists(view, name))
    wildcard = f"*.{encloser}"
    synthesized = _rrsets_at(view, labels, at=wildcard)
    if not _exists(view, wildcard) or _NS in synthesized:
        return Content(dns.rcode.NXDOMAIN, authority=(_negative_soa(view.apex),))
    content = _from_rrsets(view, synthesized, rdtype)
    return content._replace(wildcard=wildcard) if content.answer else content


def _exists(view: ZoneView, name: str) -> bool:
    """True if the name, or a name below it, owns a record: empty non-terminals exist
    (RFC 9499, section 7).
    """
    return (
        name == view.apex.zone
        or name in view.existing
        or bool(view.records.get(name))
        or any(is_at_or_below(record.owner, name) for record in view.apex.addresses)
    )


def _rrsets_at(view: ZoneView, owner: Labels, *, at: str | None = None) -> _RRsets:
    """Return the RRsets that are stored at the name `at` (default: `owner`), by type.

    The owner of the returned RRsets is always `owner`: the records of a wildcard answer for another name (RFC
    4592).
    """
    name = name_of(owner) if at is None else at
    records: Iterable[Record] = view.records.get(name, ())
    if view.apex.addresses:
        records = (*records, *(address for address in view.apex.addresses if address.owner == name))
    rrsets: _RRsets = {}
    if name == view.apex.zone:
        rrsets = {_SOA: _soa(view.apex, owner)}
        if view.apex.nameservers:
            rrsets[_NS] = _apex_nameservers(view.apex, owner)
        records = [record for record in records if record.type not in {"SOA", "NS"}]
    for record in records:
        rdata = read_rdata(record.type, record.rdata)
        rrsets[rdata.rdtype] = _merge_rrsets(
            rrsets.get(rdata.rdtype), RRset(owner, rdata.rdtype, record.ttl_seconds, (rdata,))
        )
    return rrsets


def _merge_rrsets(before: RRset | None, added: RRset) -> RRset:
    """Return two RRsets as one, without duplicates, with the lower TTL (RFC 2181, section 5).

    Of two CNAME records keep the last.
    """
    if before is None:
        return added
    ttl_seconds = min(before.ttl_seconds, added.ttl_seconds)
    rdatas = before.rdatas
    if added.rdtype == _CNAME:
        rdatas = added.rdatas
    elif added.rdatas[0].canonical not in [rdata.canonical for rdata in rdatas]:
        rdatas += added.rdatas
    return added._replace(ttl_seconds=ttl_seconds, rdatas=rdatas)


def _from_rrsets(view: ZoneView, rrsets: _RRsets, rdtype: int) -> Content:
    """Return the answer for an existing name with these RRsets: the RRset of the
    type, an alias, or NODATA.
    """
    if rdtype == _ANY and rrsets:
        return Content(answer=(next(iter(rrsets.values())),))
    found = rrsets.get(rdtype) or rrsets.get(_CNAME)
    if found is None:
        return Content(authority=(_negative_soa(view.apex),))
    extras = _addresses(view, found) if found.rdtype == _NS else ()
    return Content(answer=(found,), extras=tuple(extras))


def _referral(view: ZoneView, rrsets: _RRsets, *, wants_dnssec: bool) -> Content:
    nameservers = rrsets[_NS]
    cut = name_of(nameservers.owner)
    authority = [nameservers]
    if wants_dnssec and _DS in rrsets:
        authority.append(rrsets[_DS])
    glue: list[RRset] = []
    extras: list[RRset] = []
    for rrset in _addresses(view, nameservers):
        is_below = any(name == cut for name, _ in rrset.owner)
        (glue if is_below else extras).append(rrset)
    return Content(authoritative=False, authority=tuple(authority), glue=tuple(glue), extras=tuple(extras))


def _addresses(view: ZoneView, nameservers: RRset) -> Iterator[RRset]:
    """Yield the zone's address RRsets for the hosts of an NS RRset."""
    for rdata in nameservers.rdatas:
        (host,) = rdata.parts
        if not isinstance(host, bytes):
            rrsets = _rrsets_at(view, host)
            yield from (rrsets[rdtype] for rdtype in _ADDRESS_TYPES if rdtype in rrsets)


def _soa(apex: Apex, owner: Labels) -> RRset:
    # Not cached, because the serial changes often.
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
    """Return the SOA of a negative answer, whose TTL is the TTL of the answer (RFC 2308, section 3)."""
    soa = _soa(apex, labels_of_text(apex.zone))
    return soa._replace(ttl_seconds=min(apex.ttl_seconds, apex.negative_ttl_seconds))


def _apex_nameservers(apex: Apex, owner: Labels) -> RRset:
    rdatas = tuple(name_rdata(_NS, labels_of_text(host)) for host in apex.nameservers)
    return RRset(owner, _NS, apex.ttl_seconds, rdatas)
