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
from sublet.db import Tx
from sublet.mail.outbox import enqueue
from sublet.subdomains import milestone_store, store, sweep_store
from sublet.subdomains.auto_renew import auto_renew
from sublet.subdomains.brake import (
    FORECAST_AGE,
    FORECAST_EVERY,
    FORECAST_SPAN,
    away_reason,
    losses_reason,
)
from sublet.subdomains.delete import move_to_trash
from sublet.subdomains.lifecycle import auto_renew_at, cooling_off_ends_at, lost_at
from sublet.subdomains.milestones import Milestone, next_milestone_at, reached
from sublet.subdomains.model import Subdomain
from sublet.subdomains.purge import end_cooling_off, end_trash
from sublet.subdomains.reminder_mail import reminder_mail
from sublet.subdomains.stop_sweep import stop_sweep
from sublet.subdomains.sweep_store import Clockwork

BATCH_MAX = 25
"""How many names one transaction works on: those of users wait no longer than for that."""
SEEN_EVERY = timedelta(minutes=1)
UNPUBLISHED_PAUSE = timedelta(minutes=1)
"""When to look again at a name that may be free as soon as its removal from the DNS is confirmed."""
LOSSES = ("trashed", "purged")
"""The milestones of names that time took from their users."""
_ACTIONS = {"renewal_opens": "subdomain.open_renewal", "expired": "subdomain.expire"}


@dataclass(frozen=True, slots=True)
class Swept:
    """What one call did: names by milestone ("looked" for those only dated), and whether there is more to do at once.

    `stopped_reason` is why the sweep does nothing, None while it runs.
    """

    done: Counter[str]
    more: bool = False
    stopped_reason: str | None = None


def is_sweep_due(tx: Tx) -> bool:
    """Tell whether `sweep` has anything to do: asked every second, so it only reads."""
    state = sweep_store.find_clockwork(tx)
    if state.stopped_at is not None:
        return state.resumed
    if state.seen_at is None or not timedelta() <= tx.now - state.seen_at < SEEN_EVERY:
        return True
    return bool(sweep_store.list_due(tx, 1) or sweep_store.list_losses(tx, 1))


def sweep(tx: Tx, limit: int = BATCH_MAX) -> Swept:
    """Do the next step: look at the names that are due, or, when none is, take those that their dates say are lost.

    The brake stands before both: where the clock or the losses are implausible the sweep stops, and waits for the operator.
    """
    state = _take_word(tx, sweep_store.lock_clockwork(tx))
    if state.stopped_at is not None:
        return Swept(Counter(), stopped_reason=state.stopped_reason)
    reason = away_reason(state.seen_at, tx.now)
    if reason is not None:
        return _stop(tx, reason, 0)
    if state.seen_at is None or abs(tx.now - state.seen_at) >= SEEN_EVERY:
        sweep_store.update_clockwork(tx, seen_at=tx.now)
    due = sweep_store.list_due(tx, limit)
    if due:
        return Swept(_work(tx, due, _look), more=True)
    losses = sweep_store.list_losses(tx, limit)
    if losses:
        reason, count = _check_losses(tx, state)
        if reason is not None:
            return _stop(tx, reason, count)
        return Swept(_work(tx, losses, _lose), more=True)
    _forecast(tx)
    return Swept(Counter())


def _take_word(tx: Tx, state: Clockwork) -> Clockwork:
    """Go on when the operator said so: the clock is right, and what would have been lost when it stopped may be lost."""
    if not state.resumed:
        return state
    sweep_store.update_clockwork(
        tx,
        seen_at=tx.now,
        stopped_at=None,
        stopped_reason=None,
        stopped_losses=0,
        resumed=False,
        granted_losses=state.stopped_losses,
        granted_at=tx.now,
    )
    return sweep_store.find_clockwork(tx)


def _stop(tx: Tx, reason: str, losses: int) -> Swept:
    stop_sweep(tx, SYSTEM, reason, losses=losses)
    return Swept(Counter(), stopped_reason=reason)


def _check_losses(tx: Tx, state: Clockwork) -> tuple[str | None, int]:
    day_ago = tx.now - FORECAST_AGE
    forecast = sweep_store.find_forecast(tx, day_ago)
    granted = state.granted_losses if state.granted_at is not None and state.granted_at > day_ago else 0
    lost = sweep_store.count_lost(tx, day_ago, LOSSES)
    due = sweep_store.count_losses(tx, tx.now)
    reason = losses_reason(
        lost=lost,
        due=due,
        forecast=forecast[1] if forecast is not None else 0,
        granted=granted,
        names=sweep_store.count_names(tx),
    )
    return reason, lost + due


