"""The sweep: expires, renews, trashes, purges and releases names by their dates (docs/spec-choices.md,
"Subdomain states").

Expiry changes no column: the status follows from `expires_at` (`lifecycle.derive_status`). The sweep stores
and mails it as the milestone `expired` (`lifecycle.py`).

The sweep is level-triggered, like publishing. Each call processes one batch of names by their stored dates:
at `due_at` a name is next processed, at `loss_at` its user loses it. A batch is one transaction, so a worker
can be killed at any moment.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.db import Tx, ends_transaction
from sublet.mail import store as mail_store
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.sign_in import store as session_store
from sublet.sign_up import store as code_store
from sublet.subdomains.delegation_store import has_dependents
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.dependents import change_each, handle_dependents
from sublet.subdomains.find import reread
from sublet.subdomains.lifecycle import (
    Milestone,
    auto_renew_at,
    cooling_off_ends_at,
    dates_after,
    grace_ends_at,
    is_published,
    is_renewed_by_operator,
    lost_at,
    reached,
    restorable_until,
)
from sublet.subdomains.model import Subdomain
from sublet.subdomains.purge import mark_purged, mark_released
from sublet.subdomains.store import lock_subdomains, recompute_dates, set_dates
from sublet.subdomains.sweep import store
from sublet.subdomains.sweep.auto_renew import auto_renew
from sublet.subdomains.sweep.brake import (
    JUMP_MAX,
    SEEN_EVERY,
    apply_resume,
    settle_grant,
    stop_if_clock_implausible,
    stop_if_losses_implausible,
    store_forecast_if_due,
)
from sublet.subdomains.sweep.store import DueName
from sublet.subdomains.transfers.end import end_overdue_transfers
from sublet.subdomains.transfers.store import list_overdue

BATCH_MAX = 25
"""The maximum number of names in a transaction. Meanwhile requests of the names' users wait."""
RECOMPUTED_MAX = 100
"""The maximum number of rows read in a transaction that recomputes dates. On SQLite other writes wait for
this transaction.
"""
ADDRESSES_MAX = 500
"""The maximum number of client addresses that a transaction deletes from the audit."""
EXPIRED_MAX = 500
"""The maximum number of expired codes, and of sessions, that a transaction deletes."""
FAULT_PAUSE = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
AUTO_RENEW_KINDS = ("auto_renewed", "auto_renew_failed")
UNPUBLISHED_PAUSE = timedelta(minutes=1)
"""The pause before the next attempt to release a name whose removal, or that of nameservers below it, isn't
published yet.
"""
DOMAIN_CLOSED = "The platform domain has closed."
_TEMPLATES = {"trashed": "name_trashed", "trash_ends": "trash_ends", "expired": "name_expired"}
"""The templates of the mails about milestones; the others are about the next expiry."""
_ACTIONS = {"renewal_opens": "subdomain.open_renewal", "expired": "subdomain.expire"}


class Swept(Struct, frozen=True):
    """The result of one call of `sweep`.

    `done` counts the names by the milestone that they reached, under "looked" if they reached none. `names`
    is the number of processed names. `more` is True if more names may be due now. `stopped_reason` is None
    unless the sweep is stopped. `faults` are the id and error of each name that failed and is postponed by
    `FAULT_PAUSE`.
    """

    done: Counter[str]
    more: bool = False
    names: int = 0
    stopped_reason: str | None = None
    faults: tuple[tuple[int, Exception], ...] = ()


def is_sweep_due(tx: Tx) -> bool:
    """True if `sweep` has work. Only reads, because the runner calls it every second."""
    state = store.find_sweep_state(tx)
    if state.stopped_at is not None:
        return state.resumed
    if state.seen_at is None or not timedelta() <= tx.now - state.seen_at < SEEN_EVERY:
        return True
    return bool(
        store.list_due(tx, 1)
        or store.is_redating(tx)
        or store.list_losses(tx, 1)
        or list_overdue(tx, 1)
        or audit.has_old_addresses(tx)
    )


