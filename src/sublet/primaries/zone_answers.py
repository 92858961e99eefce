"""Check what resolvers get of a platform domain's zone: through the validating resolver, at the parent, and
from each name server.

The publisher's read-back and the transfers compare the zone on its primary with the registry. They don't
notice a wrong DS record at the parent, expired signatures on one server, or a secondary with the right serial
and other records.
"""

import asyncio
import random
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
from msgspec import Struct

from sublet.counted import counted
from sublet.dns.parent_servers import ParentServer
from sublet.dns.types import DsRecord
from sublet.health.chain import ChainVerdict, judge_chain, supported_ds
from sublet.health.dns_client import DnsClient
from sublet.health.model import NOT_ASKED, Reply, find_rrset, name_of, text_of
from sublet.health.query_limits import Budget, Network, may_ask
from sublet.health.resolve import ForwardingResolver
from sublet.health.signature_findings import EXPIRES_SOON, EXPIRES_SOON_PART

QUERIES_MAX = 200
"""The maximum number of queries of a check, without those that compare the records of names."""
PARENT_SERVERS_MAX = 3
"""The maximum number of the parent's name servers that are tried."""

ANSWER_CAUSES = {
    "resolver": "the resolver gives no answers about the zone above",
    "bogus": "validating resolvers refuse the zone's answers",
    "unresolved": "resolvers get no answers from the zone",
    "parent_ns": "the parent has other NS records than the zone",
    "parent_ds": "the DS records at the parent don't fit the zone's keys",
    "signatures": "a name server's signatures are not valid, or expire soon",
    "content": "a secondary has other records than the registry, with "
    "the serial of the registry's last changes",
}
"""What can be wrong with the answers of a zone, with the meanings."""


class AnswerProblem(Struct, frozen=True):
    """A cause of `ANSWER_CAUSES` with details for the operator.

    `server` is the name server at fault, if it is one.
    """

    cause: str
    detail: str
    server: str | None = None

    @property
    def sentence(self) -> str:
        """The meaning and the details."""
        return f"{ANSWER_CAUSES[self.cause]}: {self.detail}"


class AskedZone(Struct, frozen=True):
    """A zone to check, with the servers to ask, which have an address.

    `built_in_nameservers` are the NS records of a zone on the built-in name server, which never signs; empty
    for other zones. `delegated` is a name whose delegation resolvers should see, None if there is none.
    `signed` is the operator's setting.
    """

    domain: str
    servers: tuple[ParentServer, ...]
    built_in_nameservers: tuple[str, ...]
    delegated: str | None
    signed: bool


class _OwnAnswers(Struct, frozen=True):
    """A name server's answers by question, `(name, type)`."""

    server: ParentServer
    replies: Mapping[tuple[dns.name.Name, str], Reply]

    def message(self, name: dns.name.Name, rdtype: str) -> dns.message.Message | None:
        return self.replies.get((name, rdtype), NOT_ASKED).message

    @property
    def has_zone(self) -> bool:
        """True if the server answers for the zone."""
        return any(each.message is not None and each.message.answer for each in self.replies.values())


