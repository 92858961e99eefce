"""The API of the records of a name (docs/api.md, "Records")."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Concatenate, ParamSpec

from msgspec import Meta, Struct

from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.types import RecordSetInput
from sublet.errors import (
    DelegationExists,
    RecordsNotAllowed,
    SubdomainNotFound,
    TokenRestricted,
    ValidationFailed,
    validation_failed,
)
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.conditional import only_if_match
from sublet.operations.gates import sensitive
from sublet.operations.idempotency import write_once
from sublet.operations.operation import API, Operations, Parameter, Refusals
from sublet.operations.shapes import Body, NoBody, Success
from sublet.platform_domains.store import find_platform_domain
from sublet.subdomains.api import OWN_NAME, wait_for_publication
from sublet.subdomains.find import find_in_account
from sublet.subdomains.lifecycle import is_published
from sublet.subdomains.model import Subdomain
from sublet.subdomains.records.change import ChangeRecords, change_records
from sublet.subdomains.records.rule import canonical_owner
from sublet.subdomains.records.sent import Records, Ttl, Values, record_set_inputs
from sublet.subdomains.shapes import (
    FQDN,
    PROVISIONING_EXAMPLE,
    ProvisioningShape,
    RecordSetShape,
    provisioning_shape,
    record_set_shape,
)

OWNER = Parameter("The owner, relative to the name: `@` for the name itself, `www`, `*`.", "www")
TYPE = Parameter("The type, in any case.", "CNAME")
api = Operations(API, tags.RECORDS, fqdn=FQDN, name=OWNER, type=TYPE)

_REFUSALS: Refusals = (*OWN_NAME, DelegationExists, RecordsNotAllowed, ValidationFailed, TokenRestricted)
_GATE = sensitive("moves the traffic of a name")
_SITE = {"name": "@", "type": "A", "ttl": 300, "values": ["8.8.4.4"]}
_WWW = {"name": "www", "type": "CNAME", "ttl": 300, "values": ["example.github.io."]}
_EXAMPLE = {"records": [_SITE, _WWW], "provisioning": PROVISIONING_EXAMPLE}


class RecordsAnswer(Success, kw_only=True):
    """The records of a name, sorted by owner and type, and the state of their publication."""

    changed_by_requests: ClassVar = ("records",)

    records: list[RecordSetShape]
    provisioning: ProvisioningShape


class RecordsBody(Body):
    """The RRsets of a name."""

    required_members: ClassVar[tuple[str, ...]] = ("records",)

    records: Records | None = None


class RecordBody(Body):
    """The values of one RRset, and its TTL. An empty list removes the RRset."""

    required_members: ClassVar[tuple[str, ...]] = ("values",)

    values: Values | None = None
    ttl: Ttl | None = None


class RecordsQuery(Struct, kw_only=True):
    """The filters of the records of a name."""

    name: (
        Annotated[str, Meta(max_length=254, description="Only RRsets at this owner, such as `@`.")] | None
    ) = None
    type: Annotated[str, Meta(max_length=16, description="Only RRsets of this type.")] | None = None


@api.get(
    "/subdomains/{fqdn}/records",
    "subdomains:read",
    (SubdomainNotFound,),
    has_etag=True,
    example=_EXAMPLE,
)
def get_records(tx: Tx, call: Call[None, RecordsQuery]) -> RecordsAnswer:
    """Get the records of a subdomain.

    Returns the RRsets at and below the name, in canonical form. A name with nameservers has none.
    """
    return show_records(tx, call, call.query.name, call.query.type)


@api.write(
    "PUT",
    "/subdomains/{fqdn}/records",
    "records:write",
    _REFUSALS,
    gate=_GATE,
    example_body={"records": [_SITE, _WWW]},
    example=_EXAMPLE,
)
async def replace_records(call: Call[RecordsBody, None]) -> Answer[RecordsAnswer]:
    """Replace all records.

    The RRsets that are not sent are removed. An empty list removes all.
    """
    return await _change(call, ChangeRecords(_sent(call.body), replaces_all=True))


@api.write(
    "PATCH",
    "/subdomains/{fqdn}/records",
    "records:write",
    _REFUSALS,
    gate=_GATE,
    example_body={"records": [_WWW, {"name": "old", "type": "TXT", "values": []}]},
    example=_EXAMPLE,
)
async def change_records_(call: Call[RecordsBody, None]) -> Answer[RecordsAnswer]:
    """Change some records.

    Each RRset that is sent replaces the RRset with the same owner and type, all or none of them. An RRset with an empty list of values is
    removed. The others stay.
    """
    return await _change(call, ChangeRecords(_sent(call.body)))


@api.write(
    "PUT",
    "/subdomains/{fqdn}/records/{name}/{type}",
    "records:write",
    _REFUSALS,
    gate=_GATE,
    example_body={"values": ["example.github.io."], "ttl": 300},
    example=_EXAMPLE,
)
async def set_record(call: Call[RecordBody, None]) -> Answer[RecordsAnswer]:
    """Set one RRset.

    Replaces the RRset with this owner and type, or adds it.
    """
    values = call.body.values
    sent = None if values is None else (_named(call, tuple(values), call.body.ttl),)
    with _name_errors_as_sent():
        return await _change(call, ChangeRecords(sent))


@api.write(
    "DELETE",
    "/subdomains/{fqdn}/records/{name}/{type}",
    "records:write",
    _REFUSALS,
    gate=_GATE,
    example_body={},
    example={"records": [_SITE], "provisioning": PROVISIONING_EXAMPLE},
)
async def remove_record(call: Call[NoBody, None]) -> Answer[RecordsAnswer]:
    """Remove one RRset.

    Succeeds too if there is no such RRset.
    """
    with _name_errors_as_sent():
        return await _change(call, ChangeRecords((_named(call, ()),)))


def _sent(body: RecordsBody) -> tuple[RecordSetInput, ...] | None:
    return None if body.records is None else record_set_inputs(body.records)


@contextmanager
def _name_errors_as_sent() -> Iterator[None]:
    """Rename the fields of errors in the only RRset, which the request doesn't send as a list."""
    try:
        yield
    except ValidationFailed as refusal:
        prefix = "records[0]."
        errors = [
            replace(each, field="values" if each.field == "records" else each.field.removeprefix(prefix))
            for each in refusal.errors
        ]
        raise validation_failed(errors) from refusal


