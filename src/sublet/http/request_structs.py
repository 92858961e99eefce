"""The Structs of request bodies and query parameters, and functions that convert them to arguments of verbs.

`read_structs.py` refuses wrong types (400). The limits in the Structs are only documentation: the rules check values, so that one refusal
(422) lists all wrong values. A member is `UNSET` if it was left out and null has a meaning of its own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from sublet.accounts.roles import ROLES
from sublet.accounts.rotate_token import OVERLAP_SECONDS_MAX
from sublet.credits.fields import CREDITS_MAX
from sublet.dns.delegation import GLUE_ENTRIES_MAX
from sublet.dns.types import DnskeyInput, DsInput, DsLike, GlueInput
from sublet.errors import FieldError, ValidationFailed, validation_failed
from sublet.platform_domains.model import MODES
from sublet.restrictions import DAILY_CREDITS_MAX, ITEMS_MAX, SCOPES, Restrictions
from sublet.subdomains.model import Register
from sublet.tickets.model import MESSAGE_FORMATS, TICKET_TYPES

HostNameText = Annotated[
    str,
    Meta(
        max_length=254,
        description="A host name of at least two labels, in any case, with or without the final dot, as U-labels or A-labels.",
    ),
]
Label = Annotated[str, Meta(max_length=63, description="A label, as a U-label or an A-label.")]
Confirm = Annotated[bool, Meta(description="True completes a paid request, after its quote.")]
CouponCode = Annotated[str, Meta(max_length=64, description="A coupon.")]
MaxCredits = Annotated[
    int,
    Meta(
        ge=0,
        description="The maximum charge. A higher price is refused with `price_changed` and a new quote.",
    ),
]


class GlueEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """The addresses of a nameserver at or below the name itself. `host` and at least one of `ipv4` and `ipv6` are required."""

    host: HostNameText
    ipv4: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "ipv4"})] | None = None
    ipv6: Annotated[str, Meta(max_length=64, extra_json_schema={"format": "ipv6"})] | None = None


class DsEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """A DS record or a DNSKEY, depending on the members."""


class DsRecord(DsEntry, kw_only=True, forbid_unknown_fields=True):
    """A DS record (RFC 4034, section 5)."""

    key_tag: Annotated[int, Meta(ge=0, le=65535)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    digest_type: Annotated[int, Meta(ge=0, le=255)]
    digest: Annotated[str, Meta(max_length=1024, pattern="^[0-9A-Fa-f ]+$", description="In hex.")]


class Dnskey(DsEntry, kw_only=True, forbid_unknown_fields=True):
    """A DNSKEY (RFC 4034, section 2). Its DS record with SHA-256 is published."""

    flags: Annotated[int, Meta(ge=0, le=65535)]
    protocol: Annotated[int, Meta(ge=0, le=255)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    public_key: Annotated[str, Meta(max_length=4096, description="In base64.")]


Nameservers = Annotated[
    list[HostNameText],
    Meta(max_length=13, description="The nameservers. Their order is kept."),
]
Glue = Annotated[
    list[GlueEntry],
    Meta(
        max_length=GLUE_ENTRIES_MAX,
        description="The addresses of each nameserver at or below the name itself, and of no other.",
    ),
]
DsRecords = Annotated[
    list[str | DsEntry],
    Meta(
        max_length=8,
        description="DS records or DNSKEYs, as objects or zone-file texts. A name without nameservers has no DS records.",
    ),
]


class NoBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """An empty object, or no body."""


class RemindersBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The setting of reminders, which are mails about the dates of the user's names."""

    enabled: Annotated[bool, Meta(description="True turns reminders on, false off.")] | None = None


class DeleteMeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The deletion of the account."""

    confirm: Annotated[str, Meta(max_length=254, description="The user's own e-mail address.")] | None = None


class SignUpBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request to open an account."""

    email: Annotated[str, Meta(max_length=254, description="The address that gets the code.")] | None = None
    name: Annotated[str, Meta(max_length=200, description="The name of the new user.")] | None = None
    challenge: (
        Annotated[
            str,
            Meta(
                max_length=4000, description="The solution of a challenge: the payload of an ALTCHA widget."
            ),
        ]
        | None
    ) = None


class ConfirmSignUpBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A mailed code: `email` and `code`, or the `token` of the link."""

    email: Annotated[str, Meta(max_length=254)] | None = None
    code: Annotated[str, Meta(max_length=20, description="Six digits.")] | None = None
    token: Annotated[str, Meta(max_length=100, description="The `token` of the link in the mail.")] | None = (
        None
    )


class DeviceBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A program that signs in."""

    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The name of the token, such as that of the computer.",
            ),
        ]
        | None
    ) = None


class AllowDeviceBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The permissions that the user gives to a program."""

    may_spend: Annotated[bool, Meta(description="True if the token may spend credits.")] | None = None


class DeviceTokenBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The device code of a program that waits for its token."""

    device_code: Annotated[str, Meta(max_length=100)] | None = None


Role = Annotated[str, Meta(extra_json_schema={"enum": list(ROLES)})]


class OrganizationBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The name of an organization."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class InvitationBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """An invitation to an organization."""

    email: (
        Annotated[str, Meta(max_length=254, description="The address that gets the invitation.")] | None
    ) = None
    role: Role | None = None


class DeleteOrganizationBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The deletion of an organization."""

    confirm: Annotated[str, Meta(max_length=64, description="The organization's slug.")] | None = None


class RoleBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The new role of a member."""

    role: Role | None = None


class AcceptBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The acceptance of an invitation."""

    name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=200,
                description="The name of a new user; by default the part of the address before the `@`.",
            ),
        ]
        | None
    ) = None


class SignInBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request to sign in by mail."""

    email: Annotated[str, Meta(max_length=254, description="The address that gets the code.")] | None = None


class CredentialBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer of an authenticator."""

    credential: (
        Annotated[
            dict[str, Any],
            Meta(description="The browser's `PublicKeyCredential`, converted by its `toJSON()`."),
        ]
        | None
    ) = None


class PasskeyBody(CredentialBody, kw_only=True, forbid_unknown_fields=True):
    """A new passkey."""

    name: (
        Annotated[
            str,
            Meta(
                min_length=1, max_length=200, description="A name by which the user recognizes the passkey."
            ),
        ]
        | None
    ) = None


class AccountBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of the account. A member that is left out keeps its value."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    email: Annotated[str, Meta(max_length=254, description="The new address, which gets a code.")] | None = (
        None
    )
    reminders: (
        Annotated[bool, Meta(description="True if the user gets mail about dates of the names.")] | None
    ) = None


class EmailCodeBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The code that was mailed to a new address."""

    code: Annotated[str, Meta(max_length=20, description="Six digits.")] | None = None


class DelegationCheckBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A planned delegation. `platform_domain_id`, `domain` or `fqdn` selects the platform domain."""

    platform_domain_id: Annotated[int, Meta(ge=1)] | None = None
    domain: Annotated[str, Meta(max_length=254)] | None = None
    label: Label | None = None
    fqdn: Annotated[str, Meta(max_length=254)] | None = None
    nameservers: Nameservers | None = None
    ns1: HostNameText | None = None
    ns2: HostNameText | None = None
    ns3: HostNameText | None = None
    ns4: HostNameText | None = None
    glue: Glue | None = None
    ds_records: DsRecords | None = None


class RegisterBody(DelegationCheckBody, kw_only=True, forbid_unknown_fields=True):
    """A registration: the delegation, the mode and the payment."""

    coupon_code: CouponCode | None = None
    registration_mode: Annotated[str, Meta(extra_json_schema={"enum": list(MODES)})] | None = None
    confirm: Confirm | None = None
    max_credits: MaxCredits | None = None


class NameserversBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a delegation. A member that is left out keeps its value; an empty list or null clears it. `ns1` to `ns4` replace the whole list."""

    nameservers: Nameservers | UnsetType | None = UNSET
    ns1: HostNameText | UnsetType | None = UNSET
    ns2: HostNameText | UnsetType | None = UNSET
    ns3: HostNameText | UnsetType | None = UNSET
    ns4: HostNameText | UnsetType | None = UNSET
    glue: Glue | UnsetType | None = UNSET
    ds_records: DsRecords | UnsetType | None = UNSET


class RenewBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The payment of a renewal or a restoration."""

    confirm: Confirm | None = None
    coupon_code: CouponCode | None = None
    max_credits: MaxCredits | None = None


class TransferBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """An offer to transfer a name."""

    to: Annotated[str, Meta(max_length=254, description="The e-mail address of the new holder.")] | None = (
        None
    )


class AutoRenewBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The automatic renewal of a name. `max_credits` is for `enabled`: true only."""

    enabled: Annotated[bool, Meta(description="True turns the automatic renewal on, false off.")] | None = (
        None
    )
    max_credits: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=CREDITS_MAX,
                description="The maximum price of a renewal; 0 renews only while renewals are free. Required with `enabled`: true.",
            ),
        ]
        | None
    ) = None


class AutomaticDsBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The settings of automatic DS. A member that is left out keeps its stored value."""

    enabled: (
        Annotated[
            bool, Meta(description="True if the DS records follow CDS and CDNSKEY records of the zone.")
        ]
        | None
    ) = None
    bootstrap: (
        Annotated[bool, Meta(description="True if CDS and CDNSKEY may add the first DS records (RFC 9615).")]
        | None
    ) = None


