"""Derive the findings and the state of a delegation from a check's observations (rules).

`broken` means that resolvers fail: no nameserver has an answer for the name, or for a name below it, that
they can use and validate (`answers.py`). Therefore a fault of a nameserver is a warning if another nameserver
works, and otherwise an error.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from ipaddress import ip_network

import dns.flags
import dns.rcode

from sublet.dns.addresses import not_public_reason
from sublet.health.aliases import DANGLING
from sublet.health.answers import (
    FAILURES,
    JudgedServer,
    Judgement,
    alias_of,
    describe,
    has_edns_error,
    is_dead,
    is_servfail,
    judge,
)
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
    Question,
    Reply,
    Report,
    Server,
    Target,
    find_rrset,
    name_of,
    text_of,
    worst_first,
)
from sublet.health.observe import glue_addresses
from sublet.health.signature_findings import signature_findings
from sublet.structs import replace

CODES: dict[str, str] = {
    "nameserver_not_found": "the nameserver has no address in the DNS",
    "nameserver_is_alias": "the nameserver is an alias (CNAME), which some "
    "resolvers don't follow (RFC 2181, section 10.3)",
    "nameserver_not_public": "none of the nameserver's addresses is public, so it isn't asked",
    "nameserver_unreachable": "the nameserver doesn't answer over UDP",
    "nameserver_unreachable_over_tcp": "the nameserver doesn't answer over TCP (RFC 7766)",
    "nameserver_unreachable_over_ipv6": "the nameserver answers over IPv4, but not at its IPv6 address",
    "lame": "the nameserver doesn't serve the name",
    "answers_fail": "the nameserver answers some questions about the name, and fails for others",
    "alias_at_apex": "the name is an alias, so it can't have nameservers (RFC 1034, section 3.6.2)",
    "soa_missing": "the nameserver has no answer about the SOA record of the name",
    "not_authoritative": "the nameserver's answers don't say that it has authority for the name (AA flag)",
    "case_changed": "the nameserver repeats the question with other upper and lower case letters",
    "unlisted_nameserver_fails": "a nameserver that only the zone lists has a fault",
    "zone_nameservers_fail": "no nameserver that the zone lists works, and resolvers may use those",
    "resolver_fails": "the registry's resolver can't resolve the name, although a nameserver answers",
    "ns_set_differs": "the zone lists other nameservers than the registry",
    "glue_differs": "the zone has other addresses of its nameservers than the glue",
    "soa_serial_differs": "the nameservers have different versions of the zone",
    "ds_without_key": "no DS record matches a key of the zone",
    "ds_broken": "a DS record matches, but the signatures don't validate",
    "denial_missing": "the zone is signed, but doesn't prove that a name or a record doesn't exist",
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
    "ds_refused": "the DS records that the zone asks for are refused",
    "csync_refused": "the nameservers or glue that the zone asks for are refused",
}
"""The codes of findings about refused requests of the zone. They don't change the state of the delegation."""
SHOWN_MAX = 13
"""The maximum number of hosts or addresses in a message, because a zone may have thousands."""
_NETWORK_BITS = {4: 24, 6: 48}


def report(target: Target, seen: Observation, now: datetime) -> Report:
    """Return the findings and the state of a delegation after a check."""
    judgement = judge(target, seen, now)
    found = list(_findings(target, seen, judgement, now))
    if not any(each.level == Level.ERROR for each in found):
        found += _resolver_findings(target, seen)
    return Report(_derive_state(target, seen, judgement, found), tuple(found), now)


def _derive_state(target: Target, seen: Observation, judgement: Judgement, found: Sequence[Finding]) -> str:
    """Return the state of a delegation.

    It is `unknown` if no nameserver was asked, if the check is unfinished, or if no nameserver works and this
    host couldn't ask all. Not checked: that this host can ask nameservers (`control.py`).
    """
    if seen.busy_until is not None or not target.delegation.nameservers:
        return UNKNOWN
    levels = {each.level for each in found}
    if not judgement.working and _could_not_ask(seen):
        return UNKNOWN
    if Level.ERROR in levels:
        return BROKEN
    if not judgement.is_complete:
        return UNKNOWN
    return DEGRADED if Level.WARNING in levels else HEALTHY


