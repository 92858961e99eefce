"""The API of the dates of a name (spec, part 4, "Subdomains"; the automatic renewal extends it)."""

from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta

from sublet import audit
from sublet.credits.ledger import CREDITS_MAX
from sublet.db import Tx
from sublet.errors import (
    FieldError,
    InsufficientScope,
    RenewalNotAvailable,
    SignInRequired,
    SubdomainNotFound,
    TokenRestricted,
    ValidationFailed,
    validation_failed,
)
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.idempotency import write_once
from sublet.operations.operation import API, IF_PAID, Operations, sensitive
from sublet.operations.shapes import NEXT_YEAR, NOW, Body, Credits, Moment, Shape, Success, one_of
from sublet.subdomains import store
from sublet.subdomains.api import OWN_NAME, find_written, if_subdomain_matches, may_spend, shape_of
from sublet.subdomains.charge import list_price_of_renewal
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.dates.timeline import EVENTS, PAST_ACTIONS, PAST_EVENTS_MAX, last_attempt, timeline
from sublet.subdomains.find import find_in_account, find_in_account_or_trash
from sublet.subdomains.lifecycle import ACTIONS, allowed_actions, auto_renew_at, renewal_available
from sublet.subdomains.model import Subdomain, Term
from sublet.subdomains.nameservers import find_enclosed_nameservers_of_subdomain, stored_warnings
from sublet.subdomains.quota import find_quota
from sublet.subdomains.shapes import FQDN, SUBDOMAIN_EXAMPLE, SubdomainShape
from sublet.subdomains.sweep.store import PastMilestone, list_milestones

api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN)

_EVENT = {"past": False, "detail": None, "by": None, "expires_at": None, "charged_credits": None}

_AUTO_RENEW = {
    "enabled": True,
    "max_credits": 20,
    "renewal_price_credits": 10,
    "next_attempt_at": "2027-09-22T09:30:00.000000Z",
    "last_attempt": {
        "at": "2026-09-22T09:30:00.000000Z",
        "outcome": "renewed",
        "detail": None,
        "charged_credits": 10,
    },
}


class TimelineEventShape(Shape):
    """An event and its date.

    If `past` is true, the event has happened; otherwise it will happen if nothing changes.

    `expires_at` and `charged_credits` are set for an event that added a term: the new expiry, and the price.
    `by` is null if only the date caused the event.
    """

    event: Annotated[str, one_of(EVENTS)]
    at: Moment
    past: bool
    detail: str | None
    by: Annotated[str, one_of(("user", "operator", "system"))] | None
    expires_at: Moment | None
    charged_credits: Credits | None


class TimelineAnswer(Success, kw_only=True):
    """The past and future events of a subdomain, oldest first, the actions allowed now, and warnings about
    the name.
    """

    timeline: list[TimelineEventShape]
    allowed_actions: list[Annotated[str, one_of(ACTIONS)]]
    renewal_available: bool
    warnings: list[str]


class AttemptShape(Shape):
    """An attempt of the automatic renewal. `charged_credits` is null if the attempt failed."""

    at: Moment
    outcome: Annotated[str, one_of(("renewed", "failed"))]
    detail: str | None
    charged_credits: Credits | None


class AutoRenewShape(Shape):
    """The automatic renewal of a subdomain, which is off if `max_credits` is null.

    `renewal_price_credits` is the current list price of a renewal.
    """

    enabled: bool
    max_credits: Credits | None
    renewal_price_credits: Credits
    next_attempt_at: Moment | None
    last_attempt: AttemptShape | None


class AutoRenewAnswer(Success, kw_only=True):
    """The automatic renewal of a subdomain."""

    auto_renew: AutoRenewShape


class SetAutoRenewAnswer(Success, kw_only=True):
    """A subdomain with its new automatic renewal."""

    subdomain: SubdomainShape
    auto_renew: AutoRenewShape


