"""Judge the nameservers' answers as resolvers do (rules).

A resolver retries a question at the next nameserver until it gets an answer that it can use and, if the name
has DS records, validate. So a question is lost only if no nameserver answers it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
from msgspec import Struct

from sublet.health.chain import ChainVerdict, Validator, judge_keys, supported_ds, worst_of
from sublet.health.model import NOT_ASKED, Observation, Question, Reply, Server, Target, find_rrset, name_of

FAILURES = ("no_answer", "malformed")
_NO_KEYS = ChainVerdict("broken", "it doesn't answer queries for DNSKEY records")


def questions_of_resolvers(fqdn: str, label: str) -> tuple[Question, ...]:
    """Return what clients ask resolvers: the addresses of the name, and of a name below it, `label`."""
    return ((fqdn, "A"), (fqdn, "AAAA"), (f"{label}.{fqdn}", "A"))


class JudgedServer(Struct, frozen=True):
    """A nameserver that was asked.

    `faults` has each question whose answer resolvers can't use, with the reason; `doubts` those that some
    resolvers can't use. `chains` are the verdicts of validation by question: empty if resolvers don't
    validate, None if the keys weren't asked. `chain` is the worst verdict about all its signed answers.
    """

    server: Server
    faults: Mapping[Question, str]
    doubts: Mapping[Question, str]
    chains: Mapping[Question, ChainVerdict] | None
    chain: ChainVerdict | None

    @property
    def is_working(self) -> bool:
        """True if resolvers can use an answer, when they don't validate."""
        return len(self.faults) < len(self.server.answers)

    def answers(self, question: Question) -> bool:
        """True if resolvers that validate can use its answer to a question."""
        reply = self.server.answers.get(question, NOT_ASKED)
        if question in self.faults or reply.message is None:
            return False
        if self.chains is None:
            return False
        return question not in self.chains or self.chains[question].problem is None

    def fails(self, question: Question) -> bool:
        """True if resolvers can't use its answer. Both this and `answers` are false if it wasn't asked."""
        if is_dead(self.server) or question in self.faults:
            return True
        chain = (self.chains or {}).get(question)
        return chain is not None and chain.problem is not None


class Judgement(Struct, frozen=True):
    """What resolvers get of a delegation.

    `lost` are the questions that no nameserver answers, if resolvers fail for the name or for a name below
    it. `is_complete` is true if both are answered or lost.
    """

    servers: tuple[JudgedServer, ...]
    lost: frozenset[Question]
    is_complete: bool

    @property
    def working(self) -> list[JudgedServer]:
        """The nameservers whose answers resolvers can use, when they don't validate."""
        return [each for each in self.servers if each.is_working]


def judge(target: Target, seen: Observation, now: datetime) -> Judgement:
    """Judge all nameservers at `now`."""
    validates = bool(supported_ds(target.delegation.ds_records))
    validator = _pooled_validator(target, seen.servers, now) if validates else None
    servers = tuple(
        _judge_server(target, each, validator, now) for each in seen.servers if not _has_no_route(each)
    )
    groups = _groups(target, seen.servers)
    # One type of address is enough for a client.
    lost = [
        group for group in groups if servers and all(each.fails(one) for each in servers for one in group)
    ]
    answered = [group for group in groups if any(each.answers(one) for each in servers for one in group)]
    is_complete = len(groups) == 2 and all(group in lost or group in answered for group in groups)
    return Judgement(servers, frozenset(question for group in lost for question in group), is_complete)


def _groups(target: Target, servers: Sequence[Server]) -> list[tuple[Question, ...]]:
    """Return the questions about the name, and those about a name below it."""
    asked = list(dict.fromkeys(question for each in servers for question in each.answers))
    groups = (
        tuple(each for each in asked if each[0] == target.fqdn),
        tuple(each for each in asked if each[0] != target.fqdn),
    )
    return [each for each in groups if each]


def _has_no_route(server: Server) -> bool:
    return server.soa.failure == "no_route"


def is_dead(server: Server) -> bool:
    """True if a server was asked, and answered no question over UDP with EDNS.

    Resolvers don't ask again without EDNS after a timeout (dnsflagday.net/2019).
    """
    replies = (server.soa, *server.answers.values())
    return any(each.failure in FAILURES for each in replies) and not any(each.message for each in replies)


def _pooled_validator(target: Target, servers: Sequence[Server], now: datetime) -> Validator:
    """Return a validator with the keys of all servers whose keys the DS records match.

    A resolver may get the keys from one server, and an answer from another.
    """
    name, ds_records = name_of(target.fqdn), supported_ds(target.delegation.ds_records)
    keys = [
        key
        for each in servers
        if judge_keys(name, ds_records, each.dnskey.message, now).problem is None
        for key in find_rrset(each.dnskey.message, name, "DNSKEY") or ()
    ]
    return Validator(name, dict.fromkeys(keys), now)