def _could_not_ask(seen: Observation) -> bool:
    if any(each.failure == "unknown" for each in seen.hosts):
        return True
    replies = [each.soa for each in seen.servers]
    return bool(replies) and all(each.failure in ("no_route", "not_asked") for each in replies)


def _findings(target: Target, seen: Observation, judgement: Judgement, now: datetime) -> Iterator[Finding]:
    working = [each.server for each in judgement.working]
    level = Level.WARNING if working else Level.ERROR
    yield from _host_findings(target, seen.hosts, seen.not_public, level)
    yield from _reachability_findings(seen.servers, level)
    yield from _answer_findings(target, judgement.servers, judgement.lost, level)
    yield from _authority_findings(target, judgement.working)
    yield from _key_findings(target, working)
    yield from _zone_content_findings(target, working)
    yield from _unlisted_findings(target, seen, working, now)
    yield from signature_findings(target, judgement, now)
    yield from _software_findings(seen.servers, working)
    yield from _single_point_findings(seen)


def _host_findings(
    target: Target, hosts: Iterable[HostAddresses], not_public: Collection[str], level: Level
) -> Iterator[Finding]:
    for each in hosts:
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
                f"The domain of nameserver {each.host} isn't registered. Its next owner can take over "
                f"{target.fqdn}.",
                "Remove the nameserver, or register its domain.",
            )
        private = [address for address in each.addresses if address in not_public]
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
    """True if anyone could register the host's domain: it doesn't exist below its top-level domain or below
    this platform domain.
    """
    if host.host in target.unheld:
        return True
    zone = host.missing_in
    return zone is not None and zone != "" and ("." not in zone or zone == target.domain)


def _reachability_findings(servers: Sequence[Server], level: Level) -> Iterator[Finding]:
    for host, its in _group_by_host(servers).items():
        dead = [each for each in its if is_dead(each)]
        hint = "Start the nameserver, open port 53 for UDP and TCP, or remove it."
        if dead and all(is_dead(each) or each.soa.failure == "no_route" for each in its):
            how = "doesn't answer"
            if any(each.soa_plain.message for each in dead):
                how = "answers only without EDNS"
            elif any(each.soa_tcp.message for each in dead):
                how = "answers over TCP only"
            elif any(each.soa.failure == "malformed" for each in dead):
                how, hint = "gives malformed answers", "Update its software, or the firewall in front of it."
            where = ", ".join(each.address for each in dead)
            yield Finding("nameserver_unreachable", level, host, f"Nameserver {host} ({where}) {how}.", hint)
            continue
        for each in dead:
            code = "nameserver_unreachable_over_ipv6" if ":" in each.address else "nameserver_unreachable"
            message = f"Nameserver {host} doesn't answer at {each.address}."
            yield Finding(code, Level.WARNING, each.address, message, hint)
        for each in its:
            # A server that drops questions for SOA records over UDP drops them over TCP, too.
            if each.soa_tcp.failure in FAILURES and each.soa.failure not in FAILURES:
                yield Finding(
                    "nameserver_unreachable_over_tcp",
                    level if _truncates(each) else Level.WARNING,
                    each.address,
                    f"Nameserver {host} doesn't answer over TCP at {each.address}, so long answers get lost.",
                    "Open port 53 for TCP.",
                )


def _truncates(server: Server) -> bool:
    return any(each.message and each.message.flags & dns.flags.TC for each in server.answers.values())


def _answer_findings(
    target: Target, servers: Iterable[JudgedServer], lost: Collection[Question], level: Level
) -> Iterator[Finding]:
    for each in servers:
        host = each.server.host
        where = f"Nameserver {host} ({each.server.address})"
        faults = {**each.faults, **each.doubts}
        if is_dead(each.server) or not faults or _truncates(each.server):
            continue
        if not each.is_working:
            fault = next(iter(faults.values()))
            yield Finding(
                "lame",
                level,
                host,
                f"{where} doesn't serve {target.fqdn}. It gives {fault}.",
                f"Set up the zone {target.fqdn} there, or remove the nameserver.",
            )
            continue
        yield Finding(
            "answers_fail",
            Level.ERROR if any(question in lost for question in each.faults) else Level.WARNING,
            host,
            f"{where} fails for some questions. {describe(faults.items())}.",
            _hint_to_answer_all(target),
        )


