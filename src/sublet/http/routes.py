"""The route table, in the order of part 4 of the spec. The refusals of an endpoint are in the order in which its verb checks.

The annotations of a handler have the Structs of body, query and answer. The handler's docstring is the endpoint's documentation.
"""

import inspect
import types
import typing

from sublet.errors import (
    AccessDenied,
    AccountSuspended,
    AuthorizationPending,
    ClockImplausible,
    Conflict,
    DelegationBroken,
    DeviceNotFound,
    ExpiredToken,
    FreeQuotaExceeded,
    InsufficientCredits,
    InsufficientRole,
    InsufficientScope,
    InvalidCursor,
    NameserverRequired,
    OrganizationNotFound,
    OriginRefused,
    PasskeyNotFound,
    PaymentConfirmationRequired,
    PlatformDomainNotFound,
    PriceChanged,
    RateLimited,
    Refusal,
    RegistrationClosed,
    RegistrationModeNotAllowed,
    RenewalNotAvailable,
    RetryNotAvailable,
    SessionInvalid,
    SessionNotFound,
    SignInRequired,
    SignUpClosed,
    SlowDown,
    SubdomainNotFound,
    SubdomainSuspended,
    SubdomainUnavailable,
    TicketClosed,
    TicketNotFound,
    TokenNotFound,
    TokenRestricted,
    TransferNotFound,
    TransferPending,
    Unavailable,
    ValidationFailed,
)
from sublet.http import (
    account_credits,
    automatic_ds,
    devices,
    health,
    me,
    organizations,
    platform_domains,
    sessions,
    sign_in,
    sign_up,
    subdomains,
    tickets,
    tokens,
    transfers,
)
from sublet.http.endpoints import Endpoint, Handler, OpenCall
from sublet.http.errors import PreconditionFailed
from sublet.http.request_structs import PageQuery

_PAYMENT: tuple[type[Refusal], ...] = (
    PaymentConfirmationRequired,
    InsufficientScope,
    PriceChanged,
    InsufficientCredits,
    TokenRestricted,
)
_OWN_NAME: tuple[type[Refusal], ...] = (
    AccountSuspended,
    PreconditionFailed,
    SubdomainNotFound,
    SubdomainSuspended,
)
_OWN_TOKEN: tuple[type[Refusal], ...] = (AccountSuspended, PreconditionFailed, TokenNotFound)
_OWN_TRANSFER: tuple[type[Refusal], ...] = (AccountSuspended, PreconditionFailed, TransferNotFound)
_OF_OWNER: tuple[type[Refusal], ...] = (
    AccountSuspended,
    OrganizationNotFound,
    Conflict,
    InsufficientRole,
)
_WITH_RECENT_SIGN_IN: tuple[type[Refusal], ...] = (AccountSuspended, SessionInvalid, SignInRequired, Conflict)
_OWN_NAME_WITH_DATES: tuple[type[Refusal], ...] = (*_OWN_NAME[:2], ClockImplausible, *_OWN_NAME[2:])


def _documentation(handler: Handler) -> tuple[str, str]:
    """Return the summary and the description of an endpoint, which are the first line and the remaining text of its handler's docstring."""
    summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n")
    return summary.removesuffix("."), " ".join(description.split())


def _endpoint(
    method: str,
    path: str,
    scope: str | None,
    handler: Handler,
    refusals: tuple[type[Refusal], ...] = (),
    *,
    rate_class: str = "",
    status: int = 200,
    needs_session: bool = False,
    changes: bool = True,
    has_etag: bool = False,
) -> Endpoint:
    """Return an endpoint. The handler's annotations have the Structs of body, query and answer; an `OpenCall` means that it is open.

    `rate_class` is by default address for an open endpoint, read for a GET, and write for other methods.
    """
    hints = typing.get_type_hints(handler)
    is_open = typing.get_origin(hints["call"]) is OpenCall
    structs = [None if each is types.NoneType else each for each in typing.get_args(hints["call"])]
    body, query = structs[0], None if is_open else structs[1]
    (answer,) = typing.get_args(hints["return"])
    summary, description = _documentation(handler)
    takes_cursor = query is not None and issubclass(query, PageQuery)
    return Endpoint(
        method=method,
        path=path,
        name=handler.__name__.removesuffix("_"),
        summary=summary,
        description=description,
        scope=scope,
        rate_class=rate_class or ("address" if is_open else "read" if method == "GET" else "write"),
        answer=answer,
        handler=handler,
        body=body,
        query=query,
        status=status,
        is_open=is_open,
        changes=changes,
        has_etag=has_etag,
        refusals=(InvalidCursor, *refusals) if takes_cursor else refusals,
        needs_session=needs_session,
    )


