"""The types of subdomains: the row, the registrant's requests, and the events of a timeline."""

from datetime import datetime

import msgspec

from sublet.credits.model import Outcome, Payable
from sublet.dns.types import Delegation, DsLike, GlueEntry, RecordSet, RecordSetInput
from sublet.platform_domains.model import ADMIN, PlatformDomain
from sublet.structs import replace

STATUSES = ("inactive", "provisioning", "active", "failed", "expired", "suspended", "trashed")


class NameForZoneCheck(msgspec.Struct, frozen=True):
    """The fields of a subdomain that a check of its zone needs.

    It takes a third of the memory of a `Subdomain`.
    """

    id: int
    fqdn: str
    generation: int
    published_generation: int
    published_at: datetime | None
    trashed_at: datetime | None
    suspended_at: datetime | None
    purged_at: datetime | None
    record_count: int
    delegation: Delegation
    records: tuple[RecordSet, ...]


class ShownSubdomain(msgspec.Struct, frozen=True):
    """The fields of a name that its registrant sees, and the fields that these are derived from.

    A name has nameservers, or records, or neither. `record_count` is the number of its RRsets.

    `generation` increases with each change that the DNS must follow. The change is published once
    `published_generation` equals it. `provision_error` is the error of the last attempt to publish the
    current generation. `unsuspended_at` is the end of the last suspension. `renewal_window_days`,
    `trash_days` and `names_until` come from the platform domain.
    """

    id: int
    domain: str
    domain_public_name: str
    label: str
    fqdn: str
    registration_type: str
    registration_source: str
    delegation: Delegation
    record_count: int
    generation: int
    published_generation: int
    provision_error: str | None
    registered_at: datetime
    expires_at: datetime
    last_renewed_at: datetime | None
    period_days: int
    suspended_at: datetime | None
    unsuspended_at: datetime | None
    trashed_at: datetime | None
    purged_at: datetime | None
    created_at: datetime
    updated_at: datetime
    renewal_window_days: int
    trash_days: int
    names_until: datetime | None


class Subdomain(ShownSubdomain, frozen=True):
    """The row of a name, with the fields of its platform domain that the rules need.

    A row with `released_at` no longer reserves its name. `auto_renew_max_credits` is the ceiling of an
    automatic renewal (None: off), `auto_renew_tried_at` the time of the last attempt.
    """

    user_id: int
    platform_domain_id: int
    attempts: int
    next_attempt_at: datetime | None
    published_at: datetime | None
    published_serial: int | None
    suspended_reason: str | None
    released_at: datetime | None
    generation_at: datetime
    grace_days: int
    cooling_off_days: int
    nameservers_min: int
    nameservers_max: int
    accepts_records: bool
    auto_renew_max_credits: int | None
    auto_renew_tried_at: datetime | None
    records: tuple[RecordSet, ...]


DnsState = ShownSubdomain | NameForZoneCheck
"""The types with the fields that determine whether the zone should have records of a name."""
DnsContent = Subdomain | NameForZoneCheck
"""The types with the fields that determine the records of a name in the zone of its platform domain."""


class Term(msgspec.Struct, frozen=True):
    """A period for which a name was registered, renewed or restored (`action`) at `created_at`, and the
    price.
    """

    action: str
    ends_at: datetime
    charged_credits: int
    created_at: datetime


class TimelineEvent(msgspec.Struct, frozen=True):
    """A dated event in the past or future of a name. `event` is one of `timeline.EVENTS`.

    `by` is the kind of actor (user, operator, system), or None for an event without an actor. If the event
    added a term, `expires_at` is the new expiry and `charged_credits` the price.
    """

    event: str
    at: datetime
    past: bool
    detail: str | None = None
    by: str | None = None
    expires_at: datetime | None = None
    charged_credits: int | None = None


class AutoRenewAttempt(msgspec.Struct, frozen=True):
    """An attempt of automatic renewal. `outcome` is renewed or failed, `detail` a sentence."""

    at: datetime
    outcome: str
    detail: str | None
    charged_credits: int | None


class Register(msgspec.Struct, frozen=True):
    """The unchecked body of POST /subdomains (spec, part 4). None means that the member was not sent."""

    platform_domain_id: int | None = None
    domain: str | None = None
    fqdn: str | None = None
    label: str | None = None
    nameservers: tuple[str, ...] = ()
    glue: tuple[GlueEntry, ...] = ()
    ds_records: tuple[DsLike, ...] = ()
    records: tuple[RecordSetInput, ...] = ()
    registration_mode: str | None = None
    payable: Payable = Payable()


class OperatorPermission(msgspec.Struct, frozen=True):
    """Allows a registration without price and quota, with a reserved label, or under a closed or hidden
    platform domain.

    `user` is the address or id of the name's user, `mode` admin or a mode that the platform domain offers,
    `days` the first term (None: the mode's).
    """

    user: str
    mode: str = ADMIN
    days: int | None = None


class Registered(Outcome, frozen=True, kw_only=True):
    """The outcome of a registration, with all that the API's answer needs without a further query.

    `warnings` are the `registry_warnings`.
    """

    subdomain: Subdomain
    platform_domain: PlatformDomain
    warnings: tuple[str, ...]


class UpdateNameservers(msgspec.Struct, frozen=True):
    """The unchecked body of PUT /subdomains/{fqdn}/nameservers.

    None keeps the stored value, and an empty tuple removes it.
    """

    nameservers: tuple[str, ...] | None = None
    glue: tuple[GlueEntry, ...] | None = None
    ds_records: tuple[DsLike, ...] | None = None


class SubdomainFilter(msgspec.Struct, frozen=True):
    """The filters of GET /subdomains. None means any. Without `status`, names in the trash are left out.

    If `user_suspended` is true, no name has `renewal_available`.
    """

    status: str | None = None
    domain: str | None = None
    q: str | None = None
    registration_type: str | None = None
    expires_before: datetime | None = None
    expires_after: datetime | None = None
    dnssec_enabled: bool | None = None
    renewal_available: bool | None = None
    health: str | None = None
    user_suspended: bool = False

    @property
    def is_empty(self) -> bool:
        """True if all names outside the trash match."""
        return replace(self, user_suspended=False) == SubdomainFilter()