def _hint_to_answer_all(target: Target) -> str:
    return (
        "Repair the nameserver's software or the firewall in front of it. It must answer questions of every "
        f"type, and about every name below {target.fqdn}."
    )


def _authority_findings(target: Target, working: Sequence[JudgedServer]) -> Iterator[Finding]:
    """Yield the faults of answers that resolvers use nevertheless."""
    for judged in working:
        server = judged.server
        where = f"Nameserver {server.host} ({server.address})"
        alias = alias_of(target.fqdn, server)
        questions = server.answers.keys() - judged.faults.keys() - judged.doubts.keys()
        answers = [message for each in questions if (message := server.answers[each].message) is not None]
        if alias is not None:
            yield Finding(
                "alias_at_apex",
                Level.WARNING,
                server.host,
                f"{where} says that {target.fqdn} is an alias (CNAME) of {text_of(alias)}. Some resolvers "
                "then don't find other records.",
                "Replace the alias with A and AAAA records.",
            )
        elif _lacks_soa(target, server):
            yield Finding(
                "soa_missing",
                Level.WARNING,
                server.host,
                f"{where} has no answer about the SOA record of {target.fqdn}.",
                "Add the SOA record, or repair the nameserver's software or the firewall in front of it.",
            )
        if not all(each.flags & dns.flags.AA for each in answers):
            yield Finding(
                "not_authoritative",
                Level.WARNING,
                server.host,
                f"{where} answers without authority (AA flag), which some resolvers don't accept.",
                f"Set up the zone {target.fqdn} there. A cache can't be a nameserver.",
            )
        if not all(each.is_case_kept for each in (server.soa, *server.answers.values())):
            yield Finding(
                "case_changed",
                Level.WARNING,
                server.host,
                f"{where} repeats questions with other upper and lower case letters. Resolvers that vary "
                "the case against forgery ask it again.",
                "Update the nameserver's software, or the firewall in front of it.",
            )


def _key_findings(target: Target, working: Sequence[Server]) -> Iterator[Finding]:
    """Yield the nameservers that send signatures without their keys, if the name has no DS records.

    BIND then fails, and unbound doesn't. With DS records, `signature_findings` has this fault.
    """
    for each in working:
        fails = each.dnskey.failure in FAILURES or is_servfail(each.dnskey)
        if fails and not target.delegation.ds_records:
            yield Finding(
                "answers_fail",
                Level.WARNING,
                each.host,
                f"Nameserver {each.host} ({each.address}) signs its answers, but doesn't answer questions "
                "for the keys (DNSKEY). Some resolvers then fail.",
                _hint_to_answer_all(target),
            )


def _lacks_soa(target: Target, server: Server) -> bool:
    """True if the server was asked for its SOA record, and has none in any way of asking."""
    replies = (server.soa, server.soa_plain, server.soa_tcp)
    is_asked = server.soa.failure not in ("not_asked", "no_route")
    return is_asked and not any(find_rrset(each.message, name_of(target.fqdn), "SOA") for each in replies)


def _unlisted_findings(
    target: Target, seen: Observation, working: Sequence[Server], now: datetime
) -> Iterator[Finding]:
    """Yield the faults of nameservers that only the zone names.

    Resolvers use them after they have got its NS records.
    """
    asked = {each.address for each in seen.unlisted}
    addresses = {address for each in seen.unlisted_hosts for address in each.addresses}
    private = {each for each in addresses - asked if not_public_reason(each) is not None}
    judged = judge(target, replace(seen, servers=seen.unlisted), now)
    for each in (
        *_host_findings(target, seen.unlisted_hosts, private, Level.WARNING),
        *_reachability_findings(seen.unlisted, Level.WARNING),
        *_answer_findings(target, judged.servers, (), Level.WARNING),
    ):
        yield replace(
            each,
            code="unlisted_nameserver_fails",
            message=f"The zone lists a nameserver that the registry doesn't have. {each.message}",
            hint="Repair the nameserver, or remove it from the NS records of the zone.",
        )
    good = {each.host for each in (*working, *(each.server for each in judged.working))}
    bad = {each.host for each in seen.unlisted_hosts if each.failure in ("not_found", "bogus")}
    bad |= {each.server.host for each in judged.servers if not each.is_working}
    bad |= {
        each.host for each in seen.unlisted_hosts if each.addresses and private.issuperset(each.addresses)
    }
    bad |= {each.host for each in seen.hosts}
    for server in working:
        hosts = _listed_by(target, server)
        if hosts and good.isdisjoint(hosts) and bad.issuperset(hosts):
            yield Finding(
                "zone_nameservers_fail",
                Level.WARNING,
                server.host,
                f"No nameserver that the zone at {server.host} lists works: {_shown(hosts)}. "
                "Resolvers that use them fail.",
                "Change the NS records of the zone to the nameservers in the registry.",
            )
            return


