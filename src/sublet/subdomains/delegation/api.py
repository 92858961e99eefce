"""The API of what name servers answer for a name (spec, part 4, "Subdomains")."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from sublet.audit import Actor
from sublet.db import Tx
from sublet.dns.difference import served_delegation
from sublet.dns.parent_servers import query_servers
from sublet.dns.records import sets_of_records
from sublet.dns.types import Delegation, Record
from sublet.errors import RateLimited, SubdomainNotFound, Unavailable
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.operation import API, Operations
from sublet.operations.query_limit import counted_as_querying
from sublet.operations.shapes import NOW, Count, HostName, Moment, Shape, Success, one_of
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains import published_owner_store
from sublet.subdomains.delegation.served import ServedReport, ServerVerdict, report_served
from sublet.subdomains.find import find_in_account_or_trash
from sublet.subdomains.lifecycle import desired_records, has_records, stored_records
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameservers import stored_warnings
from sublet.subdomains.shapes import (
    FQDN,
    PROVISIONING_EXAMPLE,
    SUBDOMAIN_EXAMPLE,
    DsShape,
    GlueShape,
    ProvisioningShape,
    RecordSetShape,
    delegation_members,
    provisioning_shape,
    record_set_shape,
)

api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN)

_DELEGATION = {name: SUBDOMAIN_EXAMPLE[name] for name in ("nameservers", "glue", "ds_records")} | {
    "records": []
}


EMPTY_OWNERS_MAX = 30
"""The maximum number of owner names to check for orphaned records. Each owner name takes up to 13 queries per
server.
"""

Serial = Annotated[int, Meta(ge=0, le=2**32 - 1, description="The serial of a zone.")]


class StoredDelegationShape(Shape):
    """The stored delegation, or the stored records.

    `generation` increases with each change that the DNS must follow. The change is published once
    `published_generation` equals it.
    """

    nameservers: list[HostName]
    glue: list[GlueShape]
    ds_records: list[DsShape]
    records: list[RecordSetShape]
    generation: Count


class PublishedDelegationShape(Shape):
    """The last publication.

    `serial` is the zone's serial at which the name server answered with `published_generation`.
    """

    zone: HostName
    serial: Serial | None
    published_at: Moment
    published_generation: Count


class ParentServerShape(Shape):
    """The current answer of a name server of the parent zone.

    Without an answer `error` says why, and the other members are null.

    `difference` is null if the answer matches what is stored.
    """

    server: HostName
    role: Annotated[str, one_of(("primary", "secondary", "built_in"))]
    serial: Serial | None
    nameservers: list[HostName] | None
    glue: list[GlueShape] | None
    ds_records: list[DsShape] | None
    records: list[RecordSetShape] | None
    matches: bool | None
    difference: str | None
    error: str | None


class DelegationShape(Shape):
    """A delegation, or records, as they are stored, as they were published, and as they are served.

    `in_agreement` is true if every server answered with exactly what is stored, or with nothing for a name
    that shouldn't be in the DNS.
    """

    stored: StoredDelegationShape
    published: PublishedDelegationShape | None
    servers: list[ParentServerShape]
    in_agreement: bool
    summary: str


class DelegationAnswer(Success, kw_only=True):
    """The delegation of a subdomain, and the state of its publication."""

    delegation: DelegationShape
    provisioning: ProvisioningShape


def delegation_answer(
    subdomain: Subdomain, report: ServedReport, warnings: Sequence[str]
) -> DelegationAnswer:
    """Return the answer with a name's stored, published and served delegation, and its provisioning."""
    stored = StoredDelegationShape(
        generation=subdomain.generation,
        records=[record_set_shape(each) for each in subdomain.records],
        **delegation_members(subdomain.delegation),
    )
    published = None
    if subdomain.published_at is not None:
        published = PublishedDelegationShape(
            zone=subdomain.domain,
            serial=subdomain.published_serial,
            published_at=subdomain.published_at,
            published_generation=subdomain.published_generation,
        )
    return DelegationAnswer(
        delegation=DelegationShape(
            stored=stored,
            published=published,
            servers=[_parent_server_shape(subdomain, each) for each in report.servers],
            in_agreement=report.in_agreement,
            summary=report.summary,
        ),
        provisioning=provisioning_shape(
            subdomain,
            warnings,
            servers=len(report.servers),
            servers_current=sum(each.matches is True for each in report.servers),
        ),
    )


