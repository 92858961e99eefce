"""Keys of child zones, and the signed DNSKEY, CDS and CDNSKEY records with them, for decisions about DS
records.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dns.dnssec
import dns.dnssectypes
import dns.name
import dns.rdataset
import dns.rdatatype
import dns.rrset
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from dns.rdtypes.ANY.DNSKEY import DNSKEY
from dns.rdtypes.ANY.RRSIG import RRSIG

from sublet.child_zones.model import PublishedKeys
from sublet.dns.types import DsRecord

CHILD = dns.name.from_text("blog.example.net.")
HOUR = timedelta(hours=1)
TTL = 300


@dataclass(frozen=True)
class ChildKey:
    """A key of a child."""

    private: Any
    dnskey: DNSKEY

    @classmethod
    def new(cls, algorithm: int = 13, flags: int = 257) -> "ChildKey":
        """Return a new key."""
        private: Any = {
            8: lambda: rsa.generate_private_key(65537, 2048),
            13: lambda: ec.generate_private_key(ec.SECP256R1()),
            14: lambda: ec.generate_private_key(ec.SECP384R1()),
            15: ed25519.Ed25519PrivateKey.generate,
        }[algorithm]()
        dnskey = dns.dnssec.make_dnskey(
            private.public_key(), dns.dnssectypes.Algorithm(algorithm), flags=flags
        )
        return cls(private, dnskey)

    def ds(self, digest_type: int = 2, owner: str = "blog.example.net") -> DsRecord:
        """Return the DS record of the key for the zone `owner`."""
        made = dns.dnssec.make_ds(
            dns.name.from_text(owner), self.dnskey, dns.dnssectypes.DSDigest(digest_type), validating=True
        )
        return DsRecord(made.key_tag, int(made.algorithm), int(made.digest_type), made.digest.hex())


def dnskeys(keys: Sequence[ChildKey]) -> dns.rrset.RRset:
    """Return the DNSKEY records of keys."""
    return dns.rrset.from_rdata_list(CHILD, TTL, [each.dnskey for each in keys])


def cds(keys: Sequence[ChildKey], digest_types: Sequence[int] = (2,)) -> dns.rrset.RRset:
    """Return the CDS records that request DS records of keys."""
    made = [each.ds(digest_type) for each in keys for digest_type in digest_types]
    return dns.rrset.from_text_list(
        CHILD,
        TTL,
        "IN",
        "CDS",
        [f"{one.key_tag} {one.algorithm} {one.digest_type} {one.digest}" for one in made],
    )


def cdnskeys(keys: Sequence[ChildKey]) -> dns.rrset.RRset:
    """Return the CDNSKEY records that request DS records of keys."""
    return dns.rrset.from_text_list(CHILD, TTL, "IN", "CDNSKEY", [str(each.dnskey) for each in keys])


DELETE_CDS = dns.rrset.from_text(CHILD, TTL, "IN", "CDS", "0 0 0 00")
DELETE_CDNSKEY = dns.rrset.from_text(CHILD, TTL, "IN", "CDNSKEY", "0 3 0 AA==")


def sign(
    rrset: dns.rrset.RRset,
    keys: Sequence[ChildKey],
    now: datetime,
    *,
    begins: timedelta = -HOUR,
    ends: timedelta = 24 * HOUR,
) -> list[RRSIG]:
    """Return the signatures of keys over a set of records."""
    return [
        dns.dnssec.sign(
            rrset, each.private, CHILD, each.dnskey, inception=now + begins, expiration=now + ends
        )
        for each in keys
    ]


def random_child(
    chance: random.Random, pool: Sequence[ChildKey], zone_key: ChildKey, now: datetime
) -> tuple[list[DsRecord], PublishedKeys, datetime | None]:
    """Return random DS records, records that the child publishes, and the last followed inception.

    Most are a step of a rollover.
    """

    def some(of: Sequence[ChildKey], least: int = 1) -> list[ChildKey]:
        return chance.sample(list(of), chance.randint(min(least, len(of)), min(2, len(of))))

    present = some(pool)
    types = chance.choice([(2,), (2,), (4,), (2, 4)])
    ds_records = [each.ds(digest_type) for each in present for digest_type in types]
    keys = (
        list(dict.fromkeys([*some(present, 0), *some(pool)]))
        if chance.random() < 0.3
        else present + some(pool)
    )
    keys = list(dict.fromkeys(keys))
    wanted = some(keys) if chance.random() < 0.8 else some(pool)
    kind = chance.choice(["cds", "cdnskey", "both", "both"])
    wanted_types = chance.choice([(2,), (2,), (4,), (2, 4), (1, 2)])
    sets = {"dnskey": dnskeys([*keys, zone_key])}
    if kind != "cdnskey":
        sets["cds"] = cds(wanted, wanted_types)
    if kind != "cds":
        sets["cdnskey"] = cdnskeys(wanted)
    signatures: list[RRSIG] = []
    for name, rrset in sets.items():
        signers = (
            keys if chance.random() < 0.7 else [*some(keys), *([zone_key] if chance.random() < 0.5 else [])]
        )
        if name != "dnskey" and chance.random() < 0.07:
            signers = [zone_key]
        fault = chance.choice(["none"] * 12 + ["expired", "future", "other"])
        begins, ends = {"expired": (-48 * HOUR, -HOUR), "future": (HOUR, 48 * HOUR)}.get(
            fault, (-HOUR, 24 * HOUR)
        )
        signed = rrset
        if fault == "other":
            signed = dns.rrset.from_rdata_list(CHILD, TTL + 1, [*rrset])
        signatures += sign(signed, signers, now, begins=begins, ends=ends)
    signed_after = chance.choice([None, None, now - 2 * HOUR, now - HOUR / 2])
    return ds_records, PublishedKeys(signatures=tuple(signatures), **sets), signed_after


def child_file(published: PublishedKeys) -> str:
    """Return a child's published records as lines of a zone file."""
    lines = [
        each.to_text()
        for each in (published.dnskey, published.cds, published.cdnskey, published.soa)
        if each is not None
    ]
    lines += [f"{CHILD} {TTL} IN RRSIG {each}" for each in published.signatures]
    return "\n".join(lines) + "\n"


def parse_dsset(text: str) -> set[DsRecord]:
    """Return the DS records in lines of a zone file."""
    found = set()
    for line in text.splitlines():
        words = line.split()
        at = words.index("DS")
        tag, algorithm, digest_type = (int(each) for each in words[at + 1 : at + 4])
        found.add(DsRecord(tag, algorithm, digest_type, "".join(words[at + 4 :]).lower()))
    return found


def now_in_seconds() -> datetime:
    """Return the current time as signatures have it, in seconds."""
    return datetime.now(UTC).replace(microsecond=0)
