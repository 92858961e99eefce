"""The wire shapes of a name's life: its timeline, and its automatic renewal."""

from typing import Literal

from msgspec import Struct

from sublet.http.shapes import Credits, Moment, SubdomainShape

Action = Literal["update_nameservers", "retry", "renew", "set_auto_renew", "delete", "restore"]


class TimelineEventShape(Struct, kw_only=True, frozen=True):
    """A dated event: behind where `past` is true, else what comes if nobody does anything.

    `expires_at` and `charged_credits` are set where a term was added: the expiry after it, and what it cost. `by` is null
    for a date, which nobody made.
    """

    event: Literal[
        "registered",
        "nameservers_updated",
        "nameservers_removed",
        "auto_renew_set",
        "renewal_opens",
        "expires",
        "auto_renew",
        "auto_renew_failed",
        "renewed",
        "deleted",
        "suspended",
        "unsuspended",
        "trashed",
        "restored",
        "purged",
        "released",
        "reminded",
    ]
    at: Moment
    past: bool
    detail: str | None
    by: Literal["user", "operator", "system"] | None
    expires_at: Moment | None
    charged_credits: Credits | None


class TimelineAnswer(Struct, kw_only=True, frozen=True):
    """The events behind and ahead of a subdomain, oldest first, and what can be done with it now."""

    ok: Literal[True] = True
    timeline: list[TimelineEventShape]
    allowed_actions: list[Action]
    renewal_available: bool


class AttemptShape(Struct, kw_only=True, frozen=True):
    """An attempt to renew a subdomain by itself; `charged_credits` is null where it failed."""

    at: Moment
    outcome: Literal["renewed", "failed"]
    detail: str | None
    charged_credits: Credits | None


class AutoRenewShape(Struct, kw_only=True, frozen=True):
    """The automatic renewal of a subdomain: off where `max_credits` is null.

    `renewal_price_credits` is what a renewal would cost now, by list price.
    """

    enabled: bool
    max_credits: Credits | None
    renewal_price_credits: Credits
    next_attempt_at: Moment | None
    last_attempt: AttemptShape | None


class AutoRenewAnswer(Struct, kw_only=True, frozen=True):
    """The automatic renewal of a subdomain."""

    ok: Literal[True] = True
    auto_renew: AutoRenewShape


class SetAutoRenewAnswer(Struct, kw_only=True, frozen=True):
    """A subdomain with its automatic renewal as it was set."""

    ok: Literal[True] = True
    subdomain: SubdomainShape
    auto_renew: AutoRenewShape
