"""Read the CDS, CDNSKEY and DNSKEY records of all nameservers of a child, and decide about its DS records
(rules).
"""

from collections.abc import Sequence
from datetime import datetime

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype

from sublet.child_zones.decide_ds import decide
from sublet.child_zones.model import (
    Decision,
    Keep,
    Proof,
    PublishedKeys,
    Refuse,
    Remove,
    Replace,
    Rules,
    Wait,
)
from sublet.dns.types import DsRecord
from sublet.health.model import Observation, Question, Reply, Server, Target, find_rrset, name_of, text_of
from sublet.structs import replace

TYPES = ("CDS", "CDNSKEY", "DNSKEY")
"""The record types that each server is asked for, over TCP, in addition to the SOA record."""
RECORDS_MAX = 32
"""The maximum number of records in a set, because each is compared and checked."""


def decide_for_all_servers(
    target: Target, seen: Observation, proof: Proof | None, rules: Rules, now: datetime
) -> Decision:
    """Return the decision about a name's DS records.

    All nameservers must have the same records over TCP, at every address.

    Addresses without a route from this machine don't count, but each nameserver must have answered at some
    address. Answers over UDP can be forged, so they never change DS records. But if TCP gives `Keep`, and a
    server has other CDS records over UDP, the decision is a refusal.
    """
    servers = [each for each in seen.servers if each.soa.failure != "no_route"]
    read = [published_by(name_of(target.fqdn), each) for each in servers]
    decision = _decide(target, seen, servers, read, proof, rules, now)
    forged = [each.address for each in servers if _differs_over_udp(name_of(target.fqdn), each)]
    if isinstance(decision, Keep) and forged:
        return Refuse(
            "udp_differs",
            f"The CDS records over UDP are not those over TCP at {', '.join(forged)}. An attacker may forge "
            "answers of the nameservers. Tell the operator of the nameservers.",
        )
    return decision


def _decide(
    target: Target,
    seen: Observation,
    servers: Sequence[Server],
    read: Sequence[PublishedKeys | None],
    proof: Proof | None,
    rules: Rules,
    now: datetime,
) -> Decision:
    large = [each.address for each in servers if _is_too_large(name_of(target.fqdn), each)]
    if large:
        return Refuse(
            "unsupported",
            f"More than {RECORDS_MAX} CDS, CDNSKEY or DNSKEY records are at {', '.join(large)}. Remove those "
            "that aren't in use.",
        )
    if not any(each is not None and each.has_signal for each in read):
        return Keep()
    silent = silent_servers(target, seen, servers, read)
    if silent:
        return Refuse(
            "servers_silent",
            "Not every nameserver answered about its CDS, CDNSKEY and DNSKEY records over TCP: "
            f"{', '.join(silent)}. Check the nameservers.",
        )
    published = [each for each in read if each is not None]
    decisions = [
        decide(name_of(target.fqdn), target.delegation.ds_records, each, proof, rules, now)
        for each in published
    ]
    if any(not _is_same(each, published[0]) for each in published) or not _agree(decisions):
        return Refuse(
            "servers_differ",
            "The nameservers publish different CDS, CDNSKEY or DNSKEY records, or signatures. Wait until "
            "all nameservers have the newest version of the zone. If the difference stays, check the zone "
            "transfers.",
        )
    return _oldest(decisions)


def silent_servers(
    target: Target, seen: Observation, servers: Sequence[Server], read: Sequence[object | None]
) -> list[str]:
    """Return the nameservers and addresses without a usable answer. `read` has what each of `servers`
    publishes.
    """
    asked = {each.host for each in servers}
    return [
        *(each for each in target.delegation.nameservers if each not in asked),
        *seen.not_public,
        *(each.address for each, got in zip(servers, read, strict=True) if got is None),
    ]


def questions_about(fqdn: str) -> list[Question]:
    """Return the additional questions of a check that decides about DS records."""
    return [(fqdn, each) for each in TYPES]


