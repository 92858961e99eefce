"""The route table, in the order of part 4 of the spec. `refusals` are in the order in which the verb checks.

A handler's annotation names the Structs of body and query, and its docstring is the documentation of the endpoint.
"""

import inspect
import types
import typing

import msgspec

from sublet.errors import (
    AccountSuspended,
    ClockImplausible,
    Conflict,
    DelegationBroken,
    FreeQuotaExceeded,
    InsufficientCredits,
    InsufficientScope,
    InvalidCursor,
    NameserverRequired,
    PaymentConfirmationRequired,
    PlatformDomainNotFound,
    PriceChanged,
    RateLimited,
    Refusal,
    RegistrationClosed,
    RegistrationModeNotAllowed,
    RenewalNotAvailable,
    RetryNotAvailable,
    SignUpClosed,
    SubdomainNotFound,
    SubdomainSuspended,
    SubdomainUnavailable,
    TicketClosed,
    TicketNotFound,
    TokenNotFound,
    TokenRestricted,
    Unavailable,
    ValidationFailed,
)
from sublet.http import (
    accounts,
    auth,
    automatic_ds,
    health,
    shapes,
    subdomains,
    tickets,
    tokens,
)
from sublet.http.bodies import PageQuery
from sublet.http.endpoints import Endpoint, Handler
from sublet.http.errors import PreconditionFailed

_PAYMENT: tuple[type[Refusal], ...] = (
    PaymentConfirmationRequired,
    InsufficientScope,
    PriceChanged,
    InsufficientCredits,
    TokenRestricted,
)
_OWN: tuple[type[Refusal], ...] = (
    AccountSuspended,
    PreconditionFailed,
    SubdomainNotFound,
    SubdomainSuspended,
)
_OWN_TOKEN: tuple[type[Refusal], ...] = (AccountSuspended, PreconditionFailed, TokenNotFound)
_OWN_DATED: tuple[type[Refusal], ...] = (*_OWN[:2], ClockImplausible, *_OWN[2:])


def _documentation(handler: Handler) -> tuple[str, str]:
    """Return the summary and the description of an endpoint: the first line of its handler's docstring, and the rest."""
    summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n")
    return summary.removesuffix("."), " ".join(description.split())


def _endpoint(
    method: str,
    path: str,
    scope: str | None,
    handler: Handler,
    answer: type[msgspec.Struct],
    refusals: tuple[type[Refusal], ...] = (),
    *,
    rate_class: str = "",
    status: int = 200,
    changes: bool = True,
) -> Endpoint:
    """Return an endpoint. The default class of its rate limit is that of the method."""
    summary, description = _documentation(handler)
    body, query = typing.get_args(typing.get_type_hints(handler)["call"])
    return Endpoint(
        method=method,
        path=path,
        name=handler.__name__.removesuffix("_"),
        summary=summary,
        description=description,
        scope=scope,
        rate_class=rate_class or ("read" if method == "GET" else "write"),
        answer=answer,
        handler=handler,
        body=None if body is types.NoneType else body,
        query=None if query is types.NoneType else query,
        status=status,
        changes=changes,
        refusals=(InvalidCursor, *refusals) if issubclass(query, PageQuery) else refusals,
    )


def _open_endpoint(
    method: str,
    path: str,
    handler: Handler,
    answer: type[msgspec.Struct],
    refusals: tuple[type[Refusal], ...] = (),
    *,
    status: int = 200,
) -> Endpoint:
    """Return an endpoint at the root that needs no token."""
    summary, description = _documentation(handler)
    (body,) = typing.get_args(typing.get_type_hints(handler)["visit"])
    return Endpoint(
        method=method,
        path=path,
        name=handler.__name__.removesuffix("_"),
        summary=summary,
        description=description,
        scope=None,
        rate_class="address",
        answer=answer,
        handler=handler,
        body=None if body is types.NoneType else body,
        status=status,
        refusals=refusals,
        is_open=True,
    )


OPEN_ENDPOINTS: tuple[Endpoint, ...] = (
    _open_endpoint("GET", "/auth/challenge", auth.challenge, shapes.ChallengeAnswer),
    _open_endpoint(
        "POST",
        "/auth/signup",
        auth.sign_up_,
        shapes.CodeSentAnswer,
        (SignUpClosed, ValidationFailed, RateLimited),
        status=202,
    ),
    _open_endpoint(
        "POST",
        "/auth/signup/confirm",
        auth.confirm_sign_up_,
        shapes.SignedUpAnswer,
        (ValidationFailed,),
        status=201,
    ),
)
"""The endpoints that need no token. They are not under the base path, because all endpoints there need one (spec, part 1)."""