class ZoneQueries:
    """Sends the queries of one check of one zone. `resolver` is None if the settings have no resolver."""

    def __init__(
        self,
        zone: AskedZone,
        client: DnsClient,
        resolver: ForwardingResolver | None,
        allowed: Sequence[Network],
    ) -> None:
        self._zone = zone
        self._apex = name_of(zone.domain)
        self._missing = name_of(f"{_random_label()}.{zone.domain}")
        self._client = client
        self._resolver = resolver
        self._allowed = allowed
        self._budget = Budget(QUERIES_MAX)

    async def find_problems(self, now: datetime) -> list[AnswerProblem]:
        """Return the problems at `now`, worst first.

        Servers that don't answer are left out, because the watch of serials reports them.

        Without a resolver only the signatures are checked. If the resolver fails for a name in the parent
        zone too, the only problem of the resolver's answers is `resolver`.
        """
        asked = await asyncio.gather(*(self._ask_server(each) for each in self._zone.servers))
        own = [each for each in asked if each.has_zone]
        problems: list[AnswerProblem] = []
        ds_records: list[DsRecord] = []
        if self._resolver is not None:
            parent = await self._find_parent(self._resolver)
            if parent is None:
                problems.append(
                    AnswerProblem("resolver", f"it finds no name servers above {self._zone.domain}")
                )
            else:
                above, hosts = parent
                problems += await self._check_resolved(self._resolver, above)
                referral = await self._ask_parent(self._resolver, hosts)
                if referral is not None:
                    ds_records = _read_ds(referral[1], self._apex)
                    problems += self._compare_ns(own, referral[0])
                    problems += await self._find_missing_ds(self._resolver, own, ds_records)
        # On a thread, because validating signatures takes long.
        return problems + await asyncio.to_thread(self._judge_servers, own, ds_records, now)

    def _questions(self) -> list[tuple[dns.name.Name, str]]:
        questions = [(self._apex, "SOA"), (self._apex, "DNSKEY"), (self._apex, "NS"), (self._missing, "A")]
        if self._zone.delegated is not None:
            questions.append((name_of(self._zone.delegated), "DS"))
        return questions

    async def _ask_server(self, server: ParentServer) -> _OwnAnswers:
        assert server.address is not None  # noqa: S101 - chosen by the caller
        address, port = server.address
        replies: dict[tuple[dns.name.Name, str], Reply] = {}
        for name, rdtype in self._questions():
            reply = replies[name, rdtype] = await self._client.ask(
                address, name, rdtype, self._budget, tcp=True, port=port, is_rate_limited=False
            )
            if reply.message is None:
                break
        return _OwnAnswers(server, replies)

    async def _find_parent(self, resolver: ForwardingResolver) -> tuple[dns.name.Name, list[str]] | None:
        """Return the zone above and its nameservers, or None if the resolver fails."""
        above = self._apex
        while above != dns.name.root:
            above = above.parent()
            reply = await resolver.ask(above, "NS", self._budget)
            if not _is_answered(reply):
                return None
            nameservers = find_rrset(reply.message, above, "NS")
            if nameservers is not None:
                return above, [text_of(each.target) for each in nameservers]
        return None

    async def _check_resolved(
        self, resolver: ForwardingResolver, above: dns.name.Name
    ) -> list[AnswerProblem]:
        """Resolve the SOA record, a missing name, and the DS records of a delegation, which the zone's own
        servers answer.
        """
        details: dict[str, list[str]] = {}
        for name, rdtype in self._questions():
            if rdtype in ("DNSKEY", "NS"):
                continue
            reply = await resolver.ask(name, rdtype, self._budget)
            wrong = await self._explain(resolver, reply, name, rdtype)
            if wrong is not None:
                details.setdefault(wrong[0], []).append(wrong[1])
        if not details:
            return []
        control = await resolver.ask(dns.name.from_text(_random_label(), above), "SOA", self._budget)
        if not _is_answered(control):
            return [AnswerProblem("resolver", f"it can't resolve a name directly below {above}")]
        return [AnswerProblem(cause, "; ".join(texts)) for cause, texts in sorted(details.items())]

    async def _explain(
        self, resolver: ForwardingResolver, reply: Reply, name: dns.name.Name, rdtype: str
    ) -> tuple[str, str] | None:
        """Return the cause and the detail if an answer of the resolver is wrong."""
        question = f"{rdtype} of {text_of(name)}"
        if not _is_answered(reply):
            unchecked = await resolver.ask(name, rdtype, self._budget, checking_disabled=True)
            cause = "bogus" if _is_answered(unchecked) else "unresolved"
            return cause, f"{question}: {_describe(reply)}"
        if name != self._missing and _describe(reply) == "NXDOMAIN":
            return "unresolved", f"{question}: NXDOMAIN"
        if rdtype == "SOA" and find_rrset(reply.message, name, "SOA") is None:
            return "unresolved", f"{question}: the answer has none, so the zone isn't delegated"
        return None

    async def _ask_parent(
        self, resolver: ForwardingResolver, hosts: Sequence[str]
    ) -> tuple[dns.message.Message, dns.message.Message] | None:
        """Return the answers of one of the parent's servers about the zone's NS and DS records, or None."""
        shuffled = random.sample(list(hosts), len(hosts))
        for host in shuffled[:PARENT_SERVERS_MAX]:
            found = await resolver.addresses(host, self._budget)
            for address in (each for each in found.addresses if may_ask(each, self._allowed)):
                answers = [
                    (await self._client.ask_with_fallback(address, self._apex, rdtype, self._budget))[1]
                    for rdtype in ("NS", "DS")
                ]
                messages = [each.message for each in answers if each.message and _is_answered(each)]
                if len(messages) == 2:
                    return messages[0], messages[1]
        return None

    def _compare_ns(
        self, own: Sequence[_OwnAnswers], referral: dns.message.Message
    ) -> Iterator[AnswerProblem]:
        """Yield a problem if the zone has other NS records at the parent than on its
        first answering server.
        """
        above = _read_ns((*referral.answer, *referral.authority), self._apex)
        replies = (each.message(self._apex, "NS") for each in own)
        known = [frozenset(self._zone.built_in_nameservers)]
        known += [_read_ns(each.answer, self._apex) for each in replies if each is not None]
        here = next((each for each in known if each), above)
        if above and above != here:
            yield AnswerProblem("parent_ns", f"the parent has {_list(above)}, the zone has {_list(here)}")

    async def _find_missing_ds(
        self, resolver: ForwardingResolver, own: Sequence[_OwnAnswers], ds_records: Sequence[DsRecord]
    ) -> list[AnswerProblem]:
        """Return a problem if the operator says that the zone is signed, and its signed parent has no DS
        record.
        """
        has_keys = any(find_rrset(each.message(self._apex, "DNSKEY"), self._apex, "DNSKEY") for each in own)
        if ds_records or not has_keys or not self._zone.signed:
            return []
        reply = await resolver.ask(self._apex, "DS", self._budget)
        if reply.message is None or not reply.message.flags & dns.flags.AD:
            return []  # an unsigned parent can't have DS records
        return [AnswerProblem("parent_ds", "the parent has none, so resolvers don't validate the zone")]

    def _judge_servers(
        self, own: Sequence[_OwnAnswers], ds_records: Sequence[DsRecord], now: datetime
    ) -> list[AnswerProblem]:
        """Return the wrong or expiring signatures of each server.

        If no server has a key for the DS records, these are at fault.
        """
        usable = supported_ds(ds_records)
        if usable and self._zone.built_in_nameservers:
            return [
                AnswerProblem("parent_ds", "the parent has some, but the built-in name server doesn't sign")
            ]
        chains = {
            each.server: judge_chain(
                self._apex,
                usable,
                each.message(self._apex, "DNSKEY"),
                each.message(self._apex, "SOA"),
                now,
            )
            for each in own
            if usable
        }
        if chains and all(each.problem == "without_key" for each in chains.values()):
            server, chain = next(iter(chains.items()))
            return [AnswerProblem("parent_ds", f"{server.server}: {chain.detail}")]
        details = (
            (each.server.server, self._judge_server(each, chains.get(each.server), now)) for each in own
        )
        return [
            AnswerProblem("signatures", f"{server}: {detail}", server) for server, detail in details if detail
        ]

    def _judge_server(self, own: _OwnAnswers, chain: ChainVerdict | None, now: datetime) -> str | None:
        messages = [each.message for each in own.replies.values() if each.message is not None]
        first = _first_expiry(messages, self._apex)
        if first is not None:
            covered, ends_at, validity = first
            if ends_at <= now:
                return f"the signature of {covered} expired on {_moment(ends_at)}"
            if ends_at - now < min(EXPIRES_SOON, validity / EXPIRES_SOON_PART):
                return f"the signature of {covered} expires on {_moment(ends_at)}"
        return chain.detail if chain is not None and chain.problem is not None else None


