"""Derive the findings and the state of a delegation from a check's observations (rules).

`broken` means that resolvers fail: no nameserver answers for the name, or no nameserver's answers validate. Therefore a fault of a
nameserver is a warning if another nameserver works, and otherwise an error.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_network

import dns.flags
import dns.rcode

from sublet.dns.addresses import not_public_reason
from sublet.health.aliases import DANGLING
from sublet.health.chain import ChainVerdict, judge_chain, supported_ds
from sublet.health.dns_client import PAYLOAD_OCTETS
from sublet.health.model import (
    BROKEN,
    DEGRADED,
    HEALTHY,
    NOT_ASKED,
    UNKNOWN,
    Finding,
    HostAddresses,
    Level,
    Observation,
    Reply,
    Report,
    Server,
    Target,
    find_rrset,
    name_of,
    text_of,
)
from sublet.health.observe import glue_addresses

CODES: dict[str, str] = {
    "nameserver_not_found": "the nameserver has no address in the DNS",
    "nameserver_is_alias": "the nameserver is an alias (CNAME), which some resolvers don't follow (RFC 2181, section 10.3)",
    "nameserver_not_public": "none of the nameserver's addresses is public, so it isn't asked",
    "nameserver_unreachable": "the nameserver doesn't answer over UDP",
    "nameserver_unreachable_over_tcp": "the nameserver doesn't answer over TCP (RFC 7766)",
    "nameserver_unreachable_over_ipv6": "the nameserver answers over IPv4, but not at its IPv6 address",
    "lame": "the nameserver doesn't serve the name",
    "ns_set_differs": "the zone lists other nameservers than the registry",
    "glue_differs": "the zone has other addresses of its nameservers than the glue",
    "soa_serial_differs": "the nameservers have different versions of the zone",
    "ds_without_key": "no DS record matches a key of the zone",
    "ds_broken": "a DS record matches, but the signatures don't validate",
    "signatures_expire": "signatures expire soon, or have expired",
    "weak_algorithm": "the zone has keys of an algorithm that RFC 9904 advises against",
    "parent_not_signed": "the platform domain isn't signed, so the DS records have no effect",
    "single_point": "one failure takes the name down: there is one nameserver, address or network (RFC 2182)",
    "open_recursion": "the nameserver resolves names for any client (RFC 5358)",
    "edns_broken": "the nameserver doesn't answer with EDNS (RFC 6891)",
    "udp_size": "the nameserver's UDP answers are larger than allowed, or get lost",
    "hijackable": "anyone could register the domain of the nameserver, and take over the name",
    DANGLING: "the host of a CNAME record doesn't exist, and could be taken over",
    "checks_impaired": "the registry can't check delegations at the moment, so the state is unknown",
}
"""Every code of a finding, with its meaning."""

REFUSED_CODES: dict[str, str] = {
    "ds_refused": "the zone's request for DS records is refused",
    "csync_refused": "the zone's request for nameservers or glue is refused",
}
"""The codes of findings about refused requests of the zone. They don't change the state of the delegation."""
EXPIRES_SOON = timedelta(days=3)
EXPIRES_SOON_PART = 4
"""Signatures expire soon if also less than this part of their validity is left (1/4), because some servers sign for only two days."""
WEAK_ALGORITHMS = frozenset({1, 3, 5, 6, 7, 10, 12})
_NETWORK_BITS = {4: 24, 6: 48}


def report(target: Target, seen: Observation, now: datetime) -> Report:
    """Return the findings and the state of a delegation after a check."""
    found = tuple(_findings(target, seen, now))
    return Report(derive_state(target, seen, found), found, now)


