"""The shapes that the DNS code shares: a delegation, what a user sends for one, a record, a zone's apex."""

from collections.abc import Mapping
from dataclasses import dataclass

from sublet.secret import Secret


@dataclass(frozen=True, slots=True)
class GlueEntry:
    """One nameserver host with its addresses, in canonical text; at least one of the two is set."""

    host: str
    ipv4: str | None = None
    ipv6: str | None = None


@dataclass(frozen=True, slots=True)
class DsRecord:
    """A DS record (RFC 4034, section 5): integers, and the digest in lower-case hex."""

    key_tag: int
    algorithm: int
    digest_type: int
    digest: str


@dataclass(frozen=True, slots=True)
class Delegation:
    """What stands in the parent zone for one name: nameservers in the order given, glue, DS records.

    Host names are lower-case A-labels without the final dot. Made by `delegation.check_delegation` only, so it is valid.
    """

    nameservers: tuple[str, ...] = ()
    glue: tuple[GlueEntry, ...] = ()
    ds_records: tuple[DsRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class GlueInput:
    """A glue entry as a user sent it: text, nothing checked."""

    host: str
    ipv4: str | None = None
    ipv6: str | None = None


@dataclass(frozen=True, slots=True)
class DsInput:
    """A DS record as a user sent it: nothing checked but the types."""

    key_tag: int
    algorithm: int
    digest_type: int
    digest: str


@dataclass(frozen=True, slots=True)
class DnskeyInput:
    """A DNSKEY as a user sent it (`public_key` in base64); its SHA-256 DS is what gets published."""

    flags: int
    protocol: int
    algorithm: int
    public_key: str


DsLike = str | DsInput | DnskeyInput
"""What a user may send as one DS record; text is the zone-file form of a DS or of a DNSKEY."""


@dataclass(frozen=True, slots=True, order=True)
class Record:
    """One resource record.

    `owner` is a full name in lower case without the final dot. `type` is the mnemonic ("NS"). `rdata` is the presentation
    form with absolute names (final dot) inside. Two records are the same record when owner, type and rdata are equal.
    """

    owner: str
    type: str
    ttl_seconds: int
    rdata: str


@dataclass(frozen=True, slots=True)
class Apex:
    """The apex of a zone that the built-in name server answers for: what its SOA and NS records are made of.

    `addresses` are the address records (owner, A or AAAA) of those apex nameservers that lie inside the zone.
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


@dataclass(frozen=True, slots=True)
class ZoneView:
    """What a zone holds around one query name, or around several, read at one instant.

    `records` has, by owner: every name on the path from a query name up to and including the apex, the wildcards `*.<name>`
    of those above the query name, and the hosts inside the zone that NS records among them name (for glue). The apex' SOA and
    NS and its `addresses` come from `apex`, not from `records`. `existing` are those names on the path that exist: with records,
    or empty non-terminals (RFC 8499: with names below them), and, if the query name doesn't exist, the wildcard for it if that exists.
    Where a delegation stands on the path, it need not tell. `parent` is the view of the closest zone above, if the query name is the apex
    and this server serves both: that zone has the DS records.
    """

    apex: Apex
    records: Mapping[str, tuple[Record, ...]]
    existing: frozenset[str]
    parent: "ZoneView | None" = None


@dataclass(frozen=True, slots=True)
class TsigKey:
    """A key for signed messages (RFC 8945): its name without the final dot, `hmac-sha256` or better, the secret in base64."""

    name: str
    algorithm: str
    secret: Secret


@dataclass(frozen=True, slots=True)
class Primary:
    """A primary server that takes our updates of a zone: its name in the settings, its IP address and port, our key there."""

    name: str
    address: str
    port: int
    key: TsigKey


@dataclass(frozen=True, slots=True)
class Secondary:
    """A secondary server of a zone that we watch: its host name, as apex NS records have it, its IP address and port."""

    host: str
    address: str
    port: int