def _random_label() -> str:
    return f"sublet-{secrets.token_hex(8)}"


def _is_answered(reply: Reply) -> bool:
    return reply.message is not None and reply.message.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)


def _describe(reply: Reply) -> str:
    return "no answer" if reply.message is None else dns.rcode.to_text(reply.message.rcode())


def _read_ns(rrsets: Collection[dns.rrset.RRset], name: dns.name.Name) -> frozenset[str]:
    return frozenset(
        text_of(each.target)
        for rrset in rrsets
        if rrset.name == name and rrset.rdtype == dns.rdatatype.NS
        for each in rrset
    )


def _read_ds(message: dns.message.Message, name: dns.name.Name) -> list[DsRecord]:
    return [
        DsRecord(each.key_tag, int(each.algorithm), int(each.digest_type), each.digest.hex())
        for each in find_rrset(message, name, "DS") or ()
    ]


def _list(hosts: Collection[str]) -> str:
    return ", ".join(sorted(hosts))


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _first_expiry(
    messages: Sequence[dns.message.Message], zone: dns.name.Name
) -> tuple[str, datetime, timedelta] | None:
    """Return which records' newest signature expires first, when, and the signature's validity.

    None without signatures of the zone.
    """
    newest: dict[tuple[dns.name.Name, int], tuple[int, int]] = {}
    for message in messages:
        for rrset in (*message.answer, *message.authority):
            if rrset.rdtype == dns.rdatatype.RRSIG:
                for each in rrset:
                    if each.signer == zone:
                        key = (rrset.name, int(each.type_covered))
                        newest[key] = max(newest.get(key, (0, 0)), (each.expiration, each.inception))
    if not newest:
        return None
    (owner, covered), (expiration, inception) = min(newest.items(), key=lambda item: item[1])
    text = f"{dns.rdatatype.to_text(dns.rdatatype.RdataType(covered))} at {text_of(owner)}"
    return text, datetime.fromtimestamp(expiration, UTC), timedelta(seconds=expiration - inception)


def content_problem(server: ParentServer, serial: int, wrong: Sequence[str]) -> AnswerProblem:
    """Return the problem of a secondary that has other records of some names than the registry."""
    detail = (
        f"{server.server} has the serial {serial}, and other records of {counted(len(wrong), 'name')}, "
        f"such as {wrong[0]}"
    )
    return AnswerProblem("content", detail, server.server)