def derive_state(target: Target, seen: Observation, found: Sequence[Finding]) -> str:
    """Return the state of a delegation.

    It is `unknown` if no nameserver was asked, if the check is unfinished, or if no nameserver works and this host couldn't ask all.
    Not checked: that this host can ask nameservers (`control.py`).
    """
    if seen.busy_until is not None or not target.delegation.nameservers:
        return UNKNOWN
    levels = {each.level for each in found}
    if not any(_is_working(each, target) for each in seen.servers) and _could_not_ask(seen):
        return UNKNOWN
    if Level.ERROR in levels:
        return BROKEN
    if _is_unfinished(target, seen):
        return UNKNOWN
    return DEGRADED if Level.WARNING in levels else HEALTHY


def _is_unfinished(target: Target, seen: Observation) -> bool:
    """True if the check reached its limits before it found a working nameserver, or the keys of a signed zone."""
    working = [each for each in seen.servers if _is_working(each, target)]
    if not working:
        return True
    is_validated = target.parent_signed and bool(supported_ds(target.delegation.ds_records))
    return is_validated and not any(_has_dnskey_reply(each) for each in working)


def _has_dnskey_reply(server: Server) -> bool:
    return server.dnskey.failure != "not_asked"


def _could_not_ask(seen: Observation) -> bool:
    if any(each.failure == "unknown" for each in seen.hosts):
        return True
    replies = [each.soa for each in seen.servers]
    return bool(replies) and all(each.failure in ("no_route", "not_asked") for each in replies)


def _findings(target: Target, seen: Observation, now: datetime) -> Iterator[Finding]:
    working = [each for each in seen.servers if _is_working(each, target)]
    level = Level.WARNING if working else Level.ERROR
    yield from _host_findings(target, seen, level)
    yield from _reachability_findings(seen, level)
    yield from _lameness_findings(target, seen, level)
    yield from _zone_content_findings(target, working)
    yield from _signature_findings(target, working, now)
    yield from _software_findings(seen.servers, working)
    yield from _single_point_findings(seen)


def _is_working(server: Server, target: Target) -> bool:
    """True if a server answers with authority for the name: over UDP, or over TCP if it truncates the answer over UDP."""
    if _has_no_whole_answer(server):
        return False
    return _is_authoritative(_soa_reply(server), target)


def _has_no_whole_answer(server: Server) -> bool:
    """True if a server truncates its answer over UDP, and doesn't answer over TCP."""
    message = server.soa.message
    is_truncated = message is not None and bool(message.flags & dns.flags.TC)
    return is_truncated and server.soa_tcp.failure in ("no_answer", "malformed")


def _soa_reply(server: Server) -> Reply:
    """Return the reply about the SOA record that resolvers use.

    They retry without EDNS after an EDNS error (FORMERR, NOTIMP), but not after a timeout (dnsflagday.net/2019).
    """
    message = server.soa.message
    is_edns_error = message is not None and message.rcode() in (dns.rcode.FORMERR, dns.rcode.NOTIMP)
    return server.soa_plain if is_edns_error and server.soa_plain.message is not None else server.soa


def _is_authoritative(reply: Reply, target: Target) -> bool:
    message = reply.message
    if message is None or message.rcode() != dns.rcode.NOERROR or not message.flags & dns.flags.AA:
        return False
    if message.flags & dns.flags.TC:
        return True
    return find_rrset(message, name_of(target.fqdn), "SOA") is not None


def _host_findings(target: Target, seen: Observation, level: Level) -> Iterator[Finding]:
    for each in seen.hosts:
        if each.failure in ("not_found", "bogus"):
            why = (
                "has no address in the DNS"
                if each.failure == "not_found"
                else "has addresses that don't validate"
            )
            hint = "Check the spelling, or remove it."
            if each.failure == "bogus":
                hint = "Tell the operator of its zone, or remove the nameserver."
            yield Finding("nameserver_not_found", level, each.host, f"Nameserver {each.host} {why}.", hint)
        if each.alias is not None:
            yield Finding(
                "nameserver_is_alias",
                Level.WARNING,
                each.host,
                f"Nameserver {each.host} is an alias of {each.alias}, which some resolvers don't follow.",
                f"Use {each.alias} as the nameserver.",
            )
        if _is_hijackable(target, each):
            yield Finding(
                "hijackable",
                Level.WARNING,
                each.host,
                f"The domain of nameserver {each.host} isn't registered. Its next owner can take over {target.fqdn}.",
                "Remove the nameserver, or register its domain.",
            )
        private = [address for address in each.addresses if address in seen.not_public]
        if each.addresses and len(private) == len(each.addresses):
            reason = (not_public_reason(private[0]) or "").removesuffix(" Give a public address.")
            yield Finding(
                "nameserver_not_public",
                level,
                each.host,
                f"Nameserver {each.host} has no public address: {reason}",
                "Give it a public address, or remove it.",
            )


