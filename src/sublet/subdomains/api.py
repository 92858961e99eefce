"""The API of subdomains (spec, part 4, "Subdomains")."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Concatenate, Literal, ParamSpec

from msgspec import UNSET, Meta, Struct

from sublet.audit import Actor
from sublet.credits.model import Outcome, Payable
from sublet.db import Pages, Tx
from sublet.dns.delegation import delegation_warnings
from sublet.dns.ds import dnskey_warnings
from sublet.dns.parent_servers import ParentServer
from sublet.errors import (
    AccountSuspended,
    ClockImplausible,
    Conflict,
    DelegationBroken,
    FreeQuotaExceeded,
    InsufficientCredits,
    InsufficientScope,
    NameserverRequired,
    PaymentConfirmationRequired,
    PlatformDomainNotFound,
    PreconditionFailed,
    PriceChanged,
    RateLimited,
    RecordsExist,
    RecordsNotAllowed,
    RegistrationClosed,
    RegistrationModeNotAllowed,
    RenewalNotAvailable,
    RetryNotAvailable,
    SignInRequired,
    SubdomainNotFound,
    SubdomainSuspended,
    SubdomainUnavailable,
    TokenRestricted,
    Unavailable,
    ValidationFailed,
)
from sublet.health.api import check_first
from sublet.health.plan_delegation import NOT_CHECKED, PriorCheck, plan_change, plan_registration
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.conditional import only_if_match
from sublet.operations.idempotency import WriteResult, write_once
from sublet.operations.operation import API, IF_PAID, Operations, Refusals, not_sensitive, sensitive
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    COUPON,
    NEXT_YEAR,
    NOW,
    PAGE,
    Body,
    Count,
    CouponShape,
    Credits,
    HostName,
    Id,
    Label,
    Moment,
    NoBody,
    PageQuery,
    PageShape,
    Shape,
    Success,
)
from sublet.platform_domains.api import ModeShape
from sublet.platform_domains.model import MODES, PlatformDomain
from sublet.platform_domains.store import find_platform_domain
from sublet.structs import replace
from sublet.subdomains import store
from sublet.subdomains.availability import Availability, view_availability
from sublet.subdomains.delegation.served import warnings_of_lacking
from sublet.subdomains.delete import delete
from sublet.subdomains.find import fetch_in_account, find_in_account, not_found
from sublet.subdomains.lifecycle import desired_records, is_published
from sublet.subdomains.list_store import list_own, own_pages
from sublet.subdomains.model import (
    Register,
    Registered,
    ShownSubdomain,
    Subdomain,
    SubdomainFilter,
    UpdateNameservers,
)
from sublet.subdomains.nameservers import registry_warnings
from sublet.subdomains.naming import canonical_domain
from sublet.subdomains.quota import find_quota
from sublet.subdomains.register import register
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import restore
from sublet.subdomains.retry import retry
from sublet.subdomains.sent import (
    DelegationCheckBody,
    NameserversBody,
    Records,
    ds_inputs,
    glue_inputs,
    name_errors_as_sent,
    planned_registration,
    record_set_inputs,
    sent_nameservers,
)
from sublet.subdomains.shapes import (
    DS_EXAMPLE,
    FQDN,
    PROVISIONING_EXAMPLE,
    SUBDOMAIN_EXAMPLE,
    ProvisioningShape,
    SubdomainShape,
    coupon_shape,
    provisioning_shape,
    subdomain_shape,
)
from sublet.subdomains.update_nameservers import update_nameservers

usage = Operations(API, tags.ACCOUNT)


api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN)

FETCHED_AT_ONCE = 26
"""How many names of a list the event loop reads at once, in less than half a millisecond.

