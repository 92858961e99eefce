"""The Structs of response bodies. Their members are exactly those of the spec (part 2) and of docs/spec-choices.md, "Values"."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from msgspec import Meta, Struct, convert

from sublet.accounts.roles import ROLES
from sublet.accounts.sessions import SIGN_IN_METHODS
from sublet.automatic_ds.model import REFUSALS as DS_REFUSALS
from sublet.credits.coupons import COUPON_ACTIONS
from sublet.credits.ledger import KINDS
from sublet.csync.model import REFUSALS as CSYNC_REFUSALS
from sublet.health.findings import CODES as FINDING_CODES
from sublet.health.findings import REFUSED_CODES
from sublet.health.model import STATES as HEALTH_STATES
from sublet.health.model import Level
from sublet.platform_domains.model import ADMIN, AUTOMATIC_DS, MODES
from sublet.restrictions import SCOPES
from sublet.sign_in.devices import ALLOWED, PENDING, REFUSED, USED
from sublet.subdomains.activity import BY
from sublet.subdomains.ds_sources import SOURCES as DS_SOURCES
from sublet.subdomains.lifecycle import ACTIONS, STATUS_LABELS
from sublet.subdomains.timeline import EVENTS
from sublet.subdomains.transfers.model import DIRECTIONS, STATES
from sublet.tickets.model import (
    AUTHOR_TYPES,
    MESSAGE_FORMATS,
    PRIORITIES,
    TICKET_STATUSES,
    TICKET_TYPES,
)

Id = Annotated[int, Meta(ge=1, description="The identifier.")]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339 in UTC, with `Z`.")]
Credits = Annotated[int, Meta(ge=0, description="A number of credits.")]
Count = Annotated[int, Meta(ge=0)]
Days = Annotated[int, Meta(ge=0, description="A number of days.")]
Price = Annotated[
    str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", description="An amount of money as a decimal string.")
]
Currency = Annotated[str, Meta(pattern="^[A-Z]{3}$", description="ISO 4217.")]
HostName = Annotated[
    str,
    Meta(max_length=253, description="A host name: lower-case A-labels without the final dot."),
]


def _one_of(words: Iterable[str]) -> Meta:
    return Meta(extra_json_schema={"enum": sorted(words)})


Mode = Annotated[str, _one_of(MODES)]


class Shape(Struct, frozen=True):
    """The base of all shapes."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert an object that has an attribute for each member of the shape."""
        return convert(value, cls, from_attributes=True)


class Success(Shape, kw_only=True, frozen=True):
    """The base of all successful answers."""

    ok: Literal[True] = True


class UserShape(Shape, kw_only=True, frozen=True):
    """The user of the token. `reminders` is true if the user gets mail about dates of the names."""

    id: Id
    email: str
    name: str
    reminders: bool
    created_at: Moment


class OrganizationShape(Shape, kw_only=True, frozen=True):
    """The organization that the user belongs to."""

    id: Id
    name: str
    slug: str
    created_at: Moment


class ActivityShape(Shape, kw_only=True, frozen=True):
    """An event of the account. `token_id`, `token_name` and `address` are null unless the user's own request caused it."""

    id: Id
    at: Moment
    action: str
    by: Annotated[str, _one_of(BY)]
    token_id: Id | None
    token_name: str | None
    address: str | None
    object_type: str
    object_id: Id
    subdomain: HostName | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class AccountShape(Shape, kw_only=True, frozen=True):
    """The account in an export."""

    id: Id
    email: str
    name: str
    reminders: bool
    free_quota: Count | None
    suspended_at: Moment | None
    created_at: Moment
    signed_up_at: Moment | None
    organization: OrganizationShape
    credit_balance: Credits


class ExportBeginning(Success, kw_only=True, frozen=True):
    """The beginning of an export, without its lists."""

    account: AccountShape


Rows = list[dict[str, Any]]


class ExportAnswer(ExportBeginning, kw_only=True, frozen=True):
    """All that the registry stores about the user. The lists are oldest first, the activity is newest first."""

    subdomains: Rows
    terms: Rows
    payments: Rows
    coupons: Rows
    tokens: Rows
    sessions: Rows
    passkeys: Rows
    recoveries: Rows
    memberships: Rows
    transfers: Rows
    tickets: Rows
    messages: Rows
    activity: list[ActivityShape]


