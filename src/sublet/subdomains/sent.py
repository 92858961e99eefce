"""What a request says about a delegation or records, and its conversion to what the rules take."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from sublet.dns.delegation import GLUE_ENTRIES_MAX
from sublet.dns.types import Dnskey, DsLike, DsRecord, GlueEntry, RecordSetInput
from sublet.errors import FieldError, ValidationFailed, validation_failed
from sublet.operations.shapes import Body, HostNameText, Label, TextOrObject
from sublet.structs import replace
from sublet.subdomains.model import Register
from sublet.subdomains.records.rule import (
    TTL_SECONDS_DEFAULT,
    TTL_SECONDS_MAX,
    TTL_SECONDS_MIN,
    VALUES_MAX,
)


class GlueBody(Body):
    """The addresses of a nameserver at or below the name itself.

    `host` and at least one of `ipv4` and `ipv6` are required.
    """

    host: HostNameText
    ipv4: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "ipv4"})] | None = None
    ipv6: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "ipv6"})] | None = None


class SentDs(TextOrObject):
    """A DS record or a DNSKEY, depending on the members."""

    text_description: ClassVar = "A DS record or a DNSKEY as zone-file text."

    @classmethod
    def choose(cls, members: Collection[str]) -> type[TextOrObject]:
        """Return the form that has these members."""
        return DnskeyBody if set(members) & {"flags", "protocol", "public_key"} else DsBody


class DsBody(SentDs):
    """A DS record (RFC 4034, section 5)."""

    key_tag: Annotated[int, Meta(ge=0, le=65535)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    digest_type: Annotated[int, Meta(ge=0, le=255)]
    digest: Annotated[str, Meta(max_length=1024, pattern="^[0-9A-Fa-f ]+$", description="In hex.")]


class DnskeyBody(SentDs):
    """A DNSKEY (RFC 4034, section 2). Its DS record with SHA-256 is published."""

    flags: Annotated[int, Meta(ge=0, le=65535)]
    protocol: Annotated[int, Meta(ge=0, le=255)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    public_key: Annotated[str, Meta(max_length=4096, description="In base64.")]


Nameservers = Annotated[
    list[HostNameText],
    Meta(max_length=13, description="The nameservers. Their order is kept."),
]
Glue = Annotated[
    list[GlueBody],
    Meta(
        max_length=GLUE_ENTRIES_MAX,
        description="The addresses of each nameserver at or below the name itself, and of no other.",
    ),
]
DsRecords = Annotated[
    list[str | SentDs],
    Meta(
        max_length=8,
        description="DS records or DNSKEYs, as objects or zone-file texts. "
        "A name without nameservers has no DS "
        "records.",
    ),
]


Owner = Annotated[
    str,
    Meta(
        max_length=254,
        description="The owner, relative to the name: `@` for the name "
        "itself, `www`, `_acme-challenge`, `*`. A "
        "full name is accepted too.",
    ),
]
Type = Annotated[str, Meta(max_length=16, description="The type, such as `A`, in any case.")]
Ttl = Annotated[
    int,
    Meta(
        ge=TTL_SECONDS_MIN,
        le=TTL_SECONDS_MAX,
        description=f"The TTL in seconds, by default {TTL_SECONDS_DEFAULT}.",
    ),
]
Values = Annotated[
    list[Annotated[str, Meta(max_length=16_384)]],
    Meta(
        max_length=VALUES_MAX,
        description="The values in the presentation form of zone files. A "
        "TXT value may be sent without quotation "
        "marks.",
    ),
]


class RecordSetBody(Body):
    """An RRset at or below the name."""

    name: Owner
    type: Type
    values: Values
    ttl: Ttl | None = None


Records = Annotated[list[RecordSetBody], Meta(max_length=500, description="The RRsets, in any order.")]


class DelegationCheckBody(Body):
    """A planned delegation. `platform_domain_id`, `domain` or `fqdn` selects the platform domain."""

    platform_domain_id: Annotated[int, Meta(ge=1)] | None = None
    domain: Annotated[str, Meta(max_length=254)] | None = None
    label: Label | None = None
    fqdn: Annotated[str, Meta(max_length=254)] | None = None
    nameservers: Nameservers | None = None
    ns1: HostNameText | None = None
    ns2: HostNameText | None = None
    ns3: HostNameText | None = None
    ns4: HostNameText | None = None
    glue: Glue | None = None
    ds_records: DsRecords | None = None


class NameserversBody(Body):
    """A change of a delegation.

    A member that is left out keeps its value; an empty list or null clears it. `ns1` to `ns4` replace the
    whole list.
    """

    nameservers: Nameservers | UnsetType | None = UNSET
    ns1: HostNameText | UnsetType | None = UNSET
    ns2: HostNameText | UnsetType | None = UNSET
    ns3: HostNameText | UnsetType | None = UNSET
    ns4: HostNameText | UnsetType | None = UNSET
    glue: Glue | UnsetType | None = UNSET
    ds_records: DsRecords | UnsetType | None = UNSET


_KEYS = ("ns1", "ns2", "ns3", "ns4")

_IN_LIST = re.compile(r"nameservers(?:\[(?P<index>[0-9]+)\])?")


def glue_inputs(entries: list[GlueBody]) -> tuple[GlueEntry, ...]:
    """Convert glue entries to the type that the rules take."""
    return tuple(GlueEntry(entry.host, entry.ipv4, entry.ipv6) for entry in entries)


def planned_registration(body: DelegationCheckBody) -> Register:
    """Return the registration that a body describes, without its mode and payment."""
    return Register(
        platform_domain_id=body.platform_domain_id,
        domain=body.domain,
        fqdn=body.fqdn,
        label=body.label,
        nameservers=sent_nameservers(body) or (),
        glue=glue_inputs(body.glue or []),
        ds_records=ds_inputs(body.ds_records or []),
    )


def ds_inputs(entries: list[str | SentDs]) -> tuple[DsLike, ...]:
    """Convert DS entries to the types that the rules take."""
    return tuple(_ds_input(entry) for entry in entries)


def _ds_input(entry: str | SentDs) -> DsLike:
    if isinstance(entry, DsBody):
        return DsRecord(entry.key_tag, entry.algorithm, entry.digest_type, entry.digest)
    if isinstance(entry, DnskeyBody):
        return Dnskey(entry.flags, entry.protocol, entry.algorithm, entry.public_key)
    if isinstance(entry, str):
        return entry
    raise TypeError("a DS entry is text, a DS record or a DNSKEY")


def record_set_inputs(entries: list[RecordSetBody]) -> tuple[RecordSetInput, ...]:
    """Convert RRsets to the type that the rules take."""
    return tuple(RecordSetInput(each.name, each.type, tuple(each.values), each.ttl) for each in entries)


def sent_nameservers(body: NameserversBody | DelegationCheckBody) -> tuple[str, ...] | None:
    """Return the nameservers from `nameservers` or from `ns1` to `ns4`; None if neither was sent.

    `ns1` to `ns4` replace the whole list, so a key that is left out or null removes its nameserver. An empty
    text counts as sent, and the verb refuses it as a host name.

    Raises, in this order:
        ValidationFailed: both forms were sent (`value_invalid`).
        ValidationFailed: there is a gap before the last key that was sent (`required`, for each missing key).
    """
    by_key = {key: getattr(body, key) for key in _KEYS}
    hosts = _hosts(by_key)
    # In a registration null means "not sent"; in a change it clears the list.
    has_list = isinstance(body.nameservers, list) or (
        isinstance(body, NameserversBody) and body.nameservers is None
    )
    if hosts and has_list:
        sentence = "is given together with `nameservers`. Give either `nameservers`, or `ns1` to `ns4`."
        raise validation_failed([FieldError(next(iter(hosts)), "value_invalid", sentence)])
    if isinstance(body.nameservers, list):
        return tuple(body.nameservers)
    if missing := _missing_keys(hosts):
        raise validation_failed(missing)
    if isinstance(body, DelegationCheckBody):
        return tuple(hosts.values()) or None
    sent = body.nameservers is not UNSET or any(host is not UNSET for host in by_key.values())
    return tuple(hosts.values()) if sent else None


@contextmanager
def name_errors_as_sent(body: NameserversBody | DelegationCheckBody) -> Iterator[None]:
    """Rename the fields of errors in `nameservers` to `ns1` to `ns4` if these were sent.

    Errors of the whole list get `ns1`.
    """
    try:
        yield
    except ValidationFailed as refusal:
        if not _hosts({key: getattr(body, key) for key in _KEYS}):
            raise
        raise validation_failed([_name_as_key(error) for error in refusal.errors]) from refusal


def _hosts(by_key: dict[str, object]) -> dict[str, str]:
    return {key: host for key, host in by_key.items() if isinstance(host, str)}


def _missing_keys(hosts: dict[str, str]) -> list[FieldError]:
    if not hosts:
        return []
    last = max(hosts)
    sentence = f"is missing, but `{last}` is given. Give the nameservers as `ns1`, `ns2` … without a gap."
    return [FieldError(key, "required", sentence) for key in _KEYS if key < last and key not in hosts]


def _name_as_key(error: FieldError) -> FieldError:
    found = _IN_LIST.fullmatch(error.field)
    return error if found is None else replace(error, field=_KEYS[int(found["index"] or 0)])