A page of 100 names needs four such parts, with the name after it, which tells that another page follows.
"""
_PAYMENT: Refusals = (
    PaymentConfirmationRequired,
    InsufficientScope,
    PriceChanged,
    InsufficientCredits,
    SignInRequired,
    TokenRestricted,
)

OWN_NAME: Refusals = (
    AccountSuspended,
    PreconditionFailed,
    SubdomainNotFound,
    SubdomainSuspended,
)

_OWN_NAME_WITH_DATES: Refusals = (*OWN_NAME[:2], ClockImplausible, *OWN_NAME[2:])

_REGISTERED = {
    "subdomain": SUBDOMAIN_EXAMPLE,
    "provisioning": PROVISIONING_EXAMPLE,
    "charged_credits": 0,
    "coupon": None,
}


class UsageShape(Shape):
    """The number of free names that the user holds, and the maximum number.

    Names in the trash don't count.
    """

    used: Count
    limit: Count
    remaining: Count


class UsageAnswer(Success, kw_only=True):
    """The free quota."""

    usage: UsageShape


class SubdomainsAnswer(Success, kw_only=True):
    """The user's subdomains, newest first."""

    subdomains: list[SubdomainShape]
    page: PageShape


class SubdomainAnswer(Success, kw_only=True):
    """One subdomain."""

    subdomain: SubdomainShape


class RegisterAnswer(Success, kw_only=True):
    """A registered subdomain, its price, and the state of its publication."""

    subdomain: SubdomainShape
    provisioning: ProvisioningShape
    charged_credits: Credits
    coupon: CouponShape | None


class AvailabilityShape(Struct):
    """The availability of a name for the user.

    `reason` is the error code that a confirmed registration would get now.

    `unavailable_reason` and `owned` are the details of the error `subdomain_unavailable`.
    """

    fqdn: HostName
    available: bool
    reason: (
        Literal[
            "account_suspended",
            "clock_implausible",
            "registration_closed",
            "subdomain_unavailable",
            "registration_mode_not_allowed",
            "free_quota_exceeded",
            "insufficient_scope",
            "insufficient_credits",
            "token_restricted",
        ]
        | None
    )
    unavailable_reason: Literal["reserved", "taken", "in_trash", "cooling_off"] | None
    owned: bool
    available_at: Moment | None
    modes: list[ModeShape]


class AvailabilityAnswer(Success, kw_only=True):
    """The availability of a name."""

    availability: AvailabilityShape


class ProvisionAnswer(Success, kw_only=True):
    """A subdomain, and the state of its publication."""

    subdomain: SubdomainShape
    provisioning: ProvisioningShape


class RenewalShape(Shape):
    """The result of a renewal."""

    expires_at: Moment
    renewal_available: bool
    charged_credits: Credits
    coupon: CouponShape | None


class RenewAnswer(Success, kw_only=True):
    """A renewed subdomain, and the result of the renewal."""

    subdomain: SubdomainShape
    renewal: RenewalShape


class DeletedShape(Shape):
    """The name that was moved to the trash."""

    id: Id
    fqdn: HostName


class DeleteAnswer(Success, kw_only=True):
    """A deleted subdomain."""

    deleted: DeletedShape


Confirm = Annotated[bool, Meta(description="True completes a paid request, after its quote.")]
CouponCode = Annotated[str, Meta(max_length=64, description="A coupon.")]
MaxCredits = Annotated[
    int,
    Meta(
        ge=0,
        description="The maximum charge. A higher price is refused with `price_changed` and a new quote.",
    ),
]


class RegisterBody(DelegationCheckBody):
    """A registration: the delegation, the mode and the payment."""

    required_alternatives: ClassVar = (
        ("fqdn",),
        ("label", "platform_domain_id"),
        ("label", "domain"),
    )

    coupon_code: CouponCode | None = None
    registration_mode: Annotated[str, Meta(extra_json_schema={"enum": list(MODES)})] | None = None
    confirm: Confirm | None = None
    max_credits: MaxCredits | None = None
    records: Records | None = None


class RenewBody(Body):
    """The payment of a renewal or a restoration."""

    confirm: Confirm | None = None
    coupon_code: CouponCode | None = None
    max_credits: MaxCredits | None = None


