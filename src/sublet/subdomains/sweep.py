"""The sweep: what time does to names (docs/spec-choices.md, "Subdomain states"), a bounded step at each call.

Level-triggered, as publishing is: each row has `due_at`, when the sweep is to look at it, and `loss_at`, when its dates take it
from its user. Whatever changes a name's dates makes it due; the look does what is reached, then stores the next two dates. Facts
and milestones are each stored once, in the transaction of their step, so that a worker may be killed at any moment.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts import store as account_store
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.db import Tx, is_lost
from sublet.mail.outbox import enqueue
from sublet.subdomains import milestone_store, store, sweep_store
from sublet.subdomains.apply_brake import (
    SEEN_EVERY,
    settle,
    stop_for_the_clock,
    stop_for_the_losses,
    take_word,
)
from sublet.subdomains.auto_renew import auto_renew
from sublet.subdomains.brake import JUMP_MAX
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.dependent_store import has_dependents
from sublet.subdomains.dependents import see_to_dependents
from sublet.subdomains.find import find_for_operator, reread
from sublet.subdomains.lifecycle import auto_renew_at, cooling_off_ends_at, lost_at
from sublet.subdomains.milestones import Milestone, dates_after, reached
from sublet.subdomains.model import Subdomain
from sublet.subdomains.purge import end_cooling_off, end_trash
from sublet.subdomains.reminder_mail import reminder_mail
from sublet.subdomains.sweep_store import Due

BATCH_MAX = 25
"""How many names one transaction works on: those of users wait no longer than for that."""
REDATE_MAX = 1000
"""How many rows one transaction recomputes the dates of."""
FAULT_PAUSE = timedelta(hours=1)
AN_INSTANT = timedelta(microseconds=1)
ATTEMPTS = ("auto_renewed", "auto_renew_failed")
UNPUBLISHED_PAUSE = timedelta(minutes=1)
"""When to look again at a name that is released once its removal, and that of nameservers below it, is confirmed by the DNS."""
_ACTIONS = {"renewal_opens": "subdomain.open_renewal", "expired": "subdomain.expire"}


@dataclass(frozen=True, slots=True)
class Swept:
    """What one call did: names by milestone ("looked" if none was reached), and whether there may be more to do at once.

    `names` is how many it worked on. `stopped_reason` is why the sweep does nothing, None while it runs. `faults` are names, by id,
    of which nothing could be done: they are put off for `FAULT_PAUSE`.
    """

    done: Counter[str]
    more: bool = False
    names: int = 0
    stopped_reason: str | None = None
    faults: tuple[tuple[int, Exception], ...] = ()


def is_sweep_due(tx: Tx) -> bool:
    """Tell whether `sweep` has anything to do: asked every second, so it only reads."""
    state = sweep_store.find_clockwork(tx)
    if state.stopped_at is not None:
        return state.resumed
    if state.seen_at is None or not timedelta() <= tx.now - state.seen_at < SEEN_EVERY:
        return True
    return bool(sweep_store.list_due(tx, 1) or sweep_store.is_redating(tx) or sweep_store.list_losses(tx, 1))


def sweep(tx: Tx, looked_at: datetime | None = None, limit: int = BATCH_MAX) -> Swept:
    """Do the next step: look at the names that are due, or, when none is, take those that their dates say are lost.

    The brake stands before both: where the clock or the losses are implausible the sweep stops, and waits for the operator.
    `looked_at` is what the clock said a moment ago: where it has jumped since, nothing is done, and the next look sees the jump.
    """
    if looked_at is not None and abs(tx.now - looked_at) > JUMP_MAX:
        return Swept(Counter(), more=True)
    state = take_word(tx, sweep_store.lock_clockwork(tx))
    reason = state.stopped_reason if state.stopped_at is not None else stop_for_the_clock(tx, state)
    if reason is not None:
        return Swept(Counter(), stopped_reason=reason)
    due = sweep_store.list_due(tx, limit)
    if due:
        return _look_at(tx, due)
    redated = _redate(tx)
    if redated is not None:
        return redated
    losses = sweep_store.list_losses(tx, limit)
    if losses:
        reason = stop_for_the_losses(tx, state)
        return _work(tx, losses, _lose) if reason is None else Swept(Counter(), stopped_reason=reason)
    settle(tx, state)
    return Swept(Counter())


def _look_at(tx: Tx, due: list[Due]) -> Swept:
    """Look at names that are due; first at the names that depend on one in the trash."""
    return _see_to_dependents(tx, due) or _work(tx, due, _look)


def _see_to_dependents(tx: Tx, due: list[Due]) -> Swept | None:
    """See to some names that depend on the first name in the trash that has any left; None if none has. That name stays due."""
    for each in due:
        seen = see_to_dependents(tx, each.id, BATCH_MAX) if each.in_trash else None
        if seen is not None:
            if seen.faults:
                # It is not released before all of them are seen to.
                sweep_store.put_off(tx, each.id, tx.now + FAULT_PAUSE)
            return Swept(seen.done, more=True, names=seen.done.total() + len(seen.faults), faults=seen.faults)
    return None


def _redate(tx: Tx) -> Swept | None:
    """Recompute the dates of the next names of a platform domain whose days were changed; None if there are none.

    A registration that read the days before the change may commit behind this. The first look at its name corrects its dates.
    """
    redating = sweep_store.lock_redating(tx)
    if redating is None:
        return None
    platform_domain_id, after_id = redating
    ids, last_id = sweep_store.list_ids_after(tx, platform_domain_id, after_id, REDATE_MAX)
    store.lock_subdomains(tx, ids)
    try:
        with tx.savepoint():
            store.redate(tx, ids)
    except Exception as error:
        if is_lost(error):
            raise
        # One of them can't be read. A look at each finds out which.
        sweep_store.mark_due(tx, ids)
    sweep_store.set_redate_after(tx, platform_domain_id, last_id)
    return Swept(Counter(), more=True, names=len(ids))


def _work(tx: Tx, found: list[Due], step: Callable[[Tx, User, Subdomain], list[str]]) -> Swept:
    """Do a step with each of these names."""
    # All users first, in one order: whoever holds one of them, and waits for a ledger account, is not waited for.
    users = account_store.lock_users(tx, {each.user_id for each in found})
    # Then the names, which the publisher may have locked and not those users.
    store.lock_subdomains(tx, (each.id for each in found))
    done: Counter[str] = Counter()
    faults: list[tuple[int, Exception]] = []
    for each in found:
        try:
            with tx.savepoint():
                subdomain = find_for_operator(tx, str(each.id))
                done.update(step(tx, users[each.user_id], subdomain) or ["looked"])
        except Exception as error:
            if is_lost(error):
                raise
            # One name that can't be worked on must not keep all others from their dates.
            sweep_store.put_off(tx, each.id, tx.now + FAULT_PAUSE)
            faults.append((each.id, error))
    return Swept(done, more=True, names=len(found), faults=tuple(faults))


def _look(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Do what is reached of one name and takes nothing from its user, then store its next dates; return the milestones."""
    kinds = []
    tries_at = auto_renew_at(subdomain)
    past: set[tuple[str, datetime]] = set()
    # Of most names nothing is reached, as of each new one: then nobody needs to know what is past.
    if tries_at is not None or reached(subdomain, past, tx.now):
        past = {(each.kind, each.about) for each in milestone_store.list_milestones(tx, subdomain.id)}
    if tries_at is not None and not past.isdisjoint((kind, tx.now) for kind in ATTEMPTS):
        tries_at = tx.now + AN_INSTANT  # tried in this very instant, and set to another ceiling since
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
            milestone_store.insert_milestone(tx, subdomain.id, "released", subdomain.purged_at)
            return ["released"]
        free_at = tx.now + UNPUBLISHED_PAUSE
    dates = dates_after(subdomain, tx.now, tries_at, free_at)
    store.set_dates(tx, subdomain.id, due_at=dates.due_at, loss_at=dates.loss_at)
    return kinds


def _lose(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Put a name into the trash whose grace is over, or purge one whose time there is; a look then stores its next dates."""
    over_at, tries_at = lost_at(subdomain), auto_renew_at(subdomain)
    to_be_tried = tries_at is not None and tries_at <= tx.now
    if over_at is None or over_at > tx.now or to_be_tried:  # its user, or the operator, was faster
        store.set_dates(tx, subdomain.id, due_at=tx.now, loss_at=over_at)
        return []
    if subdomain.trashed_at is not None:
        end_trash(tx, SYSTEM, subdomain)
        milestone_store.insert_milestone(tx, subdomain.id, "purged", tx.now)
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
    milestone_store.insert_milestone(tx, subdomain.id, milestone.kind, milestone.about, mail_id=mail_id)
    if milestone.kind != "trashed":  # that has the event of what was done
        after = {"milestone": milestone.kind, "about": milestone.about.isoformat(), "mail_id": mail_id}
        action = _ACTIONS.get(milestone.kind, "subdomain.remind")
        audit.record(tx, SYSTEM, action, "subdomain", subdomain.id, after=after)