def _is_hijackable(target: Target, host: HostAddresses) -> bool:
    """True if anyone could register the host's domain: it doesn't exist below its top-level domain or below this platform domain."""
    if host.host in target.unheld:
        return True
    zone = host.missing_in
    return zone is not None and zone != "" and ("." not in zone or zone == target.domain)


def _reachability_findings(seen: Observation, level: Level) -> Iterator[Finding]:
    for host, servers in _group_by_host(seen.servers).items():
        dead = [each for each in servers if _is_dead(each)]
        hint = "Start the nameserver, open port 53 for UDP and TCP, or remove it."
        if dead and all(_is_dead(each) or each.soa.failure == "no_route" for each in servers):
            how = "doesn't answer"
            if any(each.soa_plain.message for each in dead):
                how = "answers only without EDNS"
            elif any(each.soa_tcp.message for each in dead):
                how = "answers over TCP only"
            where = ", ".join(each.address for each in dead)
            yield Finding("nameserver_unreachable", level, host, f"Nameserver {host} ({where}) {how}.", hint)
            continue
        for each in dead:
            code = "nameserver_unreachable_over_ipv6" if ":" in each.address else "nameserver_unreachable"
            message = f"Nameserver {host} doesn't answer at {each.address}."
            yield Finding(code, Level.WARNING, each.address, message, hint)
        for each in servers:
            if each not in dead and each.soa_tcp.failure in ("no_answer", "malformed"):
                yield Finding(
                    "nameserver_unreachable_over_tcp",
                    level if _has_no_whole_answer(each) else Level.WARNING,
                    each.address,
                    f"Nameserver {host} doesn't answer over TCP at {each.address}, so long answers get lost.",
                    "Open port 53 for TCP.",
                )


def _is_dead(server: Server) -> bool:
    """True if a server was asked and didn't answer over UDP with EDNS."""
    return server.soa.failure in ("no_answer", "malformed")


def _lameness_findings(target: Target, seen: Observation, level: Level) -> Iterator[Finding]:
    for server in seen.servers:
        reply = _soa_reply(server)
        if reply.message is None or _is_authoritative(reply, target):
            continue
        rcode = reply.message.rcode()
        how = "without authority" if rcode == dns.rcode.NOERROR else dns.rcode.to_text(rcode)
        yield Finding(
            "lame",
            level,
            server.host,
            f"Nameserver {server.host} ({server.address}) answers {how} for {target.fqdn}.",
            f"Set up the zone {target.fqdn} there, or remove the nameserver.",
        )


def _zone_content_findings(target: Target, working: Sequence[Server]) -> Iterator[Finding]:
    name = name_of(target.fqdn)
    ours = set(target.delegation.nameservers)
    others: dict[frozenset[str], str] = {}
    serials: dict[int, str] = {}
    for server in working:
        hosts = frozenset(
            text_of(each.target) for each in find_rrset(server.nameservers.message, name, "NS") or ()
        )
        if hosts and hosts != ours:
            others.setdefault(hosts, server.host)
        soa = find_rrset(_soa_reply(server).message, name, "SOA")
        if soa is not None:
            serials.setdefault(soa[0].serial, server.host)
    for hosts, host in others.items():
        yield Finding(
            "ns_set_differs",
            Level.WARNING,
            host,
            f"The zone at {host} lists other nameservers than the registry: {', '.join(sorted(hosts))}.",
            "Change the NS records of the zone, or the nameservers in the registry, until both are the same.",
        )
    if len(serials) > 1:
        versions = ", ".join(f"{serial} at {host}" for serial, host in sorted(serials.items()))
        yield Finding(
            "soa_serial_differs",
            Level.NOTICE,
            target.fqdn,
            f"The nameservers have different versions of the zone: {versions}.",
            "Wait until all have transferred the newest version. If the difference stays, check the zone transfers.",
        )
    yield from _glue_findings(target, working)


