"""The types of automatic DS: what a child publishes, and what is decided about it."""

from dataclasses import dataclass
from datetime import datetime

import dns.rrset
from dns.rdtypes.ANY.RRSIG import RRSIG

from sublet.dns.types import DsRecord


@dataclass(frozen=True, slots=True)
class Published:
    """What a nameserver of a child publishes about its keys. `signatures` are those of all four sets; `None` is a set that doesn't exist."""

    dnskey: dns.rrset.RRset | None = None
    cds: dns.rrset.RRset | None = None
    cdnskey: dns.rrset.RRset | None = None
    soa: dns.rrset.RRset | None = None
    signatures: tuple[RRSIG, ...] = ()

    @property
    def has_signal(self) -> bool:
        """True if the child asks for anything."""
        return self.cds is not None or self.cdnskey is not None


@dataclass(frozen=True, slots=True)
class Keep:
    """The DS records stay as they are."""


@dataclass(frozen=True, slots=True)
class Replace:
    """The DS records become these. `signed_at` is the inception of the request's signature: of CDS and CDNSKEY the older one."""

    ds_records: tuple[DsRecord, ...]
    signed_at: datetime


@dataclass(frozen=True, slots=True)
class Remove:
    """All DS records go (RFC 8078, section 4). `signed_at` as in `Replace`."""

    signed_at: datetime


@dataclass(frozen=True, slots=True)
class Refuse:
    """The child asks for something that it doesn't get: a code of `REFUSALS`, and a sentence with what to do."""

    code: str
    message: str


Decision = Keep | Replace | Remove | Refuse

REFUSALS: dict[str, str] = {
    "servers_silent": "a nameserver gave no answer over TCP",
    "servers_differ": "the nameservers publish different CDS, CDNSKEY or DNSKEY records",
    "chain_broken": "the DNSKEY records don't validate under the present DS records",
    "not_authentic": "the CDS or CDNSKEY records have no valid signature by a key that the present DS records lead to (RFC 7344, section 4.1)",
    "replayed": "the CDS or CDNSKEY records were signed before those that were followed last",
    "malformed": "a request to delete has other records beside it (RFC 8078, section 4)",
    "contradictory": "the CDS and CDNSKEY records name different keys (RFC 7344, section 4)",
    "unsupported": "the CDS and CDNSKEY records lead to no DS record that this registry publishes",
    "would_break": "the zone would not validate under the new DS records",
    "not_bootstrapped": "the signalling names don't confirm the CDS and CDNSKEY records (RFC 9615)",
}
"""Every code of a refusal, with its meaning."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The CDS and CDNSKEY records that validated at all signalling names (RFC 9615); `problem` says why there are none."""

    cds: dns.rrset.RRset | None = None
    cdnskey: dns.rrset.RRset | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be followed for a name: changes of its DS records, and its first ones. `signed_after` is the inception that was followed last."""

    rollover: bool = True
    bootstrap: bool = True
    signed_after: datetime | None = None
