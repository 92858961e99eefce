"""Prove by NSEC or NSEC3 records that a name or a type doesn't exist (rules).

RFC 4035, section 5.4, and RFC 5155, section 8. Not checked: that the records are signed, and that the NSEC
record of a delegation denies nothing below it.
"""

import base64
from collections.abc import Sequence

import dns.dnssec
import dns.name
import dns.rdatatype
import dns.rrset
from dns.dnssectypes import NSEC3Hash
from dns.rdtypes.ANY.CSYNC import CSYNC
from dns.rdtypes.ANY.NSEC import NSEC
from dns.rdtypes.ANY.NSEC3 import NSEC3
from dns.rdtypes.util import Bitmap

ITERATIONS_MAX = 150
"""Resolvers treat a zone with more iterations as unsigned, so no proof is needed (RFC 9276, section 3.2)."""
_WILDCARD = dns.name.Name((b"*",))


def proves_absence(
    zone: dns.name.Name,
    name: dns.name.Name,
    rdtype: str,
    denials: Sequence[dns.rrset.RRset],
    *,
    is_nxdomain: bool,
) -> bool:
    """True if these NSEC or NSEC3 records of `zone` prove that `name` has no records of this type.

    With `is_nxdomain`, they must prove that it doesn't exist.
    """
    proof = _proof(zone, denials)
    if proof is None:
        return True
    if not is_nxdomain and proof.denies(name, rdtype):
        return True
    encloser = proof.closest_encloser(name)
    if encloser is None or not proof.covers(_next_closer(name, encloser)):
        return False
    wildcard = _WILDCARD + encloser
    return proof.covers(wildcard) if is_nxdomain else proof.denies(wildcard, rdtype)


def proves_wildcard(
    zone: dns.name.Name, name: dns.name.Name, labels: int, denials: Sequence[dns.rrset.RRset]
) -> bool:
    """True if these records prove that a wildcard answers for `name`, because no name is closer to it.

    `labels` is the number of labels in the wildcard's signature (RFC 4035, section 5.3.4).
    """
    proof = _proof(zone, denials)
    return proof is None or proof.covers(name.split(labels + 2)[1])


def _next_closer(name: dns.name.Name, encloser: dns.name.Name) -> dns.name.Name:
    return name.split(len(encloser) + 1)[1]


def _proof(zone: dns.name.Name, denials: Sequence[dns.rrset.RRset]) -> "_Nsec | _Nsec3 | None":
    """Return the proof that these records give, or None if their iterations need no proof.

    NSEC3 records with an unknown hash algorithm are ignored (RFC 5155, section 8.1).
    """
    hashed = [
        each for each in denials if each.rdtype == dns.rdatatype.NSEC3 and each[0].algorithm == NSEC3Hash.SHA1
    ]
    if not hashed:
        return _Nsec(zone, [each for each in denials if each.rdtype == dns.rdatatype.NSEC])
    return _Nsec3(zone, hashed) if hashed[0][0].iterations <= ITERATIONS_MAX else None


class _Nsec:
    def __init__(self, zone: dns.name.Name, denials: Sequence[dns.rrset.RRset]) -> None:
        self._zone = zone
        self._spans = [(each.name, each[0].next, each[0]) for each in denials]

    def denies(self, name: dns.name.Name, rdtype: str) -> bool:
        """True if the name exists, or names below it, and has no records of this type and no alias."""
        return any(
            not _has_type(record, rdtype)
            if owner == name
            else owner < name < following and following.is_subdomain(name)
            for owner, following, record in self._spans
        )

    def covers(self, name: dns.name.Name) -> bool:
        """True if the name doesn't exist."""
        return self._span_over(name) is not None

    def closest_encloser(self, name: dns.name.Name) -> dns.name.Name | None:
        """Return the longest existing name above `name`, or None if `name` exists."""
        span = self._span_over(name)
        return None if span is None else max((_common(name, each) for each in span), key=len)

    def _span_over(self, name: dns.name.Name) -> tuple[dns.name.Name, dns.name.Name] | None:
        """Return the two names between which neither `name` nor a name below it exists."""
        for owner, following, _ in self._spans:
            is_between = owner < name and (name < following or following == self._zone)
            if is_between and not following.is_subdomain(name):
                return owner, following
        return None


class _Nsec3:
    def __init__(self, zone: dns.name.Name, denials: Sequence[dns.rrset.RRset]) -> None:
        self._zone = zone
        self._first = denials[0][0]
        self._spans = [
            (
                each.name.labels[0].decode("ascii", "replace").upper(),
                base64.b32hexencode(each[0].next).decode(),
                each[0],
            )
            for each in denials
        ]

    def _hash(self, name: dns.name.Name) -> str:
        return dns.dnssec.nsec3_hash(name, self._first.salt, self._first.iterations, NSEC3Hash.SHA1)

    def denies(self, name: dns.name.Name, rdtype: str) -> bool:
        hashed = self._hash(name)
        return any(owner == hashed and not _has_type(record, rdtype) for owner, _, record in self._spans)

    def covers(self, name: dns.name.Name) -> bool:
        hashed = self._hash(name)
        return any(
            owner < hashed < following
            if owner < following
            else owner != hashed and (hashed > owner or hashed < following)
            for owner, following, _ in self._spans
        )

    def closest_encloser(self, name: dns.name.Name) -> dns.name.Name | None:
        owners = {owner for owner, _, _ in self._spans}
        above = name
        while above not in (self._zone, dns.name.root):
            above = above.parent()
            if self._hash(above) in owners:
                return above
        return None


def _common(one: dns.name.Name, other: dns.name.Name) -> dns.name.Name:
    return one.split(one.fullcompare(other)[2])[1]


def _has_type(record: NSEC | NSEC3, rdtype: str) -> bool:
    """True if an NSEC or NSEC3 record says that its name has this type or an alias."""
    return not types_in(record).isdisjoint((rdtype, "CNAME"))


def types_in(record: NSEC | NSEC3 | CSYNC) -> frozenset[str]:
    """Return the record types in the bitmap of a record."""
    return frozenset(Bitmap(record.windows).to_text().split())
