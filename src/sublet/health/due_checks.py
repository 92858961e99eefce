"""The worker's verbs: schedule checks, claim the checks that are due, and record their results."""

import random
from datetime import datetime, timedelta

from sublet import audit
from sublet.accounts.store import find_user
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.health import brake, store
from sublet.health.aliases import aliases_of
from sublet.health.control import impaired_report
from sublet.health.findings import error_lines
from sublet.health.model import BROKEN, DueCheck, Health, Report, Target
from sublet.health.schedule import (
    FIRST_CHECK,
    after_check,
    first_check_at,
    is_breakage_due,
    is_notice_due,
    is_recovery_due,
    leaves_at,
    new_health,
    next_consequence_at,
)
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.platform_domains.store import find_platform_domain, list_platform_domains
from sublet.platform_domains.zone_store import is_zone_signed
from sublet.structs import replace
from sublet.subdomains.lifecycle import is_delegated, is_published
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameservers import find_enclosed_nameservers_of_subdomain
from sublet.subdomains.store import find_subdomain, list_subdomains

CLAIM_DURATION = timedelta(seconds=60)
"""The duration of a worker's claim of a check. If the worker dies, another worker claims the check after this
time.
"""
STEP_MAX = 1000
"""The maximum number of names in one step of `schedule_first_checks`."""
SEARCH_OVERLAP = timedelta(minutes=15)
"""A search also covers this time before the last search, because a change may be committed late."""
CHANGE = "delegation_health.change"


def schedule_first_checks(tx: Tx, after_id: int) -> int | None:
    """Schedule the first checks of the names after an id that were never checked, spread over a day.

    Return the last id, or None at the end.

    One call looks at `STEP_MAX` names.
    """
    found = store.list_checked(tx, after_id, STEP_MAX)
    missing = [each for each, has_health in found if not has_health]
    store.insert_health(
        tx,
        [new_health(each, tx.now, tx.now + timedelta(days=random.random())) for each in missing],  # noqa: S311 - jitter
    )
    return found[-1][0] if len(found) == STEP_MAX else None


def schedule_changed_names(tx: Tx, searched_at: datetime | None = None) -> int:
    """Schedule a check soon for each name whose delegation or records changed since the last search, and
    return their number.
    """
    domains = [each.id for each in list_platform_domains(tx)]
    since = min(searched_at or tx.now, tx.now) - SEARCH_OVERLAP
    changed = store.list_changed(tx, domains, since, tx.now + SEARCH_OVERLAP) if domains else []
    due_at = first_check_at(tx.now, random.random())  # noqa: S311 - jitter
    store.insert_health(tx, [new_health(each, tx.now, due_at) for each in changed])
    store.reschedule(tx, changed, due_at)
    return len(changed)


def claim_due(tx: Tx, limit: int) -> list[DueCheck]:
    """Return the checks that are due, the longest overdue first, and claim them for `CLAIM_DURATION`.

    Delete the health of names that have nothing to check any more. Postpone the checks of names whose last
    change isn't published yet.
    """
    ids = store.lock_due(tx, limit)
    found = {each.id: each for each in list_subdomains(tx, ids)}
    gone = [each for each in ids if each not in found or not is_checked(found[each])]
    store.delete_health(tx, gone)
    unpublished = [each.id for each in found.values() if each.id not in gone and not is_published(each)]
    store.reschedule(tx, unpublished, tx.now + FIRST_CHECK)
    taken = [found[each] for each in ids if each in found and each not in gone and each not in unpublished]
    store.reschedule(tx, [each.id for each in taken], tx.now + CLAIM_DURATION)
    return [DueCheck(each.id, each.generation, target_of(tx, each)) for each in taken]


def target_of(tx: Tx, subdomain: Subdomain) -> Target:
    """Return a name's delegation, or its aliases, as the target of a check."""
    unheld = tuple(
        each.host
        for each in find_enclosed_nameservers_of_subdomain(tx, subdomain)
        if not each.is_held or each.is_in_trash
    )
    signed = is_zone_signed(tx, subdomain.platform_domain_id) is not False
    aliases = aliases_of(subdomain)
    delegation = subdomain.delegation
    return Target(subdomain.fqdn, subdomain.domain, delegation, signed, unheld, aliases, is_published=True)


def is_checked(subdomain: Subdomain) -> bool:
    """True if a name is in the DNS with something to check: nameservers or aliases."""
    return is_delegated(subdomain) or bool(aliases_of(subdomain))