class SubdomainsQuery(PageQuery, kw_only=True):
    """The filters of the list of subdomains."""

    status: (
        Annotated[
            Literal["inactive", "provisioning", "active", "failed", "expired", "suspended", "trashed"],
            Meta(description="Only names with this status. By default all names that aren't in the trash."),
        ]
        | None
    ) = None
    domain: (
        Annotated[str, Meta(max_length=254, description="Only names under this platform domain.")] | None
    ) = None
    q: (
        Annotated[
            str,
            Meta(
                max_length=254,
                description="Only names whose fqdn contains this text, as A-labels or U-labels.",
            ),
        ]
        | None
    ) = None
    registration_type: Literal["free", "plus", "premium", "special"] | None = None
    expires_before: Annotated[datetime, Meta(tz=True, description="RFC 3339.")] | None = None
    expires_after: Annotated[datetime, Meta(tz=True, description="RFC 3339.")] | None = None
    dnssec_enabled: bool | None = None
    renewal_available: bool | None = None
    health: (
        Annotated[
            Literal["healthy", "degraded", "broken", "unknown"],
            Meta(description="Only names whose delegation has this health."),
        ]
        | None
    ) = None


class AvailabilityQuery(Struct, kw_only=True):
    """The name to check: `fqdn`, or `label` and `domain`."""

    fqdn: Annotated[str, Meta(max_length=254, description="The full name.")] | None = None
    label: Label | None = None
    domain: Annotated[str, Meta(max_length=254, description="The platform domain.")] | None = None


def availability_shape(availability: Availability) -> AvailabilityShape:
    """Return the shape of a name's availability."""
    refusal = availability.refusal
    details = refusal.details if isinstance(refusal, SubdomainUnavailable) else {}
    return AvailabilityShape(
        fqdn=availability.fqdn,
        available=refusal is None,
        reason=None if refusal is None else refusal.code,  # type: ignore[arg-type] # the shape lists the codes
        unavailable_reason=details.get("reason"),
        owned=details.get("owned", False),
        available_at=availability.available_at,
        modes=[ModeShape.of(offer) for offer in availability.modes],
    )


@usage.get(
    "/usage/free-subdomains",
    "account:read",
    example={"usage": {"used": 1, "limit": 5, "remaining": 4}},
)
def free_subdomains(tx: Tx, call: Call[None, None]) -> UsageAnswer:
    """Get the free quota.

    Returns the number of free names that the user holds, and the maximum number. Names in the trash don't
    count.
    """
    holder = call.registrant.holder
    quota = find_quota(tx, holder, call.default_free_quota())
    usage = UsageShape(used=quota.used, limit=quota.limit, remaining=quota.remaining)
    return UsageAnswer(usage=usage)


P = ParamSpec("P")


@api.get(
    "/subdomains",
    "subdomains:read",
    example={"subdomains": [SUBDOMAIN_EXAMPLE], "page": PAGE},
)
async def list_subdomains(call: Call[None, SubdomainsQuery]) -> Answer[SubdomainsAnswer]:
    """List the user's subdomains.

    Returns the subdomains, newest first. Names in the trash are listed only with `status=trashed`.
    """
    query = call.query
    wanted = SubdomainFilter(
        status=query.status,
        domain=(canonical_domain(query.domain) or query.domain) if query.domain is not None else None,
        q=query.q,
        registration_type=query.registration_type,
        expires_before=query.expires_before,
        expires_after=query.expires_after,
        dnssec_enabled=query.dnssec_enabled,
        renewal_available=query.renewal_available,
        health=query.health,
        user_suspended=call.registrant.is_suspended,
    )

    paging = Paging[SubdomainShape](call, "subdomains")
    if (pages := own_pages(call.registrant.restrictions, wanted)) is not None:
        items, page, headers = paging.take(await _fetch_own(call, pages, paging))
    else:
        found, now = await call.context.db.read(_find_listed, call.actor(), wanted, paging)
        items, page, headers = paging.take(_placed(call, found, now))
    return Answer(SubdomainsAnswer(subdomains=items, page=page), headers)


