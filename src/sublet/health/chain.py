"""Validate a nameserver's answers with the DS records of the parent zone (RFC 4035, section 5; rules)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import dns.dnssec
import dns.dnssectypes
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from dns.rdtypes.ANY.RRSIG import RRSIG
from msgspec import Struct

from sublet.dns.types import DsRecord
from sublet.health.denial import proves_absence, proves_wildcard
from sublet.health.model import find_rrset
from sublet.structs import replace

KEYS_MAX = 32
SIGNATURES_MAX = 16
RRSETS_MAX = 8
"""The maximum numbers of tried keys, of signatures of a set of records, and of sets of an answer, as in
validating resolvers, because a zone could exhaust the processor (CVE-2023-50387). A proof that a name doesn't
exist has three sets (RFC 5155, section 7.2).
"""
RECORDS_MAX = 500
"""The maximum number of records in a validated set. BIND's resolvers take 100 by default
(`max-records-per-type`).
"""
VALIDATED_ALGORITHMS = frozenset({8, 10, 13, 14, 15, 16})
"""The algorithms that validators support. A zone whose DS records have only other algorithms counts as
unsigned (RFC 4035, section 5.2).
"""
VALIDATED_DIGESTS = frozenset({2, 4})
_ZONE_FLAG = 0x0100
_REVOKE_FLAG = 0x0080


class ChainVerdict(Struct, frozen=True):
    """The result of a validation.

    `problem` is None if the answers validate, else `without_key` (no DS record matches a key), `expired`,
    `unproven` (the proof that a record doesn't exist is missing) or `broken`; `detail` says more. `ends_at`
    is when the first signature expires, and `validity` its time from inception to expiration. `algorithms`
    are those of the keys.
    """

    problem: str | None = None
    detail: str = ""
    ends_at: datetime | None = None
    validity: timedelta | None = None
    algorithms: frozenset[int] = frozenset()


def supported_ds(ds_records: Sequence[DsRecord]) -> list[DsRecord]:
    """Return the DS records whose algorithm and digest type validators support."""
    return [
        each
        for each in ds_records
        if each.algorithm in VALIDATED_ALGORITHMS and each.digest_type in VALIDATED_DIGESTS
    ]


def judge_chain(
    name: dns.name.Name,
    ds_records: Sequence[DsRecord],
    dnskey: dns.message.Message | None,
    soa: dns.message.Message | None,
    now: datetime,
) -> ChainVerdict:
    """Validate the DNSKEY records with the DS records, and the SOA record with the keys, at `now`.

    Return the verdict.

    Not checked: that the zone is signed with every algorithm of its DS records.
    """
    keys = judge_keys(name, ds_records, dnskey, now)
    if keys.problem is not None:
        return keys
    validator = Validator(name, find_rrset(dnskey, name, "DNSKEY") or (), now)
    return worst_of([keys, validator.judge_records("SOA", soa)])


def judge_keys(
    name: dns.name.Name, ds_records: Sequence[DsRecord], dnskey: dns.message.Message | None, now: datetime
) -> ChainVerdict:
    """Validate the DNSKEY records with the DS records at `now`."""
    keys = find_rrset(dnskey, name, "DNSKEY")
    if keys is None:
        return ChainVerdict("without_key", "it has no DNSKEY record")
    if len(keys) > KEYS_MAX:
        return ChainVerdict("broken", f"it has {len(keys)} keys, more than validators try")
    algorithms = frozenset(int(each.algorithm) for each in keys)
    entry_keys = [each for each in keys if _matches(name, each, ds_records)]
    if not entry_keys:
        return ChainVerdict("without_key", "no DS record matches one of its keys", algorithms=algorithms)
    signatures = _signatures(dnskey.answer if dnskey is not None else (), keys)
    return replace(_validate(keys, signatures, entry_keys, now), algorithms=algorithms)


def worst_of(verdicts: Sequence[ChainVerdict]) -> ChainVerdict:
    """Return the first verdict with a problem, or else the one whose signature expires first.

    It has the algorithms of all.
    """
    problem = next((each for each in verdicts if each.problem), None)
    first = problem or min(verdicts, key=lambda each: each.ends_at or datetime.max.replace(tzinfo=UTC))
    return replace(first, algorithms=frozenset[int]().union(*(each.algorithms for each in verdicts)))


class Validator:
    """Validates a zone's answers with its keys, at `now`. It validates equal records only once."""

    def __init__(self, zone: dns.name.Name, keys: Iterable[DNSKEY], now: datetime) -> None:
        self.zone = zone
        self._keys = list(keys)[:KEYS_MAX]
        self._now = now
        self._known: dict[tuple[object, ...], ChainVerdict] = {}

    def judge_records(self, rdtype: str, message: dns.message.Message | None) -> ChainVerdict:
        """Validate the zone's own records of this type, which must exist."""
        records = find_rrset(message, self.zone, rdtype)
        if records is None or message is None:
            return ChainVerdict("broken", f"it has no {rdtype} record")
        return self._judge(records, message.answer)

    def judge_answer(self, name: dns.name.Name, rdtype: str, message: dns.message.Message) -> ChainVerdict:
        """Validate an answer about a name of the zone: its records, or the proof that there are none.

        Not checked: the targets of aliases, and the SOA record of a negative answer, which BIND doesn't
        validate.
        """
        kinds = (dns.rdatatype.from_text(rdtype), dns.rdatatype.CNAME, dns.rdatatype.DNAME)
        found = [
            each
            for each in message.answer
            if each.rdtype in kinds and (each.name == name or each.rdtype == dns.rdatatype.DNAME)
        ]
        if any(each.rdtype == dns.rdatatype.DNAME for each in found):
            # The CNAME record is made of the DNAME record, and not signed.
            found = [each for each in found if each.rdtype == dns.rdatatype.DNAME][:RRSETS_MAX]
        verdicts = [self._judge(each, message.answer) for each in found]
        labels = min((each.labels for one in found for each in _signatures(message.answer, one)), default=0)
        is_wildcard = bool(found) and found[0].name == name and labels < len(name) - 1
        if (found and not is_wildcard) or any(each.problem for each in verdicts):
            return worst_of(verdicts)
        denials = denials_in(message)
        verdicts += [self._judge(each, message.authority) for each in denials]
        is_nxdomain = message.rcode() == dns.rcode.NXDOMAIN
        is_proven = (
            proves_wildcard(self.zone, name, labels, denials)
            if is_wildcard
            else proves_absence(self.zone, name, rdtype, denials, is_nxdomain=is_nxdomain)
        )
        if not is_proven and not any(each.problem for each in verdicts):
            what = f"{name.to_text(omit_final_dot=True)} has no {rdtype} record"
            return ChainVerdict("unproven", f"it doesn't prove that {what}")
        return worst_of(verdicts) if verdicts else ChainVerdict()

    def _judge(self, records: dns.rrset.RRset, section: Sequence[dns.rrset.RRset]) -> ChainVerdict:
        signatures = _signatures(section, records)
        known = (records.name, records.rdtype, frozenset(records), frozenset(signatures))
        if known not in self._known:
            verdict = _validate(records, signatures, self._keys, self._now, self.zone)
            self._known[known] = verdict
        return self._known[known]


def denials_in(message: dns.message.Message) -> list[dns.rrset.RRset]:
    """Return the first `RRSETS_MAX` sets of NSEC and NSEC3 records in the authority section."""
    kinds = (dns.rdatatype.NSEC, dns.rdatatype.NSEC3)
    return [each for each in message.authority if each.rdtype in kinds][:RRSETS_MAX]


def _validate(
    rrset: dns.rrset.RRset,
    signatures: Sequence[RRSIG],
    keys: Sequence[DNSKEY],
    now: datetime,
    zone: dns.name.Name | None = None,
) -> ChainVerdict:
    """Validate a set of records of `zone`, by default the zone of the records' name.

    One valid signature by one of the keys is enough (RFC 4035, section 5.3).
    """
    kind = dns.rdatatype.to_text(rrset.rdtype)
    if len(rrset) > RECORDS_MAX:
        return ChainVerdict("broken", f"it has {len(rrset)} {kind} records, more than resolvers take")
    if not signatures:
        return ChainVerdict("broken", f"its {kind} record has no signature")
    signer = "a key that a DS record matches" if kind == "DNSKEY" else "one of its keys"
    worst = ChainVerdict("broken", f"no signature of its {kind} record is by {signer}")
    for signature, key in _matching_pairs(signatures, keys):
        ends_at = datetime.fromtimestamp(signature.expiration, UTC)
        validity = timedelta(seconds=signature.expiration - signature.inception)
        if _is_valid(rrset, signature, key, now.timestamp(), zone):
            return ChainVerdict(None, "", ends_at, validity)
        if now >= ends_at and _is_valid(rrset, signature, key, signature.inception, zone):
            worst = ChainVerdict(
                "expired", f"the signature of its {kind} record expired on {ends_at:%Y-%m-%d}", ends_at
            )
        elif worst.problem != "expired":
            worst = ChainVerdict("broken", f"the signature of its {kind} record is not valid")
    return worst


def _matching_pairs(signatures: Sequence[RRSIG], keys: Sequence[DNSKEY]) -> Iterator[tuple[RRSIG, DNSKEY]]:
    tried = 0
    tagged = [(dns.dnssec.key_id(key), key) for key in keys]
    for signature in signatures:
        for tag, key in tagged:
            if tag == signature.key_tag and key.algorithm == signature.algorithm:
                tried += 1
                if tried > SIGNATURES_MAX:
                    return
                yield signature, key


def _is_valid(
    rrset: dns.rrset.RRset, signature: RRSIG, key: DNSKEY, now: float, zone: dns.name.Name | None = None
) -> bool:
    alone = dns.rrset.from_rdata(signature.signer, rrset.ttl, key)
    try:
        dns.dnssec.validate_rrsig(rrset, signature, {signature.signer: alone}, now=now)
    except (dns.exception.DNSException, ValueError):
        return False
    return bool(signature.signer == (zone or rrset.name))


def _matches(name: dns.name.Name, key: DNSKEY, ds_records: Sequence[DsRecord]) -> bool:
    if not key.flags & _ZONE_FLAG or key.flags & _REVOKE_FLAG:
        return False
    tag = dns.dnssec.key_id(key)
    for each in ds_records:
        if each.key_tag == tag and each.algorithm == key.algorithm:
            made = dns.dnssec.make_ds(name, key, dns.dnssectypes.DSDigest(each.digest_type), validating=True)
            if made.digest.hex() == each.digest:
                return True
    return False


def _signatures(section: Sequence[dns.rrset.RRset], covered: dns.rrset.RRset) -> list[RRSIG]:
    return [
        rdata
        for rrset in section
        if rrset.name == covered.name
        and rrset.rdtype == dns.rdatatype.RRSIG
        and rrset.covers == covered.rdtype
        for rdata in rrset
    ][:SIGNATURES_MAX]


def matching_keys(name: dns.name.Name, keys: dns.rrset.RRset, ds_records: Sequence[DsRecord]) -> list[DNSKEY]:
    """Return the keys that a DS record matches."""
    return [each for each in list(keys)[:KEYS_MAX] if _matches(name, each, ds_records)]


def valid_signatures(
    rrset: dns.rrset.RRset,
    signatures: Sequence[RRSIG],
    keys: Sequence[DNSKEY],
    now: datetime,
    zone: dns.name.Name | None = None,
) -> list[RRSIG]:
    """Return the signatures of a set of records that are valid at `now` and by one of these keys of `zone`
    (default: the records' owner).
    """
    if len(rrset) > RECORDS_MAX:
        return []
    covering = [each for each in signatures if each.type_covered == rrset.rdtype]
    seconds = now.timestamp()
    return [
        each for each, key in _matching_pairs(covering, keys) if _is_valid(rrset, each, key, seconds, zone)
    ]
