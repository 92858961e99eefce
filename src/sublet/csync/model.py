"""The types of CSYNC: the decision about a child's request."""

from dataclasses import dataclass
from datetime import datetime

from sublet.automatic_ds.model import Keep, Refuse
from sublet.dns.types import GlueEntry


@dataclass(frozen=True, slots=True)
class Change:
    """Change the nameservers and glue.

    `serial` is the zone's; `signed_at` is the oldest signature of the changed records.
    """

    nameservers: tuple[str, ...]
    glue: tuple[GlueEntry, ...]
    serial: int
    signed_at: datetime


Decision = Keep | Change | Refuse

REFUSALS: dict[str, str] = {
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


@dataclass(frozen=True, slots=True)
class ReplayGuard:
    """The zone's serial and the time of its signature at the last change that was followed; None before the
    first one.
    """

    serial: int | None = None
    signed_after: datetime | None = None