OPEN_ENDPOINTS: tuple[Endpoint, ...] = (
    _endpoint("GET", "/auth/challenge", None, sign_up.challenge),
    _endpoint(
        "POST",
        "/auth/signup",
        None,
        sign_up.sign_up_,
        (SignUpClosed, ValidationFailed, RateLimited),
        status=202,
    ),
    _endpoint(
        "POST", "/auth/signup/confirm", None, sign_up.confirm_sign_up_, (ValidationFailed,), status=201
    ),
    _endpoint(
        "POST",
        "/auth/invitations/{code}/accept",
        None,
        organizations.accept_invitation_,
        (SignUpClosed, ValidationFailed),
        status=201,
    ),
    _endpoint(
        "POST", "/auth/sessions", None, sign_in.request_sign_in, (ValidationFailed, RateLimited), status=202
    ),
    _endpoint(
        "POST",
        "/auth/sessions/confirm",
        None,
        sign_in.confirm_sign_in,
        (OriginRefused, ValidationFailed),
        status=201,
    ),
    _endpoint("POST", "/auth/passkeys/challenge", None, sign_in.challenge_passkey),
    _endpoint(
        "POST",
        "/auth/passkeys/confirm",
        None,
        sign_in.confirm_passkey,
        (OriginRefused, ValidationFailed),
        status=201,
    ),
    _endpoint("POST", "/auth/device", None, devices.start_device_, (ValidationFailed, RateLimited)),
    _endpoint(
        "POST",
        "/auth/device/token",
        None,
        devices.poll_device_,
        (ExpiredToken, AccessDenied, SlowDown, AuthorizationPending),
    ),
)
"""The endpoints that need no token, outside of the base path, because the spec (part 1) demands a token there."""

