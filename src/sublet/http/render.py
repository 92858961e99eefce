"""Convert the registry's types to the shapes of answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sublet.accounts.model import Member, Membership, Session, Token, User
from sublet.credits.model import AppliedCoupon
from sublet.dns.difference import served_delegation
from sublet.dns.types import Delegation, DsRecord, GlueEntry
from sublet.errors import SubdomainUnavailable
from sublet.http import response_structs
from sublet.platform_domains.model import MODES, Offer, PlatformDomain
from sublet.sign_up.codes import MailedCode
from sublet.subdomains.lifecycle import (
    STATUS_LABELS,
    allowed_actions,
    auto_renew_at,
    derive_status,
    provisioning_status,
    renewal_available,
)
from sublet.subdomains.model import AutoRenewAttempt, ShownSubdomain, Subdomain, TimelineEvent
from sublet.subdomains.served import ServedReport, ServerVerdict
from sublet.subdomains.view_availability import Availability


def me_answer(member: Member, token: Token | None) -> response_structs.MeAnswer:
    """Return the answer with a user, the user's organization, and the token of the request without its secret; None with a session."""
    return response_structs.MeAnswer(
        user=response_structs.UserShape.of(member.user),
        organization=response_structs.OrganizationShape.of(member.organization),
        token=response_structs.TokenShape.of(token) if token is not None else None,
    )


def token_shape(token: Token, user: User) -> response_structs.TokenDetailShape:
    """Return the shape of a user's token for /tokens."""
    members = {name: getattr(token, name) for name in response_structs.TokenDetailShape.__struct_fields__}
    members["organization_id"] = token.organization_id or user.organization_id
    lists = {name: list(value) for name, value in members.items() if isinstance(value, tuple)}
    return response_structs.TokenDetailShape(**members | lists)


def organization_shape(membership: Membership) -> response_structs.OrganizationDetailShape:
    """Return the shape of a membership's organization, with the member's role."""
    found = membership.organization
    return response_structs.OrganizationDetailShape(
        id=found.id, name=found.name, slug=found.slug, role=membership.role, created_at=found.created_at
    )


def member_shape(membership: Membership) -> response_structs.MemberShape:
    """Return the shape of a member of an organization."""
    user = membership.user
    return response_structs.MemberShape(
        user_id=user.id,
        email=user.email,
        name=user.name,
        role=membership.role,
        created_at=membership.created_at,
    )


def invitation_shape(code: MailedCode) -> response_structs.InvitationShape:
    """Return the shape of an open invitation to an organization, without its code."""
    return response_structs.InvitationShape.of(code)


def session_shape(session: Session, current_id: int | None) -> response_structs.SessionShape:
    """Return the shape of a session for /sessions."""
    names = (name for name in response_structs.SessionShape.__struct_fields__ if name != "current")
    return response_structs.SessionShape(
        current=session.id == current_id, **{name: getattr(session, name) for name in names}
    )


def coupon_shape(coupon: AppliedCoupon | None) -> response_structs.CouponShape | None:
    """Return the shape of the coupon that was used; None without a coupon."""
    return response_structs.CouponShape.of(coupon) if coupon else None


def platform_domain_shape(
    platform_domain: PlatformDomain, offers: list[Offer]
) -> response_structs.PlatformDomainShape:
    """Return the shape of a platform domain, with its current offers in the order of the modes."""
    current = sorted(
        (offer for offer in offers if offer.withdrawn_at is None), key=lambda each: MODES.index(each.mode)
    )
    names = (name for name in response_structs.PlatformDomainShape.__struct_fields__ if name != "modes")
    return response_structs.PlatformDomainShape(
        modes=[response_structs.ModeShape.of(offer) for offer in current],
        **{name: getattr(platform_domain, name) for name in names}
        | {"registration_open": platform_domain.accepts_registrations},
    )