ENDPOINTS: tuple[Endpoint, ...] = (
    _endpoint("GET", "/me", None, accounts.me, shapes.MeAnswer),
    _endpoint(
        "PUT",
        "/me/reminders",
        "subdomains:write",
        accounts.set_reminders_,
        shapes.MeAnswer,
        (AccountSuspended, TokenRestricted, ValidationFailed),
    ),
    _endpoint("GET", "/credits", "account:read", accounts.credits_, shapes.CreditsAnswer),
    _endpoint("GET", "/payments", "account:read", accounts.payments, shapes.PaymentsAnswer),
    _endpoint(
        "GET", "/platform-domains", "account:read", accounts.platform_domains, shapes.PlatformDomainsAnswer
    ),
    _endpoint("GET", "/usage/free-subdomains", "account:read", accounts.free_subdomains, shapes.UsageAnswer),
    _endpoint("GET", "/tokens", "tokens:write", tokens.list_tokens, shapes.TokensAnswer),
    _endpoint(
        "POST",
        "/tokens",
        "tokens:write",
        tokens.create_token_,
        shapes.SecretAnswer,
        (AccountSuspended, ValidationFailed, Conflict),
        status=201,
    ),
    _endpoint("GET", "/tokens/{id}", "tokens:write", tokens.get_token, shapes.TokenAnswer, (TokenNotFound,)),
    _endpoint(
        "PATCH",
        "/tokens/{id}",
        "tokens:write",
        tokens.change_token_,
        shapes.TokenAnswer,
        (*_OWN_TOKEN, Conflict, ValidationFailed),
    ),
    _endpoint(
        "POST",
        "/tokens/{id}/rotate",
        "tokens:write",
        tokens.rotate_token_,
        shapes.SecretAnswer,
        (*_OWN_TOKEN, Conflict, ValidationFailed),
    ),
    _endpoint("DELETE", "/tokens/{id}", "tokens:write", tokens.revoke_token_, shapes.TokenAnswer, _OWN_TOKEN),
    _endpoint("GET", "/subdomains", "subdomains:read", subdomains.list_subdomains, shapes.SubdomainsAnswer),
    _endpoint(
        "POST",
        "/subdomains",
        "subdomains:write",
        subdomains.register_,
        shapes.RegisterAnswer,
        (
            AccountSuspended,
            ClockImplausible,
            PlatformDomainNotFound,
            TokenRestricted,
            RegistrationClosed,
            ValidationFailed,
            SubdomainUnavailable,
            RegistrationModeNotAllowed,
            FreeQuotaExceeded,
            *_PAYMENT,
            DelegationBroken,
        ),
        status=201,
    ),
    _endpoint(
        "GET",
        "/availability",
        "subdomains:write",
        subdomains.availability,
        shapes.AvailabilityAnswer,
        (PlatformDomainNotFound, TokenRestricted, ValidationFailed),
        rate_class="availability",
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}",
        "subdomains:read",
        subdomains.get_subdomain,
        shapes.SubdomainAnswer,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "DELETE", "/subdomains/{fqdn}", "subdomains:write", subdomains.delete_, shapes.DeleteAnswer, _OWN
    ),
    _endpoint(
        "PUT",
        "/subdomains/{fqdn}/nameservers",
        "subdomains:write",
        subdomains.update_nameservers_,
        shapes.ProvisionAnswer,
        (*_OWN, ValidationFailed, RateLimited, DelegationBroken),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/retry",
        "subdomains:write",
        subdomains.retry_,
        shapes.ProvisionAnswer,
        (*_OWN, NameserverRequired, RetryNotAvailable),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/renew",
        "subdomains:write",
        subdomains.renew_,
        shapes.RenewAnswer,
        (*_OWN_DATED, RegistrationClosed, RenewalNotAvailable, ValidationFailed, *_PAYMENT),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/restore",
        "subdomains:write",
        subdomains.restore_,
        shapes.RegisterAnswer,
        (
            *_OWN_DATED,
            Conflict,
            RegistrationClosed,
            FreeQuotaExceeded,
            RenewalNotAvailable,
            ValidationFailed,
            *_PAYMENT,
        ),
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/delegation",
        "subdomains:read",
        subdomains.delegation,
        shapes.DelegationAnswer,
        (SubdomainNotFound, RateLimited, Unavailable),
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/health",
        "subdomains:read",
        health.get_health,
        shapes.HealthAnswer,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/health",
        "subdomains:write",
        health.check_health,
        shapes.HealthAnswer,
        (
            AccountSuspended,
            SubdomainNotFound,
            SubdomainSuspended,
            NameserverRequired,
            Conflict,
            RateLimited,
            Unavailable,
        ),
        rate_class="health",
        changes=False,
    ),
    _endpoint(
        "POST",
        "/delegation-checks",
        "subdomains:write",
        health.check_delegation_,
        shapes.DelegationCheckAnswer,
        (
            AccountSuspended,
            PlatformDomainNotFound,
            TokenRestricted,
            ValidationFailed,
            Conflict,
            RateLimited,
            Unavailable,
        ),
        rate_class="health",
        changes=False,
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/timeline",
        "subdomains:read",
        subdomains.timeline_,
        shapes.TimelineAnswer,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/auto-renew",
        "subdomains:read",
        subdomains.get_auto_renew,
        shapes.AutoRenewAnswer,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "PUT",
        "/subdomains/{fqdn}/auto-renew",
        "subdomains:write",
        subdomains.set_auto_renew_,
        shapes.SetAutoRenewAnswer,
        (*_OWN, RenewalNotAvailable, ValidationFailed, InsufficientScope, TokenRestricted),
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/automatic-ds",
        "subdomains:read",
        automatic_ds.get_automatic_ds,
        shapes.AutomaticDsAnswer,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "PUT",
        "/subdomains/{fqdn}/automatic-ds",
        "subdomains:write",
        automatic_ds.set_automatic_ds_,
        shapes.AutomaticDsAnswer,
        _OWN,
    ),
    _endpoint("GET", "/support/tickets", "tickets:read", tickets.list_tickets, shapes.TicketsAnswer),
    _endpoint(
        "POST",
        "/support/tickets",
        "tickets:write",
        tickets.open_ticket_,
        shapes.TicketAnswer,
        (ValidationFailed,),
        rate_class="ticket",
        status=201,
    ),
    _endpoint(
        "GET",
        "/support/tickets/{id}",
        "tickets:read",
        tickets.get_ticket,
        shapes.TicketAnswer,
        (TicketNotFound,),
    ),
    _endpoint(
        "POST",
        "/support/tickets/{id}/reply",
        "tickets:write",
        tickets.reply_,
        shapes.TicketAnswer,
        (AccountSuspended, PreconditionFailed, TicketNotFound, TicketClosed, Conflict, ValidationFailed),
        rate_class="ticket",
    ),
)
