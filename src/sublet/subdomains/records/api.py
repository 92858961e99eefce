"""The API of the records of a name (docs/api.md, "Records")."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from sublet.accounts.find import refuse_suspended
from sublet.accounts.model import User
from sublet.audit import Actor
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
from sublet.operations.idempotency import WriteResult, write_once
from sublet.operations.operation import API, Operations, Parameter, Refusals, TextForm, sensitive
from sublet.operations.shapes import Body, NoBody, Success
from sublet.platform_domains.store import find_platform_domain
from sublet.structs import replace
from sublet.subdomains.api import OWN_NAME, wait_for_publication
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.lifecycle import is_published
from sublet.subdomains.model import Subdomain
from sublet.subdomains.records.change import ChangeRecords, change_records
from sublet.subdomains.records.rule import canonical_owner, canonical_type
from sublet.subdomains.records.zone_file import format_zone_file, read_zone_file
from sublet.subdomains.sent import Records, Ttl, Values, record_set_inputs
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
_ZONE_FILE = {
    "zone_file": "$ORIGIN blog.example.net.\n$TTL 300\n@     300 IN A     8.8.4.4\nwww   300 IN CNAME "
    "example.github.io.\n"
}
_AS_TEXT = TextForm("text/dns", "zone_file")


class RecordsAnswer(Success, kw_only=True):
    """The records of a name, sorted by owner and type, and the state of their publication."""

    changed_by_requests: ClassVar = ("records",)

    records: list[RecordSetShape]
    provisioning: ProvisioningShape


class ZoneFileAnswer(Success, kw_only=True):
    """The records of a name as a zone file. It has no SOA record and no NS records."""

    changed_by_requests: ClassVar = ("zone_file",)

    zone_file: str


class ZoneFileStoredAnswer(RecordsAnswer, kw_only=True):
    """The records that a zone file had, and the lines of it that were ignored or changed, each with the
    reason.
    """

    notes: list[str]


class ZoneFileBody(Body):
    """A zone file (RFC 1035, section 5)."""

    required_members: ClassVar[tuple[str, ...]] = ("zone_file",)

    zone_file: str | None = None


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

    Each RRset that is sent replaces the RRset with the same owner and type, all or none of them. An RRset
    with an empty list of values is removed. The others stay.
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


@api.get(
    "/subdomains/{fqdn}/zonefile",
    "subdomains:read",
    (SubdomainNotFound,),
    has_etag=True,
    example=_ZONE_FILE,
    text=_AS_TEXT,
)
def get_zone_file(tx: Tx, call: Call[None, None]) -> ZoneFileAnswer:
    """Get the records of a subdomain as a zone file.

    Answers `text/dns`, or JSON if `Accept` names `application/json`. A name without records has an empty zone
    file.
    """
    return _show_zone_file(tx, call)


@api.write(
    "PUT",
    "/subdomains/{fqdn}/zonefile",
    "records:write",
    _REFUSALS,
    gate=_GATE,
    example_body=_ZONE_FILE,
    example={
        **_EXAMPLE,
        "notes": ["Line 3: `blog.example.net` is no zone of its own, so the NS record is ignored."],
    },
    text=_AS_TEXT,
)
async def replace_zone_file(call: Call[ZoneFileBody, None]) -> Answer[ZoneFileStoredAnswer]:
    """Replace all records by those of a zone file.

    Takes `text/dns`, or a JSON object with the text. The records that aren't in the file are removed. SOA and
    NS records of the name, records of DNSSEC and records of other names are ignored, and listed in `notes`. A
    file without a record of the name is refused.
    """
    fqdn = await call.context.db.read(
        _find_changeable, call.actor(), call.registrant.holder, call.path["fqdn"]
    )
    # 64 KiB take up to a tenth of a second.
    found = await asyncio.to_thread(read_zone_file, call.body.zone_file or "", fqdn)
    command = ChangeRecords(found.entries, replaces_all=True)
    try:
        done = await _write(call, fqdn, command, lambda tx: _show_zone_file(tx, call))
    except ValidationFailed as refusal:
        raise validation_failed([found.error_in_file(each) for each in refusal.errors]) from refusal
    subdomain, provisioning = await wait_for_publication(call, done)
    shapes = [record_set_shape(each) for each in subdomain.records]
    notes = list(found.sentences)
    return done.answer(ZoneFileStoredAnswer(records=shapes, provisioning=provisioning, notes=notes))


def _find_changeable(tx: Tx, actor: Actor, holder: User, identifier: str) -> str:
    """Return the canonical name whose records may be replaced, or raise the refusals of `change_records`
    before those of its RRsets.
    """
    refuse_suspended(holder)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "update_nameservers", tx.now)
    return subdomain.fqdn


def _show_zone_file(tx: Tx, call: Call[Any, Any]) -> ZoneFileAnswer:
    subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
    return ZoneFileAnswer(zone_file=format_zone_file(subdomain.fqdn, subdomain.records))


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


async def _write(
    call: Call[Any, Any], fqdn: str, command: ChangeRecords, show: Callable[[Tx], Struct]
) -> WriteResult:
    """Change the records of a name, if `If-Match` allows it; `show` returns the answer of GET."""
    settings = call.context.settings
    return await write_once(
        call,
        only_if_match(call, change_records, show),
        call.actor(),
        fqdn,
        command,
        changes_per_day=settings.record_changes_per_day if settings.rate_limits else 0,
    )


async def _change(call: Call[Any, Any], command: ChangeRecords) -> Answer[RecordsAnswer]:
    done = await _write(call, call.path["fqdn"], command, lambda tx: show_records(tx, call))
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
        if (owner is None or each.name == owner) and (rdtype is None or each.type == canonical_type(rdtype))
    ]
    return answer


def _answer(subdomain: Subdomain, provisioning: ProvisioningShape) -> RecordsAnswer:
    shapes = [record_set_shape(each) for each in subdomain.records]
    return RecordsAnswer(records=shapes, provisioning=provisioning)