class AutoRenewBody(Body):
    """The automatic renewal of a name. `max_credits` is for `enabled`: true only."""

    required_members: ClassVar[tuple[str, ...]] = ("enabled",)

    enabled: Annotated[bool, Meta(description="True turns the automatic renewal on, false off.")] | None = (
        None
    )
    max_credits: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=CREDITS_MAX,
                description="The maximum price of a renewal; 0 renews only "
                "while renewals are free. Required with "
                "`enabled`: true.",
            ),
        ]
        | None
    ) = None


def sent_ceiling(body: AutoRenewBody) -> int | None:
    """Return the ceiling of the automatic renewal; None turns it off.

    Raises:
        ValidationFailed: `enabled` is missing; it is true and `max_credits` is missing; it is false and
            `max_credits` was sent.
    """
    if body.enabled is None:
        raise validation_failed(
            [
                FieldError(
                    "enabled", "required", "is missing. Give true to renew the name automatically, or false."
                )
            ]
        )
    if body.enabled and body.max_credits is None:
        sentence = (
            "is missing. Give the maximum price of a renewal in credits; 0 renews only while renewals are "
            "free."
        )
        raise validation_failed([FieldError("max_credits", "required", sentence)])
    if not body.enabled and body.max_credits is not None:
        sentence = "is only for `enabled`: true. Leave it out."
        raise validation_failed([FieldError("max_credits", "value_invalid", sentence)])
    return body.max_credits


class Past(NamedTuple):
    """What happened to a name: its newest terms, and its milestones, both oldest first."""

    terms: list[Term]
    milestones: list[PastMilestone]


def past_of(tx: Tx, subdomain: Subdomain) -> Past:
    """Return what happened to a name."""
    return Past(store.list_terms(tx, subdomain.id, PAST_EVENTS_MAX), list_milestones(tx, subdomain.id))


def auto_renew_of(tx: Tx, subdomain: Subdomain, past: Past) -> AutoRenewShape:
    """Return the shape of a name's automatic renewal. An overdue attempt gets the instant of `tx`."""
    next_attempt_at = auto_renew_at(subdomain)
    attempt = last_attempt(past.terms, past.milestones)
    return AutoRenewShape(
        enabled=subdomain.auto_renew_max_credits is not None,
        max_credits=subdomain.auto_renew_max_credits,
        renewal_price_credits=list_price_of_renewal(tx, subdomain),
        next_attempt_at=max(next_attempt_at, tx.now) if next_attempt_at else None,
        last_attempt=AttemptShape.of(attempt) if attempt else None,
    )


@api.get(
    "/subdomains/{fqdn}/timeline",
    "subdomains:read",
    (SubdomainNotFound,),
    example={
        "timeline": [
            {
                **_EVENT,
                "event": "registered",
                "at": NOW,
                "past": True,
                "by": "user",
                "expires_at": NEXT_YEAR,
                "charged_credits": 0,
            },
            {
                **_EVENT,
                "event": "renewal_opens",
                "at": "2027-09-22T09:30:00.000000Z",
                "detail": "From then on it can be renewed.",
            },
            {
                **_EVENT,
                "event": "expires",
                "at": NEXT_YEAR,
                "detail": "After the expiry the name stays in the DNS and "
                "can be renewed until the end of its "
                "grace period.",
            },
            {
                **_EVENT,
                "event": "trashed",
                "at": "2027-12-21T09:30:00.000000Z",
                "detail": "Unless it is renewed before: it leaves the account and the DNS.",
            },
            {
                **_EVENT,
                "event": "purged",
                "at": "2028-01-20T09:30:00.000000Z",
                "detail": "Until then it can be restored from the trash.",
            },
            {
                **_EVENT,
                "event": "released",
                "at": "2028-01-27T09:30:00.000000Z",
                "detail": "From then on any user may register the name.",
            },
        ],
        "allowed_actions": ["update_nameservers", "set_auto_renew", "delete"],
        "renewal_available": False,
        "warnings": [],
    },
)
def timeline_(tx: Tx, call: Call[None, None]) -> TimelineAnswer:
    """Get the timeline of a subdomain.

    Returns past events, oldest first, then the dates to come if nothing changes. The name may be in the
    user's trash. `allowed_actions` are the actions that the current state allows, including those that need a
    quote first.
    """
    subdomain = find_in_account_or_trash(tx, call.actor(), call.path["fqdn"])
    quota_left = (
        subdomain.trashed_at is None
        or find_quota(tx, call.registrant.holder, call.default_free_quota()).allows_one_more
    )
    return timeline_of(tx, call, subdomain, past_of(tx, subdomain), quota_left=quota_left)