class DeletedUserShape(Shape, kw_only=True, frozen=True):
    """The user that was deleted."""

    id: Id


class DeletedMeAnswer(Success, kw_only=True, frozen=True):
    """The account is deleted, and its tokens are revoked."""

    deleted: DeletedUserShape


class TokenShape(Shape, kw_only=True, frozen=True):
    """The token of the request. `last_used_at` may be up to an hour old, and is null until the first use is stored."""

    id: Id
    name: str
    scopes: list[Annotated[str, _one_of(SCOPES)]]
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None


class PageShape(Shape, kw_only=True, frozen=True):
    """The position of a page in its list. `next_cursor` is null on the last page."""

    limit: Annotated[int, Meta(ge=1, le=500)]
    next_cursor: str | None
    has_more: bool


class TokenDetailShape(Shape, kw_only=True, frozen=True):
    """A token with its restrictions; null means unrestricted. `last_used_at` and `last_used_from` may be up to an hour old.

    `organization_id` is the organization for which the token acts. With the id of the user's own organization it acts for the user.
    """

    id: Id
    name: str
    scopes: list[Annotated[str, _one_of(SCOPES)]]
    names: list[str] | None
    domains: list[HostName] | None
    networks: list[str] | None
    daily_credits: Credits | None
    organization_id: Id
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None
    last_used_from: str | None
    revoked_at: Moment | None


class ActivityAnswer(Success, kw_only=True, frozen=True):
    """The events of the account, newest first."""

    activity: list[ActivityShape]
    page: PageShape


class TokensAnswer(Success, kw_only=True, frozen=True):
    """The tokens that may do no more than the token of the request, newest first."""

    tokens: list[TokenDetailShape]
    page: PageShape


class TokenAnswer(Success, kw_only=True, frozen=True):
    """One token."""

    token: TokenDetailShape


class SecretAnswer(Success, kw_only=True, frozen=True):
    """A token with its new secret, which is shown only once. `secret` is null in a repeated answer (`Idempotent-Replayed`)."""

    token: TokenDetailShape
    secret: str | None


class MeAnswer(Success, kw_only=True, frozen=True):
    """The user and organization that the token identifies, and the token. With a session `token` is null."""

    user: UserShape
    organization: OrganizationShape
    token: TokenShape | None


class SessionShape(Shape, kw_only=True, frozen=True):
    """A session of a browser. `last_used_at` and `last_used_from` may be up to an hour old. `current` marks the session of the request."""

    id: Id
    how: Annotated[str, _one_of(SIGN_IN_METHODS)]
    created_at: Moment
    signed_in_at: Moment
    expires_at: Moment
    last_used_at: Moment
    last_used_from: str | None
    user_agent: str
    current: bool


class SessionsAnswer(Success, kw_only=True, frozen=True):
    """The user's sessions, newest first."""

    sessions: list[SessionShape]
    page: PageShape


class SignedInAnswer(Success, kw_only=True, frozen=True):
    """The user who has signed in, and the session. The session's secret is in the cookie."""

    user: UserShape
    organization: OrganizationShape
    session: SessionShape


class DoneAnswer(Success, kw_only=True, frozen=True):
    """The request succeeded."""


class EndedSessionsAnswer(Success, kw_only=True, frozen=True):
    """The number of sessions that have ended; null in a repeated answer."""

    ended: Count | None


class OptionsAnswer(Success, kw_only=True, frozen=True):
    """The options that a browser needs to create or use a passkey."""

    public_key: Annotated[
        dict[str, Any],
        Meta(
            description="JSON for `PublicKeyCredential.parseRequestOptionsFromJSON` or `parseCreationOptionsFromJSON`."
        ),
    ]


class PasskeyShape(Shape, kw_only=True, frozen=True):
    """A passkey."""

    id: Id
    name: str
    created_at: Moment
    last_used_at: Moment | None


class RecoveryShape(Shape, kw_only=True, frozen=True):
    """A recovery. From `ready_at` to `ends_at` a sign-in by mail counts as a sign-in with a passkey."""

    asked_at: Moment
    ready_at: Moment
    ends_at: Moment


