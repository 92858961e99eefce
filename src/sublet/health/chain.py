"""Validate a nameserver's answers with the DS records of the parent zone (RFC 4035, section 5; rules)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dns.dnssec
import dns.dnssectypes
import dns.exception
import dns.message
import dns.name
import dns.rdatatype
import dns.rrset
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from dns.rdtypes.ANY.RRSIG import RRSIG

from sublet.dns.types import DsRecord
from sublet.health.model import find_rrset

KEYS_MAX = 32
SIGNATURES_MAX = 16
"""The maximum numbers of tried keys and signatures, as in validating resolvers, because a zone could exhaust the processor (CVE-2023-50387)."""
VALIDATED_ALGORITHMS = frozenset({8, 10, 13, 14, 15, 16})
"""The algorithms that validators support. A zone whose DS records have only other algorithms counts as unsigned (RFC 4035, section 5.2)."""
VALIDATED_DIGESTS = frozenset({2, 4})
_ZONE_FLAG = 0x0100
_REVOKE_FLAG = 0x0080


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """The result of a validation.

    `problem` is None if the answers validate, else `without_key` (no DS record matches a key), `expired` or `broken`; `detail` says more.
    `ends_at` is when the first signature expires, and `validity` its time from inception to expiration. `algorithms` are those of the keys.
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
    """Validate the DNSKEY records with the DS records, and the SOA record with the keys, at `now`. Return the verdict.

    Not checked: proofs that names or types don't exist, and that the zone is signed with every algorithm of its DS records.
    """
    keys = find_rrset(dnskey, name, "DNSKEY")
    if keys is None:
        return ChainVerdict("without_key", "it has no DNSKEY record")
    if len(keys) > KEYS_MAX:
        return ChainVerdict("broken", f"it has {len(keys)} keys, more than validators try")
    algorithms = frozenset(int(each.algorithm) for each in keys)
    entry_keys = [each for each in keys if _matches(name, each, ds_records)]
    if not entry_keys:
        return ChainVerdict("without_key", "no DS record matches one of its keys", algorithms=algorithms)
    soa_record = find_rrset(soa, name, "SOA")
    checked = [
        _validate(keys, _signatures(dnskey, keys), entry_keys, now),
        ChainVerdict("broken", "it has no SOA record")
        if soa_record is None
        else _validate(soa_record, _signatures(soa, soa_record), list(keys), now),
    ]
    worst = next((each for each in checked if each.problem), None)
    if worst is not None:
        return ChainVerdict(worst.problem, worst.detail, worst.ends_at, worst.validity, algorithms)
    first = min(checked, key=lambda each: each.ends_at or datetime.max.replace(tzinfo=UTC))
    return ChainVerdict(None, "", first.ends_at, first.validity, algorithms)


def _validate(
    rrset: dns.rrset.RRset, signatures: Sequence[RRSIG], keys: Sequence[DNSKEY], now: datetime
) -> ChainVerdict:
    """Validate a set of records. One valid signature by one of the keys is enough (RFC 4035, section 5.3)."""
    kind = dns.rdatatype.to_text(rrset.rdtype)
    if not signatures:
        return ChainVerdict("broken", f"its {kind} record has no signature")
    signer = "a key that a DS record matches" if kind == "DNSKEY" else "one of its keys"
    worst = ChainVerdict("broken", f"no signature of its {kind} record is by {signer}")
    for signature, key in _matching_pairs(signatures, keys):
        ends_at = datetime.fromtimestamp(signature.expiration, UTC)
        validity = timedelta(seconds=signature.expiration - signature.inception)
        if _is_valid(rrset, signature, key, now.timestamp()):
            return ChainVerdict(None, "", ends_at, validity)
        if now >= ends_at and _is_valid(rrset, signature, key, signature.inception):
            worst = ChainVerdict(
                "expired", f"the signature of its {kind} record expired on {ends_at:%Y-%m-%d}", ends_at
            )
        elif worst.problem != "expired":
            worst = ChainVerdict("broken", f"the signature of its {kind} record is not valid")
    return worst


def _matching_pairs(signatures: Sequence[RRSIG], keys: Sequence[DNSKEY]) -> Iterator[tuple[RRSIG, DNSKEY]]:
    tried = 0
    for signature in signatures:
        for key in keys:
            if dns.dnssec.key_id(key) == signature.key_tag and key.algorithm == signature.algorithm:
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


def _signatures(message: dns.message.Message | None, covered: dns.rrset.RRset) -> list[RRSIG]:
    return [
        rdata
        for rrset in (message.answer if message is not None else ())
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
    """Return the signatures of a set of records that are valid at `now` and by one of these keys of `zone` (default: the records' owner)."""
    covering = [each for each in signatures if each.type_covered == rrset.rdtype]
    seconds = now.timestamp()
    return [
        each for each, key in _matching_pairs(covering, keys) if _is_valid(rrset, each, key, seconds, zone)
    ]
