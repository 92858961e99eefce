"""The timeline of a name: its past and future events, by the rules of the verbs and the sweep.

An extension (docs/spec-choices.md, "Timeline"). A past and a future event of one kind have the same word.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from sublet.audit import AuditEvent, Change
from sublet.counted import counted
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
from sublet.subdomains.nameserver_notices import REMOVAL, notice_detail, removed_hosts
from sublet.subdomains.nameservers import Place
from sublet.subdomains.sweep.store import PastMilestone

EVENTS = (
    "registered",
    "nameservers_updated",
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
"""All events, in the order of those at the same instant. `deleted` is the move to the trash by the user, `trashed` the one by the sweep."""

CHANGES = {
    "subdomain.register": "registered",
    "subdomain.renew": "renewed",
    "subdomain.transfer": "transferred",
    "subdomain.restore": "restored",
    "subdomain.update_nameservers": "nameservers_updated",
    "subdomain.follow_child": "ds_followed",
    "subdomain.follow_csync": "nameservers_followed",
    "subdomain.undelegate": "undelegated",
    "subdomain.set_automatic_ds": "automatic_ds_set",
    "subdomain.set_auto_renew": "auto_renew_set",
    "subdomain.suspend": "suspended",
    "subdomain.unsuspend": "unsuspended",
    "subdomain.delete": "deleted",
}
"""The past events that come from the audit, by its actions. The others are past dates and milestones."""

BEHIND_MAX = 500
"""The maximum number of past events; the oldest are left out."""

_REMINDERS = {
    "expires_in_30_days": "Mail: it expires within 30 days.",
    "expires_in_7_days": "Mail: it expires within 7 days.",
    "expires_in_1_day": "Mail: it expires within a day.",
    "expired": "Mail: it has expired.",
    "trashed": "Mail: it has gone to the trash.",
    "trash_ends": "Mail: its time in the trash ends soon.",
    "auto_renewed": "Mail: it was renewed automatically.",
    "auto_renew_failed": "Mail: it could not be renewed automatically.",
}
_TERMS = {"registered": "register", "renewed": "renew", "restored": "restore"}


def timeline(
    subdomain: Subdomain,
    now: datetime,
    *,
    terms: Sequence[Term],
    milestones: Sequence[PastMilestone],
    changes: Sequence[Change],
    nameserver_events: Sequence[AuditEvent] = (),
    places: Sequence[Place] = (),
) -> list[TimelineEvent]:
    """Return the events of a name, live or in the trash: the past ones, then the future ones, each oldest first.

    Future events are those that happen unless a user or the operator acts. A date in the past on which the sweep has not acted yet counts as
    future, at `now`. A suspended name has no dates of loss. `nameserver_events` are the notices and removals of nameservers below names that
    lapse (`nameserver_notices`); `places` are those of the current nameservers.
    """
    behind = [
        *_changes(subdomain, terms, changes),
        *_dates(subdomain, now, terms, milestones),
        *_milestones(milestones),
        *_nameserver_events(nameserver_events),
    ]
    ahead = [*events_ahead(subdomain, now), *_removals_ahead(places, now)]
    return [*_in_order(behind)[-BEHIND_MAX:], *_in_order(ahead)]


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
    """Return the term that a verb added at an instant, which is that of the verb's transaction."""
    return next((each for each in terms if (each.action, each.created_at) == (action, at)), None)


def _changes(
    subdomain: Subdomain, terms: Sequence[Term], changes: Sequence[Change]
) -> Iterator[TimelineEvent]:
    seen: set[tuple[str, datetime]] = set()
    for change in changes:
        event = CHANGES[change.action]
        # A restore that renews has two audit events, in one transaction.
        if (event, change.at) in seen:
            continue
        seen.add((event, change.at))
        term = _term(terms, _TERMS[event], change.at) if event in _TERMS else None
        detail = None
        if event == "suspended":
            detail = _suspension_detail(change, is_present=change.at == subdomain.suspended_at)
        yield TimelineEvent(
            event,
            change.at,
            past=True,
            detail=detail,
            by=change.actor_kind,
            expires_at=term.ends_at if term else None,
            charged_credits=term.charged_credits if term else None,
        )