class PasskeysAnswer(Success, kw_only=True, frozen=True):
    """The user's passkeys, oldest first, and the recovery, null if there is none."""

    passkeys: list[PasskeyShape]
    recovery: RecoveryShape | None


class PasskeyAnswer(Success, kw_only=True, frozen=True):
    """One passkey."""

    passkey: PasskeyShape


class ChallengeShape(Shape, kw_only=True, frozen=True):
    """A challenge for the ALTCHA widget."""

    parameters: Annotated[
        dict[str, Any], Meta(description="Algorithm, cost, nonce, salt, prefix and expiry.")
    ]
    signature: Annotated[str, Meta(description="The service's signature of the parameters.")]


class ChallengeAnswer(Success, kw_only=True, frozen=True):
    """A new challenge."""

    challenge: ChallengeShape


class CodeSentAnswer(Success, kw_only=True, frozen=True):
    """A code was mailed, if the address may get one."""

    message: str
    expires_in_seconds: Annotated[int, Meta(ge=1, description="The seconds for which the code is valid.")]


class DeviceAnswer(Success, kw_only=True, frozen=True):
    """The codes of a program that signs in, and the page on which the user allows it (RFC 8628, section 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: Annotated[int, Meta(ge=1, description="The seconds for which the codes are valid.")]
    interval: Annotated[int, Meta(ge=1, description="The seconds to wait between two polls.")]


class DeviceRequestShape(Shape, kw_only=True, frozen=True):
    """A sign-in of a program. `user_code` is the code as the program shows it, `address` the program's address, `scopes` are the scopes of the token if the user allows it."""

    name: str
    user_code: str
    address: str | None
    state: Annotated[str, _one_of((PENDING, ALLOWED, REFUSED, USED))]
    scopes: list[str]
    created_at: datetime
    expires_at: datetime


class DeviceRequestAnswer(Success, kw_only=True, frozen=True):
    """A sign-in of a program."""

    device: DeviceRequestShape


class SignedUpAnswer(Success, kw_only=True, frozen=True):
    """A new user with its organization and first token. The secret is shown only once."""

    user: UserShape
    organization: OrganizationShape
    token: TokenDetailShape
    secret: str


Role = Annotated[str, _one_of(ROLES)]


class OrganizationDetailShape(Shape, kw_only=True, frozen=True):
    """An organization, and the role of the user in it."""

    id: Id
    name: str
    slug: str
    role: Role
    created_at: Moment


class OrganizationsAnswer(Success, kw_only=True, frozen=True):
    """The organizations of which the user is a member, newest first."""

    organizations: list[OrganizationDetailShape]
    page: PageShape


class OrganizationDetailAnswer(Success, kw_only=True, frozen=True):
    """One organization."""

    organization: OrganizationDetailShape


class MemberShape(Shape, kw_only=True, frozen=True):
    """A member of an organization, who joined at `created_at`."""

    user_id: Id
    email: str
    name: str
    role: Role
    created_at: Moment


class MembersAnswer(Success, kw_only=True, frozen=True):
    """The members of an organization, newest first."""

    members: list[MemberShape]
    page: PageShape


class MemberAnswer(Success, kw_only=True, frozen=True):
    """One member."""

    member: MemberShape


class DeletedOrganizationShape(Shape, kw_only=True, frozen=True):
    """The organization that was deleted."""

    id: Id


class DeletedOrganizationAnswer(Success, kw_only=True, frozen=True):
    """The organization is deleted, and its tokens are revoked."""

    deleted: DeletedOrganizationShape


class RemovedShape(Shape, kw_only=True, frozen=True):
    """A membership that has ended."""

    organization_id: Id
    user_id: Id


class RemovedAnswer(Success, kw_only=True, frozen=True):
    """The membership has ended."""

    removed: RemovedShape


class InvitationShape(Shape, kw_only=True, frozen=True):
    """An open invitation to an organization."""

    id: Id
    email: str
    role: Role
    created_at: Moment
    expires_at: Moment


class InvitationsAnswer(Success, kw_only=True, frozen=True):
    """The open invitations, newest first."""

    invitations: list[InvitationShape]
    page: PageShape


