"""Decide whether a zone's request for other DS records is followed (rules; RFC 7344, RFC 8078, RFC 9615)."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import dns.dnssec
import dns.dnssectypes
import dns.name
import dns.rrset
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from dns.rdtypes.ANY.DS import DS
from msgspec import Struct

from sublet.child_zones.model import (
    Decision,
    Keep,
    Proof,
    PublishedKeys,
    Refuse,
    Remove,
    Replace,
    Rules,
    Wait,
)
from sublet.dns.delegation import DS_RECORDS_MAX
from sublet.dns.ds import SHA256, InvalidDs, parse_ds
from sublet.dns.types import DsRecord
from sublet.health.chain import matching_keys, valid_signatures

_DELETE = 0
"""The algorithm of CDS and CDNSKEY records that request the deletion of the DS records
(RFC 8078, section 4).
"""
UNSEEN_MAX = timedelta(days=2)
"""The maximum time without a check that found the awaited records at all nameservers."""


def decide(
    name: dns.name.Name,
    current: Sequence[DsRecord],
    published: PublishedKeys,
    proof: Proof | None,
    rules: Rules,
    now: datetime,
) -> Decision:
    """Return the decision about a name's DS records, from the records that all its nameservers publish.

    If the name has DS records, the request must be signed by a key that one of them matches (RFC 7344,
    section 4.1). If it has none, `proof` must have the same CDS and CDNSKEY records, validated at all
    signalling names (RFC 9615, section 4.2), or all nameservers must have published them for
    `rules.accepted_after` (RFC 8078, section 3.3). In all cases the zone's keys must validate under the new
    DS records, with each of their algorithms.
    """
    if not published.has_signal or not (rules.rollover if current else rules.bootstrap):
        return Keep()
    request = _Request(name, tuple(current), published, now)
    if _requests_deletion(published) and not current:
        return Keep()
    refusal = request.refuse_unless_signed() if current else _refuse_unless_proven(published, proof)
    if refusal is None:
        return _decide_by_signature(request, rules)
    if current or rules.accepted_after is None or _is_contradicted(published, proof):
        return refusal
    decision = _decide_by_signature(request, rules)
    if isinstance(decision, Replace):
        return _await(decision, _digest(published), rules, rules.accepted_after, now)
    return decision


def _decide_by_signature(request: "_Request", rules: Rules) -> Decision:
    """Return the decision about a request whose signers are trusted. It may be older than another change."""
    signed_at = request.signed_at()
    if signed_at is None:
        return Refuse(
            "not_authentic", "The CDS and CDNSKEY records have no valid signature. Sign the zone again."
        )
    if rules.signed_after is not None and signed_at < rules.signed_after:
        return Refuse(
            "replayed",
            f"The CDS or CDNSKEY records were signed on {signed_at:%Y-%m-%d %H:%M} UTC, before the records "
            "that were followed last. "
            "Check that every nameserver has the newest version of the zone.",
        )
    decision = request.wanted(signed_at)
    is_older = rules.changed_at is not None and signed_at < rules.changed_at
    if is_older and isinstance(decision, Replace | Remove):
        return Refuse(
            "replayed",
            f"The CDS or CDNSKEY records were signed on {signed_at:%Y-%m-%d %H:%M} UTC, before the DS "
            "records were last changed by hand, so they may be old. Check that every nameserver has the "
            "newest version of the zone, then sign these records again.",
        )
    return decision


def _await(
    decision: Replace, digest: str, rules: Rules, accepted_after: timedelta, now: datetime
) -> Replace | Wait:
    """Return the decision about first DS records after a check that found them at all nameservers."""
    known = rules.awaited
    if known is None or known.digest != digest or not timedelta() <= now - known.seen_at <= UNSEEN_MAX:
        return Wait(decision.ds_records, decision.signed_at, digest, now, now + accepted_after)
    if now >= known.since + accepted_after:
        return Replace(decision.ds_records, decision.signed_at, known.since)
    return Wait(decision.ds_records, decision.signed_at, digest, known.since, known.since + accepted_after)


def _digest(published: PublishedKeys) -> str:
    """Return a digest of the CDS and CDNSKEY records. Their order, TTL and signatures don't count."""
    texts = sorted(
        f"{each.rdtype.name} {each.to_text()}"
        for rrset in (published.cds, published.cdnskey)
        for each in rrset or ()
    )
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _records(rrset: dns.rrset.RRset | None) -> frozenset[object]:
    return frozenset() if rrset is None else frozenset(rrset)


