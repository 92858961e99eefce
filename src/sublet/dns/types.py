"""The types that the DNS code shares: delegations, their input, records, zones and servers."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from sublet.secret import Secret

DELEGATION_TYPES: Final = ("NS", "DS", "A", "AAAA")
"""The record types of a delegation."""
RECORD_TYPES: Final = (
    "A",
    "AAAA",
    "CAA",
    "CNAME",
    "HTTPS",
    "MX",
    "SRV",
    "SSHFP",
    "SVCB",
    "TLSA",
    "TXT",
)
"""The record types that a name without a delegation may have, if the platform domain allows them."""
PUBLISHED_TYPES: Final = tuple(sorted({*DELEGATION_TYPES, *RECORD_TYPES}))
"""All record types that the registry publishes at and below registered names."""


class GlueEntry(Struct, frozen=True):
    """A nameserver host with one or two addresses: in a stored delegation in canonical form, in a request not
    checked.
    """

    host: str
    ipv4: str | None = None
    ipv6: str | None = None


class DsRecord(Struct, frozen=True):
    """A DS record (RFC 4034, section 5), with the digest in hex: in a stored delegation valid and in lower
    case, in a request not checked.
    """

    key_tag: int
    algorithm: int
    digest_type: int
    digest: str


class Delegation(Struct, frozen=True):
    """The delegation of one name: nameservers in the user's order, glue, DS records.

    Host names are lower-case A-labels without the final dot. Stored delegations come from
    `delegation.check_delegation`, so they are valid.
    """

    nameservers: tuple[str, ...] = ()
    glue: tuple[GlueEntry, ...] = ()
    ds_records: tuple[DsRecord, ...] = ()


class RecordSet(Struct, frozen=True):
    """An RRset that a registrant stores at or below a name, in canonical form (RFC 2181, section 5).

    `name` is the owner relative to the registered name, in lower case: `@` for the name itself, or labels
    such as `www` or `*.dev`. `type` is the mnemonic. `values` are sorted rdata in the presentation form of
    dnspython, with absolute names (with the final dot).
    """

    name: str
    type: str
    ttl_seconds: int
    values: tuple[str, ...]


class RecordSetInput(Struct, frozen=True):
    """An RRset in a request, not checked. `ttl_seconds` None means the default."""

    name: str
    type: str
    values: tuple[str, ...]
    ttl_seconds: int | None = None


class Dnskey(Struct, frozen=True):
    """A DNSKEY in a request, with `public_key` in base64.

    The registry publishes the SHA-256 DS record of the key.
    """

    flags: int
    protocol: int
    algorithm: int
    public_key: str


DsLike = str | DsRecord | Dnskey
"""A DS record, or a DNSKEY that stands for one. A text is the zone-file form of either."""


class Record(Struct, frozen=True, order=True):
    """One resource record.

    `owner` is a full name in lower case without the final dot. `type` is the mnemonic ("NS"). `rdata` is the
    presentation form, with absolute names (with the final dot).
    """

    owner: str
    type: str
    ttl_seconds: int
    rdata: str


class Apex(Struct, frozen=True):
    """The values of a zone's SOA record, and of the NS records at its apex.

    `addresses` are the A and AAAA records of the apex nameservers inside the zone.
    """

    zone: str
    nameservers: tuple[str, ...]
    soa_mname: str
    soa_rname: str
    serial: int
    refresh_seconds: int
    retry_seconds: int
    expire_seconds: int
    negative_ttl_seconds: int
    ttl_seconds: int
    addresses: tuple[Record, ...] = ()


class ZoneView(Struct, frozen=True):
    """The part of a zone that the answers for one or several query names need, read at one instant.

    `apex` has the SOA and NS records, and the addresses of the apex nameservers. `records` has, by owner, the
    records of all names from a query name up to the apex, of the wildcards `*.<name>` above a query name, and
    of the hosts in the zone that these NS records name (for glue).

    `existing` has the names from a query name up to the apex that have records or are empty non-terminals
    (RFC 9499, section 7). For a query name that doesn't exist, `existing` has the matching wildcard, too, if
    there is one. Below a delegation `existing` may be incomplete.

    `parent` is the view of the closest zone above, which has the DS records. It is set if the query name is
    the apex, and this server serves both zones.
    """

    apex: Apex
    records: Mapping[str, tuple[Record, ...]]
    existing: frozenset[str]
    parent: "ZoneView | None" = None


class TsigKey(Struct, frozen=True):
    """A key for signed messages (RFC 8945): its name without the final dot, `hmac-sha256` or better, the
    secret in base64.
    """

    name: str
    algorithm: str
    secret: Secret


class Primary(Struct, frozen=True):
    """A primary server that accepts our updates: its name in the settings, its IP address and port, and our
    key.
    """

    name: str
    address: str
    port: int
    key: TsigKey


class Secondary(Struct, frozen=True):
    """A secondary server to watch: its host name in the apex NS records, its IP address and port."""

    host: str
    address: str
    port: int
