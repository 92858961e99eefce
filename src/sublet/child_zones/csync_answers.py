"""Validate a nameserver's answers about its zone with the DS records of the parent (rules)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import dns.dnssec
import dns.message
import dns.name
import dns.rdatatype
import dns.rrset
from dns.dnssectypes import NSEC3Hash
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from dns.rdtypes.ANY.RRSIG import RRSIG
from msgspec import Struct

from sublet.dns.types import DsRecord
from sublet.health.chain import matching_keys, valid_signatures
from sublet.health.model import Question, find_rrset, name_of, text_of

ITERATIONS_MAX = 50
"""The maximum number of NSEC3 iterations that are computed. RFC 9276 recommends 0."""


class SignedRecords(Struct, frozen=True):
    """A set of records, and when it was signed.

    If the set is empty, the proof of its absence was signed then.
    """

    records: frozenset[str]
    at: datetime


class NotAuthentic(Exception):  # noqa: N818 - the result of a validation, not an error
    """The answer to `question` has no valid signature."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


def zone_keys(
    zone: str, ds_records: Sequence[DsRecord], message: dns.message.Message, now: datetime
) -> list[DNSKEY] | None:
    """Return the keys of a zone; None if they don't validate under its DS records."""
    name = name_of(zone)
    keys = find_rrset(message, name, "DNSKEY")
    if keys is None:
        return None
    entries = matching_keys(name, keys, ds_records)
    return list(keys) if valid_signatures(keys, _signatures(message, name), entries, now) else None


def signed_answers(
    zone: str, messages: Mapping[Question, dns.message.Message], keys: Sequence[DNSKEY], now: datetime
) -> dict[Question, SignedRecords]:
    """Return the records that answer each question.

    Raises:
        NotAuthentic: a set of records, or the proof of its absence, has no valid signature by the zone's
            keys.
    """
    found = {}
    for question, message in messages.items():
        owner, rdtype = name_of(question[0]), question[1]
        rrset = find_rrset(message, owner, rdtype)
        proofs = [rrset] if rrset is not None else list(_denials(message, owner, rdtype))
        times = [at for each in proofs if (at := _signed_at(each, message, zone, keys, now)) is not None]
        if not times:
            raise NotAuthentic(question)
        found[question] = SignedRecords(frozenset(str(each) for each in rrset or ()), max(times))
    return found


def _signatures(message: dns.message.Message, owner: dns.name.Name) -> list[RRSIG]:
    # The signature of an expanded wildcard has fewer labels than the owner. Such records are ignored.
    return [
        rdata
        for section in (message.answer, message.authority)
        for each in section
        if each.name == owner and each.rdtype == dns.rdatatype.RRSIG
        for rdata in each
        if rdata.labels == len(owner.labels) - 1
    ]


def _signed_at(
    rrset: dns.rrset.RRset,
    message: dns.message.Message,
    zone: str,
    keys: Sequence[DNSKEY],
    now: datetime,
) -> datetime | None:
    valid = valid_signatures(rrset, _signatures(message, rrset.name), keys, now, name_of(zone))
    return datetime.fromtimestamp(max(each.inception for each in valid), UTC) if valid else None


def _denials(message: dns.message.Message, owner: dns.name.Name, rdtype: str) -> Iterator[dns.rrset.RRset]:
    """Yield the NSEC and NSEC3 records that deny records of this type at this name (RFC 4035, section 5.4;
    RFC 5155, section 8.5).
    """
    for each in message.authority:
        if each.rdtype not in (dns.rdatatype.NSEC, dns.rdatatype.NSEC3) or not _denies(each, owner):
            continue
        if all(types_in(record.windows).isdisjoint((rdtype, "CNAME")) for record in each):
            yield each


def _denies(denial: dns.rrset.RRset, owner: dns.name.Name) -> bool:
    if denial.rdtype == dns.rdatatype.NSEC:
        return bool(denial.name == owner)
    record = denial[0]
    if record.algorithm != NSEC3Hash.SHA1 or record.iterations > ITERATIONS_MAX:
        return False
    hashed = dns.dnssec.nsec3_hash(owner, record.salt, record.iterations, NSEC3Hash.SHA1)
    return bool(text_of(denial.name).partition(".")[0] == hashed.lower())


def types_in(windows: Sequence[tuple[int, bytes]]) -> frozenset[str]:
    """Return the record types in the type bitmap of an NSEC or CSYNC record."""
    return frozenset(
        dns.rdatatype.to_text(dns.rdatatype.RdataType(number * 256 + octet * 8 + bit))
        for number, bitmap in windows
        for octet, value in enumerate(bitmap)
        for bit in range(8)
        if value & 0x80 >> bit
    )