async def _fetch_own(
    call: Call[Any, Any], pages: Pages[ShownSubdomain], paging: Paging[SubdomainShape]
) -> list[tuple[Position, SubdomainShape]]:
    """Return the items of a list without filters, which the event loop reads.

    Other requests are answered between its parts.
    """
    db, after = call.context.db, paging.after
    items: list[tuple[Position, SubdomainShape]] = []
    while (wanted := min(paging.limit - len(items), FETCHED_AT_ONCE)) > 0:
        query, values = pages.next_query(wanted, after)
        found = await db.fetch(query, **values, owner_id=call.registrant.holder.id)
        items += _placed(call, found, db.now())
        if len(found) < wanted:
            break
        after = items[-1][0]
        await asyncio.sleep(0)
    return items


def _placed(
    call: Call[Any, Any], found: Iterable[ShownSubdomain], now: datetime
) -> Iterator[tuple[Position, SubdomainShape]]:
    """Yield the shape of each name with its position in the list."""
    return ((Position(each.created_at, each.id), shape_of(call, each, now)) for each in found)


def _find_listed(
    tx: Tx, actor: Actor, wanted: SubdomainFilter, paging: Paging[SubdomainShape]
) -> tuple[list[ShownSubdomain], datetime]:
    return list(list_own(tx, actor, wanted, paging.limit, paging.after)), tx.now


@api.write(
    "POST",
    "/subdomains",
    "subdomains:write",
    (
        AccountSuspended,
        ClockImplausible,
        PlatformDomainNotFound,
        TokenRestricted,
        RegistrationClosed,
        ValidationFailed,
        SubdomainUnavailable,
        RecordsNotAllowed,
        RegistrationModeNotAllowed,
        FreeQuotaExceeded,
        *_PAYMENT,
        DelegationBroken,
    ),
    status=201,
    gate=sensitive("spends credits", checked=IF_PAID),
    example_body={
        "fqdn": "blog.example.net",
        "nameservers": ["ns1.provider.example", "ns1.blog.example.net"],
        "glue": [{"host": "ns1.blog.example.net", "ipv4": "8.8.4.4"}],
        "ds_records": [DS_EXAMPLE],
    },
    example=_REGISTERED,
)
async def register_(call: Call[RegisterBody, None]) -> Answer[RegisterAnswer]:
    """Register a subdomain.

    Selects the platform domain by `platform_domain_id`, `domain` or the domain part of `fqdn`. If the name
    costs credits, the first answer is a quote (402) and registers nothing; the same request with `confirm`:
    true completes it. Instead of nameservers the name may get records, which need the scope `records:write`
    too. The answer waits up to a second for the DNS: `status` active means that the name server answers with
    the delegation or the records.
    """
    body = call.body
    if body.records:
        require_scope(call, "records:write")
    command = replace(
        planned_registration(body),
        records=record_set_inputs(body.records or []),
        registration_mode=body.registration_mode,
        payable=_payable(call, body),
    )
    checked = await check_first(call, plan_registration, call.actor(), call.registrant.holder, command)
    with name_errors_as_sent(body):
        done = await write_once(
            call,
            checked.guard(register),
            call.actor(),
            command,
            free_quota=call.default_free_quota(),
            withheld=call.withheld_modes(),
        )
    return await _register_answer(call, done, checked)


@api.get(
    "/availability",
    "subdomains:write",
    (PlatformDomainNotFound, TokenRestricted, ValidationFailed),
    rate_class="availability",
    example={
        "availability": {
            "fqdn": "shop.example.net",
            "available": True,
            "reason": None,
            "unavailable_reason": None,
            "owned": False,
            "available_at": None,
            "modes": [{"mode": "free", "price_credits": 0, "renewal_price_credits": 0, "period_days": 365}],
        }
    },
)
def availability(tx: Tx, call: Call[None, AvailabilityQuery]) -> AvailabilityAnswer:
    """Check whether a name can be registered.

    Returns whether the user can register this name now, and in which modes. Assumes valid nameservers and
    `confirm`: true. The answer reveals no more than an attempt to register. Select the name by `fqdn`, or by
    `label` and `domain`.
    """
    query = call.query
    found = view_availability(
        tx,
        call.actor(),
        call.registrant.holder,
        Register(fqdn=query.fqdn, label=query.label, domain=query.domain),
        free_quota=call.default_free_quota(),
        may_spend=may_spend(call),
        withheld=call.withheld_modes(),
    )
    return AvailabilityAnswer(availability=availability_shape(found))