def subdomain_shape(
    subdomain: ShownSubdomain, now: datetime, *, user_suspended: bool
) -> response_structs.SubdomainShape:
    """Return the shape of a subdomain, with its status and `renewal_available` at this instant."""
    status = derive_status(subdomain, now)
    delegation = subdomain.delegation
    return response_structs.SubdomainShape(
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


def availability_shape(availability: Availability) -> response_structs.AvailabilityShape:
    """Return the shape of a name's availability."""
    refusal = availability.refusal
    details = refusal.details if isinstance(refusal, SubdomainUnavailable) else {}
    return response_structs.AvailabilityShape(
        fqdn=availability.fqdn,
        available=refusal is None,
        reason=None if refusal is None else refusal.code,  # type: ignore[arg-type] # the shape lists the codes
        unavailable_reason=details.get("reason"),
        owned=details.get("owned", False),
        available_at=availability.available_at,
        modes=[response_structs.ModeShape.of(offer) for offer in availability.modes],
    )


def provisioning_shape(subdomain: Subdomain, warnings: Sequence[str]) -> response_structs.ProvisioningShape:
    """Return the shape of the state of a subdomain's publication, with warnings."""
    return response_structs.ProvisioningShape(
        status=provisioning_status(subdomain),
        generation=subdomain.generation,
        published_generation=subdomain.published_generation,
        attempts=subdomain.attempts,
        next_attempt_at=subdomain.next_attempt_at,
        published_at=subdomain.published_at,
        zone=subdomain.domain,
        serial=subdomain.published_serial,
        error=subdomain.provision_error,
        warnings=list(warnings),
    )


def delegation_answer(
    subdomain: Subdomain, report: ServedReport, warnings: Sequence[str]
) -> response_structs.DelegationAnswer:
    """Return the answer with a name's stored, published and served delegation, and its provisioning."""
    stored = response_structs.StoredDelegationShape(
        generation=subdomain.generation, **_delegation_members(subdomain.delegation)
    )
    published = None
    if subdomain.published_at is not None:
        published = response_structs.PublishedDelegationShape(
            zone=subdomain.domain,
            serial=subdomain.published_serial,
            published_at=subdomain.published_at,
            published_generation=subdomain.published_generation,
        )
    return response_structs.DelegationAnswer(
        delegation=response_structs.DelegationShape(
            stored=stored,
            published=published,
            servers=[_parent_server_shape(subdomain.fqdn, each) for each in report.servers],
            in_agreement=report.in_agreement,
            summary=report.summary,
        ),
        provisioning=provisioning_shape(subdomain, warnings),
    )


def _parent_server_shape(fqdn: str, verdict: ServerVerdict) -> response_structs.ParentServerShape:
    answer = verdict.answer
    members: dict[str, Any] = {"nameservers": None, "glue": None, "ds_records": None}
    if verdict.error is None:
        members = _delegation_members(served_delegation(fqdn, answer.records))
    return response_structs.ParentServerShape(
        server=answer.server.server,
        role=answer.server.role,
        serial=answer.serial,
        matches=verdict.matches,
        difference=verdict.difference,
        error=verdict.error,
        **members,
    )


def _delegation_members(delegation: Delegation) -> dict[str, Any]:
    return {
        "nameservers": list(delegation.nameservers),
        "glue": _glue_shapes(delegation.glue),
        "ds_records": _ds_shapes(delegation.ds_records),
    }


def _glue_shapes(glue: Sequence[GlueEntry]) -> list[response_structs.GlueShape]:
    return [response_structs.GlueShape(host=each.host, ipv4=each.ipv4, ipv6=each.ipv6) for each in glue]


def _ds_shapes(ds_records: Sequence[DsRecord]) -> list[response_structs.DsShape]:
    return [response_structs.DsShape.of(each) for each in ds_records]


def timeline_answer(
    subdomain: Subdomain,
    events: list[TimelineEvent],
    now: datetime,
    *,
    user_suspended: bool,
    quota_left: bool,
    warnings: Sequence[str],
) -> response_structs.TimelineAnswer:
    """Return the answer with a name's timeline, the actions allowed at this instant, and the warnings about the name."""
    actions = allowed_actions(subdomain, now, user_suspended=user_suspended, quota_left=quota_left)
    return response_structs.TimelineAnswer(
        timeline=[response_structs.TimelineEventShape.of(each) for each in events],
        allowed_actions=list(actions),
        renewal_available=renewal_available(subdomain, now, user_suspended=user_suspended),
        warnings=list(warnings),
    )


def auto_renew_shape(
    subdomain: Subdomain, renewal_price_credits: int, last_attempt: AutoRenewAttempt | None, now: datetime
) -> response_structs.AutoRenewShape:
    """Return the shape of a name's automatic renewal, with the price of a renewal now. An overdue attempt gets the instant `now`."""
    next_attempt_at = auto_renew_at(subdomain)
    return response_structs.AutoRenewShape(
        enabled=subdomain.auto_renew_max_credits is not None,
        max_credits=subdomain.auto_renew_max_credits,
        renewal_price_credits=renewal_price_credits,
        next_attempt_at=max(next_attempt_at, now) if next_attempt_at else None,
        last_attempt=response_structs.AttemptShape.of(last_attempt) if last_attempt else None,
    )
