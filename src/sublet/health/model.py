"""The types of delegation health: what is looked at, what was observed, what was found."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import dns.message
import dns.name
import dns.rdata

from sublet.dns.types import Delegation

HEALTHY, DEGRADED, BROKEN, UNKNOWN = "healthy", "degraded", "broken", "unknown"
STATES = (HEALTHY, DEGRADED, BROKEN, UNKNOWN)


class Level(StrEnum):
    """How bad a finding is.

    With an error, ordinary or validating resolvers fail. With a warning some fail, or all soon. A notice is advice.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Target:
    """A delegation to look at, stored or planned.

    `parent_signed` is true if the zone of `domain` is signed, so that DS records count. `unheld` are the nameservers below names of this
    registry that no user holds, or that are in the trash.
    """

    fqdn: str
    domain: str
    delegation: Delegation
    parent_signed: bool
    unheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostAddresses:
    """The addresses of a nameserver, or why it has none.

    `failure` is `not_found` (it has no address in the DNS), `bogus` (only without validation), or `unknown` (the resolver can't tell).
    `missing_in` is the zone that says that the name directly below it on the way to the host doesn't exist. `alias` is the target of a CNAME.
    """

    host: str
    addresses: tuple[str, ...] = ()
    failure: str | None = None
    alias: str | None = None
    missing_in: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one query.

    `failure` is None, `no_answer` (a timeout, or the connection failed), `malformed`, `no_route` (this machine can't reach such addresses) or
    `not_asked` (the limits of the look didn't allow it). `octets` is the size of the answer.
    """

    message: dns.message.Message | None = None
    failure: str | None = None
    octets: int = 0


NOT_ASKED = Reply(failure="not_asked")

Question = tuple[str, str]
"""A name without the final dot, and a record type."""


@dataclass(slots=True)
class Server:
    """The replies of a nameserver at one address.

    `soa`, `nameservers`, `dnskey` and `recursion` are over UDP with EDNS, and again over TCP if truncated; `dnskey_truncated` then tells
    so. `soa_tcp` is over TCP, and `soa_plain` without EDNS, asked only if the first one failed. `addresses` are those of the nameservers
    with glue, by host and type, and `extra` the replies to further questions.
    """

    host: str
    address: str
    soa: Reply = NOT_ASKED
    soa_plain: Reply = NOT_ASKED
    soa_tcp: Reply = NOT_ASKED
    nameservers: Reply = NOT_ASKED
    dnskey: Reply = NOT_ASKED
    dnskey_udp: Reply = NOT_ASKED
    recursion: Reply = NOT_ASKED
    addresses: dict[Question, Reply] = field(default_factory=dict)
    extra: dict[Question, Reply] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """All that one look saw.

    `not_public` are the addresses that may not be asked. `is_online` is None if nothing had to be known about it, else whether this machine
    reached the DNS at all. `busy_until` is set if no server was asked, because another look had the same addresses.
    """

    hosts: tuple[HostAddresses, ...] = ()
    servers: tuple[Server, ...] = ()
    not_public: tuple[str, ...] = ()
    is_online: bool | None = None
    busy_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or could be better: `subject` is a host, an address, a key tag or the name."""

    code: str
    level: Level
    subject: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one look at a delegation."""

    state: str
    findings: tuple[Finding, ...]
    checked_at: datetime


def name_of(text: str) -> dns.name.Name:
    """Return a canonical name as dnspython's."""
    return dns.name.from_text(text + ".")


def text_of(name: dns.name.Name) -> str:
    """Return a name in lower case without the final dot; the root is empty."""
    return name.to_text(omit_final_dot=True).lower().removesuffix(".")


@dataclass(frozen=True, slots=True)
class Health:
    """The stored health of a name's delegation.

    `generation` is the one that was looked at last. `next_state` is a state that one look saw, since `next_since`, and that a second one has
    to confirm. `failures` counts the last looks in a row that didn't find it working. `mailed_at` is set while its user knows by mail
    that it is broken, and `warned_at` since its user was told that it leaves the DNS. `due_at` is the time of the next look.
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


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A change of a name's state, with the codes of its findings."""

    at: datetime
    state: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DueLook:
    """A look that a worker has to take: the name's id, its published generation, and its delegation."""

    subdomain_id: int
    generation: int
    target: Target