@api.get(
    "/subdomains/{fqdn}",
    "subdomains:read",
    (SubdomainNotFound,),
    has_etag=True,
    example={"subdomain": SUBDOMAIN_EXAMPLE},
)
async def get_subdomain(call: Call[None, None]) -> Answer[SubdomainAnswer]:
    """Get a subdomain.

    Returns the subdomain with this id or name. A name may have any case, a final dot, and U-labels or
    A-labels.
    """
    db = call.context.db
    subdomain = await fetch_in_account(db, call.registrant, call.path["fqdn"])
    return Answer(SubdomainAnswer(subdomain=shape_of(call, subdomain, db.now())))


@api.write(
    "DELETE",
    "/subdomains/{fqdn}",
    "subdomains:write",
    OWN_NAME,
    gate=sensitive("deletes a name"),
    example_body={},
    example={"deleted": {"id": 17, "fqdn": "blog.example.net"}},
)
async def delete_(call: Call[NoBody, None]) -> Answer[DeleteAnswer]:
    """Delete a subdomain.

    Moves the name to the trash and removes it from the DNS. The name can be restored until it is purged.
    """
    done = await write_once(call, if_subdomain_matches(call, delete), call.actor(), call.path["fqdn"])
    subdomain = await call.context.db.read(find_written, call, done.outcome.id)
    deleted = DeletedShape(id=subdomain.id, fqdn=subdomain.fqdn)
    return done.answer(DeleteAnswer(deleted=deleted))