def _named(call: Call[Any, Any], values: tuple[str, ...], ttl: int | None = None) -> RecordSetInput:
    return RecordSetInput(call.path["name"], call.path["type"], values, ttl)


P = ParamSpec("P")


def _if_records_match(
    call: Call[Any, Any], verb: Callable[Concatenate[Tx, P], Outcome]
) -> Callable[Concatenate[Tx, P], Outcome]:
    return only_if_match(call, verb, lambda tx: show_records(tx, call))


async def _change(call: Call[Any, Any], command: ChangeRecords) -> Answer[RecordsAnswer]:
    verb = _if_records_match(call, change_records)
    done = await write_once(call, verb, call.actor(), call.path["fqdn"], command)
    subdomain, provisioning = await wait_for_publication(call, done)
    return done.answer(_answer(subdomain, provisioning))


def show_records(
    tx: Tx, call: Call[Any, Any], name: str | None = None, rdtype: str | None = None
) -> RecordsAnswer:
    """Return the answer with the records of the name in the path, or raise `SubdomainNotFound`."""
    subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    provisioning = provisioning_shape(
        subdomain,
        (),
        servers=len(call.context.name_servers(platform_domain)),
        # No server is asked here. The publisher has read the change back from the primary.
        servers_current=int(is_published(subdomain)),
    )
    answer = _answer(subdomain, provisioning)
    owner = None if name is None else canonical_owner(subdomain.fqdn, name)
    answer.records = [
        each
        for each in answer.records
        if (owner is None or each.name == owner) and (rdtype is None or each.type == rdtype.upper())
    ]
    return answer


def _answer(subdomain: Subdomain, provisioning: ProvisioningShape) -> RecordsAnswer:
    shapes = [record_set_shape(each) for each in subdomain.records]
    return RecordsAnswer(records=shapes, provisioning=provisioning)