def _requests_deletion(published: PublishedKeys) -> bool:
    return any(
        each.algorithm == _DELETE for rrset in (published.cds, published.cdnskey) for each in rrset or ()
    )


def _is_contradicted(published: PublishedKeys, proof: Proof | None) -> bool:
    """True if a validated signalling name has other records than the zone or another signalling name."""
    if proof is None:
        return False
    has_records = proof.cds is not None or proof.cdnskey is not None
    return proof.contradicts or (has_records and not _is_confirmed(published, proof))


def _is_confirmed(published: PublishedKeys, proof: Proof) -> bool:
    return all(
        _records(getattr(proof, each)) == _records(getattr(published, each)) for each in ("cds", "cdnskey")
    )


def _refuse_unless_proven(published: PublishedKeys, proof: Proof | None) -> Refuse | None:
    """Return a refusal if the signalling names don't have the same CDS and CDNSKEY records as the zone; else
    None.
    """
    problem = (
        "The signalling names were not queried. Wait for the next check." if proof is None else proof.problem
    )
    if proof is not None and problem is None:
        problem = (
            None
            if _is_confirmed(published, proof)
            else "They have other CDS or CDNSKEY records than the zone. Publish the same records at each "
            "signalling name."
        )
    if problem is None:
        return None
    return Refuse(
        "not_bootstrapped",
        f"The zone asks for its first DS records, but its signalling names don't confirm them. {problem}",
    )


