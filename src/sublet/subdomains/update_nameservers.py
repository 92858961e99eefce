"""Update a subdomain's nameservers, glue and DS records (spec, part 4, PUT
/subdomains/{fqdn}/nameservers).
"""

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.dns.delegation import check_delegation, prune_glue
from sublet.dns.types import Delegation
from sublet.errors import FieldError, RecordsExist, validation_failed
from sublet.structs import replace
from sublet.subdomains import child_state_store, delegation_store, store
from sublet.subdomains.find import find_in_account, refuse_over_changes_per_day, refuse_unless_allowed
from sublet.subdomains.lifecycle import has_records
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.nameservers import (
    cycle_errors,
    find_enclosed_nameservers,
    platform_domains_above,
    refuse_unregistered,
    unregistered_errors,
)

CHANGE = "subdomain.update_nameservers"


def update_nameservers(
    tx: Tx, actor: Actor, identifier: str, command: UpdateNameservers, *, changes_per_day: int = 0
) -> Outcome:
    """Change a name's delegation.

    Omitted fields keep their value, but glue of removed nameservers is dropped.

    An unchanged delegation is published again if the last attempt failed. `changes_per_day` is the maximum
    number of changes of a name within 24 hours; 0 means no limit.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
        RecordsExist: the name has records, and nameservers are given.
        ValidationFailed: all invalid fields of the resulting delegation.
        RateLimited: the name was changed too often.
    """
    user = lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "update_nameservers", tx.now)
    if command.nameservers and has_records(subdomain):
        raise RecordsExist(
            f"{subdomain.fqdn} has records, which its nameservers would hide. Remove the records first."
        )
    delegation = apply_change(tx, actor, user, subdomain, command, changes_per_day=changes_per_day)
    if subdomain.delegation.ds_records and not delegation.ds_records:
        # Turn off bootstrapping, because the user has removed the DS records.
        known = child_state_store.find_automatic_ds(tx, subdomain.id)
        child_state_store.save_state(tx, known, replace(known, bootstrap=False))
    if delegation != subdomain.delegation:
        state = child_state_store.find_csync_state(tx, subdomain.id)
        child_state_store.save_state(tx, state, replace(state, serial=None))
    return Outcome(subdomain.id)


def apply_change(
    tx: Tx,
    actor: Actor,
    user: User,
    subdomain: Subdomain,
    command: UpdateNameservers,
    *,
    action: str = CHANGE,
    changes_per_day: int = 0,
) -> Delegation:
    """Change a name's delegation, with the audit event `action`, and return the new delegation.

    The caller has locked the user.

    Raises, in this order:
        ValidationFailed: all invalid fields of the resulting delegation.
        RateLimited: the name was changed too often.
    """
    stored = subdomain.delegation
    delegation, errors = changed_delegation(subdomain, command)
    if not errors:
        above = platform_domains_above(tx, subdomain.fqdn, delegation.nameservers)
        enclosed = find_enclosed_nameservers(tx, subdomain.fqdn, delegation.nameservers, above)
        unregistered = unregistered_errors(
            subdomain.fqdn, enclosed, delegation.nameservers, stored.nameservers, actor, user.id
        )
        errors = (*unregistered, *cycle_errors(tx, subdomain.fqdn, delegation, above))
    if errors:
        raise validation_failed(errors)
    if delegation != stored or subdomain.provision_error is not None:
        refuse_over_changes_per_day(tx, subdomain.id, CHANGE, "nameservers", changes_per_day)
        refuse_unregistered(
            tx,
            actor,
            user,
            subdomain.fqdn,
            delegation.nameservers,
            above,
            kept=stored.nameservers,
            owner_id=subdomain.id,
        )
        delegation_store.update_delegation(tx, subdomain, delegation)
        audit.record(
            tx,
            actor,
            action,
            subdomain.id,
            before=store.delegation_columns(stored),
            after=store.delegation_columns(delegation),
        )
    return delegation


def changed_delegation(
    subdomain: Subdomain, command: UpdateNameservers
) -> tuple[Delegation, tuple[FieldError, ...]]:
    """Return the delegation of a name after a change, and its errors by `check_delegation`."""
    stored = subdomain.delegation
    nameservers = stored.nameservers if command.nameservers is None else command.nameservers
    kept_glue = stored.glue
    if command.nameservers is not None:
        kept_glue = prune_glue(stored.glue, command.nameservers)
    return check_delegation(
        subdomain.fqdn,
        nameservers,
        kept_glue if command.glue is None else command.glue,
        stored.ds_records if command.ds_records is None else command.ds_records,
        # An unchanged list may be older than the platform domain's limits.
        nameservers_min=1 if command.nameservers is None else subdomain.nameservers_min,
        nameservers_max=13 if command.nameservers is None else subdomain.nameservers_max,
    )
