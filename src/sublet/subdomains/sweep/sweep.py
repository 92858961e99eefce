"""The sweep: does what the dates of names say (docs/spec-choices.md, "Subdomain states"), a bounded step at each call.

It is level-triggered, like publishing. Each row has `due_at`, when the sweep looks at it, and `loss_at`, when its dates take it from
its user. Facts and milestones are stored once, in the transaction of their step, so a worker can be killed at any moment.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.db import Tx, is_lost
from sublet.mail.outbox import enqueue
from sublet.sign_in import store as session_store
from sublet.sign_up import store as code_store
from sublet.subdomains.delegation_store import has_dependents
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.dependents import change_each, handle_dependents
from sublet.subdomains.find import reread
from sublet.subdomains.lifecycle import auto_renew_at, cooling_off_ends_at, lost_at
from sublet.subdomains.milestones import Milestone, dates_after, reached
from sublet.subdomains.model import Subdomain
from sublet.subdomains.purge import end_cooling_off, end_trash
from sublet.subdomains.store import lock_subdomains, redate, set_dates
from sublet.subdomains.sweep import store
from sublet.subdomains.sweep.auto_renew import auto_renew
from sublet.subdomains.sweep.brake import (
    JUMP_MAX,
    SEEN_EVERY,
    resume_if_asked,
    settle,
    stop_if_clock_implausible,
    stop_if_losses_implausible,
)
from sublet.subdomains.sweep.mail import reminder_mail
from sublet.subdomains.sweep.store import Due
from sublet.subdomains.transfers.end import end_overdue
from sublet.subdomains.transfers.store import list_overdue

BATCH_MAX = 25
"""How many names one transaction works on; their users wait for it to end."""
REDATE_MAX = 100
"""How many names one transaction recomputes the dates of. On SQLite no other write runs meanwhile."""
TIDY_MAX = 500
"""How many addresses one transaction deletes."""
FAULT_PAUSE = timedelta(hours=1)
AN_INSTANT = timedelta(microseconds=1)
ATTEMPTS = ("auto_renewed", "auto_renew_failed")
UNPUBLISHED_PAUSE = timedelta(minutes=1)
"""How long until the next look at a purged name whose removal, or that of nameservers below it, is not published yet."""
CLOSED = "The platform domain has closed."
_ACTIONS = {"renewal_opens": "subdomain.open_renewal", "expired": "subdomain.expire"}


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of one call.

    `done` counts names by milestone ("looked" if none was reached), `names` all names that the call worked on. `more` is True if
    there may be more to do at once. `stopped_reason` is why the sweep is stopped, None while it runs. `faults` are names, by id,
    that could not be worked on; they are put off for `FAULT_PAUSE`.
    """

    done: Counter[str]
    more: bool = False
    names: int = 0
    stopped_reason: str | None = None
    faults: tuple[tuple[int, Exception], ...] = ()


def is_sweep_due(tx: Tx) -> bool:
    """Return True if `sweep` has anything to do. It only reads, since it is called every second."""
    state = store.find_sweep_state(tx)
    if state.stopped_at is not None:
        return state.resumed
    if state.seen_at is None or not timedelta() <= tx.now - state.seen_at < SEEN_EVERY:
        return True
    return bool(store.list_due(tx, 1) or store.is_redating(tx) or store.list_losses(tx, 1) or _is_untidy(tx))


def sweep(tx: Tx, looked_at: datetime | None = None, limit: int = BATCH_MAX) -> Swept:
    """Do the next step: look at due names; if there are none, redate names; if there are none, take lost names.

    If nothing is to be done, delete expired codes, sessions and recoveries. The brake comes first: if the clock or the losses are
    implausible, the sweep stops until the operator resumes it. `looked_at` is what the clock said a moment ago. If it has jumped since,
    nothing is done, and the next look sees the jump.
    """
    if looked_at is not None and abs(tx.now - looked_at) > JUMP_MAX:
        return Swept(Counter(), more=True)
    state = resume_if_asked(tx, store.lock_sweep_state(tx))
    reason = state.stopped_reason if state.stopped_at is not None else stop_if_clock_implausible(tx, state)
    if reason is not None:
        return Swept(Counter(), stopped_reason=reason)
    due = store.list_due(tx, limit)
    if due:
        return _process_due(tx, due)
    redated = _redate(tx)
    if redated is not None:
        return redated
    losses = store.list_losses(tx, limit)
    if losses:
        reason = stop_if_losses_implausible(tx, state)
        return (
            _process_each(tx, losses, _trash_or_purge)
            if reason is None
            else Swept(Counter(), stopped_reason=reason)
        )
    settle(tx, state)
    code_store.delete_expired(tx)
    session_store.delete_expired(tx)
    return Swept(Counter(), more=_end_transfers_and_delete_addresses(tx))


def _is_untidy(tx: Tx) -> bool:
    return bool(list_overdue(tx, 1) or audit.has_old_addresses(tx))


def _end_transfers_and_delete_addresses(tx: Tx) -> bool:
    """End transfers of names that have expired, and delete old addresses. True if there may be more."""
    return end_overdue(tx, BATCH_MAX) == BATCH_MAX or audit.delete_old_addresses(tx, TIDY_MAX) == TIDY_MAX


def _process_due(tx: Tx, due: list[Due]) -> Swept:
    """Look at due names. Names that depend on a due name in the trash come first."""
    return _handle_dependents(tx, due) or _process_each(tx, due, _process_due_name)


