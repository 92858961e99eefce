"""The types of what a child zone asks for: the published records, and the decisions about DS records (CDS,
CDNSKEY) and about nameservers with glue (CSYNC).
"""

from datetime import datetime, timedelta

import dns.rrset
from dns.rdtypes.ANY.RRSIG import RRSIG
from msgspec import Struct

from sublet.dns.types import DsRecord, GlueEntry


class PublishedKeys(Struct, frozen=True):
    """The key and SOA records that a child's nameserver publishes.

    A set is None if there is none. `signatures` are of all four sets.
    """

    dnskey: dns.rrset.RRset | None = None
    cds: dns.rrset.RRset | None = None
    cdnskey: dns.rrset.RRset | None = None
    soa: dns.rrset.RRset | None = None
    signatures: tuple[RRSIG, ...] = ()

    @property
    def has_signal(self) -> bool:
        """True if the child requests DS records or their deletion."""
        return self.cds is not None or self.cdnskey is not None


class Keep(Struct, frozen=True):
    """Keep the delegation as it is."""


class Replace(Struct, frozen=True):
    """Replace the DS records.

    `signed_at` is the inception of the older signature of the CDS and CDNSKEY records.
    `awaited_since` is when the wait for first DS records began; None if signalling names or present DS
    records confirm them.
    """

    ds_records: tuple[DsRecord, ...]
    signed_at: datetime
    awaited_since: datetime | None = None


class Wait(Struct, frozen=True):
    """Wait before these first DS records are accepted (RFC 8078, section 3.3).

    `digest` is of the CDS and CDNSKEY records. `since` is when the wait began, `until` when it ends if all
    nameservers publish the same.
    """

    ds_records: tuple[DsRecord, ...]
    signed_at: datetime
    digest: str
    since: datetime
    until: datetime


class Remove(Struct, frozen=True):
    """Remove all DS records (RFC 8078, section 4).

    `signed_at` is the inception of the older signature of the CDS and CDNSKEY records.
    """

    signed_at: datetime


class Refuse(Struct, frozen=True):
    """Refuse the child's request.

    `code` is one of `DS_REFUSALS` or `CSYNC_REFUSALS`; `message` says what to do.
    """

    code: str
    message: str


Decision = Keep | Replace | Remove | Refuse | Wait


def is_silence(decision: object) -> bool:
    """True if a decision is the refusal that a nameserver gave no answer. The fault may be this host's."""
    return isinstance(decision, Refuse) and decision.code == "servers_silent"


DS_REFUSALS: dict[str, str] = {
    "servers_silent": "a nameserver gave no answer over TCP",
    "servers_differ": "the nameservers publish different CDS, CDNSKEY or DNSKEY records",
    "udp_differs": "a nameserver has other CDS records over UDP than "
    "over TCP; answers over UDP can be forged",
    "chain_broken": "the DNSKEY records don't validate under the present DS records",
    "not_authentic": "the CDS or CDNSKEY records have no valid signature by a "
    "key that a present DS record matches (RFC "
    "7344, section 4.1)",
    "replayed": "the CDS or CDNSKEY records were signed before the "
    "records that were followed last, or before a "
    "change by hand",
    "malformed": "the zone asks for the deletion of its DS records, and has other CDS or CDNSKEY records "
    "(RFC 8078, section 4)",
    "contradictory": "the CDS and CDNSKEY records are for different keys (RFC 7344, section 4)",
    "unsupported": "the CDS and CDNSKEY records give no DS record that this registry accepts",
    "would_break": "the zone would not validate under the new DS records",
    "not_bootstrapped": "the signalling names don't confirm the CDS and CDNSKEY records (RFC 9615)",
}
"""Every code of a refusal, with its meaning."""


class Proof(Struct, frozen=True):
    """The validated CDS and CDNSKEY records of the signalling names (RFC 9615).

    `problem` says why some names don't have them. `contradicts` is true if the validated records of
    signalling names differ.
    """

    cds: dns.rrset.RRset | None = None
    cdnskey: dns.rrset.RRset | None = None
    problem: str | None = None
    contradicts: bool = False


class Awaited(Struct, frozen=True):
    """The first DS records for which a name waits: `digest` is of the CDS and CDNSKEY records.

    `since` is when the wait began, `seen_at` when a check last found the same records at all nameservers.
    """

    digest: str
    since: datetime
    seen_at: datetime


class Rules(Struct, frozen=True):
    """Which requests of a name are followed: changes of DS records (`rollover`), first DS records
    (`bootstrap`).

    `signed_after` is the inception of the signature of the last request that was followed. An older request
    is refused. So is one from before `changed_at`, when the DS records were last changed by hand, unless it
    requests the present DS records.

    `accepted_after` is how long first DS records without signalling names must be `awaited`; None if these
    are never accepted.
    """

    rollover: bool = True
    bootstrap: bool = True
    signed_after: datetime | None = None
    changed_at: datetime | None = None
    accepted_after: timedelta | None = None
    awaited: Awaited | None = None


class Change(Struct, frozen=True):
    """Change the nameservers and glue.

    `serial` is the zone's; `signed_at` is the oldest signature of the changed records.
    """

    nameservers: tuple[str, ...]
    glue: tuple[GlueEntry, ...]
    serial: int
    signed_at: datetime


CsyncDecision = Keep | Change | Refuse

CSYNC_REFUSALS: dict[str, str] = {
    "servers_silent": "a nameserver gave no answer over TCP",
    "servers_differ": "the nameservers publish different records, or the zone changed during the check",
    "chain_broken": "the DNSKEY records don't validate under the DS records",
    "not_authentic": "a record, or the proof of its absence, has no valid signature",
    "unsupported": "the CSYNC record has unknown flags, or types other than NS, A and AAAA",
    "not_immediate": "the CSYNC record doesn't have the flag `immediate` (RFC 7477, section 2.1.1.2)",
    "serial_too_low": "the zone's serial is lower than the serial in the CSYNC "
    "record, which has the flag `soaminimum`",
    "replayed": "the zone's serial is lower, or the changed records were "
    "signed earlier, than at the last change "
    "that was followed",
    "not_accepted": "the registry doesn't accept such nameservers or glue",
    "would_break": "the new nameservers have faults that the present nameservers don't have",
}
"""Every code of a refusal of a CSYNC record, with its meaning."""


class ReplayGuard(Struct, frozen=True):
    """The zone's serial and the time of its signature at the last change that was followed; None before the
    first one.
    """

    serial: int | None = None
    signed_after: datetime | None = None
