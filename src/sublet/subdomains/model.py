"""The types of subdomains: the row, what a registrant asks for, and what publishing knows."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

import msgspec

from sublet.credits.model import Outcome, Payable
from sublet.dns.types import Delegation, DsLike, GlueInput

STATUSES = ("inactive", "provisioning", "active", "failed", "expired", "suspended", "trashed")


class Placed(Protocol):
    """What tells whether, and how, a name stands in its parent zone; `Subdomain` has it."""

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
    """What of a subdomain a check of its zone needs: a third of a `Subdomain`, as there may be very many."""

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
    """What a registrant is shown of a registered name, with what that is derived from: what is asked most, and by the hundred in a list.

    `generation` counts the changes that the DNS has to follow; `published_generation` is the last one that was read
    back from the name server as asked. `provision_error` belongs to the current generation's last attempt.
    `unsuspended_at` is when it was last let go of by the operator. Days of windows and the trash are its platform domain's. No
    dataclass: of so many fields, frozen, one takes 20 times as long to make.
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


class Subdomain(ShownSubdomain, frozen=True):
    """One registered name, with all that the rules ask of it and of its platform domain.

    `purged_at` and `released_at` are set on rows that are history only. `auto_renew_max_credits` is the most that it may be renewed
    for by itself, None for not at all; `auto_renew_tried_at` is when that was last tried.
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
    """A stretch of time that a name was registered, renewed or restored for at `created_at` (`action`), and its cost."""

    action: str
    ends_at: datetime
    charged_credits: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A dated event of a name's life, behind or ahead; `event` is one of `timeline.EVENTS`.

    `by` is the kind of actor (user, operator, system), None for what nobody did. `expires_at` and `charged_credits` are
    set where a term was added: the expiry after it, and what it cost.
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
    """An attempt to renew a name by itself: `outcome` is renewed or failed, `detail` a sentence."""

    at: datetime
    outcome: str
    detail: str | None
    charged_credits: int | None


@dataclass(frozen=True, slots=True)
class Register:
    """POST /subdomains (spec, part 4), typed but not checked; None means the member was not sent."""

    platform_domain_id: int | None = None
    domain: str | None = None
    fqdn: str | None = None
    label: str | None = None
    nameservers: tuple[str, ...] = ()
    glue: tuple[GlueInput, ...] = ()
    ds_records: tuple[DsLike, ...] = ()
    registration_mode: str | None = None
    payable: Payable = Payable()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered(Outcome):
    """What a registration did, with the name as it then was and its `registry_warnings`, so that the edge needn't ask for them."""

    subdomain: Subdomain
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateNameservers:
    """PUT /subdomains/{fqdn}/nameservers: None keeps what is stored, an empty tuple clears it."""

    nameservers: tuple[str, ...] | None = None
    glue: tuple[GlueInput, ...] | None = None
    ds_records: tuple[DsLike, ...] | None = None


@dataclass(frozen=True, slots=True)
class SubdomainFilter:
    """The filters of GET /subdomains; None means any. `status` None leaves the trashed ones out.

    `user_suspended` tells that the asking user is suspended, and so can renew nothing.
    """

    status: str | None = None
    domain: str | None = None
    q: str | None = None
    registration_type: str | None = None
    expires_before: datetime | None = None
    expires_after: datetime | None = None
    dnssec_enabled: bool | None = None
    renewal_available: bool | None = None
    user_suspended: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether each name passes that is not in the trash."""
        return replace(self, user_suspended=False) == SubdomainFilter()