def _suspension_detail(change: Change, *, is_present: bool) -> str | None:
    """Return the operator's reason for the user (`suspended_reason`), and what a current suspension means."""
    reason = (change.after or {}).get("suspended_reason")
    sentences = [f"Reason: {str(reason).rstrip('.')}."] if reason else []
    if is_present:
        sentences.append(
            "While it is suspended it is neither renewed nor lost. Open a ticket to have it looked at."
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
    # The exact dates of the current term are known, even if the sweep has not acted on them yet.
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
            detail = each.detail or "It had not been renewed by the end of its grace."
            yield TimelineEvent("trashed", each.created_at, past=True, detail=detail, by="system")
        elif each.kind == "auto_renew_failed":
            yield TimelineEvent("auto_renew_failed", each.about, past=True, detail=each.detail, by="system")
        if each.mail_id is not None and each.kind in _REMINDERS:
            detail = _REMINDERS[each.kind]
            yield TimelineEvent("reminded", each.created_at, past=True, detail=detail, by="system")


def _nameserver_events(events: Sequence[AuditEvent]) -> Iterator[TimelineEvent]:
    for event in events:
        if event.action == REMOVAL:
            hosts = ", ".join(removed_hosts(event))
            detail = f"{hosts}: the name that it was below was purged from the trash."
            yield TimelineEvent("nameservers_removed", event.at, past=True, detail=detail, by="system")
        elif event.after is not None and event.after.get("mail_id") is not None:
            detail = notice_detail(event.after["stage"])
            yield TimelineEvent("reminded", event.at, past=True, detail=detail, by="system")


def _removals_ahead(places: Sequence[Place], now: datetime) -> Iterator[TimelineEvent]:
    for place in places:
        if place.is_purged:
            yield TimelineEvent(
                "nameservers_removed", now, past=False, detail=f"{place.host}: {place.name} was purged."
            )
        elif place.removed_at is not None:
            detail = f"{place.host}: {place.name} is in the trash. Unless it is restored, the nameserver is removed."
            yield TimelineEvent("nameservers_removed", max(place.removed_at, now), past=False, detail=detail)


def events_ahead(subdomain: Subdomain, now: datetime) -> Iterator[TimelineEvent]:
    """Yield the future events of a name, if neither a user nor the operator acts. Not those about its nameservers."""

    def ahead(event: str, at: datetime, detail: str) -> TimelineEvent:
        return TimelineEvent(event, max(at, now), past=False, detail=detail)

    renewable = subdomain.trashed_at is None and subdomain.suspended_at is None
    opens_at = renewal_opens_at(subdomain)
    if renewable and subdomain.names_until is None and opens_at is not None and opens_at > now:
        yield ahead("renewal_opens", opens_at, "From then on it can be renewed.")
    attempt_at = auto_renew_at(subdomain)
    if attempt_at is not None:
        ceiling = subdomain.auto_renew_max_credits
        detail = f"For at most {counted(ceiling, 'credit')}." if ceiling else "Only while it costs nothing."
        yield ahead("auto_renew", attempt_at, detail)
    until = restorable_until(subdomain)
    if now < subdomain.expires_at and (until is None or subdomain.expires_at < until):
        yield ahead("expires", subdomain.expires_at, _expiry_detail(subdomain))
    # Each step of the loss is computed from the name as the step before leaves it.
    name = subdomain
    grace_end = grace_ends_at(name)
    if grace_end is not None:
        yield ahead("trashed", grace_end, _loss_detail(subdomain))
        name = replace(name, trashed_at=max(grace_end, now))
    trash_end = restorable_until(name)
    if trash_end is not None:
        detail = (
            "Until then it can be restored from the trash."
            if closing_allows_restore(name, now)
            else "It is deleted."
        )
        yield ahead("purged", trash_end, detail)
        name = replace(name, purged_at=max(trash_end, now))
    cooling_off_end = cooling_off_ends_at(name)
    if cooling_off_end is not None:
        yield ahead("released", cooling_off_end, "From then on any user may register the name.")


def _loss_detail(subdomain: Subdomain) -> str:
    if subdomain.names_until is not None:
        return "The platform domain closes: it leaves the account and the DNS."
    return "Unless it is renewed before: it leaves the account and the DNS."


def _expiry_detail(subdomain: Subdomain) -> str:
    if subdomain.names_until is not None and subdomain.trashed_at is None:
        return "The platform domain closes, so it can't be renewed. The name is kept until the platform domain closes."
    if subdomain.trashed_at is not None and is_renewed_by_operator(subdomain):
        return "After it only the operator can bring it back, with a renewal."
    if subdomain.trashed_at is not None:
        return "After it a restore renews the name too, by quote."
    if subdomain.suspended_at is not None:
        return "Its term runs on while it is suspended, but its grace counts from the suspension's end at the earliest."
    return "After it the name stays in the DNS, and renewable, until its grace is over."