class InvitationAnswer(Success, kw_only=True, frozen=True):
    """One open invitation."""

    invitation: InvitationShape


class RevokedInvitationShape(Shape, kw_only=True, frozen=True):
    """An invitation that was revoked."""

    organization_id: Id
    id: Id


class RevokedInvitationAnswer(Success, kw_only=True, frozen=True):
    """The invitation is revoked."""

    revoked: RevokedInvitationShape


class AcceptedAnswer(Success, kw_only=True, frozen=True):
    """The new member and the organization. `token` and `secret` are a new user's first token, shown only once; otherwise null."""

    user: UserShape
    organization: OrganizationDetailShape
    token: TokenDetailShape | None
    secret: str | None


class PackageShape(Shape, kw_only=True, frozen=True):
    """A package of credits that can be purchased."""

    id: Id
    name: str
    credits: Credits
    price: Price
    currency: Currency


class CreditsAnswer(Success, kw_only=True, frozen=True):
    """The balance, and the packages on offer."""

    credit_balance: Credits
    packages: list[PackageShape]


class PaymentShape(Shape, kw_only=True, frozen=True):
    """A change of the balance. `credits` is negative if the balance decreased."""

    id: Id
    kind: Annotated[str, _one_of(KINDS)]
    credits: int
    balance_after: Credits
    amount: Price | None
    currency: Currency | None
    description: str
    reference: str
    subdomain: HostName | None
    created_at: Moment


class PaymentsAnswer(Success, kw_only=True, frozen=True):
    """The changes of the balance, newest first."""

    payments: list[PaymentShape]
    page: PageShape


class ModeShape(Shape, kw_only=True, frozen=True):
    """A registration mode that a platform domain offers."""

    mode: Mode
    price_credits: Credits
    renewal_price_credits: Credits
    period_days: Days


class PlatformDomainShape(Shape, kw_only=True, frozen=True):
    """A platform domain with its rules."""

    id: Id
    domain: HostName
    public_name: str
    description: str
    registration_open: bool
    idn: bool
    dnssec_signed: bool
    nameservers_min: Count
    nameservers_max: Count
    label_length_min: Count
    modes: list[ModeShape]
    renewal_window_days: Days
    grace_days: Days
    trash_days: Days


class PlatformDomainsAnswer(Success, kw_only=True, frozen=True):
    """The platform domains that this account can see, newest first."""

    platform_domains: list[PlatformDomainShape]
    page: PageShape


class UsageShape(Shape, kw_only=True, frozen=True):
    """The number of free names that the user holds, and the maximum number. Names in the trash don't count."""

    used: Count
    limit: Count
    remaining: Count


class UsageAnswer(Success, kw_only=True, frozen=True):
    """The free quota."""

    usage: UsageShape


class GlueShape(Shape, kw_only=True, frozen=True):
    """The addresses of a nameserver at or below the name itself. At least one address isn't null."""

    host: HostName
    ipv4: Annotated[str, Meta(extra_json_schema={"format": "ipv4"})] | None
    ipv6: Annotated[str, Meta(extra_json_schema={"format": "ipv6"})] | None