class _Request(Struct, frozen=True):
    """The request in a zone's CDS and CDNSKEY records, with the name's present DS records."""

    name: dns.name.Name
    current: tuple[DsRecord, ...]
    published: PublishedKeys
    now: datetime

    @property
    def _signals(self) -> list[dns.rrset.RRset]:
        return [each for each in (self.published.cds, self.published.cdnskey) if each is not None]

    def _signers(self) -> list[DNSKEY]:
        """Return the keys that may sign a request: keys that a present DS record matches, or any key if there
        are no DS records.
        """
        if self.published.dnskey is None:
            return []
        if not self.current:
            return list(self.published.dnskey)
        return matching_keys(self.name, self.published.dnskey, self.current)

    def refuse_unless_signed(self) -> Refuse | None:
        """Return a refusal if the request doesn't validate under the present DS records; else None."""
        signers, signatures = self._signers(), self.published.signatures
        dnskey = self.published.dnskey
        if dnskey is None or not valid_signatures(dnskey, signatures, signers, self.now):
            return Refuse(
                "chain_broken",
                "The zone's DNSKEY records don't validate under the present DS records. Sign the zone again "
                "with a key that a DS record matches, or correct the DS records of the name by hand.",
            )
        for rrset in self._signals:
            if not valid_signatures(rrset, signatures, signers, self.now):
                return Refuse(
                    "not_authentic",
                    "The CDS or CDNSKEY records have no valid signature by a key that a present DS record "
                    "matches. Sign them with such a key.",
                )
        return None

    def signed_at(self) -> datetime | None:
        """Return when the request was signed, or None.

        Each set counts with its newest valid signature, and the older set decides.
        """
        newest = []
        for rrset in self._signals:
            valid = valid_signatures(rrset, self.published.signatures, self._signers(), self.now)
            if not valid:
                return None
            newest.append(max(each.inception for each in valid))
        return datetime.fromtimestamp(min(newest), UTC)

    def wanted(self, signed_at: datetime) -> Decision:
        """Return the decision about a request whose signatures are valid."""
        if _requests_deletion(self.published):
            if any(len(each) != 1 or each[0].algorithm != _DELETE for each in self._signals):
                return Refuse(
                    "malformed",
                    "The zone asks for the deletion of its DS records, but also has other CDS or CDNSKEY "
                    "records. Remove the others.",
                )
            return Remove(signed_at)
        if self._is_contradictory():
            return Refuse(
                "contradictory",
                "The CDS records and the CDNSKEY records are for different keys. Publish both for the same "
                "keys.",
            )
        ds_records = self._ds_records()
        if not 0 < len(ds_records) <= DS_RECORDS_MAX or not _covers_evenly(ds_records):
            return Refuse(
                "unsupported",
                f"The CDS and CDNSKEY records don't give 1 to {DS_RECORDS_MAX} DS records of accepted "
                "algorithms, with the same digest types for each key. Publish CDS records of digest type 2 "
                "(SHA-256).",
            )
        if not self._validates_under(ds_records):
            return Refuse(
                "would_break",
                "The zone would not validate under the DS records that it asks for. Sign the DNSKEY "
                "records with a key of each of their algorithms first.",
            )
        return Keep() if set(ds_records) == set(self.current) else Replace(ds_records, signed_at)

    def _is_contradictory(self) -> bool:
        """True if the CDS records and the CDNSKEY records are for different keys."""
        if self.published.cds is None or self.published.cdnskey is None:
            return False
        named = {(each.key_tag, each.algorithm, each.digest_type, each.digest) for each in self.published.cds}
        types = {each.digest_type for each in self.published.cds} & {1, SHA256, 4}
        made = {
            (ds.key_tag, ds.algorithm, ds.digest_type, ds.digest)
            for key in self.published.cdnskey
            for digest_type in types
            for ds in [_ds_of(self.name, key, digest_type)]
        }
        return {each for each in named if each[2] in types} != made

    def _ds_records(self) -> tuple[DsRecord, ...]:
        """Return the accepted DS records in the CDS records.

        If there are none, make them with SHA-256 from the CDNSKEY records.
        """
        made = [_ds_of(self.name, each, SHA256) for each in self.published.cdnskey or ()]
        return _accepted(self.name, self.published.cds or ()) or _accepted(self.name, made)

    def _validates_under(self, ds_records: Sequence[DsRecord]) -> bool:
        """True if the keys validate with each algorithm of these DS records (RFC 6840, section 5.11), and the
        SOA record with the keys.
        """
        dnskey, signatures = self.published.dnskey, self.published.signatures
        if dnskey is None:
            return False
        entries = matching_keys(self.name, dnskey, ds_records)
        valid = valid_signatures(dnskey, signatures, entries, self.now)
        if {each.algorithm for each in ds_records} != {int(each.algorithm) for each in valid}:
            return False
        soa = self.published.soa
        return soa is None or bool(valid_signatures(soa, signatures, list(dnskey), self.now))


def _ds_of(name: dns.name.Name, key: DNSKEY, digest_type: int) -> DS:
    return dns.dnssec.make_ds(name, key, dns.dnssectypes.DSDigest(digest_type), validating=True)


def _accepted(name: dns.name.Name, wanted: Iterable[DS]) -> tuple[DsRecord, ...]:
    """Return the DS records whose algorithms and digest types this registry accepts, sorted."""
    owner = name.to_text(omit_final_dot=True)
    accepted = set()
    for each in wanted:
        try:
            accepted.add(
                parse_ds(
                    owner,
                    DsRecord(each.key_tag, int(each.algorithm), int(each.digest_type), each.digest.hex()),
                )
            )
        except InvalidDs:
            continue
    return tuple(sorted(accepted, key=lambda each: (each.key_tag, each.algorithm, each.digest_type)))


def _covers_evenly(ds_records: Sequence[DsRecord]) -> bool:
    """True if each key has a DS record of each digest type, because a validator may use only one of the
    types.
    """
    keys = {(each.key_tag, each.algorithm) for each in ds_records}
    types = {each.digest_type for each in ds_records}
    return len(ds_records) == len(keys) * len(types)