def if_subdomain_matches(
    call: Call[Any, Any], verb: Callable[Concatenate[Tx, P], Outcome]
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that first checks `If-Match` against the `ETag` of GET /subdomains/{fqdn}."""

    def show(tx: Tx) -> SubdomainAnswer:
        subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
        return SubdomainAnswer(subdomain=shape_of(call, subdomain, tx.now))

    return only_if_match(call, verb, show)


def _payable(call: Call[Any, Any], body: RegisterBody | RenewBody) -> Payable:
    return Payable(
        confirm=body.confirm is True,
        coupon_code=body.coupon_code,
        max_credits=body.max_credits,
        may_spend=may_spend(call),
    )


def require_scope(call: Call[Any, Any], scope: str) -> None:
    """Raise `InsufficientScope` if the credential lacks a scope that only some bodies
    of the operation need.
    """
    if scope not in call.registrant.restrictions.scopes:
        raise InsufficientScope(
            f"This request needs the scope {scope} too. Use a token with this scope.",
            details={"required_scope": scope},
        )


def may_spend(call: Call[Any, Any]) -> bool:
    """True if the request may charge credits."""
    return "credits:spend" in call.registrant.restrictions.scopes


def shape_of(call: Call[Any, Any], subdomain: ShownSubdomain, now: datetime) -> SubdomainShape:
    """Return the shape of a name, as the user of the request sees it."""
    return subdomain_shape(subdomain, now, user_suspended=call.registrant.is_suspended)


def find_written(tx: Tx, call: Call[Any, Any], subdomain_id: int) -> Subdomain:
    """Return the current state of the subdomain that this request, or an earlier request with its
    Idempotency-Key, wrote.

    Raises, in this order:
        Unavailable: the row is missing. Rows of subdomains are never deleted, so the database has lost the
            write, because an asynchronous standby became the primary.
        SubdomainNotFound: the name has been transferred to another user since.
    """
    subdomain = store.find_subdomain(tx, subdomain_id)
    if subdomain is None:
        raise Unavailable(
            "The registry's database has lost this change before it was acknowledged. Make it again.",
            retry_after_seconds=1,
        )
    if subdomain.user_id != call.registrant.holder.id:
        raise not_found()
    return subdomain


async def wait_for_publication(
    call: Call[Any, Any], done: WriteResult, checked: PriorCheck = NOT_CHECKED
) -> tuple[Subdomain, ProvisioningShape]:
    """Wait for the publication, then until each secondary serves it, at most `publish_wait_ms` in all.

    Return the current state.
    """
    db, clock = call.context.db, asyncio.get_running_loop().time
    ends = clock() + call.context.settings.publish_wait_ms / 1000 - checked.took_seconds
    registered = done.outcome if isinstance(done.outcome, Registered) else None
    subdomain = registered.subdomain if registered else None
    if subdomain is None or (clock() < ends and not is_published(subdomain)):
        await call.context.publication_waiter.wait(done.outcome.id, ends - clock())
        subdomain = await db.read(find_written, call, done.outcome.id)
    if registered is not None:
        registry, platform_domain = registered.warnings, registered.platform_domain
    else:
        registry, platform_domain = await db.read(_read_surroundings, subdomain)
    servers = call.context.name_servers(platform_domain)
    lacking: Sequence[ParentServer] = servers
    if is_published(subdomain):
        desired = desired_records(subdomain, platform_domain.delegation_ttl_seconds)
        lacking = await call.context.served_waiter.wait(
            servers, platform_domain.domain, subdomain.fqdn, desired, ends - clock()
        )
    warnings = (
        *delegation_warnings(subdomain.delegation),
        *registry,
        *_warnings_of_body(call, subdomain),
        *checked.warnings,
        *(warnings_of_lacking(subdomain.fqdn, lacking) if is_published(subdomain) else ()),
    )
    provisioning = provisioning_shape(
        subdomain, warnings, servers=len(servers), servers_current=len(servers) - len(lacking)
    )
    return subdomain, provisioning


def _read_surroundings(tx: Tx, subdomain: Subdomain) -> tuple[tuple[str, ...], PlatformDomain]:
    """Return the `registry_warnings` of a name, and its platform domain."""
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    assert platform_domain is not None  # noqa: S101 - the foreign key ensures it
    return registry_warnings(tx, subdomain), platform_domain


def _warnings_of_body(call: Call[Any, Any], subdomain: Subdomain) -> tuple[str, ...]:
    """Return the warnings about the flags of sent DNSKEYs, which aren't stored."""
    if not isinstance(call.body, (RegisterBody, NameserversBody)) or not call.body.ds_records:
        return ()
    return dnskey_warnings(subdomain.fqdn, ds_inputs(call.body.ds_records))


async def _provision_answer(
    call: Call[Any, Any], done: WriteResult, checked: PriorCheck = NOT_CHECKED
) -> Answer[ProvisionAnswer]:
    subdomain, provisioning = await wait_for_publication(call, done, checked)
    shape = shape_of(call, subdomain, call.context.db.now())
    return done.answer(ProvisionAnswer(subdomain=shape, provisioning=provisioning))


async def _register_answer(
    call: Call[Any, Any], done: WriteResult, checked: PriorCheck = NOT_CHECKED
) -> Answer[RegisterAnswer]:
    subdomain, provisioning = await wait_for_publication(call, done, checked)
    answer = RegisterAnswer(
        subdomain=shape_of(call, subdomain, call.context.db.now()),
        provisioning=provisioning,
        charged_credits=done.outcome.charged_credits,
        coupon=coupon_shape(done.outcome.coupon),
    )
    return done.answer(answer)


@api.write(
    "PUT",
    "/subdomains/{fqdn}/nameservers",
    "subdomains:write",
    (*OWN_NAME, RecordsExist, ValidationFailed, RateLimited, DelegationBroken),
    gate=sensitive("moves the traffic of a name"),
    example_body={
        "nameservers": ["ns1.provider.example", "ns2.provider.example"],
        "glue": [],
        "ds_records": [DS_EXAMPLE],
    },
    example={
        "subdomain": {
            **SUBDOMAIN_EXAMPLE,
            "nameservers": ["ns1.provider.example", "ns2.provider.example"],
            "glue": [],
        },
        "provisioning": {**PROVISIONING_EXAMPLE, "generation": 2, "published_generation": 2},
    },
)
async def update_nameservers_(
    call: Call[NameserversBody, None],
) -> Answer[ProvisionAnswer]:
    """Change nameservers, glue and DS records.

    A member that is left out keeps its stored value; an empty list or null clears it.
    """
    body, settings = call.body, call.context.settings
    command = UpdateNameservers(
        nameservers=sent_nameservers(body),
        glue=None if body.glue is UNSET else glue_inputs(body.glue or []),
        ds_records=None if body.ds_records is UNSET else ds_inputs(body.ds_records or []),
    )
    checked = await check_first(call, plan_change, call.actor(), call.path["fqdn"], command)
    with name_errors_as_sent(body):
        done = await write_once(
            call,
            checked.guard(if_subdomain_matches(call, update_nameservers)),
            call.actor(),
            call.path["fqdn"],
            command,
            changes_per_day=settings.nameserver_changes_per_day if settings.rate_limits else 0,
        )
    return await _provision_answer(call, done, checked)


@api.write(
    "POST",
    "/subdomains/{fqdn}/retry",
    "subdomains:write",
    (*OWN_NAME, NameserverRequired, RetryNotAvailable),
    gate=not_sensitive("publishes again what is stored"),
    example_body={},
    example={"subdomain": SUBDOMAIN_EXAMPLE, "provisioning": PROVISIONING_EXAMPLE},
)
async def retry_(call: Call[NoBody, None]) -> Answer[ProvisionAnswer]:
    """Retry provisioning.

    Publishes a name after a failure now, instead of at the next automatic attempt.
    """
    done = await write_once(call, if_subdomain_matches(call, retry), call.actor(), call.path["fqdn"])
    return await _provision_answer(call, done)


@api.write(
    "POST",
    "/subdomains/{fqdn}/renew",
    "subdomains:write",
    (*_OWN_NAME_WITH_DATES, RegistrationClosed, RenewalNotAvailable, ValidationFailed, *_PAYMENT),
    gate=sensitive("spends credits", checked=IF_PAID),
    example_body={"confirm": True, "max_credits": 10},
    example={
        "subdomain": {**SUBDOMAIN_EXAMPLE, "last_renewed_at": NOW},
        "renewal": {
            "expires_at": NEXT_YEAR,
            "renewal_available": False,
            "charged_credits": 5,
            "coupon": COUPON,
        },
    },
)
async def renew_(call: Call[RenewBody, None]) -> Answer[RenewAnswer]:
    """Renew a subdomain.

    Adds one term to the current expiry. If the renewal costs credits, the first answer is a quote (402) and
    renews nothing.
    """
    payable = _payable(call, call.body)
    done = await write_once(call, if_subdomain_matches(call, renew), call.actor(), call.path["fqdn"], payable)

    def read(tx: Tx) -> RenewAnswer:
        shape = shape_of(call, find_written(tx, call, done.outcome.id), tx.now)
        renewal = RenewalShape(
            expires_at=shape.expires_at,
            renewal_available=shape.renewal_available,
            charged_credits=done.outcome.charged_credits,
            coupon=coupon_shape(done.outcome.coupon),
        )
        return RenewAnswer(subdomain=shape, renewal=renewal)

    return done.answer(await call.context.db.read(read))


@api.write(
    "POST",
    "/subdomains/{fqdn}/restore",
    "subdomains:write",
    (
        *_OWN_NAME_WITH_DATES,
        Conflict,
        RegistrationClosed,
        FreeQuotaExceeded,
        RenewalNotAvailable,
        ValidationFailed,
        *_PAYMENT,
    ),
    gate=sensitive("spends credits", checked=IF_PAID),
    example_body={},
    example=_REGISTERED,
)
async def restore_(call: Call[RenewBody, None]) -> Answer[RegisterAnswer]:
    """Restore a subdomain from the trash.

    Costs nothing before the name's expiry. After the expiry it also renews the name, which may need a quote
    and `confirm`.
    """
    done = await write_once(
        call,
        if_subdomain_matches(call, restore),
        call.actor(),
        call.path["fqdn"],
        _payable(call, call.body),
        free_quota=call.default_free_quota(),
    )
    return await _register_answer(call, done)
