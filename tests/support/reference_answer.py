"""The expected answers of the built-in name server, built with dnspython.

The code is slow, and independent of the service.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.NS
import dns.rrset

from sublet.dns.types import Record, ZoneView

PAYLOAD_BYTES = 1232
NS, DS, SOA, CNAME, ANY = (dns.rdatatype.from_text(each) for each in ("NS", "DS", "SOA", "CNAME", "ANY"))
# The service ignores all options, so their data isn't checked.
for _option in (dns.edns.OptionType.ECS, dns.edns.OptionType.COOKIE, dns.edns.OptionType.EDE):
    dns.edns.register_type(dns.edns.GenericOption, _option)
_Held = dict[dns.rdatatype.RdataType, dns.rrset.RRset]


@dataclass
class _Content:
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    authoritative: bool = True
    answer: tuple[dns.rrset.RRset, ...] = ()
    authority: tuple[dns.rrset.RRset, ...] = ()
    glue: tuple[dns.rrset.RRset, ...] = ()
    extras: tuple[dns.rrset.RRset, ...] = ()


def key_of(name: dns.name.Name) -> str:
    """Return a name in the form of `ZoneView`."""
    return "" if name == dns.name.root else name.to_text(omit_final_dot=True).lower()


def read(wire: bytes) -> dns.message.Message | dns.rcode.Rcode | None:
    """Return the query in a message; the response code, if the answer is only a header; or None, if there is
    no answer.
    """
    if len(wire) < 12 or wire[2] & 0x80:
        return None
    if (wire[2] >> 3) & 0xF != dns.opcode.QUERY:
        return dns.rcode.NOTIMP
    if len(wire) > 4096:
        return dns.rcode.FORMERR
    try:
        return dns.message.from_wire(wire, keyring=False)
    except Exception:  # noqa: BLE001 - for the service any fault is a malformed message
        return dns.rcode.FORMERR


def refused(query: dns.message.Message) -> dns.rcode.Rcode | None:
    """Return the response code of a query that needs no zone, or None if it needs one."""
    if query.had_tsig:
        return dns.rcode.NOTAUTH
    if len(query.question) != 1:
        return dns.rcode.FORMERR
    if query.edns > 0:
        return dns.rcode.BADVERS
    question = query.question[0]
    if question.rdclass != dns.rdataclass.IN or question.rdtype in (dns.rdatatype.AXFR, dns.rdatatype.IXFR):
        return dns.rcode.REFUSED
    return None


def answer(
    query: dns.message.Message, view_at: Callable[[str], ZoneView | None], *, over_tcp: bool
) -> dns.message.Message:
    """Return the response to a query.

    `view_at` returns the view of a name, or None if the name is in no zone.
    """
    rcode = refused(query)
    if rcode is not None:
        return _bare(query, rcode)
    question = query.question[0]
    wants_dnssec = query.edns >= 0 and bool(query.ednsflags & dns.flags.DO)
    contents: list[_Content] = []
    names = [question.name]
    while names[-1] not in names[:-1]:
        view = view_at(key_of(names[-1]))
        if view is None or not names[-1].is_subdomain(dns.name.from_text(view.apex.zone)):
            break
        contents.append(_find(view, names[-1], question.rdtype, wants_dnssec=wants_dnssec))
        last = contents[-1].answer
        if question.rdtype in (CNAME, ANY) or not last or last[0].rdtype != CNAME:
            break
        names.append(cast("dns.rdtypes.ANY.CNAME.CNAME", last[0][0]).target)
    if not contents:
        return _bare(query, dns.rcode.REFUSED)
    content = replace(
        contents[-1],
        authoritative=contents[0].authoritative,
        answer=tuple(rrset for each in contents for rrset in each.answer),
    )
    announced = query.payload if query.edns >= 0 else 512
    return _fitted(query, content, 65535 if over_tcp else min(max(announced, 512), PAYLOAD_BYTES))


def _bare(query: dns.message.Message, rcode: dns.rcode.Rcode) -> dns.message.Message:
    copied = dns.message.CopyMode.QUESTION if len(query.question) == 1 else dns.message.CopyMode.NOTHING
    response = dns.message.make_response(query, our_payload=PAYLOAD_BYTES, pad=0, copy_mode=copied)
    if query.edns >= 0:
        response.ednsflags = query.ednsflags & dns.flags.DO
    response.set_rcode(rcode)
    return response


def _find(
    view: ZoneView, name: dns.name.Name, rdtype: dns.rdatatype.RdataType, *, wants_dnssec: bool
) -> _Content:
    apex_name = dns.name.from_text(view.apex.zone)
    for depth in range(len(apex_name) + 1, len(name) + 1):
        ancestor = name.split(depth)[1]
        held = _held(view, key_of(ancestor), ancestor)
        if NS in held:
            if rdtype == DS and ancestor == name:
                return _from_held(view, held, rdtype)
            return _referral(view, ancestor, held, wants_dnssec=wants_dnssec)
    if _exists(view, key_of(name)):
        return _from_held(view, _held(view, key_of(name), name), rdtype)
    encloser = name.parent()
    while not _exists(view, key_of(encloser)):
        encloser = encloser.parent()
    wildcard = f"*.{key_of(encloser)}"
    made = _held(view, wildcard, name)
    if not _exists(view, wildcard) or NS in made:
        return _Content(dns.rcode.NXDOMAIN, authority=(_negative_soa(view),))
    return _from_held(view, made, rdtype)


def _exists(view: ZoneView, key: str) -> bool:
    owners = [owner for owner, records in view.records.items() if records]
    owners += [record.owner for record in view.apex.addresses]
    there = any(owner == key or owner.endswith(f".{key}") for owner in owners)
    return there or key == view.apex.zone or key in view.existing


def _held(view: ZoneView, key: str, owner: dns.name.Name) -> _Held:
    records: list[Record] = [*view.records.get(key, ())]
    records += [address for address in view.apex.addresses if address.owner == key]
    held: _Held = {}
    if key == view.apex.zone:
        hosts = [dns.rdata.from_text("IN", "NS", f"{host}.") for host in view.apex.nameservers]
        held = {
            SOA: _soa(view, owner),
            NS: dns.rrset.from_rdata_list(owner, view.apex.ttl_seconds, hosts),
        }
        records = [record for record in records if record.type not in {"SOA", "NS"}]
    for record in records:
        rdata = dns.rdata.from_text("IN", record.type, record.rdata)
        if rdata.rdtype not in held:
            held[rdata.rdtype] = dns.rrset.RRset(owner, rdata.rdclass, rdata.rdtype)
        held[rdata.rdtype].add(rdata, record.ttl_seconds)
    return held


def _from_held(view: ZoneView, held: _Held, rdtype: dns.rdatatype.RdataType) -> _Content:
    if rdtype == ANY and held:
        return _Content(answer=(next(iter(held.values())),))
    found = held.get(rdtype) or held.get(CNAME)
    if found is None:
        return _Content(authority=(_negative_soa(view),))
    extras = _addresses(view, found) if found.rdtype == NS else ()
    return _Content(answer=(found,), extras=tuple(extras))


def _referral(view: ZoneView, cut: dns.name.Name, held: _Held, *, wants_dnssec: bool) -> _Content:
    addresses = list(_addresses(view, held[NS]))
    return _Content(
        authoritative=False,
        authority=(held[NS], held[DS]) if wants_dnssec and DS in held else (held[NS],),
        glue=tuple(rrset for rrset in addresses if rrset.name.is_subdomain(cut)),
        extras=tuple(rrset for rrset in addresses if not rrset.name.is_subdomain(cut)),
    )


def _addresses(view: ZoneView, nameservers: dns.rrset.RRset) -> Iterator[dns.rrset.RRset]:
    for rdata in nameservers:
        host = cast("dns.rdtypes.ANY.NS.NS", rdata).target
        held = _held(view, key_of(host), host)
        yield from (held[rdtype] for rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA) if rdtype in held)


def _soa(view: ZoneView, owner: dns.name.Name) -> dns.rrset.RRset:
    apex = view.apex
    text = (
        f"{apex.soa_mname}. {apex.soa_rname}. {apex.serial} {apex.refresh_seconds} "
        f"{apex.retry_seconds} {apex.expire_seconds} {apex.negative_ttl_seconds}"
    )
    return dns.rrset.from_rdata(owner, apex.ttl_seconds, dns.rdata.from_text("IN", "SOA", text))


def _negative_soa(view: ZoneView) -> dns.rrset.RRset:
    soa = _soa(view, dns.name.from_text(view.apex.zone))
    soa.ttl = min(view.apex.ttl_seconds, view.apex.negative_ttl_seconds)
    return soa


def _fitted(query: dns.message.Message, content: _Content, size_bytes: int) -> dns.message.Message:
    response = _bare(query, content.rcode)
    if content.authoritative:
        response.flags |= dns.flags.AA
    response.answer = list(content.answer)
    response.authority = list(content.authority)
    for count in range(len(content.extras), -1, -1):
        response.additional = [*content.glue, *content.extras[:count]]
        try:
            response.to_wire(max_size=size_bytes)
        except dns.exception.TooBig:
            continue
        return response
    response.answer, response.authority, response.additional = [], [], []
    response.flags |= dns.flags.TC
    return response