def timeline_of(
    tx: Tx, call: Call[Any, Any], subdomain: Subdomain, past: Past, *, quota_left: bool
) -> TimelineAnswer:
    """Return the timeline of a name, live or in the trash, its allowed actions, and the warnings about it.

    `quota_left` is true if the holder may hold one more free name. It matters for a name in the trash.
    """
    enclosed = find_enclosed_nameservers_of_subdomain(tx, subdomain)
    changes = audit.list_changes(tx, "subdomain", subdomain.id, PAST_ACTIONS, PAST_EVENTS_MAX)
    events = timeline(
        subdomain,
        tx.now,
        terms=past.terms,
        milestones=past.milestones,
        changes=changes,
        enclosed_nameservers=enclosed,
    )
    is_suspended = call.registrant.is_suspended
    return TimelineAnswer(
        timeline=[TimelineEventShape.of(each) for each in events],
        allowed_actions=list(
            allowed_actions(subdomain, tx.now, user_suspended=is_suspended, quota_left=quota_left)
        ),
        renewal_available=renewal_available(subdomain, tx.now, user_suspended=is_suspended),
        warnings=list(stored_warnings(tx, subdomain, enclosed, changes)),
    )


@api.get(
    "/subdomains/{fqdn}/auto-renew",
    "subdomains:read",
    (SubdomainNotFound,),
    example={"auto_renew": _AUTO_RENEW},
)
def get_auto_renew(tx: Tx, call: Call[None, None]) -> AutoRenewAnswer:
    """Get the automatic renewal.

    Returns whether the name is renewed automatically, its ceiling in credits, and the next and the last
    attempt.
    """
    subdomain = find_in_account(tx, call.actor(), call.path["fqdn"])
    return AutoRenewAnswer(auto_renew=auto_renew_of(tx, subdomain, past_of(tx, subdomain)))


@api.write(
    "PUT",
    "/subdomains/{fqdn}/auto-renew",
    "subdomains:write",
    (
        *OWN_NAME,
        RenewalNotAvailable,
        ValidationFailed,
        InsufficientScope,
        SignInRequired,
        TokenRestricted,
    ),
    gate=sensitive("confirms charges in advance, up to a ceiling", checked=IF_PAID),
    example_body={"enabled": True, "max_credits": 20},
    example={"subdomain": SUBDOMAIN_EXAMPLE, "auto_renew": _AUTO_RENEW},
)
async def set_auto_renew_(call: Call[AutoRenewBody, None]) -> Answer[SetAutoRenewAnswer]:
    """Set the automatic renewal.

    With `enabled`: true the name is renewed automatically once its renewal window is open, if the price is at
    most `max_credits`. This ceiling confirms the charge, so a ceiling above 0 needs the scope
    `credits:spend`. A failed attempt is repeated after a day. This request charges nothing.
    """
    done = await write_once(
        call,
        if_subdomain_matches(call, set_auto_renew),
        call.actor(),
        call.path["fqdn"],
        sent_ceiling(call.body),
        may_spend=may_spend(call),
    )

    def read(tx: Tx) -> SetAutoRenewAnswer:
        subdomain = find_written(tx, call, done.outcome.id)
        return SetAutoRenewAnswer(
            subdomain=shape_of(call, subdomain, tx.now),
            auto_renew=auto_renew_of(tx, subdomain, past_of(tx, subdomain)),
        )

    return done.answer(await call.context.db.read(read))