def _parent_server_shape(subdomain: Subdomain, verdict: ServerVerdict) -> ParentServerShape:
    answer = verdict.answer
    members: dict[str, Any] = dict.fromkeys(_DELEGATION)
    if verdict.error is None:
        fqdn, is_delegation = subdomain.fqdn, not has_records(subdomain)
        served = served_delegation(fqdn, answer.records) if is_delegation else Delegation()
        sets = () if is_delegation else sets_of_records(fqdn, answer.records)
        members = delegation_members(served) | {"records": [record_set_shape(each) for each in sets]}
    return ParentServerShape(
        server=answer.server.server,
        role=answer.server.role,
        serial=answer.serial,
        matches=verdict.matches,
        difference=verdict.difference,
        error=verdict.error,
        **members,
    )


class DelegationView(Struct, frozen=True):
    """A name, its platform domain, the `desired` records, the owner names that should have no records, and
    warnings.
    """

    subdomain: Subdomain
    platform_domain: PlatformDomain
    desired: tuple[Record, ...]
    empty_owners: tuple[str, ...]
    warnings: tuple[str, ...]


def view_delegation(tx: Tx, actor: Actor, identifier: str) -> DelegationView:
    """Return the records that should exist for a user's name, live or in the trash, and the owner names that
    should have none.

    Owner names without records are those of former glue, and of stored glue that should not be published.

    Raises:
        SubdomainNotFound: the user has no such name, the token is not for the name, or its time in the trash
            is over.
    """
    subdomain = find_in_account_or_trash(tx, actor, identifier)
    platform_domain = platform_domain_store.find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    ttl_seconds = platform_domain.delegation_ttl_seconds
    desired = desired_records(subdomain, ttl_seconds)
    stored = {record.owner for record in stored_records(subdomain, ttl_seconds)}
    ever = published_owner_store.list_published_owners(tx, subdomain.id) | stored
    empty = ever - {record.owner for record in desired}
    if not has_records(subdomain):
        empty -= {subdomain.fqdn}  # the queries for a delegation cover it
    warnings = stored_warnings(tx, subdomain)
    return DelegationView(
        subdomain, platform_domain, desired, tuple(sorted(empty))[:EMPTY_OWNERS_MAX], warnings
    )


@api.get(
    "/subdomains/{fqdn}/delegation",
    "subdomains:read",
    (SubdomainNotFound, RateLimited, Unavailable),
    example={
        "delegation": {
            "stored": {**_DELEGATION, "generation": 1},
            "published": {
                "zone": "example.net",
                "serial": 42,
                "published_at": NOW,
                "published_generation": 1,
            },
            "servers": [
                {
                    "server": "ns1.example.net",
                    "role": "primary",
                    "serial": 42,
                    **_DELEGATION,
                    "matches": True,
                    "difference": None,
                    "error": None,
                },
                {
                    "server": "ns2.example.net",
                    "role": "secondary",
                    "serial": None,
                    **dict.fromkeys(_DELEGATION),
                    "matches": None,
                    "difference": None,
                    "error": "The name server did not answer in time.",
                },
            ],
            "in_agreement": False,
            "summary": (
                "ns1.example.net answers with the stored delegation of blog.example.net. ns2.example.net "
                "did not answer in time. "
                "Ask again in a while. If the problem persists, open a ticket."
            ),
        },
        "provisioning": {**PROVISIONING_EXAMPLE, "servers_current": 1},
    },
)
async def delegation(call: Call[None, None]) -> Answer[DelegationAnswer]:
    """Get the answers of the name servers for a subdomain.

    Returns a name's delegation or records as they are stored, as they were last published, and as each name
    server of the parent zone answers now, with a sentence for every difference. The name may be in the user's
    trash. All servers are queried at the same time; the entry of a server that doesn't answer within three
    seconds has an `error`.
    """
    db, actor, identifier = call.context.db, call.actor(), call.path["fqdn"]
    before = await db.read(view_delegation, actor, identifier)
    with counted_as_querying(call):
        answers = await query_servers(
            call.context.name_servers(before.platform_domain),
            before.platform_domain.domain,
            before.subdomain.fqdn,
            before.desired,
            empty_owners=before.empty_owners,
        )
    # If the name changed during the queries, a server may have answered with the old delegation.
    view = await db.read(view_delegation, actor, identifier)
    report = report_served(
        view.subdomain,
        view.desired,
        answers,
        changed_meanwhile=view.desired != before.desired
        or view.subdomain.generation != before.subdomain.generation
        or view.subdomain.published_generation != before.subdomain.published_generation,
    )
    return Answer(delegation_answer(view.subdomain, report, view.warnings))
