"""Retry the provisioning of a subdomain (spec, part 4, POST /subdomains/{fqdn}/retry)."""

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import NameserverRequired, RetryNotAvailable
from sublet.platform_domains.zone_store import end_zone_back_off
from sublet.subdomains import store
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.lifecycle import has_nameserver, has_records, provisioning_failed


def retry(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    """End the publisher's back-off for a name, so that it retries to publish the name now.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
        NameserverRequired: nameserver 1 is not set (spec, part 3, rule 2).
        RetryNotAvailable: provisioning did not fail (spec, part 3, rule 2).
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "retry", tx.now)
    if has_records(subdomain):
        raise NameserverRequired(
            "This subdomain has records instead of nameservers, so it can't be retried. The registry retries "
            "their publication automatically. No action needed."
        )
    if not has_nameserver(subdomain):
        raise NameserverRequired(
            "This subdomain has no nameservers to publish. Set nameservers first. The registry retries the "
            "removal of an old delegation automatically."
        )
    if not provisioning_failed(subdomain):
        raise RetryNotAvailable("Provisioning has not failed, so it can't be retried. No action needed.")
    # Lock order, as in the publisher: zone, then name.
    end_zone_back_off(tx, subdomain.platform_domain_id)
    store.update_subdomain(tx, subdomain.id, provision_error=None, attempts=0, next_attempt_at=None)
    audit.record(
        tx,
        actor,
        "subdomain.retry",
        subdomain.id,
        before={"provision_error": subdomain.provision_error},
    )
    return Outcome(subdomain.id)
