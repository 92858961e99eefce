"""Remove broken names from the DNS after `broken_days` of their platform domain, and stop acting on broken
names while their number is implausible.

A fault of the registry could otherwise empty its zones. The control group (`control.py`) finds the faults
that it can test. The brake covers the others. While it is on, names that weren't broken before, also new
ones, are `unknown` instead of `broken`, no mail about a breakage is sent, and no name leaves the DNS.
"""

from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts.find import find_member
from sublet.audit import SYSTEM, Actor, EventFilter, search_events
from sublet.counted import counted
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.errors import Conflict
from sublet.health import store
from sublet.health.schedule import is_undelegation_due
from sublet.mail.letter import name_page, render
from sublet.mail.operator_notices import notify_operator
from sublet.mail.outbox import enqueue
from sublet.platform_domains.store import find_platform_domain
from sublet.subdomains import delegation_store
from sublet.subdomains.delegation_changes import UNDELEGATION
from sublet.subdomains.find import lock_for_operator
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.store import delegation_columns, find_subdomain

ALLOWED_MIN = 5
"""The number that is always plausible, in small registries too."""
BREAKAGES = ((timedelta(hours=1), 5), (timedelta(days=1), 10))
"""Within each period, at most this part of the names that were checked in it may have become broken: a fifth
and a tenth.
"""
DAY = timedelta(days=1)
CONSEQUENCES_PART = 100
"""Within a day, at most this part of the checked names may get a mail about a breakage or leave the DNS: a
hundredth for each.
"""
RESUMED_FOR = timedelta(days=1)
"""How long the brake stays off after the operator has resumed it."""


def find_hold_reason(tx: Tx) -> str | None:
    """Return why no name may become broken, be mailed about or leave the DNS now, or None: the brake is on,
    or a worker can't check.
    """
    state = store.find_brake(tx)
    return state.stopped_reason or state.impaired_reason


def stop_if_breakages_implausible(tx: Tx) -> str | None:
    """Stop if one more broken name would be implausible, and return why."""
    if _is_resumed(tx):
        return None
    for period, part in BREAKAGES:
        since = _since(tx, period)
        broken = store.count_broken_since(tx, since) + 1
        if broken <= ALLOWED_MIN:
            continue
        checked = store.count_checked_since(tx, since)
        if broken > checked // part:
            hours = round(period / timedelta(hours=1))
            return _stop(
                tx,
                f"Of {counted(checked, 'name')} that were checked within {counted(hours, 'hour')}, "
                f"{broken} became broken.",
            )
    return None


def stop_if_mails_implausible(tx: Tx) -> str | None:
    """Stop if one more mail about a breakage would be implausible, and return why."""
    mailed = 0 if _is_resumed(tx) else store.count_mailed_since(tx, _since(tx, DAY)) + 1
    return _stop_over(tx, mailed, "would get a mail about a breakage")


