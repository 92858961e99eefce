"""The types of delegation health: targets of checks, observations, findings, stored health."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import dns.message
import dns.name
import dns.rdatatype
import dns.rrset
from msgspec import Struct, field

from sublet.dns.types import Delegation

HEALTHY, DEGRADED, BROKEN, UNKNOWN = "healthy", "degraded", "broken", "unknown"
STATES = (HEALTHY, DEGRADED, BROKEN, UNKNOWN)


class Level(StrEnum):
    """The severity of a finding.

    ERROR: resolvers, or validating resolvers, fail. WARNING: some fail, or all will soon. NOTICE: advice.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


class Target(Struct, frozen=True):
    """A delegation to check, stored or planned, or the `aliases` of a name with records (`aliases.py`).

    `parent_signed` is true if the zone of `domain` is signed; otherwise DS records have no effect. `unheld`
    are the nameservers below names of this registry that no user holds or that are in the trash.
    `is_published` is true if the name is in the DNS, so the registry's resolver is asked about it, too.
    """

    fqdn: str
    domain: str
    delegation: Delegation
    parent_signed: bool
    unheld: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    is_published: bool = False


class HostAddresses(Struct, frozen=True):
    """The addresses of a nameserver, or why they weren't found.

    `failure` is `not_found` (the host has no address in the DNS), `bogus` (its addresses don't validate), or
    `unknown` (the resolver failed). `missing_in` is the zone whose nameservers answered that the host, or a
    name above it, doesn't exist. `alias` is the target of a CNAME record.
    """

    host: str
    addresses: tuple[str, ...] = ()
    failure: str | None = None
    alias: str | None = None
    missing_in: str | None = None


class Reply(Struct, frozen=True):
    """The outcome of one query.

    `failure` is None, `no_answer` (a timeout, or the connection failed), `malformed`, `no_route` (this
    machine can't send to the address) or `not_asked` (the check reached its limits first). `octets` is the
    size of the answer. `is_case_kept` is false if the question came back with its letters in another case.
    """

    message: dns.message.Message | None = None
    failure: str | None = None
    octets: int = 0
    is_case_kept: bool = True


NOT_ASKED = Reply(failure="not_asked")

Question = tuple[str, str]
"""A name without the final dot, and a record type."""


class Server(Struct):
    """The replies of a nameserver at one address.

    `answers` are the replies to the questions of resolvers about the name and a name below it, as a resolver
    gets them. `soa` and `recursion` are over UDP with EDNS; `nameservers` and `dnskey` too, or over TCP if
    the UDP reply failed or was truncated. `dnskey_udp` is the UDP reply about DNSKEY records. `soa_tcp` is
    over TCP. `soa_plain` is without EDNS, and asked only if `soa` failed. `addresses` are the replies about
    nameservers with glue, by host and type. `extra` are the replies to additional questions, over TCP.
    `cds_udp` is the UDP reply about CDS records, if they are among the additional questions.
    """

    host: str
    address: str
    answers: dict[Question, Reply] = field(default_factory=dict)
    soa: Reply = NOT_ASKED
    soa_plain: Reply = NOT_ASKED
    soa_tcp: Reply = NOT_ASKED
    nameservers: Reply = NOT_ASKED
    dnskey: Reply = NOT_ASKED
    dnskey_udp: Reply = NOT_ASKED
    recursion: Reply = NOT_ASKED
    addresses: dict[Question, Reply] = field(default_factory=dict)
    extra: dict[Question, Reply] = field(default_factory=dict)
    cds_udp: Reply = NOT_ASKED


class Observation(Struct, frozen=True):
    """The observations of one check.

    `unlisted_hosts` and `unlisted` are the nameservers that only the zone names, and their servers.
    `not_public` are the addresses that checks must not query. `resolved` are the replies of the registry's
    resolver to the questions of resolvers. `busy_until` is set if no query was sent, because another check
    was asking the same addresses.
    """

    hosts: tuple[HostAddresses, ...] = ()
    servers: tuple[Server, ...] = ()
    not_public: tuple[str, ...] = ()
    busy_until: datetime | None = None
    unlisted_hosts: tuple[HostAddresses, ...] = ()
    unlisted: tuple[Server, ...] = ()
    resolved: dict[Question, Reply] = field(default_factory=dict)


class Finding(Struct, frozen=True):
    """A fault, or a possible improvement.

    `subject` is a host, an address, an algorithm, a domain or the name.
    """

    code: str
    level: Level
    subject: str
    message: str
    hint: str


def worst_first(found: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by level: errors, warnings, notices."""
    return sorted(found, key=lambda each: tuple(Level).index(each.level))


class Report(Struct, frozen=True):
    """The state and findings of a delegation after one check."""

    state: str
    findings: tuple[Finding, ...]
    checked_at: datetime


IMPAIRED = "checks_impaired"
"""The code of the finding that the registry couldn't check the name."""


def name_of(text: str) -> dns.name.Name:
    """Return a name in text, without the final dot, as a name of dnspython."""
    return dns.name.from_text(text + ".")


def find_rrset(
    message: dns.message.Message | None, name: dns.name.Name, rdtype: str
) -> dns.rrset.RRset | None:
    """Return the records of this type at this name in the answer section, or None."""
    kind = dns.rdatatype.from_text(rdtype)
    answer = message.answer if message is not None else ()
    return next((each for each in answer if each.name == name and each.rdtype == kind), None)


def text_of(name: dns.name.Name) -> str:
    """Return a name as text in lower case without the final dot. The root is empty."""
    return name.to_text(omit_final_dot=True).lower().removesuffix(".")


class Health(Struct, frozen=True):
    """The stored health of a name's delegation.

    `generation` is the generation that was checked last. `next_state` is a new state, found at `next_since`,
    that a second check must confirm. `failures` is the number of consecutive checks that found the name not
    working. `mailed_at` is the time of the mail that the name is broken, `warned_at` of the mail that it will
    leave the DNS; both become None when the name works. `due_at` is the time of the next check.
    """

    subdomain_id: int
    generation: int
    state: str
    since: datetime
    findings: tuple[Finding, ...]
    checked_at: datetime | None
    next_state: str | None
    next_since: datetime | None
    failures: int
    mailed_at: datetime | None
    due_at: datetime
    warned_at: datetime | None = None


class HealthChange(Struct, frozen=True):
    """A change of a name's state, with the codes of its findings."""

    at: datetime
    state: str
    codes: tuple[str, ...]


class DueCheck(Struct, frozen=True):
    """A check that is due: the name's id, its published generation, and the delegation to check."""

    subdomain_id: int
    generation: int
    target: Target