def requests_ds(target: Target, seen: Observation) -> bool:
    """True if a nameserver publishes CDS or CDNSKEY records."""
    read = [published_by(name_of(target.fqdn), each) for each in seen.servers]
    return any(each is not None and each.has_signal for each in read)


def published_by(name: dns.name.Name, server: Server) -> PublishedKeys | None:
    """Return the key records that a server publishes; None if its answer to one of the questions is unusable,
    or has more than `RECORDS_MAX` records.
    """
    replies = {
        "SOA": server.soa_tcp,
        **{rdtype: server.extra.get((text_of(name), rdtype)) for rdtype in TYPES},
    }
    messages = {rdtype: usable_message(reply) for rdtype, reply in replies.items()}
    found = PublishedKeys()
    for rdtype, message in messages.items():
        if message is None:
            return None
        rrset = find_rrset(message, name, rdtype)
        if rrset is not None and len(rrset) > RECORDS_MAX:
            return None
        signatures = tuple(
            rdata
            for each in message.answer
            if each.name == name
            and each.rdtype == dns.rdatatype.RRSIG
            and each.covers == dns.rdatatype.from_text(rdtype)
            for rdata in list(each)[:RECORDS_MAX]
        )
        found = replace(found, **{rdtype.lower(): rrset}, signatures=(*found.signatures, *signatures))
    return found


def _is_too_large(name: dns.name.Name, server: Server) -> bool:
    """True if a server publishes CDS or CDNSKEY records, and a set of its records has more than
    `RECORDS_MAX`.
    """
    replies = {rdtype: server.extra.get((text_of(name), rdtype)) for rdtype in TYPES}
    cds, cdnskey, dnskey = (
        find_rrset(usable_message(each), name, rdtype) or () for rdtype, each in replies.items()
    )
    return bool(cds or cdnskey) and max(map(len, (cds, cdnskey, dnskey))) > RECORDS_MAX


def usable_message(reply: Reply | None) -> dns.message.Message | None:
    """Return the message of a reply if it is a complete authoritative answer, with or without records; else
    None.
    """
    if reply is None or reply.message is None:
        return None
    message = reply.message
    is_authoritative = message.rcode() == dns.rcode.NOERROR and message.flags & dns.flags.AA
    return message if is_authoritative and not message.flags & dns.flags.TC else None


def _differs_over_udp(name: dns.name.Name, server: Server) -> bool:
    """True if a server's usable answers about CDS records over UDP and TCP have different records."""
    over_udp, over_tcp = (
        usable_message(server.cds_udp),
        usable_message(server.extra.get((text_of(name), "CDS"))),
    )
    if over_udp is None or over_tcp is None:
        return False
    return frozenset(find_rrset(over_udp, name, "CDS") or ()) != frozenset(
        find_rrset(over_tcp, name, "CDS") or ()
    )


def _is_same(one: PublishedKeys, other: PublishedKeys) -> bool:
    return all(
        frozenset(getattr(one, each) or ()) == frozenset(getattr(other, each) or ())
        for each in ("cds", "cdnskey", "dnskey")
    )


def _agree(decisions: Sequence[Decision]) -> bool:
    return len({_outcome(each) for each in decisions}) == 1


def _outcome(decision: Decision) -> tuple[str, tuple[DsRecord, ...] | str]:
    match decision:
        case Replace() | Wait():
            return type(decision).__name__, decision.ds_records
        case Refuse(code, _):
            return "refuse", code
    return type(decision).__name__, ()


def _oldest(decisions: Sequence[Decision]) -> Decision:
    """Return the decision with the oldest signature.

    The decisions agree, but each server may have signed at another time.
    """
    signed = [each for each in decisions if isinstance(each, Replace | Remove | Wait)]
    return min(signed, key=lambda each: each.signed_at) if signed else decisions[0]