class DsShape(Shape, kw_only=True, frozen=True):
    """A DS record (RFC 4034, section 5)."""

    key_tag: Annotated[int, Meta(ge=0, le=65535)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    digest_type: Annotated[int, Meta(ge=0, le=255)]
    digest: Annotated[str, Meta(pattern="^[0-9a-f]+$")]


class SubdomainShape(Shape, kw_only=True, frozen=True):
    """A subdomain, with exactly the twenty fields of the spec."""

    id: Id
    fqdn: HostName
    label: str
    domain: HostName
    domain_public_name: str
    status: Annotated[str, _one_of(STATUS_LABELS)]
    status_label: str
    registration_type: Annotated[str, _one_of((*MODES, ADMIN))]
    registration_source: Annotated[str, _one_of(("api", "operator"))]
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


class ProvisioningShape(Shape, kw_only=True, frozen=True):
    """The state of a publication. `status` is `published` once the name server has answered with exactly this delegation."""

    status: Annotated[str, _one_of(("none", "pending", "published", "failed"))]
    generation: Count
    published_generation: Count
    attempts: Count
    next_attempt_at: Moment | None
    published_at: Moment | None
    zone: HostName
    serial: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None
    error: str | None
    warnings: list[str]


class CouponShape(Shape, kw_only=True, frozen=True):
    """A coupon that was used, and its discount."""

    code: str
    kind: Annotated[str, _one_of(("percent", "fixed"))]
    value: Count
    discount_credits: Credits


class TransferShape(Shape, kw_only=True, frozen=True):
    """An offer of a name to an address. Until the offer is accepted or declined, it doesn't tell whether the address has an account."""

    id: Id
    direction: Annotated[str, _one_of(DIRECTIONS)]
    subdomain: HostName
    sender: str
    to: str
    state: Annotated[str, _one_of(STATES)]
    created_at: Moment
    expires_at: Moment
    ended_at: Moment | None


class TransferAnswer(Success, kw_only=True, frozen=True):
    """One transfer of a name."""

    transfer: TransferShape


class TransfersAnswer(Success, kw_only=True, frozen=True):
    """The transfers that the user sent or received, newest first."""

    transfers: list[TransferShape]
    page: PageShape


class SubdomainsAnswer(Success, kw_only=True, frozen=True):
    """The user's subdomains, newest first."""

    subdomains: list[SubdomainShape]
    page: PageShape


class SubdomainAnswer(Success, kw_only=True, frozen=True):
    """One subdomain."""

    subdomain: SubdomainShape


class RegisterAnswer(Success, kw_only=True, frozen=True):
    """A registered subdomain, its price, and the state of its publication."""

    subdomain: SubdomainShape
    provisioning: ProvisioningShape
    charged_credits: Credits
    coupon: CouponShape | None


class AvailabilityShape(Struct, kw_only=True, frozen=True):
    """The availability of a name for the user. `reason` is the error code that a confirmed registration would get now.

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


class AvailabilityAnswer(Success, kw_only=True, frozen=True):
    """The availability of a name."""

    availability: AvailabilityShape


class FindingShape(Shape, kw_only=True, frozen=True):
    """A fault of a delegation. An error makes resolvers fail. A warning makes some resolvers fail now, or all later. A notice is advice."""

    code: Annotated[str, _one_of((*FINDING_CODES, *REFUSED_CODES))]
    level: Annotated[str, _one_of(tuple(each.value for each in Level))]
    subject: str
    message: str
    hint: str


class DelegationCheckShape(Shape, kw_only=True, frozen=True):
    """The result of a check. `state` is `unknown` if the nameservers couldn't be queried."""

    fqdn: HostName
    state: Annotated[str, _one_of(HEALTH_STATES)]
    checked_at: Moment
    findings: list[FindingShape]


class DelegationCheckAnswer(Success, kw_only=True, frozen=True):
    """The result of a check of a planned delegation."""

    check: DelegationCheckShape


class HealthChangeShape(Shape, kw_only=True, frozen=True):
    """A change of a name's health, with the codes of its findings."""

    at: Moment
    state: Annotated[str, _one_of(HEALTH_STATES)]
    findings: list[str]


class HealthShape(Shape, kw_only=True, frozen=True):
    """The health of a name's delegation.

    `checks_enabled` is false if the registry checks no delegations: then the state is that of the last check, if there was one.
    `unconfirmed_state` is the result of one check, until a second check confirms it. `leaves_at` is when the name leaves the DNS if it stays
    broken; null if it isn't broken, or if its platform domain keeps broken names.
    """

    fqdn: HostName
    checks_enabled: bool
    state: Annotated[str, _one_of(HEALTH_STATES)]
    since: Moment | None
    checked_at: Moment | None
    next_check_at: Moment | None
    unconfirmed_state: Annotated[str, _one_of(HEALTH_STATES)] | None
    leaves_at: Moment | None
    findings: list[FindingShape]
    history: list[HealthChangeShape]


class HealthAnswer(Success, kw_only=True, frozen=True):
    """The health of a name's delegation."""

    health: HealthShape


class ProvisionAnswer(Success, kw_only=True, frozen=True):
    """A subdomain, and the state of its publication."""

    subdomain: SubdomainShape
    provisioning: ProvisioningShape


class RenewalShape(Shape, kw_only=True, frozen=True):
    """The result of a renewal."""

    expires_at: Moment
    renewal_available: bool
    charged_credits: Credits
    coupon: CouponShape | None


class RenewAnswer(Success, kw_only=True, frozen=True):
    """A renewed subdomain, and the result of the renewal."""

    subdomain: SubdomainShape
    renewal: RenewalShape


class DeletedShape(Shape, kw_only=True, frozen=True):
    """The name that was moved to the trash."""

    id: Id
    fqdn: HostName


class DeleteAnswer(Success, kw_only=True, frozen=True):
    """A deleted subdomain."""

    deleted: DeletedShape


class MessageShape(Shape, kw_only=True, frozen=True):
    """A message of a ticket, as it was sent."""

    id: Id
    author_type: Annotated[str, _one_of(AUTHOR_TYPES)]
    author_name: str
    message: str
    message_format: Annotated[str, _one_of(MESSAGE_FORMATS)]
    created_at: Moment


class TicketShape(Shape, kw_only=True, frozen=True):
    """A ticket as lists show it."""

    id: Id
    ticket_number: Annotated[str, Meta(pattern="^T-[0-9]{6,}$")]
    type: Annotated[str, _one_of(TICKET_TYPES)]
    status: Annotated[str, _one_of(TICKET_STATUSES)]
    priority: Annotated[str, _one_of(PRIORITIES)]
    subject: str
    requester_email: str
    subdomain: HostName | None
    archived: bool
    created_at: Moment
    last_message_at: Moment
    updated_at: Moment


class TicketDetailShape(TicketShape, kw_only=True, frozen=True):
    """A ticket with its messages, oldest first."""

    messages: list[MessageShape]


class TicketsAnswer(Success, kw_only=True, frozen=True):
    """The user's tickets, most recent first."""

    tickets: list[TicketShape]
    page: PageShape


class TicketAnswer(Success, kw_only=True, frozen=True):
    """One ticket with its messages."""

    ticket: TicketDetailShape


class QuoteShape(Shape, kw_only=True, frozen=True):
    """The price of a paid request, which `confirm: true` completes. `new_expires_at` is the name's expiry after the request."""

    action: Annotated[str, _one_of(COUPON_ACTIONS)]
    fqdn: HostName
    registration_mode: Mode
    period_days: Days
    list_price: Credits
    discount: Credits
    price: Credits
    balance: Credits
    balance_after: int
    sufficient: bool
    shortfall: Credits
    coupon: CouponShape | None
    new_expires_at: Moment


class FieldErrorShape(Shape, kw_only=True, frozen=True):
    """A wrong field."""

    field: str
    code: str
    message: str


Serial = Annotated[int, Meta(ge=0, le=2**32 - 1, description="The serial of a zone.")]


class StoredDelegationShape(Shape, kw_only=True, frozen=True):
    """The stored delegation.

    `generation` increases with each change that the DNS must follow. The delegation is published once `published_generation` equals it.
    """

    nameservers: list[HostName]
    glue: list[GlueShape]
    ds_records: list[DsShape]
    generation: Count


class PublishedDelegationShape(Shape, kw_only=True, frozen=True):
    """The last publication. `serial` is the zone's serial at which the name server answered with `published_generation`."""

    zone: HostName
    serial: Serial | None
    published_at: Moment
    published_generation: Count


class ParentServerShape(Shape, kw_only=True, frozen=True):
    """The current answer of a name server of the parent zone. Without an answer `error` says why, and the other members are null.

    `difference` is null if the answer matches the stored delegation.
    """

    server: HostName
    role: Annotated[str, _one_of(("primary", "secondary", "built_in"))]
    serial: Serial | None
    nameservers: list[HostName] | None
    glue: list[GlueShape] | None
    ds_records: list[DsShape] | None
    matches: bool | None
    difference: str | None
    error: str | None


class DelegationShape(Shape, kw_only=True, frozen=True):
    """A delegation as it is stored, as it was published, and as it is served.

    `in_agreement` is true if every server answered with exactly the stored delegation, or with nothing for a name that shouldn't be in
    the DNS.
    """

    stored: StoredDelegationShape
    published: PublishedDelegationShape | None
    servers: list[ParentServerShape]
    in_agreement: bool
    summary: str


class DelegationAnswer(Success, kw_only=True, frozen=True):
    """The delegation of a subdomain, and the state of its publication."""

    delegation: DelegationShape
    provisioning: ProvisioningShape


class TimelineEventShape(Shape, kw_only=True, frozen=True):
    """An event and its date. If `past` is true, the event has happened; otherwise it will happen if nothing changes.

    `expires_at` and `charged_credits` are set for an event that added a term: the new expiry, and the price. `by` is null if only the date caused the event.
    """

    event: Annotated[str, _one_of(EVENTS)]
    at: Moment
    past: bool
    detail: str | None
    by: Annotated[str, _one_of(("user", "operator", "system"))] | None
    expires_at: Moment | None
    charged_credits: Credits | None


class TimelineAnswer(Success, kw_only=True, frozen=True):
    """The past and future events of a subdomain, oldest first, the actions allowed now, and warnings about the name."""

    timeline: list[TimelineEventShape]
    allowed_actions: list[Annotated[str, _one_of(ACTIONS)]]
    renewal_available: bool
    warnings: list[str]


class AttemptShape(Shape, kw_only=True, frozen=True):
    """An attempt of the automatic renewal. `charged_credits` is null if the attempt failed."""

    at: Moment
    outcome: Annotated[str, _one_of(("renewed", "failed"))]
    detail: str | None
    charged_credits: Credits | None


class SourcedDsShape(Shape, kw_only=True, frozen=True):
    """A DS record with its source: the registrant, the operator, or CDS and CDNSKEY records of the zone; null if unknown."""

    key_tag: int
    algorithm: int
    digest_type: int
    digest: str
    source: Annotated[str, _one_of(DS_SOURCES)] | None
    since: Moment | None


class CsyncRefusalShape(Shape, kw_only=True, frozen=True):
    """The refusal of the change that the zone's CSYNC record requests."""

    code: Annotated[str, _one_of(CSYNC_REFUSALS)]
    message: str
    since: Moment


class CsyncShape(Shape, kw_only=True, frozen=True):
    """The state of CSYNC. `followed` is true if the platform domain follows CSYNC. `serial` and `signed_at` are those of the last followed request."""

    followed: bool
    serial: int | None
    signed_at: Moment | None
    refusal: CsyncRefusalShape | None


class DsRefusalShape(Shape, kw_only=True, frozen=True):
    """The refusal of the DS change that the zone's CDS and CDNSKEY records request."""

    code: Annotated[str, _one_of(DS_REFUSALS)]
    message: str
    since: Moment


class AutomaticDsShape(Shape, kw_only=True, frozen=True):
    """The settings and the state of a subdomain's automatic DS.

    `policy` is the platform domain's: off, rollover (changes only), bootstrap (first DS records only), or all. `followed_signed_at` is the
    time of the signature of the last followed request; requests with older signatures are refused.
    """

    policy: Annotated[str, _one_of(AUTOMATIC_DS)]
    enabled: bool
    bootstrap: bool
    ds_records: list[SourcedDsShape]
    followed_signed_at: Moment | None
    refusal: DsRefusalShape | None
    csync: CsyncShape


class AutomaticDsAnswer(Success, kw_only=True, frozen=True):
    """The automatic DS of a subdomain."""

    automatic_ds: AutomaticDsShape


class AutoRenewShape(Shape, kw_only=True, frozen=True):
    """The automatic renewal of a subdomain, which is off if `max_credits` is null.

    `renewal_price_credits` is the current list price of a renewal.
    """

    enabled: bool
    max_credits: Credits | None
    renewal_price_credits: Credits
    next_attempt_at: Moment | None
    last_attempt: AttemptShape | None


class AutoRenewAnswer(Success, kw_only=True, frozen=True):
    """The automatic renewal of a subdomain."""

    auto_renew: AutoRenewShape


class SetAutoRenewAnswer(Success, kw_only=True, frozen=True):
    """A subdomain with its new automatic renewal."""

    subdomain: SubdomainShape
    auto_renew: AutoRenewShape