def _listed_by(target: Target, server: Server) -> frozenset[str]:
    found = find_rrset(server.nameservers.message, name_of(target.fqdn), "NS")
    return frozenset(text_of(each.target) for each in found or ())


def _resolver_findings(target: Target, seen: Observation) -> Iterator[Finding]:
    failed = [question for question, reply in seen.resolved.items() if is_servfail(reply)]
    if failed:
        name, rdtype = failed[0]
        yield Finding(
            "resolver_fails",
            Level.WARNING,
            target.fqdn,
            f"The registry's resolver gives SERVFAIL for {rdtype} of {name}, although a nameserver answers.",
            "Repair the other findings. If there are none, wait a day. The resolver may remember a fault.",
        )


def _zone_content_findings(target: Target, working: Sequence[Server]) -> Iterator[Finding]:
    name = name_of(target.fqdn)
    ours = set(target.delegation.nameservers)
    others: dict[frozenset[str], str] = {}
    serials: dict[int, str] = {}
    for server in working:
        hosts = _listed_by(target, server)
        if hosts and hosts != ours:
            others.setdefault(hosts, server.host)
        replies = (server.soa, server.soa_plain, server.soa_tcp)
        soa = next((found for each in replies if (found := find_rrset(each.message, name, "SOA"))), None)
        if soa is not None:
            serials.setdefault(soa[0].serial, server.host)
    for hosts, host in others.items():
        yield Finding(
            "ns_set_differs",
            Level.WARNING,
            host,
            f"The zone at {host} lists other nameservers than the registry: {_shown(hosts)}.",
            "Change the NS records of the zone, or the nameservers in the registry, until both are the same.",
        )
    if len(serials) > 1:
        versions = ", ".join(f"{serial} at {host}" for serial, host in sorted(serials.items()))
        yield Finding(
            "soa_serial_differs",
            Level.NOTICE,
            target.fqdn,
            f"The nameservers have different versions of the zone: {versions}.",
            "Wait until all have transferred the newest version. If the difference stays, check the zone "
            "transfers.",
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
                yield Finding(
                    "glue_differs",
                    Level.WARNING,
                    host,
                    f"The zone has other addresses of {host} than the glue: {_shown(theirs)}.",
                    "Change the records of the zone, or the glue, until both are the same.",
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
        if has_edns_error(server.soa) and server.soa_plain.message and not has_edns_error(server.soa_plain):
            yield Finding(
                "edns_broken",
                # BIND asks again without EDNS after FORMERR, but not after NOTIMP.
                Level.NOTICE if _gives(server.soa, dns.rcode.FORMERR) else Level.WARNING,
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
                f"UDP answers of nameserver {server.host} ({server.address}) are larger than the "
                f"{PAYLOAD_OCTETS} octets of the query, or get lost.",
                f"Limit its UDP answers to {PAYLOAD_OCTETS} octets.",
            )


def _gives(reply: Reply, rcode: dns.rcode.Rcode) -> bool:
    return reply.message is not None and reply.message.rcode() == rcode


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


def _shown(values: Iterable[str]) -> str:
    """Return hosts or addresses as a part of a sentence, at most `SHOWN_MAX` of them."""
    found = sorted(values)
    more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return f"{', '.join(found[:SHOWN_MAX]) or 'none'}{more}"


def error_lines(found: Iterable[Finding]) -> list[str]:
    """Return the errors as the lines of a list, for mails."""
    return [f"- {each.message} {each.hint}" for each in found if each.level == Level.ERROR]


def warning_sentences(found: Iterable[Finding]) -> tuple[str, ...]:
    """Return the sentences of errors and warnings, as `provisioning.warnings` shows them."""
    return tuple(f"{each.message} {each.hint}" for each in worst_first(found) if each.level != Level.NOTICE)