def published_check(tx: Tx, subdomain: Subdomain) -> DueCheck:
    """Return the check of a name's published delegation.

    Raises:
        Conflict: the last change of the name is not published yet.
    """
    if not is_published(subdomain):
        raise Conflict(
            f"The last change of {subdomain.fqdn} is not published yet. Try again once it is active."
        )
    return DueCheck(subdomain.id, subdomain.generation, target_of(tx, subdomain))


def record_check(tx: Tx, subdomain_id: int, generation: int, report: Report) -> Health | None:
    """Store the result of a check, and return the name's health; None if the name has changed or left the DNS
    since the check.

    A change of state is audited, and added to the history. Mails about a breakage, its consequence and its
    end are sent when they are due. While the number of breakages is implausible, the state of a name that
    wasn't broken becomes `unknown` instead (`brake.py`).
    """
    subdomain = find_subdomain(tx, subdomain_id)
    if subdomain is None or not is_checked(subdomain) or subdomain.published_generation != generation:
        return None
    health = store.lock_health(tx, subdomain_id)
    if health is None:
        store.insert_health(tx, [new_health(subdomain_id, tx.now, tx.now)])
        health = store.lock_health(tx, subdomain_id)
        assert health is not None  # noqa: S101 - this process or another one has inserted it
    report = _believed_report(tx, health, report)
    after = after_check(health, report, generation, tx.now, random.random())  # noqa: S311 - jitter
    if after.state == BROKEN and health.state != BROKEN:
        reason = brake.stop_if_breakages_implausible(tx)
        if reason is not None:
            report = impaired_report(reason, tx.now)
            after = after_check(health, report, generation, tx.now, random.random())  # noqa: S311 - jitter
    after = _mail_if_due(tx, subdomain, after)
    store.update_health(tx, after)
    if after.state != health.state:
        codes = _codes(report)
        store.insert_change(tx, subdomain_id, after.state, codes)
        audit.record(
            tx,
            SYSTEM,
            CHANGE,
            subdomain_id,
            before={"state": health.state},
            after={"state": after.state, "findings": codes},
        )
    return after


def _believed_report(tx: Tx, health: Health, report: Report) -> Report:
    """Return the report; if the brake doesn't allow it, a report that the registry couldn't check."""
    if report.state != BROKEN or health.state == BROKEN:
        return report
    reason = brake.find_hold_reason(tx)
    return report if reason is None else impaired_report(reason, tx.now)


def _codes(report: Report) -> list[str]:
    return list(dict.fromkeys(each.code for each in report.findings))


def _is_held(tx: Tx, health: Health, broken_days: int) -> bool:
    """True if the brake allows no mail about a breakage, or if this mail would be one too many."""
    if brake.find_hold_reason(tx) is not None:
        return True
    is_due = is_breakage_due(health, tx.now) or is_notice_due(health, broken_days, tx.now)
    return is_due and brake.stop_if_mails_implausible(tx) is not None


def _check_in_time(health: Health, broken_days: int, now: datetime) -> Health:
    """Return the health with the next check no later than the next mail or the removal from the DNS."""
    at = next_consequence_at(health, broken_days)
    return health if at is None or at <= now else replace(health, due_at=min(health.due_at, at))


def _mail_if_due(tx: Tx, subdomain: Subdomain, health: Health) -> Health:
    """Mail the user that the name is broken, will leave the DNS, or works again, if the mail is due.

    Return the health with the mail's time.
    """
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    broken_days = platform_domain.broken_days if platform_domain is not None else 0
    if health.state != BROKEN:
        health = replace(health, warned_at=None)
    if health.state == BROKEN and _is_held(tx, health, broken_days):
        return health
    if is_breakage_due(health, tx.now):
        kind, at = "broken", leaves_at(health, broken_days)
        health = replace(health, mailed_at=tx.now)
    elif is_notice_due(health, broken_days, tx.now):
        health = replace(health, warned_at=tx.now)
        kind, at = "leaves", leaves_at(health, broken_days) or tx.now
    elif is_recovery_due(health):
        kind, at = "works", None
        health = replace(health, mailed_at=None)
    else:
        return _check_in_time(health, broken_days, tx.now)
    health = _check_in_time(health, broken_days, tx.now)
    user = find_user(tx, subdomain.user_id)
    if user is not None and user.reminders:
        message = render(
            f"name_{kind}",
            name=user.name,
            fqdn=subdomain.fqdn,
            since=health.since,
            errors=error_lines(health.findings),
            leaves_at=at,
        )
        reference = f"health:{subdomain.id}:{kind}:{health.since:%Y%m%dT%H%M%S}"
        enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
    return health