def _forecast(tx: Tx) -> None:
    """Once an hour, when all is done: how many names the dates say will be lost, for the brake of a day later."""
    newest = sweep_store.find_forecast(tx)
    if newest is not None and timedelta() <= tx.now - newest[0] < FORECAST_EVERY:
        return
    # Those of the future were made while the clock was ahead.
    sweep_store.delete_forecasts(tx, before=tx.now - 3 * FORECAST_AGE, since=tx.now)
    sweep_store.insert_forecast(tx, sweep_store.count_losses(tx, tx.now + FORECAST_SPAN))


def _work(
    tx: Tx, found: list[tuple[int, int]], step: Callable[[Tx, User, Subdomain], list[str]]
) -> Counter[str]:
    # All users first, in one order: whoever holds one of them, and waits for a ledger account, is not waited for.
    users = {user_id: account_store.lock_user(tx, user_id) for user_id in sorted({each[1] for each in found})}
    done: Counter[str] = Counter()
    for subdomain_id, user_id in found:
        user = users[user_id]
        assert user is not None  # noqa: S101 - rows are never deleted
        done.update(step(tx, user, _read(tx, subdomain_id)) or ["looked"])
    return done


def _look(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Do what is reached of one name and takes nothing from its user, then store its next dates; return the milestones."""
    kinds = []
    tries_at = auto_renew_at(subdomain)
    if tries_at is not None and tries_at <= tx.now:
        kinds.append("auto_renewed" if auto_renew(tx, user, subdomain) else "auto_renew_failed")
        subdomain = _read(tx, subdomain.id)
    past = {(each.kind, each.about) for each in milestone_store.list_milestones(tx, subdomain.id)}
    for milestone in reached(subdomain, past, tx.now):
        _reach(tx, user, subdomain, milestone)
        kinds.append(milestone.kind)
    free_at = cooling_off_ends_at(subdomain)
    if free_at is not None and free_at <= tx.now:
        if subdomain.generation == subdomain.published_generation:
            end_cooling_off(tx, SYSTEM, subdomain)
            _record(tx, subdomain, "released", subdomain.purged_at)
            sweep_store.set_dates(tx, subdomain.id, due_at=None, loss_at=None)
            return ["released"]
        free_at = tx.now + UNPUBLISHED_PAUSE
    dates = (next_milestone_at(subdomain, tx.now), auto_renew_at(_read(tx, subdomain.id)), free_at)
    due_at = min((each for each in dates if each is not None), default=None)
    sweep_store.set_dates(tx, subdomain.id, due_at=due_at, loss_at=lost_at(subdomain))
    return kinds


def _lose(tx: Tx, user: User, subdomain: Subdomain) -> list[str]:
    """Put a name into the trash whose grace is over, or purge one whose time there is; a look then stores its next dates."""
    over_at = lost_at(subdomain)
    if over_at is None or over_at > tx.now:  # its dates were others when they were stored
        sweep_store.set_dates(tx, subdomain.id, due_at=tx.now, loss_at=over_at)
        return []
    if subdomain.trashed_at is not None:
        end_trash(tx, SYSTEM, subdomain)
        _record(tx, subdomain, "purged", tx.now)
        return ["purged"]
    move_to_trash(tx, SYSTEM, subdomain, action="subdomain.trash")
    _reach(tx, user, _read(tx, subdomain.id), Milestone("trashed", tx.now, tx.now, told=True))
    return ["trashed"]


def _reach(tx: Tx, user: User, subdomain: Subdomain, milestone: Milestone) -> None:
    mail_id = None
    if milestone.told and user.reminders:
        subject, text = reminder_mail(milestone.kind, subdomain, user.name)
        reference = f"{milestone.kind}:{subdomain.id}:{milestone.about:%Y%m%dT%H%M%S.%fZ}"
        mail_id = enqueue(tx, user, reference=reference, subject=subject, text=text)
    _record(tx, subdomain, milestone.kind, milestone.about, mail_id)
    if milestone.kind not in LOSSES:  # those have the event of what was done
        after = {"milestone": milestone.kind, "about": milestone.about.isoformat(), "mail_id": mail_id}
        action = _ACTIONS.get(milestone.kind, "subdomain.remind")
        audit.record(tx, SYSTEM, action, "subdomain", subdomain.id, after=after)


def _record(
    tx: Tx, subdomain: Subdomain, kind: str, about: datetime | None, mail_id: int | None = None
) -> None:
    milestone_store.insert_milestone(tx, subdomain.id, kind, about or tx.now, mail_id=mail_id)


def _read(tx: Tx, subdomain_id: int) -> Subdomain:
    found = store.find_subdomain(tx, subdomain_id)
    assert found is not None  # noqa: S101 - rows are never deleted
    return found