Scopes = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": list(SCOPES)})]],
    Meta(min_length=1, max_length=len(SCOPES)),
]
Names = Annotated[
    list[Annotated[str, Meta(max_length=256)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The names that the token is for. `*.example.net` stands for all names below example.net. Null: all names.",
    ),
]
Domains = Annotated[
    list[Annotated[str, Meta(max_length=254)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The platform domains whose names the token is for. Null: all platform domains.",
    ),
]
Networks = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The networks from which the token may be used, in CIDR notation. Null: all networks.",
    ),
]
DailyCredits = Annotated[
    int,
    Meta(
        ge=0,
        le=DAILY_CREDITS_MAX,
        description="The maximum number of credits spent within 24 hours. Null: no limit.",
    ),
]
ExpiresAt = Annotated[
    datetime,
    Meta(
        tz=True,
        description="RFC 3339, at most 365 days from now. Null is allowed only if the operator issued the token without an end.",
    ),
]


class ChangeTokenBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a token. A member that is left out keeps its stored value; null lifts a restriction."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    scopes: Scopes | None = None
    names: Names | UnsetType | None = UNSET
    domains: Domains | UnsetType | None = UNSET
    networks: Networks | UnsetType | None = UNSET
    daily_credits: DailyCredits | UnsetType | None = UNSET
    expires_at: ExpiresAt | UnsetType | None = UNSET


class TokenBody(ChangeTokenBody, kw_only=True, forbid_unknown_fields=True):
    """A new token. A restriction that is left out is copied from the token of the request, but `expires_at` is then at most 30 days from now."""

    organization_id: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="The id of the organization for which the token acts. By default it acts for the user or organization of the request.",
            ),
        ]
        | None
    ) = None


class RotateBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The rotation of a token."""

    overlap_seconds: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=OVERLAP_SECONDS_MAX,
                description="The seconds for which the current secret stays valid, by default 3,600. With 0 it becomes invalid now.",
            ),
        ]
        | None
    ) = None


class TicketBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A new ticket. `subdomain_id`, `subdomain` or `fqdn` names the user's subdomain that the ticket is about."""

    subject: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    message: Annotated[str, Meta(min_length=1, max_length=20_000)] | None = None
    type: Annotated[str, Meta(extra_json_schema={"enum": list(TICKET_TYPES)})] | None = None
    subdomain_id: Annotated[int, Meta(ge=1)] | None = None
    subdomain: Annotated[str, Meta(max_length=254)] | None = None
    fqdn: Annotated[str, Meta(max_length=254)] | None = None
    message_format: Annotated[str, Meta(extra_json_schema={"enum": list(MESSAGE_FORMATS)})] | None = None


class ReplyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """A reply to a ticket."""

    message: Annotated[str, Meta(min_length=1, max_length=20_000)] | None = None
    message_format: Annotated[str, Meta(extra_json_schema={"enum": list(MESSAGE_FORMATS)})] | None = None


class PageQuery(Struct, kw_only=True):
    """The query parameters of all lists."""

    limit: Annotated[int, Meta(ge=1, le=500, description="The maximum number of items on a page.")] = 100
    cursor: (
        Annotated[
            str,
            Meta(min_length=1, max_length=512, description="The `page.next_cursor` of the previous page."),
        ]
        | None
    ) = None


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


class TicketsQuery(PageQuery, kw_only=True):
    """The filters of the list of tickets."""

    status: Literal["open", "answered", "closed"] | None = None
    type: Literal["contact", "abuse", "support"] | None = None
    archived: bool | None = None


class ActivityQuery(PageQuery, kw_only=True):
    """The filters of the activity."""

    action: (
        Annotated[str, Meta(max_length=64, description="Only this action, such as subdomain.renew.")] | None
    ) = None
    token_id: Annotated[int, Meta(ge=1, description="Only requests with this token.")] | None = None
    since: Annotated[datetime, Meta(tz=True, description="RFC 3339.")] | None = None
    until: (
        Annotated[datetime, Meta(tz=True, description="RFC 3339. Only events before this instant.")] | None
    ) = None


class TransfersQuery(PageQuery, kw_only=True):
    """The filters of the list of transfers."""

    state: Literal["pending", "accepted", "declined", "withdrawn", "expired"] | None = None
    direction: Annotated[Literal["sent", "received"], Meta(description="By default both.")] | None = None


def sent_ceiling(body: AutoRenewBody) -> int | None:
    """Return the ceiling of the automatic renewal; None turns it off.

    Raises:
        ValidationFailed: `enabled` is missing; it is true and `max_credits` is missing; it is false and `max_credits` was sent.
    """
    if body.enabled is None:
        raise validation_failed(
            [
                FieldError(
                    "enabled", "required", "is missing. Send true to renew the name automatically, or false."
                )
            ]
        )
    if body.enabled and body.max_credits is None:
        sentence = "is missing. Send the maximum price of a renewal in credits; 0 renews only while renewals are free."
        raise validation_failed([FieldError("max_credits", "required", sentence)])
    if not body.enabled and body.max_credits is not None:
        sentence = "is only for `enabled`: true. Leave it out."
        raise validation_failed([FieldError("max_credits", "value_invalid", sentence)])
    return body.max_credits