def _glue_findings(target: Target, working: Sequence[Server]) -> Iterator[Finding]:
    glue = glue_addresses(target.delegation)
    for server in working:
        for host, ours in glue.items():
            messages = {each: server.addresses.get((host, each), NOT_ASKED).message for each in ("A", "AAAA")}
            if None in messages.values():
                continue
            theirs = {
                rdata.address
                for family, message in messages.items()
                for rdata in find_rrset(message, name_of(host), family) or ()
            }
            if theirs != set(ours):
                shown = ", ".join(sorted(theirs)) or "none"
                yield Finding(
                    "glue_differs",
                    Level.WARNING,
                    host,
                    f"The zone has other addresses of {host} than the glue: {shown}.",
                    "Change the records of the zone, or the glue, until both are the same.",
                )


def _signature_findings(target: Target, working: Sequence[Server], now: datetime) -> Iterator[Finding]:
    if not target.delegation.ds_records:
        return
    if not target.parent_signed:
        yield Finding(
            "parent_not_signed",
            Level.NOTICE,
            target.domain,
            f"{target.domain} isn't signed, so the DS records have no effect.",
            f"Keep the DS records until {target.domain} is signed, or remove them.",
        )
    supported = supported_ds(target.delegation.ds_records)
    if not supported or not working:
        return
    chains = [(each, _validate(target, each, now)) for each in working if _has_dnskey_reply(each)]
    # Validators ignore DS records in an unsigned zone.
    is_error = (
        target.parent_signed and len(chains) == len(working) and all(chain.problem for _, chain in chains)
    )
    level = Level.ERROR if is_error else Level.WARNING
    for server, chain in chains:
        if chain.problem is not None:
            yield _chain_finding(target, server, chain, level)
    yield from _expiry_findings(target, (chain for _, chain in chains), now)
    yield from _algorithm_findings(target, (chain for _, chain in chains))


def _validate(target: Target, server: Server, now: datetime) -> ChainVerdict:
    name = name_of(target.fqdn)
    if server.dnskey.failure is not None:
        return ChainVerdict("broken", "it doesn't answer queries for DNSKEY records")
    return judge_chain(
        name, supported_ds(target.delegation.ds_records), server.dnskey.message, _signed_soa(server), now
    )


def _signed_soa(server: Server) -> dns.message.Message | None:
    """Return the answer with the SOA record and its signatures, over TCP if it is too long for UDP."""
    over_udp = server.soa.message
    return server.soa_tcp.message if over_udp is not None and over_udp.flags & dns.flags.TC else over_udp


def _chain_finding(target: Target, server: Server, chain: ChainVerdict, level: Level) -> Finding:
    tags = ", ".join(str(each.key_tag) for each in target.delegation.ds_records)
    code = {"without_key": "ds_without_key", "expired": "signatures_expire"}.get(
        chain.problem or "", "ds_broken"
    )
    hint = {
        "ds_without_key": "Remove the DS records, or replace them with DS records of the zone's present key.",
        "signatures_expire": "Sign the zone again.",
        "ds_broken": "Sign the zone again with a key that a DS record matches, or remove the DS records.",
    }[code]
    message = f"The answers of {server.host} don't validate with the DS records ({tags}): {chain.detail}."
    return Finding(code, level, server.host, message, hint)


