"""The wire shapes of a name's delegation: stored, published, and as each name server of the parent zone answers now."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from sublet.http.shapes import Count, DsShape, GlueShape, HostName, Moment, ProvisioningShape

Serial = Annotated[int, Meta(ge=0, le=2**32 - 1, description="The serial of a zone.")]


class StoredDelegationShape(Struct, kw_only=True, frozen=True):
    """What the registry stores; `generation` counts the changes that the DNS has to follow."""

    nameservers: list[HostName]
    glue: list[GlueShape]
    ds_records: list[DsShape]
    generation: Count


class PublishedDelegationShape(Struct, kw_only=True, frozen=True):
    """The last publication: of which generation, and at which serial of the zone it was read back from the name server."""

    zone: HostName
    serial: Serial | None
    published_at: Moment
    published_generation: Count


class ParentServerShape(Struct, kw_only=True, frozen=True):
    """What a name server of the parent zone answers now. Where it gives no answer `error` says why, and the rest is null.

    `difference` is null where the answer is what is stored.
    """

    server: HostName
    role: Literal["primary", "secondary", "built_in"]
    serial: Serial | None
    nameservers: list[HostName] | None
    glue: list[GlueShape] | None
    ds_records: list[DsShape] | None
    matches: bool | None
    difference: str | None
    error: str | None


class DelegationShape(Struct, kw_only=True, frozen=True):
    """A delegation as it is stored, as it was published, and as it is served.

    `in_agreement` is true where every server answered with exactly what is stored (for a name that is not to be in
    the DNS: with nothing).
    """

    stored: StoredDelegationShape
    published: PublishedDelegationShape | None
    servers: list[ParentServerShape]
    in_agreement: bool
    summary: str


class DelegationAnswer(Struct, kw_only=True, frozen=True):
    """The delegation of a subdomain, and how far its publication is, as in the answer to a change."""

    ok: Literal[True] = True
    delegation: DelegationShape
    provisioning: ProvisioningShape