def _handle_dependents(tx: Tx, due: list[Due]) -> Swept | None:
    """Work on names that depend on the first name in the trash that has dependents; None if none has. That name stays due."""
    for each in due:
        seen = handle_dependents(tx, each.id, BATCH_MAX) if each.in_trash else None
        if seen is not None:
            if seen.faults:
                # It can't be released before all its dependents are done.
                store.put_off(tx, each.id, tx.now + FAULT_PAUSE)
            return Swept(seen.done, more=True, names=seen.done.total() + len(seen.faults), faults=seen.faults)
    return None


def _redate(tx: Tx) -> Swept | None:
    """Recompute the dates of the next names of a platform domain whose days were changed; None if there are none.

    A registration that read the days before the change may commit behind this. The first look at its name corrects its dates.
    """
    redating = store.lock_redating(tx)
    if redating is None:
        return None
    platform_domain_id, after_id = redating
    ids, last_id = store.list_ids_after(tx, platform_domain_id, after_id, REDATE_MAX)
    lock_subdomains(tx, ids)
    try:
        with tx.savepoint():
            redate(tx, ids)
    except Exception as error:
        if is_lost(error):
            raise
        # One of them fails. Each is tried alone then, so that only that one is put off.
        store.mark_due(tx, ids)
    store.set_redate_after(tx, platform_domain_id, last_id)
    return Swept(Counter(), more=True, names=len(ids))


def _process_each(tx: Tx, found: list[Due], step: Callable[[Tx, User, Subdomain], list[str]]) -> Swept:
    """Do a step with each of these names. A name that fails is put off, so that it doesn't delay the others."""
    changed = change_each(tx, found, lambda *name: step(*name) or ["looked"])
    for subdomain_id, _ in changed.faults:
        store.put_off(tx, subdomain_id, tx.now + FAULT_PAUSE)
    return Swept(changed.done, more=True, names=len(found), faults=changed.faults)


def _process_due_name(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Reach the milestones of one name, renew it or release it, then store its next dates; return the milestones."""
    kinds = []
    tries_at = auto_renew_at(subdomain)
    past: set[tuple[str, datetime]] = set()
    if tries_at is not None or reached(subdomain, past, tx.now):
        past = {(each.kind, each.about) for each in store.list_milestones(tx, subdomain.id)}
    if tries_at is not None and not past.isdisjoint((kind, tx.now) for kind in ATTEMPTS):
        tries_at = tx.now + AN_INSTANT  # tried at this instant, and its ceiling changed since
    elif tries_at is not None and tries_at <= tx.now:
        kinds.append("auto_renewed" if auto_renew(tx, user, subdomain) else "auto_renew_failed")
        subdomain = reread(tx, subdomain)
        tries_at = auto_renew_at(subdomain)
    for milestone in reached(subdomain, past, tx.now):
        _reach(tx, user, subdomain, milestone)
        kinds.append(milestone.kind)
    free_at = cooling_off_ends_at(subdomain)
    if free_at is not None and free_at <= tx.now:
        in_dns = subdomain.generation != subdomain.published_generation
        if not in_dns and not has_dependents(tx, subdomain.fqdn):
            end_cooling_off(tx, SYSTEM, subdomain)
            assert subdomain.purged_at is not None  # noqa: S101 - else it would not cool off
            store.insert_milestone(tx, subdomain.id, "released", subdomain.purged_at)
            return ["released"]
        free_at = tx.now + UNPUBLISHED_PAUSE
    dates = dates_after(subdomain, tx.now, tries_at, free_at)
    set_dates(tx, subdomain.id, due_at=dates.due_at, loss_at=dates.loss_at)
    return kinds


def _trash_or_purge(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Move a name to the trash whose grace is over, or purge a name whose time in the trash is over."""
    over_at, tries_at = lost_at(subdomain), auto_renew_at(subdomain)
    to_be_tried = tries_at is not None and tries_at <= tx.now
    if over_at is None or over_at > tx.now or to_be_tried:  # it was changed since
        set_dates(tx, subdomain.id, due_at=tx.now, loss_at=over_at)
        return []
    if subdomain.trashed_at is not None:
        end_trash(tx, SYSTEM, subdomain)
        store.insert_milestone(tx, subdomain.id, "purged", tx.now)
        return ["purged"]
    move_to_trash(tx, SYSTEM, subdomain, action="subdomain.trash")
    _reach(tx, user, reread(tx, subdomain), Milestone("trashed", tx.now, tx.now, told=True))
    return ["trashed"]


def _reach(tx: Tx, user: User, subdomain: Subdomain, milestone: Milestone) -> None:
    mail_id = None
    if milestone.told and user.reminders:
        subject, text = reminder_mail(milestone.kind, subdomain, user.name)
        reference = f"{milestone.kind}:{subdomain.id}:{milestone.about:%Y%m%dT%H%M%S.%fZ}"
        mail_id = enqueue(tx, user, reference=reference, subject=subject, text=text)
    detail = CLOSED if milestone.kind == "trashed" and subdomain.names_until is not None else None
    store.insert_milestone(tx, subdomain.id, milestone.kind, milestone.about, detail=detail, mail_id=mail_id)
    if milestone.kind != "trashed":  # `move_to_trash` records that one
        after = {"milestone": milestone.kind, "about": milestone.about.isoformat(), "mail_id": mail_id}
        action = _ACTIONS.get(milestone.kind, "subdomain.remind")
        audit.record(tx, SYSTEM, action, subdomain.id, after=after)
