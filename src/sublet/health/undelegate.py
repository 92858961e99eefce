"""Remove a broken name from the DNS after `broken_days` of its platform domain: the worker's verb."""

from sublet import audit
from sublet.accounts.find import find_member
from sublet.audit import SYSTEM
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.health import brake, store
from sublet.health.mails import undelegation_mail
from sublet.health.schedule import is_undelegation_due
from sublet.mail.letter import name_page
from sublet.mail.outbox import enqueue
from sublet.platform_domains.store import find_platform_domain
from sublet.subdomains import delegation_store
from sublet.subdomains.find import lock_for_operator
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.nameserver_notices import UNDELEGATION
from sublet.subdomains.store import delegation_columns, find_subdomain


def is_undelegation_next(tx: Tx, subdomain_id: int) -> bool:
    """True if a name has been broken for too long, and the brake allows its removal from the DNS."""
    health = store.find_health(tx, subdomain_id)
    subdomain = find_subdomain(tx, subdomain_id)
    if health is None or subdomain is None or brake.find_hold_reason(tx) is not None:
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
    if brake.find_hold_reason(tx) is not None or brake.stop_if_removals_implausible(tx) is not None:
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
    message = undelegation_mail(subdomain.fqdn, user.name, health, subdomain.delegation.nameservers)
    reference = f"undelegated:{subdomain_id}:{subdomain.generation + 1}"
    enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
    return True