ENDPOINTS: tuple[Endpoint, ...] = (
    _endpoint("GET", "/me", None, me.me),
    _endpoint(
        "PUT",
        "/me/reminders",
        "subdomains:write",
        me.set_reminders_,
        (AccountSuspended, TokenRestricted, ValidationFailed),
    ),
    _endpoint("GET", "/me/export", "tokens:write", me.export, (TokenRestricted, InsufficientScope)),
    _endpoint(
        "DELETE",
        "/me",
        "tokens:write",
        me.delete_me,
        (
            TokenRestricted,
            InsufficientScope,
            AccountSuspended,
            Conflict,
            ValidationFailed,
            SessionInvalid,
            SignInRequired,
        ),
    ),
    _endpoint("GET", "/activity", "tokens:write", me.activity, (TokenRestricted,)),
    _endpoint(
        "PATCH",
        "/me",
        None,
        me.change_account_,
        (AccountSuspended, ValidationFailed, SessionInvalid, SignInRequired, RateLimited),
        needs_session=True,
    ),
    _endpoint(
        "POST", "/me/email", None, me.confirm_email_, (AccountSuspended, ValidationFailed), needs_session=True
    ),
    _endpoint("GET", "/credits", "account:read", account_credits.credits_),
    _endpoint("GET", "/payments", "account:read", account_credits.payments),
    _endpoint("GET", "/platform-domains", "account:read", platform_domains.platform_domains),
    _endpoint("GET", "/usage/free-subdomains", "account:read", account_credits.free_subdomains),
    _endpoint("GET", "/tokens", "tokens:write", tokens.list_tokens),
    _endpoint(
        "POST",
        "/tokens",
        "tokens:write",
        tokens.create_token_,
        (AccountSuspended, ValidationFailed, SignInRequired, Conflict),
        status=201,
    ),
    _endpoint("GET", "/tokens/{id}", "tokens:write", tokens.get_token, (TokenNotFound,), has_etag=True),
    _endpoint(
        "PATCH",
        "/tokens/{id}",
        "tokens:write",
        tokens.change_token_,
        (*_OWN_TOKEN, Conflict, ValidationFailed, SignInRequired),
    ),
    _endpoint(
        "POST",
        "/tokens/{id}/rotate",
        "tokens:write",
        tokens.rotate_token_,
        (*_OWN_TOKEN, Conflict, ValidationFailed, SignInRequired),
    ),
    _endpoint("DELETE", "/tokens/{id}", "tokens:write", tokens.revoke_token_, _OWN_TOKEN),
    _endpoint("GET", "/organizations", "account:read", organizations.list_organizations),
    _endpoint(
        "POST",
        "/organizations",
        "organization:write",
        organizations.create_organization_,
        (AccountSuspended, TokenRestricted, ValidationFailed, Conflict),
        status=201,
    ),
    _endpoint(
        "GET",
        "/organizations/{id}",
        "account:read",
        organizations.get_organization,
        (OrganizationNotFound,),
        has_etag=True,
    ),
    _endpoint(
        "PATCH",
        "/organizations/{id}",
        "organization:write",
        organizations.change_organization,
        (AccountSuspended, OrganizationNotFound, InsufficientRole, ValidationFailed),
    ),
    _endpoint(
        "DELETE",
        "/organizations/{id}",
        "organization:write",
        organizations.delete_organization_,
        (*_OF_OWNER, ValidationFailed, SessionInvalid, SignInRequired),
    ),
    _endpoint(
        "GET",
        "/organizations/{id}/members",
        "account:read",
        organizations.list_members,
        (OrganizationNotFound,),
    ),
    _endpoint(
        "PATCH",
        "/organizations/{id}/members/{user_id}",
        "organization:write",
        organizations.change_member,
        (*_OF_OWNER, ValidationFailed),
    ),
    _endpoint(
        "DELETE",
        "/organizations/{id}/members/{user_id}",
        "organization:write",
        organizations.remove_member_,
        _OF_OWNER,
    ),
    _endpoint(
        "GET",
        "/organizations/{id}/invitations",
        "organization:write",
        organizations.list_invitations,
        (OrganizationNotFound, InsufficientRole),
    ),
    _endpoint(
        "POST",
        "/organizations/{id}/invitations",
        "organization:write",
        organizations.invite_member_,
        (*_OF_OWNER, ValidationFailed, RateLimited),
        status=201,
    ),
    _endpoint(
        "DELETE",
        "/organizations/{id}/invitations/{invitation_id}",
        "organization:write",
        organizations.revoke_invitation_,
        _OF_OWNER,
    ),
    _endpoint("GET", "/sessions", None, sessions.list_sessions, needs_session=True),
    _endpoint("DELETE", "/sessions", None, sessions.end_other_sessions_, needs_session=True),
    _endpoint(
        "DELETE", "/sessions/{id}", None, sessions.end_session_, (SessionNotFound,), needs_session=True
    ),
    _endpoint("GET", "/passkeys", None, sessions.list_passkeys, needs_session=True),
    _endpoint(
        "POST", "/passkeys/challenge", None, sessions.offer_passkey_, _WITH_RECENT_SIGN_IN, needs_session=True
    ),
    _endpoint(
        "POST",
        "/passkeys",
        None,
        sessions.add_passkey_,
        (*_WITH_RECENT_SIGN_IN, ValidationFailed, PasskeyNotFound),
        status=201,
        needs_session=True,
    ),
    _endpoint(
        "POST", "/passkeys/recovery", None, sessions.start_recovery_, _WITH_RECENT_SIGN_IN, needs_session=True
    ),
    _endpoint("DELETE", "/passkeys/recovery", None, sessions.stop_recovery_, (Conflict,), needs_session=True),
    _endpoint(
        "DELETE",
        "/passkeys/{id}",
        None,
        sessions.remove_passkey_,
        (AccountSuspended, SessionInvalid, SignInRequired, PasskeyNotFound),
        needs_session=True,
    ),
    _endpoint(
        "GET",
        "/devices/{user_code}",
        None,
        devices.get_device,
        (RateLimited, DeviceNotFound),
        needs_session=True,
        has_etag=True,
    ),
    _endpoint(
        "POST",
        "/devices/{user_code}/allow",
        None,
        devices.allow_device_,
        (RateLimited, AccountSuspended, SessionInvalid, DeviceNotFound, SignInRequired, Conflict),
        needs_session=True,
    ),
    _endpoint(
        "POST",
        "/devices/{user_code}/refuse",
        None,
        devices.refuse_device_,
        (RateLimited, DeviceNotFound),
        needs_session=True,
    ),
    _endpoint("GET", "/subdomains", "subdomains:read", subdomains.list_subdomains),
    _endpoint(
        "POST",
        "/subdomains",
        "subdomains:write",
        subdomains.register_,
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
        (PlatformDomainNotFound, TokenRestricted, ValidationFailed),
        rate_class="availability",
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}",
        "subdomains:read",
        subdomains.get_subdomain,
        (SubdomainNotFound,),
        has_etag=True,
    ),
    _endpoint("DELETE", "/subdomains/{fqdn}", "subdomains:write", subdomains.delete_, _OWN_NAME),
    _endpoint(
        "PUT",
        "/subdomains/{fqdn}/nameservers",
        "subdomains:write",
        subdomains.update_nameservers_,
        (*_OWN_NAME, ValidationFailed, RateLimited, DelegationBroken),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/retry",
        "subdomains:write",
        subdomains.retry_,
        (*_OWN_NAME, NameserverRequired, RetryNotAvailable),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/renew",
        "subdomains:write",
        subdomains.renew_,
        (*_OWN_NAME_WITH_DATES, RegistrationClosed, RenewalNotAvailable, ValidationFailed, *_PAYMENT),
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/restore",
        "subdomains:write",
        subdomains.restore_,
        (
            *_OWN_NAME_WITH_DATES,
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
        (SubdomainNotFound, RateLimited, Unavailable),
    ),
    _endpoint("GET", "/subdomains/{fqdn}/health", "subdomains:read", health.get_health, (SubdomainNotFound,)),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/health",
        "subdomains:write",
        health.check_health,
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
        "GET", "/subdomains/{fqdn}/timeline", "subdomains:read", subdomains.timeline_, (SubdomainNotFound,)
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/auto-renew",
        "subdomains:read",
        subdomains.get_auto_renew,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "PUT",
        "/subdomains/{fqdn}/auto-renew",
        "subdomains:write",
        subdomains.set_auto_renew_,
        (*_OWN_NAME, RenewalNotAvailable, ValidationFailed, InsufficientScope, TokenRestricted),
    ),
    _endpoint(
        "GET",
        "/subdomains/{fqdn}/automatic-ds",
        "subdomains:read",
        automatic_ds.get_automatic_ds,
        (SubdomainNotFound,),
    ),
    _endpoint(
        "PUT",
        "/subdomains/{fqdn}/automatic-ds",
        "subdomains:write",
        automatic_ds.set_automatic_ds_,
        _OWN_NAME,
    ),
    _endpoint(
        "POST",
        "/subdomains/{fqdn}/transfer",
        "subdomains:write",
        transfers.push_,
        (
            *_OWN_NAME,
            Conflict,
            ValidationFailed,
            SessionInvalid,
            SignInRequired,
            TransferPending,
            RateLimited,
        ),
        status=201,
    ),
    _endpoint("GET", "/transfers", "subdomains:read", transfers.list_transfers),
    _endpoint(
        "GET",
        "/transfers/{id}",
        "subdomains:read",
        transfers.get_transfer,
        (TransferNotFound,),
        has_etag=True,
    ),
    _endpoint(
        "DELETE", "/transfers/{id}", "subdomains:write", transfers.withdraw_, (*_OWN_TRANSFER, Conflict)
    ),
    _endpoint(
        "POST",
        "/transfers/{id}/accept",
        "subdomains:write",
        transfers.accept_,
        (
            *_OWN_TRANSFER,
            Conflict,
            PlatformDomainNotFound,
            SubdomainUnavailable,
            FreeQuotaExceeded,
            SessionInvalid,
            SignInRequired,
        ),
    ),
    _endpoint(
        "POST", "/transfers/{id}/decline", "subdomains:write", transfers.decline_, (*_OWN_TRANSFER, Conflict)
    ),
    _endpoint("GET", "/support/tickets", "tickets:read", tickets.list_tickets),
    _endpoint(
        "POST",
        "/support/tickets",
        "tickets:write",
        tickets.open_ticket_,
        (ValidationFailed,),
        rate_class="ticket",
        status=201,
    ),
    _endpoint(
        "GET", "/support/tickets/{id}", "tickets:read", tickets.get_ticket, (TicketNotFound,), has_etag=True
    ),
    _endpoint(
        "POST",
        "/support/tickets/{id}/reply",
        "tickets:write",
        tickets.reply_,
        (AccountSuspended, PreconditionFailed, TicketNotFound, TicketClosed, Conflict, ValidationFailed),
        rate_class="ticket",
    ),
)