def _judge_server(target: Target, server: Server, validator: Validator | None, now: datetime) -> JudgedServer:
    faults = {
        question: fault
        for question, reply in server.answers.items()
        if reply.failure != "not_asked" and (fault := find_fault(target.fqdn, question, reply)) is not None
    }
    doubts = {
        question: doubt
        for question, reply in server.answers.items()
        if question not in faults and (doubt := find_doubt(target.fqdn, reply)) is not None
    }
    if validator is None or len(faults) == len(server.answers):
        return JudgedServer(server, faults, doubts, {}, None)
    if server.dnskey.failure == "not_asked":
        return JudgedServer(server, faults, doubts, None if target.parent_signed else {}, None)
    chains = {
        question: validator.judge_answer(name_of(question[0]), question[1], reply.message)
        for question, reply in server.answers.items()
        if question not in faults and reply.message is not None
    }
    chain = worst_of([_judge_keys(target, server, now), *chains.values(), *_judge_others(server, validator)])
    # Validators ignore DS records in an unsigned zone.
    return JudgedServer(server, faults, doubts, chains if target.parent_signed else {}, chain)


def _judge_keys(target: Target, server: Server, now: datetime) -> ChainVerdict:
    if server.dnskey.failure is not None:
        return _NO_KEYS
    ds_records = supported_ds(target.delegation.ds_records)
    return judge_keys(name_of(target.fqdn), ds_records, server.dnskey.message, now)


def _judge_others(server: Server, validator: Validator) -> list[ChainVerdict]:
    """Validate the SOA and NS records, which only some resolvers validate together with answers."""
    messages = (("SOA", signed_soa(server)), ("NS", server.nameservers.message))
    return [
        validator.judge_records(rdtype, message)
        for rdtype, message in messages
        if find_rrset(message, validator.zone, rdtype) is not None
    ]


def signed_soa(server: Server) -> dns.message.Message | None:
    """Return the answer with the SOA record and its signatures, over TCP if it is too long for UDP."""
    over_udp = server.soa.message
    return server.soa_tcp.message if over_udp is not None and over_udp.flags & dns.flags.TC else over_udp


def find_fault(fqdn: str, question: Question, reply: Reply) -> str | None:
    """Return why resolvers can't use a reply about the name or a name below it, or None.

    Not checked: its signatures.
    """
    message = reply.message
    if message is None:
        return "a malformed answer" if reply.failure == "malformed" else "no answer"
    if message.flags & dns.flags.TC:
        return "a truncated answer, and none over TCP"
    rcode = message.rcode()
    if rcode not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN) or (
        rcode == dns.rcode.NXDOMAIN and question[0] == fqdn
    ):
        return dns.rcode.to_text(rcode)
    referral = _referral(message)
    if referral is not None and referral != name_of(fqdn):
        return "a referral to other nameservers"
    return None


def find_doubt(fqdn: str, reply: Reply) -> str | None:
    """Return why some resolvers can't use a reply, or None. unbound can use these, and BIND can't."""
    message = reply.message
    if message is None or message.answer:
        return None
    if _referral(message) is not None:
        return "a referral to the same zone"
    soa = next((each.name for each in message.authority if each.rdtype == dns.rdatatype.SOA), None)
    if message.rcode() == dns.rcode.NOERROR and soa is not None and not soa.is_subdomain(name_of(fqdn)):
        return f"the SOA record of {soa}"
    return None


def _referral(message: dns.message.Message) -> dns.name.Name | None:
    """Return the zone that a message without an answer refers to, or None."""
    owners = {each.rdtype: each.name for each in message.authority}
    if message.answer or dns.rdatatype.SOA in owners:
        return None
    return owners.get(dns.rdatatype.NS)


def has_edns_error(reply: Reply) -> bool:
    """True if resolvers ask again without EDNS after this reply."""
    return reply.message is not None and reply.message.rcode() in (dns.rcode.FORMERR, dns.rcode.NOTIMP)


def is_servfail(reply: Reply) -> bool:
    """True if a resolver says that it can't answer."""
    return reply.message is not None and reply.message.rcode() == dns.rcode.SERVFAIL


def alias_of(fqdn: str, server: Server) -> dns.name.Name | None:
    """Return the target of the alias that the name itself is, or None."""
    name = name_of(fqdn)
    found = (find_rrset(each.message, name, "CNAME") for each in server.answers.values())
    return next((each[0].target for each in found if each is not None), None)


def describe(faults: Iterable[tuple[Question, str]]) -> str:
    """Return failed questions with their reasons as a part of a sentence."""
    return ", ".join(f"{question[1]} of {question[0]}: {fault}" for question, fault in faults)