def sent_restrictions(body: ChangeTokenBody) -> dict[str, Any]:
    """Return the restrictions that were sent, by the names of their fields. None lifts a restriction."""
    sent = {name: getattr(body, name) for name in Restrictions.__slots__}
    if sent["scopes"] is None:
        sent["scopes"] = UNSET
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in sent.items()
        if value is not UNSET
    }


def glue_inputs(entries: list[GlueEntry]) -> tuple[GlueInput, ...]:
    """Convert glue entries to the type that the rules take."""
    return tuple(GlueInput(entry.host, entry.ipv4, entry.ipv6) for entry in entries)


def planned_registration(body: DelegationCheckBody) -> Register:
    """Return the registration that a body describes, without its mode and payment."""
    return Register(
        platform_domain_id=body.platform_domain_id,
        domain=body.domain,
        fqdn=body.fqdn,
        label=body.label,
        nameservers=sent_nameservers(body) or (),
        glue=glue_inputs(body.glue or []),
        ds_records=ds_inputs(body.ds_records or []),
    )


def ds_inputs(entries: list[str | DsEntry]) -> tuple[DsLike, ...]:
    """Convert DS entries to the types that the rules take."""
    return tuple(_ds_input(entry) for entry in entries)


def _ds_input(entry: str | DsEntry) -> DsLike:
    if isinstance(entry, DsRecord):
        return DsInput(entry.key_tag, entry.algorithm, entry.digest_type, entry.digest)
    if isinstance(entry, Dnskey):
        return DnskeyInput(entry.flags, entry.protocol, entry.algorithm, entry.public_key)
    if isinstance(entry, str):
        return entry
    raise TypeError("a DS entry is text, a DS record or a DNSKEY")


_KEYS = ("ns1", "ns2", "ns3", "ns4")
_IN_LIST = re.compile(r"nameservers(?:\[(?P<index>[0-9]+)\])?")


def sent_nameservers(body: NameserversBody | DelegationCheckBody) -> tuple[str, ...] | None:
    """Return the nameservers from `nameservers` or from `ns1` to `ns4`; None if neither was sent.

    `ns1` to `ns4` replace the whole list, so a key that is left out or null removes its nameserver. An empty text counts as sent, and the
    verb refuses it as a host name.

    Raises, in this order:
        ValidationFailed: both forms were sent (`value_invalid`).
        ValidationFailed: there is a gap before the last key that was sent (`required`, for each missing key).
    """
    by_key = {key: getattr(body, key) for key in _KEYS}
    hosts = _hosts(by_key)
    # In a registration null means "not sent"; in a change it clears the list.
    has_list = isinstance(body.nameservers, list) or (
        isinstance(body, NameserversBody) and body.nameservers is None
    )
    if hosts and has_list:
        sentence = "is sent together with `nameservers`. Send either `nameservers`, or `ns1` to `ns4`."
        raise validation_failed([FieldError(next(iter(hosts)), "value_invalid", sentence)])
    if isinstance(body.nameservers, list):
        return tuple(body.nameservers)
    if missing := _missing_keys(hosts):
        raise validation_failed(missing)
    if isinstance(body, DelegationCheckBody):
        return tuple(hosts.values()) or None
    sent = body.nameservers is not UNSET or any(host is not UNSET for host in by_key.values())
    return tuple(hosts.values()) if sent else None


@contextmanager
def name_errors_as_sent(body: NameserversBody | DelegationCheckBody) -> Iterator[None]:
    """Rename the fields of errors in `nameservers` to `ns1` to `ns4` if these were sent. Errors of the whole list get `ns1`."""
    try:
        yield
    except ValidationFailed as refusal:
        if not _hosts({key: getattr(body, key) for key in _KEYS}):
            raise
        raise validation_failed([_name_as_key(error) for error in refusal.errors]) from refusal


def _hosts(by_key: dict[str, object]) -> dict[str, str]:
    return {key: host for key, host in by_key.items() if isinstance(host, str)}


def _missing_keys(hosts: dict[str, str]) -> list[FieldError]:
    if not hosts:
        return []
    last = max(hosts)
    sentence = f"is missing, but `{last}` was sent. Send the nameservers as `ns1`, `ns2` … without a gap."
    return [FieldError(key, "required", sentence) for key in _KEYS if key < last and key not in hosts]


def _name_as_key(error: FieldError) -> FieldError:
    found = _IN_LIST.fullmatch(error.field)
    return error if found is None else replace(error, field=_KEYS[int(found["index"] or 0)])