def _expiry_findings(target: Target, chains: Iterable[ChainVerdict], now: datetime) -> Iterator[Finding]:
    for chain in chains:
        if chain.problem is None and chain.ends_at is not None and chain.validity is not None:
            left = chain.ends_at - now
            if left < min(EXPIRES_SOON, chain.validity / EXPIRES_SOON_PART):
                yield Finding(
                    "signatures_expire",
                    Level.WARNING,
                    target.fqdn,
                    f"Signatures of {target.fqdn} expire on {chain.ends_at:%Y-%m-%d %H:%M} UTC.",
                    "Sign the zone again before then.",
                )
                return


def _algorithm_findings(target: Target, chains: Iterable[ChainVerdict]) -> Iterator[Finding]:
    used = {each.algorithm for each in target.delegation.ds_records}.union(
        *(each.algorithms for each in chains)
    )
    for algorithm in sorted(used & WEAK_ALGORITHMS):
        yield Finding(
            "weak_algorithm",
            Level.WARNING,
            str(algorithm),
            f"The zone has keys of algorithm {algorithm}, which RFC 9904 advises against.",
            "Sign the zone with algorithm 13 (ECDSAP256SHA256).",
        )


def _software_findings(servers: Sequence[Server], working: Sequence[Server]) -> Iterator[Finding]:
    for server in servers:
        if server.recursion.message is not None and _recurses(server.recursion):
            yield Finding(
                "open_recursion",
                Level.NOTICE,
                server.address,
                f"Nameserver {server.host} ({server.address}) resolves names for any client.",
                "Turn recursion off, or allow it only for your own networks.",
            )
        if server.soa_plain.message is not None:
            yield Finding(
                "edns_broken",
                Level.NOTICE,
                server.address,
                f"Nameserver {server.host} ({server.address}) answers only without EDNS.",
                "Update its software, or the firewall in front of it.",
            )
    for server in working:
        if _loses_large_answers(server):
            yield Finding(
                "udp_size",
                Level.NOTICE,
                server.address,
                f"UDP answers of nameserver {server.host} ({server.address}) are larger than the {PAYLOAD_OCTETS} octets of the query, or get lost.",
                f"Limit its UDP answers to {PAYLOAD_OCTETS} octets.",
            )


def _recurses(reply: Reply) -> bool:
    message = reply.message
    return bool(
        message is not None
        and message.flags & dns.flags.RA
        and message.answer
        and not message.flags & dns.flags.AA
    )


def _loses_large_answers(server: Server) -> bool:
    udp = [server.soa, server.dnskey_udp]
    if any(each.octets > PAYLOAD_OCTETS for each in udp):
        return True
    return server.dnskey_udp.failure == "no_answer" and server.dnskey.message is not None


def _single_point_findings(seen: Observation) -> Iterator[Finding]:
    addresses = {address for each in seen.hosts for address in each.addresses}
    places = {
        ip_network(f"{each}/{_NETWORK_BITS[6 if ':' in each else 4]}", strict=False) for each in addresses
    }
    if any(each.failure for each in seen.hosts):
        return
    what = None
    if len(seen.hosts) == 1:
        what = "one nameserver"
    elif len(addresses) == 1:
        what = "one address"
    elif places and len({place.version for place in places}) == len(places):
        what = f"one network ({' and '.join(sorted(map(str, places)))})"
    if what is not None:
        yield Finding(
            "single_point",
            Level.NOTICE,
            seen.hosts[0].host,
            f"The name depends on {what}.",
            "Add a nameserver in another network.",
        )


def _group_by_host(servers: Sequence[Server]) -> dict[str, list[Server]]:
    found: dict[str, list[Server]] = {}
    for each in servers:
        found.setdefault(each.host, []).append(each)
    return found


def worst_first(found: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by level: errors, warnings, notices."""
    return sorted(found, key=lambda each: tuple(Level).index(each.level))


def warning_sentences(found: Iterable[Finding]) -> tuple[str, ...]:
    """Return the sentences of errors and warnings, as `provisioning.warnings` shows them."""
    return tuple(f"{each.message} {each.hint}" for each in worst_first(found) if each.level != Level.NOTICE)
