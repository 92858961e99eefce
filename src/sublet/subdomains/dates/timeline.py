"""The timeline of a name: its past events, and its future events by the rules of the sweep
(docs/spec-choices.md, "Timeline").

An event has the same name in the past and in the future.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from sublet.audit import Change
from sublet.counted import counted
from sublet.structs import replace
from sublet.subdomains.delegation_changes import NOTICE, REMOVAL, notice_detail, removed_hosts
from sublet.subdomains.lifecycle import (
    auto_renew_at,
    closing_allows_restore,
    cooling_off_ends_at,
    grace_ends_at,
    is_renewed_by_operator,
    renewal_opens_at,
    restorable_until,
)
from sublet.subdomains.model import AutoRenewAttempt, Subdomain, Term, TimelineEvent
from sublet.subdomains.nameservers import EnclosedNameserver
from sublet.subdomains.sweep.store import PastMilestone

EVENTS = (
    "registered",
    "nameservers_updated",
    "records_updated",
    "nameservers_removed",
    "ds_followed",
    "nameservers_followed",
    "undelegated",
    "automatic_ds_set",
    "auto_renew_set",
    "renewal_opens",
    "expires",
    "auto_renew",
    "auto_renew_failed",
    "renewed",
    "transferred",
    "deleted",
    "suspended",
    "unsuspended",
    "trashed",
    "restored",
    "purged",
    "released",
    "reminded",
)
"""All events, in the order for events at the same instant. The user or operator causes `deleted`, the sweep
`trashed`.
"""

EVENTS_BY_ACTION = {
    "subdomain.register": "registered",
    "subdomain.renew": "renewed",
    "subdomain.transfer": "transferred",
    "subdomain.restore": "restored",
    "subdomain.update_nameservers": "nameservers_updated",
    "subdomain.update_records": "records_updated",
    "subdomain.follow_child": "ds_followed",
    "subdomain.follow_csync": "nameservers_followed",
    "subdomain.undelegate": "undelegated",
    "subdomain.set_automatic_ds": "automatic_ds_set",
    "subdomain.set_auto_renew": "auto_renew_set",
    "subdomain.suspend": "suspended",
    "subdomain.unsuspend": "unsuspended",
    "subdomain.delete": "deleted",
}
"""The events that come from audit events, by the action. Other past events come from dates and milestones."""
PAST_ACTIONS = (*EVENTS_BY_ACTION, NOTICE, REMOVAL)
"""The actions of the audit events that `timeline` takes."""

PAST_EVENTS_MAX = 500
"""The maximum number of past events. Older events are left out."""

_MAILS = {
    "expires_in_30_days": "Mail sent: the name expires within 30 days.",
    "expires_in_7_days": "Mail sent: the name expires within 7 days.",
    "expires_in_1_day": "Mail sent: the name expires within a day.",
    "expired": "Mail sent: the name has expired.",
    "trashed": "Mail sent: the name was moved to the trash.",
    "trash_ends": "Mail sent: the name will be purged soon.",
    "auto_renewed": "Mail sent: the name was renewed automatically.",
    "auto_renew_failed": "Mail sent: the name could not be renewed automatically.",
}
_TERMS = {"registered": "register", "renewed": "renew", "restored": "restore"}


def timeline(
    subdomain: Subdomain,
    now: datetime,
    *,
    terms: Sequence[Term],
    milestones: Sequence[PastMilestone],
    changes: Sequence[Change],
    enclosed_nameservers: Sequence[EnclosedNameserver] = (),
) -> list[TimelineEvent]:
    """Return the past events of a name, live or in the trash, then its future events, each oldest first.

    Future events happen if neither a user nor the operator acts. A due date that the sweep has not processed
    yet is a future event at `now`. A suspended name has no trash or purge date. `changes` are the name's
    audit events with the `PAST_ACTIONS`. `enclosed_nameservers` are the name's current nameservers at or
    below other registrable names.
    """
    past = [
        *_changes(subdomain, terms, changes),
        *_dates(subdomain, now, terms, milestones),
        *_milestones(milestones),
        *_nameserver_events(changes),
    ]
    future = [*future_events(subdomain, now), *_future_removals(enclosed_nameservers, now)]
    return [*_in_order(past)[-PAST_EVENTS_MAX:], *_in_order(future)]


def last_attempt(terms: Sequence[Term], milestones: Sequence[PastMilestone]) -> AutoRenewAttempt | None:
    """Return the last attempt of automatic renewal, or None."""
    for each in reversed(milestones):
        if each.kind == "auto_renew_failed":
            return AutoRenewAttempt(each.about, "failed", each.detail, None)
        if each.kind == "auto_renewed":
            term = _term(terms, "renew", each.about)
            return AutoRenewAttempt(
                each.about, "renewed", each.detail, term.charged_credits if term else None
            )
    return None


def _in_order(events: list[TimelineEvent]) -> list[TimelineEvent]:
    return sorted(events, key=lambda each: (each.at, EVENTS.index(each.event)))


def _term(terms: Sequence[Term], action: str, at: datetime) -> Term | None:
    """Return the term that an action added at the instant of its transaction, or None."""
    return next((each for each in terms if (each.action, each.created_at) == (action, at)), None)


def _changes(
    subdomain: Subdomain, terms: Sequence[Term], changes: Sequence[Change]
) -> Iterator[TimelineEvent]:
    seen: set[tuple[str, datetime]] = set()
    for change in changes:
        event = EVENTS_BY_ACTION.get(change.action)
        # A restore that includes a renewal has two audit events with the same time.
        if event is None or (event, change.at) in seen:
            continue
        seen.add((event, change.at))
        term = _term(terms, _TERMS[event], change.at) if event in _TERMS else None
        detail = None
        if event == "suspended":
            detail = _suspension_detail(change, is_current=change.at == subdomain.suspended_at)
        yield TimelineEvent(
            event,
            change.at,
            past=True,
            detail=detail,
            by=change.actor_kind,
            expires_at=term.ends_at if term else None,
            charged_credits=term.charged_credits if term else None,
        )


def _suspension_detail(change: Change, *, is_current: bool) -> str | None:
    """Return the reason of a suspension, and its effect if it is current."""
    reason = (change.after or {}).get("suspended_reason")
    sentences = [f"Reason: {str(reason).rstrip('.')}."] if reason else []
    if is_current:
        sentences.append(
            "A suspended name can't be renewed, and isn't deleted. Open a ticket to ask for a review."
        )
    return " ".join(sentences) or None


def _dates(
    subdomain: Subdomain, now: datetime, terms: Sequence[Term], milestones: Sequence[PastMilestone]
) -> Iterator[TimelineEvent]:
    expired = {one.ends_at for one, next_one in pairwise(terms) if one.ends_at <= next_one.created_at}
    opened = {
        each.created_at
        for each in milestones
        if each.kind == "renewal_opens" and each.about != subdomain.expires_at
    }
    # The dates of the current term come from the row, because the sweep may not have processed them yet.
    if subdomain.expires_at <= now:
        expired.add(subdomain.expires_at)
    opens_at = renewal_opens_at(subdomain)
    if opens_at is not None and opens_at <= (subdomain.trashed_at or now):
        opened.add(opens_at)
    for at in opened:
        yield TimelineEvent("renewal_opens", at, past=True)
    for at in expired:
        yield TimelineEvent("expires", at, past=True)


def _milestones(milestones: Sequence[PastMilestone]) -> Iterator[TimelineEvent]:
    for each in milestones:
        if each.kind == "trashed":
            detail = each.detail or "It was not renewed before the end of its grace period."
            yield TimelineEvent("trashed", each.created_at, past=True, detail=detail, by="system")
        elif each.kind == "auto_renew_failed":
            yield TimelineEvent("auto_renew_failed", each.about, past=True, detail=each.detail, by="system")
        if each.mail_id is not None and each.kind in _MAILS:
            detail = _MAILS[each.kind]
            yield TimelineEvent("reminded", each.created_at, past=True, detail=detail, by="system")


def _nameserver_events(changes: Sequence[Change]) -> Iterator[TimelineEvent]:
    for each in changes:
        if each.action == REMOVAL:
            hosts = ", ".join(removed_hosts(each))
            detail = f"{hosts}: removed, because the registered name that encloses them was purged."
            yield TimelineEvent("nameservers_removed", each.at, past=True, detail=detail, by="system")
        elif each.action == NOTICE and each.after is not None and each.after.get("mail_id") is not None:
            detail = notice_detail(each.after["stage"])
            yield TimelineEvent("reminded", each.at, past=True, detail=detail, by="system")


def _future_removals(
    enclosed_nameservers: Sequence[EnclosedNameserver], now: datetime
) -> Iterator[TimelineEvent]:
    for enclosed in enclosed_nameservers:
        if enclosed.is_purged:
            yield TimelineEvent(
                "nameservers_removed", now, past=False, detail=f"{enclosed.host}: {enclosed.name} was purged."
            )
        elif enclosed.removal_at is not None:
            detail = (
                f"{enclosed.host}: {enclosed.name} is in the trash. If it isn't restored, the nameserver "
                "is removed."
            )
            yield TimelineEvent(
                "nameservers_removed", max(enclosed.removal_at, now), past=False, detail=detail
            )


def future_events(subdomain: Subdomain, now: datetime) -> Iterator[TimelineEvent]:
    """Yield the events of a name that will happen if neither a user nor the operator acts, without events of
    its nameservers.
    """

    def future(event: str, at: datetime, detail: str) -> TimelineEvent:
        return TimelineEvent(event, max(at, now), past=False, detail=detail)

    renewable = subdomain.trashed_at is None and subdomain.suspended_at is None
    opens_at = renewal_opens_at(subdomain)
    if renewable and subdomain.names_until is None and opens_at is not None and opens_at > now:
        yield future("renewal_opens", opens_at, "From then on it can be renewed.")
    attempt_at = auto_renew_at(subdomain)
    if attempt_at is not None:
        ceiling = subdomain.auto_renew_max_credits
        detail = f"For at most {counted(ceiling, 'credit')}." if ceiling else "Only if the renewal is free."
        yield future("auto_renew", attempt_at, detail)
    until = restorable_until(subdomain)
    if now < subdomain.expires_at and (until is None or subdomain.expires_at < until):
        yield future("expires", subdomain.expires_at, _expiry_detail(subdomain))
    # Trash, purge and release: each date depends on the one before.
    name = subdomain
    grace_end = grace_ends_at(name)
    if grace_end is not None:
        yield future("trashed", grace_end, _trashed_detail(subdomain))
        name = replace(name, trashed_at=max(grace_end, now))
    trash_end = restorable_until(name)
    if trash_end is not None:
        detail = (
            "Until then it can be restored from the trash."
            if closing_allows_restore(name, now)
            else "It is deleted."
        )
        yield future("purged", trash_end, detail)
        name = replace(name, purged_at=max(trash_end, now))
    cooling_off_end = cooling_off_ends_at(name)
    if cooling_off_end is not None:
        yield future("released", cooling_off_end, "From then on any user may register the name.")


def _trashed_detail(subdomain: Subdomain) -> str:
    if subdomain.names_until is not None:
        return "The platform domain closes, so the name leaves the account and the DNS."
    return "If it isn't renewed before, it leaves the account and the DNS."


def _expiry_detail(subdomain: Subdomain) -> str:
    if subdomain.names_until is not None and subdomain.trashed_at is None:
        return "The platform domain closes, so the name can't be renewed. It is kept until then."
    if subdomain.trashed_at is not None and is_renewed_by_operator(subdomain):
        return "After the expiry only the operator can restore the name, and must renew it."
    if subdomain.trashed_at is not None:
        return "After the expiry a restore includes a renewal at its current price."
    if subdomain.suspended_at is not None:
        return "The term continues during the suspension, but the grace period starts after it."
    return "After the expiry the name stays in the DNS and can be renewed until the end of its grace period."
