"""What answers show of a name and its delegation."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from sublet.credits.model import AppliedCoupon
from sublet.dns.types import Delegation, DsRecord, GlueEntry, RecordSet
from sublet.operations.operation import Parameter
from sublet.operations.shapes import NEXT_YEAR, NOW, Count, CouponShape, HostName, Id, Moment, Shape, one_of
from sublet.platform_domains.model import ADMIN, MODES
from sublet.subdomains.lifecycle import STATUS_LABELS, derive_status, provisioning_status, renewal_available
from sublet.subdomains.model import ShownSubdomain, Subdomain

FQDN = Parameter(
    "The subdomain's id or its name, in any case, with or without the final dot, as U-labels or A-labels.",
    "blog.example.net",
)

DS_EXAMPLE = {
    "key_tag": 2371,
    "algorithm": 13,
    "digest_type": 2,
    "digest": "1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6",
}

SUBDOMAIN_EXAMPLE: dict[str, Any] = {
    "id": 17,
    "fqdn": "blog.example.net",
    "label": "blog",
    "domain": "example.net",
    "domain_public_name": "Example Net",
    "status": "active",
    "status_label": "Active",
    "registration_type": "free",
    "registration_source": "api",
    "nameservers": ["ns1.provider.example", "ns1.blog.example.net"],
    "glue": [{"host": "ns1.blog.example.net", "ipv4": "8.8.4.4", "ipv6": None}],
    "dnssec_enabled": True,
    "ds_records": [DS_EXAMPLE],
    "provision_error": None,
    "registered_at": NOW,
    "expires_at": NEXT_YEAR,
    "last_renewed_at": None,
    "renewal_available": False,
    "created_at": NOW,
    "updated_at": NOW,
}

PROVISIONING_EXAMPLE = {
    "status": "published",
    "generation": 1,
    "published_generation": 1,
    "attempts": 0,
    "next_attempt_at": None,
    "published_at": NOW,
    "zone": "example.net",
    "serial": 42,
    "servers": 2,
    "servers_current": 2,
    "error": None,
    "warnings": [],
}


class GlueShape(Shape):
    """The addresses of a nameserver at or below the name itself. At least one address isn't null."""

    host: HostName
    ipv4: Annotated[str, Meta(extra_json_schema={"format": "ipv4"})] | None
    ipv6: Annotated[str, Meta(extra_json_schema={"format": "ipv6"})] | None


class DsShape(Shape):
    """A DS record (RFC 4034, section 5)."""

    key_tag: Annotated[int, Meta(ge=0, le=65535)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    digest_type: Annotated[int, Meta(ge=0, le=255)]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]+$")]


class RecordSetShape(Shape):
    """An RRset at or below a name. `name` is relative: `@` for the name itself, or labels such as `www`.

    `values` are in the presentation form of zone files (RFC 1035, section 5.1), with absolute names.
    """

    name: str
    type: str
    ttl: Annotated[int, Meta(ge=0, le=2**31 - 1, description="The TTL in seconds.")]
    values: list[str]


class SubdomainShape(Shape):
    """A subdomain, with exactly the twenty fields of the spec."""

    changed_by_requests: ClassVar = ("id", "nameservers", "glue", "ds_records", "expires_at", "updated_at")

    id: Id
    fqdn: HostName
    label: str
    domain: HostName
    domain_public_name: str
    status: Annotated[str, one_of(STATUS_LABELS)]
    status_label: str
    registration_type: Annotated[str, one_of((*MODES, ADMIN))]
    registration_source: Annotated[str, one_of(("api", "operator"))]
    nameservers: list[HostName]
    glue: list[GlueShape]
    dnssec_enabled: bool
    ds_records: list[DsShape]
    provision_error: str | None
    registered_at: Moment
    expires_at: Moment
    last_renewed_at: Moment | None
    renewal_available: bool
    created_at: Moment
    updated_at: Moment


class ProvisioningShape(Shape):
    """The state of a publication.

    `status` is `published` once the primary has answered with exactly this delegation, or these records.

    `servers` is the number of the zone's name servers. `servers_current` is the number of those that are
    known to have the last change.
    """

    status: Annotated[str, one_of(("none", "pending", "published", "failed"))]
    generation: Count
    published_generation: Count
    attempts: Count
    next_attempt_at: Moment | None
    published_at: Moment | None
    zone: HostName
    serial: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None
    servers: Count
    servers_current: Count
    error: str | None
    warnings: list[str]


def coupon_shape(coupon: AppliedCoupon | None) -> CouponShape | None:
    """Return the shape of the coupon that was used; None without a coupon."""
    return CouponShape.of(coupon) if coupon else None


def subdomain_shape(subdomain: ShownSubdomain, now: datetime, *, user_suspended: bool) -> SubdomainShape:
    """Return the shape of a subdomain, with its status and `renewal_available` at this instant."""
    status = derive_status(subdomain, now)
    delegation = subdomain.delegation
    return SubdomainShape(
        id=subdomain.id,
        fqdn=subdomain.fqdn,
        label=subdomain.label,
        domain=subdomain.domain,
        domain_public_name=subdomain.domain_public_name,
        status=status,
        status_label=STATUS_LABELS[status],
        registration_type=subdomain.registration_type,
        registration_source=subdomain.registration_source,
        nameservers=list(delegation.nameservers),
        glue=_glue_shapes(delegation.glue),
        dnssec_enabled=bool(delegation.ds_records),
        ds_records=_ds_shapes(delegation.ds_records),
        provision_error=subdomain.provision_error,
        registered_at=subdomain.registered_at,
        expires_at=subdomain.expires_at,
        last_renewed_at=subdomain.last_renewed_at,
        renewal_available=renewal_available(subdomain, now, user_suspended=user_suspended),
        created_at=subdomain.created_at,
        updated_at=subdomain.updated_at,
    )


def provisioning_shape(
    subdomain: Subdomain, warnings: Sequence[str], *, servers: int, servers_current: int
) -> ProvisioningShape:
    """Return the shape of the state of a subdomain's publication, with warnings.

    `servers` is the number of the zone's name servers, `servers_current` the number of those that are known
    to have the last change.
    """
    return ProvisioningShape(
        status=provisioning_status(subdomain),
        generation=subdomain.generation,
        published_generation=subdomain.published_generation,
        attempts=subdomain.attempts,
        next_attempt_at=subdomain.next_attempt_at,
        published_at=subdomain.published_at,
        zone=subdomain.domain,
        serial=subdomain.published_serial,
        servers=servers,
        servers_current=servers_current,
        error=subdomain.provision_error,
        warnings=list(warnings),
    )


def delegation_members(delegation: Delegation) -> dict[str, Any]:
    """Return the members that show a delegation."""
    return {
        "nameservers": list(delegation.nameservers),
        "glue": _glue_shapes(delegation.glue),
        "ds_records": _ds_shapes(delegation.ds_records),
    }


def record_set_shape(record_set: RecordSet) -> RecordSetShape:
    """Return the shape of an RRset."""
    return RecordSetShape(
        name=record_set.name,
        type=record_set.type,
        ttl=record_set.ttl_seconds,
        values=list(record_set.values),
    )


def _glue_shapes(glue: Sequence[GlueEntry]) -> list[GlueShape]:
    return [GlueShape(host=each.host, ipv4=each.ipv4, ipv6=each.ipv6) for each in glue]


def _ds_shapes(ds_records: Sequence[DsRecord]) -> list[DsShape]:
    return [DsShape.of(each) for each in ds_records]
