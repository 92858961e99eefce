"""The types of subdomains: the row, the registrant's requests, and the events of a timeline."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

import msgspec

from sublet.credits.model import Outcome, Payable
from sublet.dns.types import Delegation, DsLike, GlueInput
from sublet.platform_domains.model import ADMIN

STATUSES = ("inactive", "provisioning", "active", "failed", "expired", "suspended", "trashed")


class Placed(Protocol):
    """The fields that decide whether and how a name is in its parent zone."""

    @property
    def fqdn(self) -> str: ...  # noqa: D102 - as in Subdomain
    @property
    def delegation(self) -> Delegation: ...  # noqa: D102
    @property
    def trashed_at(self) -> datetime | None: ...  # noqa: D102
    @property
    def suspended_at(self) -> datetime | None: ...  # noqa: D102
    @property
    def purged_at(self) -> datetime | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class PlacedName:
    """The fields of a subdomain for a check of its zone: a third of a `Subdomain`, because a zone may have very many."""

    id: int
    fqdn: str
    generation: int
    published_generation: int
    published_at: datetime | None
    trashed_at: datetime | None
    suspended_at: datetime | None
    purged_at: datetime | None
    delegation: Delegation


class ShownSubdomain(msgspec.Struct, frozen=True):
    """The fields of a name that its registrant sees, and those that they are derived from.

    `generation` counts the changes that the DNS has to follow. `published_generation` is the last one that was read back from the name server
    as intended. `provision_error` is about the last attempt to publish the current generation. `unsuspended_at` is the end of the last
    suspension. The days of windows and of the trash, and `names_until`, come from the platform domain.

    A struct, not a dataclass: a frozen dataclass of this size takes 20 times as long to create, and lists have hundreds.
    """

    id: int
    domain: str
    domain_public_name: str
    label: str
    fqdn: str
    registration_type: str
    registration_source: str
    delegation: Delegation
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
    """A registered name with all fields that the rules need, of the row and of its platform domain.

    `purged_at` and `released_at` are set on rows that are only history. `auto_renew_max_credits` is the ceiling of an automatic renewal (None:
    off), `auto_renew_tried_at` the time of its last attempt.
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
    auto_renew_max_credits: int | None
    auto_renew_tried_at: datetime | None


@dataclass(frozen=True, slots=True)
class Term:
    """A period for which a name was registered, renewed or restored (`action`) at `created_at`, and its price."""

    action: str
    ends_at: datetime
    charged_credits: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A dated event in the past or future of a name; `event` is one of `timeline.EVENTS`.

    `by` is the kind of actor (user, operator, system), or None for an event without an actor. `expires_at` and `charged_credits` are set if a
    term was added: the expiry after it, and its price.
    """

    event: str
    at: datetime
    past: bool
    detail: str | None = None
    by: str | None = None
    expires_at: datetime | None = None
    charged_credits: int | None = None


@dataclass(frozen=True, slots=True)
class AutoRenewAttempt:
    """An attempt of automatic renewal: `outcome` is renewed or failed, `detail` a sentence."""

    at: datetime
    outcome: str
    detail: str | None
    charged_credits: int | None


@dataclass(frozen=True, slots=True)
class Register:
    """POST /subdomains (spec, part 4), typed but not checked. None means that the member was not sent."""

    platform_domain_id: int | None = None
    domain: str | None = None
    fqdn: str | None = None
    label: str | None = None
    nameservers: tuple[str, ...] = ()
    glue: tuple[GlueInput, ...] = ()
    ds_records: tuple[DsLike, ...] = ()
    registration_mode: str | None = None
    payable: Payable = Payable()


@dataclass(frozen=True, slots=True)
class OperatorPermission:
    """The operator's permission for a registration: no price, no quota, also reserved labels and closed or hidden platform domains.

    `user` is the address or id of the user who gets the name. `mode` is admin or one that the platform domain offers. `days` is the length of
    the first term; None: the mode's.
    """

    user: str
    mode: str = ADMIN
    days: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered(Outcome):
    """The outcome of a registration, with the name and its `registry_warnings`, so that the HTTP edge doesn't query them again."""

    subdomain: Subdomain
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateNameservers:
    """PUT /subdomains/{fqdn}/nameservers. None keeps the stored value; an empty tuple clears it."""

    nameservers: tuple[str, ...] | None = None
    glue: tuple[GlueInput, ...] | None = None
    ds_records: tuple[DsLike, ...] | None = None


@dataclass(frozen=True, slots=True)
class SubdomainFilter:
    """The filters of GET /subdomains; None means any. Without `status`, names in the trash are left out.

    `user_suspended` is true if the asking user is suspended, and so can't renew.
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