def sweep(tx: Tx, clock_read_at: datetime | None = None) -> Swept:
    """Process one batch: due names, or else names whose dates must be recomputed, or else names to trash or
    purge.

    If there are no such names, end overdue transfers, and delete expired codes, sessions and recoveries, and
    old addresses and mails. If the clock or the losses are implausible, the brake stops the sweep until the
    operator resumes it. If the clock has jumped since the runner read it at `clock_read_at`, do nothing,
    because the runner's next comparison detects the jump.
    """
    if clock_read_at is not None and abs(tx.now - clock_read_at) > JUMP_MAX:
        return Swept(Counter(), more=True)
    state = apply_resume(tx, store.lock_sweep_state(tx))
    reason = state.stopped_reason if state.stopped_at is not None else stop_if_clock_implausible(tx, state)
    if reason is not None:
        return Swept(Counter(), stopped_reason=reason)
    due = store.list_due(tx, BATCH_MAX)
    if due:
        return _handle_dependents(tx, due) or _process_each(tx, due, _process_due_name)
    redated = _recompute_dates(tx)
    if redated is not None:
        return redated
    losses = store.list_losses(tx, BATCH_MAX)
    if losses:
        reason = stop_if_losses_implausible(tx, state)
        return (
            _process_each(tx, losses, _trash_or_purge)
            if reason is None
            else Swept(Counter(), stopped_reason=reason)
        )
    settle_grant(tx, state)
    store_forecast_if_due(tx)
    is_batch_full = (
        code_store.delete_expired(tx, EXPIRED_MAX)
        or session_store.delete_expired(tx, EXPIRED_MAX)
        or end_overdue_transfers(tx, BATCH_MAX) == BATCH_MAX
        or audit.delete_old_addresses(tx, ADDRESSES_MAX) == ADDRESSES_MAX
        or mail_store.erase_old(tx)
    )
    return Swept(Counter(), more=is_batch_full)


def _handle_dependents(tx: Tx, due: list[DueName]) -> Swept | None:
    """Process the dependents of the first name in the trash that has any.

    Return None if no name has dependents.
    """
    for each in due:
        handled = handle_dependents(tx, each.id, BATCH_MAX) if each.in_trash else None
        if handled is not None:
            if handled.faults:
                # The failed dependents block the release. Postpone the name so that it doesn't delay others.
                store.postpone(tx, each.id, tx.now + FAULT_PAUSE)
            names = handled.done.total() + len(handled.faults)
            return Swept(handled.done, more=True, names=names, faults=handled.faults)
    return None


def _recompute_dates(tx: Tx) -> Swept | None:
    """Recompute the dates of the next names of a platform domain whose days were changed.

    Return None if there is none.

    A registration that read the old days may commit after this. The sweep corrects the dates of its name when
    the name is due.
    """
    redating = store.lock_redating(tx)
    if redating is None:
        return None
    platform_domain_id, after_id = redating
    ids, last_id = store.list_ids_after(tx, platform_domain_id, after_id, RECOMPUTED_MAX)
    lock_subdomains(tx, ids)
    try:
        with tx.savepoint():
            recompute_dates(tx, ids)
    except Exception as error:
        if ends_transaction(error):
            raise
        # One of the names fails. Process each of them alone, so that only this name is postponed.
        store.mark_due(tx, ids)
    store.set_redate_after(tx, platform_domain_id, last_id)
    return Swept(Counter(), more=True, names=len(ids))


def _process_each(tx: Tx, found: list[DueName], step: Callable[[Tx, User, Subdomain], list[str]]) -> Swept:
    """Apply a step to each of these names.

    Postpone a name that fails, so that it doesn't delay the others.
    """
    changed = change_each(tx, found, lambda *name: step(*name) or ["looked"])
    for subdomain_id, _ in changed.faults:
        store.postpone(tx, subdomain_id, tx.now + FAULT_PAUSE)
    return Swept(changed.done, more=True, names=len(found), faults=changed.faults)


