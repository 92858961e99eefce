"""The worker's verbs: list the names to look at, take the ones that are due, and record what a look saw."""

import random
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sublet import audit
from sublet.accounts.store import find_user
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.health import store
from sublet.health.mails import breakage_mail, notice_mail, recovery_mail
from sublet.health.model import BROKEN, DueLook, Health, Report, Target
from sublet.health.schedule import (
    FIRST_LOOK,
    after_look,
    first_look_at,
    is_breakage_due,
    is_notice_due,
    is_recovery_due,
    leaves_at,
    new_health,
)
from sublet.mail.outbox import enqueue
from sublet.platform_domains.store import find_platform_domain, list_platform_domains
from sublet.platform_domains.zone_state_store import is_zone_signed
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameservers import enclosing_names_of_subdomain
from sublet.subdomains.store import find_subdomain, list_subdomains

CLAIM = timedelta(seconds=60)
"""For how long a worker has taken a look. If it dies, another one takes it after that."""
LISTED_AT_ONCE = 1000
CHANGED_WITHIN = timedelta(minutes=15)
"""How far before the last search changes of delegations are sought: they may have been committed late, or another worker searched."""
CHANGE = "delegation_health.change"


def list_all_names(tx: Tx, after_id: int) -> int | None:
    """Add the next names that aren't looked at yet, spread over the next day; return the last id seen, None at the end."""
    found = store.list_unlisted(tx, after_id, LISTED_AT_ONCE)
    missing = [each for each, is_listed in found if not is_listed]
    store.insert_health(
        tx,
        [new_health(each, tx.now, tx.now + timedelta(days=random.random())) for each in missing],  # noqa: S311 - jitter
    )
    return found[-1][0] if len(found) == LISTED_AT_ONCE else None


def list_changed_names(tx: Tx, searched_at: datetime | None = None) -> int:
    """Make the names due soon whose delegation changed since the last search, or in the last minutes before it; return how many."""
    domains = [each.id for each in list_platform_domains(tx)]
    since = min(searched_at or tx.now, tx.now) - CHANGED_WITHIN
    changed = store.list_changed(tx, domains, since, tx.now + CHANGED_WITHIN) if domains else []
    due_at = first_look_at(tx.now, random.random())  # noqa: S311 - jitter
    store.insert_health(tx, [new_health(each, tx.now, due_at) for each in changed])
    store.delay(tx, changed, due_at)
    return len(changed)


def take_due(tx: Tx, limit: int) -> list[DueLook]:
    """Return the looks that are due longest, and keep them from other workers for `CLAIM`.

    Names that are no longer in the DNS are looked at no more; those whose last change isn't published yet are put off.
    """
    ids = store.lock_due(tx, limit)
    found = {each.id: each for each in list_subdomains(tx, ids)}
    gone = [each for each in ids if each not in found or not is_delegated(found[each])]
    store.delete_health(tx, gone)
    unpublished = [
        each.id
        for each in found.values()
        if each.id not in gone and each.generation != each.published_generation
    ]
    store.delay(tx, unpublished, tx.now + FIRST_LOOK)
    taken = [found[each] for each in ids if each in found and each not in gone and each not in unpublished]
    store.delay(tx, [each.id for each in taken], tx.now + CLAIM)
    return [DueLook(each.id, each.generation, target_of(tx, each)) for each in taken]


def target_of(tx: Tx, subdomain: Subdomain) -> Target:
    """Return the published delegation of a name, as a look needs it."""
    unheld = tuple(
        each.host
        for each in enclosing_names_of_subdomain(tx, subdomain)
        if not each.is_held or each.is_in_trash
    )
    signed = is_zone_signed(tx, subdomain.platform_domain_id) is not False
    return Target(subdomain.fqdn, subdomain.domain, subdomain.delegation, signed, unheld)


def published_look(tx: Tx, subdomain: Subdomain) -> DueLook:
    """Return a look at a name's published delegation.

    Raises:
        Conflict: the last change of the name is not published yet.
    """
    if subdomain.generation != subdomain.published_generation:
        raise Conflict(
            f"The last change of {subdomain.fqdn} is not published yet. Try again once it is active."
        )
    return DueLook(subdomain.id, subdomain.generation, target_of(tx, subdomain))


def put_off(tx: Tx, subdomain_id: int, until: datetime) -> None:
    """Take a look later, because another one asks the same nameservers."""
    store.delay(tx, [subdomain_id], until)


def record_look(tx: Tx, subdomain_id: int, generation: int, report: Report) -> Health | None:
    """Store what a look saw, and return the name's health; None if the name changed meanwhile, or isn't looked at.

    A change of the state is audited, and added to the history. A breakage that lasts, and its end, are mailed.
    """
    subdomain = find_subdomain(tx, subdomain_id)
    if subdomain is None or not is_delegated(subdomain) or subdomain.published_generation != generation:
        return None
    health = store.lock_health(tx, subdomain_id)
    if health is None:
        store.insert_health(tx, [new_health(subdomain_id, tx.now, tx.now)])
        health = store.lock_health(tx, subdomain_id)
        assert health is not None  # noqa: S101 - inserted, or there
    after = after_look(health, report, generation, tx.now, random.random())  # noqa: S311 - jitter
    after = _with_mail(tx, subdomain, after)
    store.update_health(tx, after)
    if after.state != health.state:
        codes = _codes(report)
        store.insert_change(tx, subdomain_id, after.state, codes)
        audit.record(
            tx,
            SYSTEM,
            CHANGE,
            subdomain_id,
            object_type="delegation_health",
            before={"state": health.state},
            after={"state": after.state, "findings": codes},
        )
    return after


def _codes(report: Report) -> list[str]:
    return list(dict.fromkeys(each.code for each in report.findings))


def _with_mail(tx: Tx, subdomain: Subdomain, health: Health) -> Health:
    """Mail about a breakage, its consequence or its end if that is due, and return the health that remembers it."""
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    broken_days = platform_domain.broken_days if platform_domain is not None else 0
    if health.state != BROKEN:
        health = replace(health, warned_at=None)
    if is_breakage_due(health, tx.now):
        kind, write = "broken", partial(breakage_mail, leaves_at=leaves_at(health, broken_days))
        health = replace(health, mailed_at=tx.now)
    elif is_notice_due(health, broken_days, tx.now):
        health = replace(health, warned_at=tx.now)
        at = leaves_at(health, broken_days) or tx.now
        kind, write = "leaves", partial(notice_mail, leaves_at=at)
    elif is_recovery_due(health):
        kind, write = "works", partial(recovery_mail)
        health = replace(health, mailed_at=None)
    else:
        return health
    user = find_user(tx, subdomain.user_id)
    if user is not None and user.reminders:
        subject, text = write(subdomain.fqdn, user.name, health)
        reference = f"health:{subdomain.id}:{kind}:{health.since:%Y%m%dT%H%M%S}"
        enqueue(tx, user, reference=reference, subject=subject, text=text)
    return health