def stop_if_removals_implausible(tx: Tx) -> str | None:
    """Stop if one more removal from the DNS would be implausible, and return why."""
    if _is_resumed(tx):
        return None
    # The number of names is at most a hundred times this limit.
    names = store.count_checked_since(tx, tx.now - 2 * DAY)
    wanted = EventFilter(action=UNDELEGATION, since=_since(tx, DAY))
    removed = len(search_events(tx, wanted, max(ALLOWED_MIN, names // CONSEQUENCES_PART) + 1)) + 1
    return _stop_over(tx, removed, "would leave the DNS")


def resume(tx: Tx, actor: Actor) -> None:
    """Let the health checks act again, and turn the brake off for `RESUMED_FOR`.

    The operator has seen that the names are broken.

    Raises:
        Conflict: the brake is not on.
    """
    state = store.lock_brake(tx)
    if state.stopped_at is None:
        raise Conflict("The health checks are not stopped. No action needed.")
    store.update_brake(tx, stopped_at=None, stopped_reason=None, resumed_at=tx.now)
    audit.record(tx, actor, "health.resume", 1, before={"reason": state.stopped_reason})


def record_impairment(tx: Tx, problem: str | None) -> None:
    """Store why the checks say nothing about names, for the operator; None if they work."""
    state = store.lock_brake(tx)
    if state.impaired_reason != problem:
        since = None if problem is None else state.impaired_since or tx.now
        store.update_brake(tx, impaired_since=since, impaired_reason=problem)


def _stop_over(tx: Tx, number: int, what: str) -> str | None:
    if number <= ALLOWED_MIN:
        return None
    names = store.count_checked_since(tx, tx.now - 2 * DAY)
    if number <= names // CONSEQUENCES_PART:
        return None
    return _stop(tx, f"Of {counted(names, 'checked name')}, {number} {what} within a day.")


def _stop(tx: Tx, reason: str) -> str:
    if store.lock_brake(tx).stopped_at is None:
        store.update_brake(tx, stopped_at=tx.now, stopped_reason=reason)
        audit.record(tx, SYSTEM, "health.stop", 1, after={"reason": reason})
        notify_operator(
            tx,
            "health",
            f"Mails about breakages and removals from the DNS have stopped: {reason} Check some of the "
            "names, then run `sublet health resume`.",
            reference=f"health:{tx.now.isoformat()}",
        )
    return reason


def _is_resumed(tx: Tx) -> bool:
    resumed_at = store.find_brake(tx).resumed_at
    return resumed_at is not None and timedelta() <= tx.now - resumed_at < RESUMED_FOR


def _since(tx: Tx, period: timedelta) -> datetime:
    """Return the start of a period.

    What happened until the operator resumed the brake doesn't count again.
    """
    resumed_at = store.find_brake(tx).resumed_at
    start = tx.now - period
    return start if resumed_at is None else max(start, min(resumed_at + RESUMED_FOR, tx.now))


def is_undelegation_next(tx: Tx, subdomain_id: int) -> bool:
    """True if a name has been broken for too long, and the brake allows its removal from the DNS."""
    health = store.find_health(tx, subdomain_id)
    subdomain = find_subdomain(tx, subdomain_id)
    if health is None or subdomain is None or find_hold_reason(tx) is not None:
        return False
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    return platform_domain is not None and is_undelegation_due(health, platform_domain.broken_days, tx.now)


def undelegate(tx: Tx, subdomain_id: int, generation: int) -> bool:
    """Remove the nameservers, glue and DS records of a name that has been broken for too long.

    Return False if the removal isn't due, or if the brake doesn't allow it. Call this after a check of this
    generation without cached answers found the name broken. The removal is audited, and mailed even if the
    user's reminders are off. The user keeps the name, and can set other nameservers at once.
    """
    subdomain = lock_for_operator(tx, str(subdomain_id))
    if subdomain.generation != generation or not is_delegated(subdomain):
        return False
    health = store.lock_health(tx, subdomain_id)
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    if health is None or platform_domain is None:
        return False
    if not is_undelegation_due(health, platform_domain.broken_days, tx.now):
        return False
    if find_hold_reason(tx) is not None or stop_if_removals_implausible(tx) is not None:
        return False
    nothing = Delegation()
    delegation_store.update_delegation(tx, subdomain, nothing)
    store.delete_health(tx, [subdomain_id])
    audit.record(
        tx,
        SYSTEM,
        UNDELEGATION,
        subdomain_id,
        before=delegation_columns(subdomain.delegation),
        after=delegation_columns(nothing),
    )
    user = find_member(tx, subdomain.user_id).user
    message = render(
        "name_left",
        name=user.name,
        fqdn=subdomain.fqdn,
        since=health.since,
        nameservers=subdomain.delegation.nameservers,
    )
    reference = f"undelegated:{subdomain_id}:{subdomain.generation + 1}"
    enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
    return True