def _process_due_name(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Record the milestones of a name, renew it or release it, and store its next dates.

    Return the kinds of milestones.
    """
    kinds = []
    tries_at = auto_renew_at(subdomain)
    past: set[tuple[str, datetime]] = set()
    if tries_at is not None or reached(subdomain, past, tx.now):
        past = {(each.kind, each.about) for each in store.list_milestones(tx, subdomain.id)}
    if tries_at is not None and not past.isdisjoint((kind, tx.now) for kind in AUTO_RENEW_KINDS):
        # An attempt at this instant is stored already, and milestones are unique by time. So the next attempt
        # must be later.
        tries_at = tx.now + MICROSECOND
    elif tries_at is not None and tries_at <= tx.now:
        kinds.append("auto_renewed" if auto_renew(tx, user, subdomain) else "auto_renew_failed")
        subdomain = reread(tx, subdomain)
        tries_at = auto_renew_at(subdomain)
    for milestone in reached(subdomain, past, tx.now):
        _record_milestone(tx, user, subdomain, milestone)
        kinds.append(milestone.kind)
    free_at = cooling_off_ends_at(subdomain)
    if free_at is not None and free_at <= tx.now:
        if is_published(subdomain) and not has_dependents(tx, subdomain.fqdn):
            mark_released(tx, SYSTEM, subdomain)
            assert subdomain.purged_at is not None  # noqa: S101 - only purged names cool off
            store.insert_milestone(tx, subdomain.id, "released", subdomain.purged_at)
            return ["released"]
        free_at = tx.now + UNPUBLISHED_PAUSE
    dates = dates_after(subdomain, tx.now, tries_at, free_at)
    set_dates(tx, subdomain.id, due_at=dates.due_at, loss_at=dates.loss_at)
    return kinds


def _trash_or_purge(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Move a name to the trash after its grace period, or purge it after its time in the trash."""
    over_at, tries_at = lost_at(subdomain), auto_renew_at(subdomain)
    is_renewal_due = tries_at is not None and tries_at <= tx.now
    if over_at is None or over_at > tx.now or is_renewal_due:  # the name was changed since `list_losses`
        set_dates(tx, subdomain.id, due_at=tx.now, loss_at=over_at)
        return []
    if subdomain.trashed_at is not None:
        mark_purged(tx, SYSTEM, subdomain)
        store.insert_milestone(tx, subdomain.id, "purged", tx.now)
        return ["purged"]
    move_to_trash(tx, SYSTEM, subdomain, action="subdomain.trash")
    _record_milestone(tx, user, reread(tx, subdomain), Milestone("trashed", tx.now, tx.now, is_mailed=True))
    return ["trashed"]


def _record_milestone(tx: Tx, user: User, subdomain: Subdomain, milestone: Milestone) -> None:
    mail_id = None
    if milestone.is_mailed and user.reminders:
        message = render(
            _TEMPLATES.get(milestone.kind, "name_expires"),
            name=user.name,
            fqdn=subdomain.fqdn,
            expires_at=subdomain.expires_at,
            grace_ends_at=grace_ends_at(subdomain),
            restorable_until=restorable_until(subdomain),
            by_operator=is_renewed_by_operator(subdomain) or user.suspended_at is not None,
            closed_domain=subdomain.domain if subdomain.names_until is not None else None,
        )
        reference = f"{milestone.kind}:{subdomain.id}:{milestone.about:%Y%m%dT%H%M%S.%fZ}"
        mail_id = enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
    detail = DOMAIN_CLOSED if milestone.kind == "trashed" and subdomain.names_until is not None else None
    store.insert_milestone(tx, subdomain.id, milestone.kind, milestone.about, detail=detail, mail_id=mail_id)
    if milestone.kind != "trashed":  # `move_to_trash` records this event
        after = {"milestone": milestone.kind, "about": milestone.about.isoformat(), "mail_id": mail_id}
        action = _ACTIONS.get(milestone.kind, "subdomain.remind")
        audit.record(tx, SYSTEM, action, subdomain.id, after=after)
