"""Turn automatic DS of a name on or off (PUT /subdomains/{fqdn}/automatic-ds; docs/spec-choices.md,
"Automatic DS").
"""

from dataclasses import replace

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.subdomains.child_state_store import find_automatic_ds, save_state
from sublet.subdomains.find import find_in_account, refuse_unless_allowed


def set_automatic_ds(
    tx: Tx, actor: Actor, identifier: str, *, enabled: bool | None, bootstrap: bool | None
) -> Outcome:
    """Store the settings `enabled` and `bootstrap` (first DS records) of a name's automatic DS.

    None keeps a setting.

    Not checked: that the platform domain follows the requests of names.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token isn't for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "update_nameservers", tx.now)
    before = find_automatic_ds(tx, subdomain.id)
    after = replace(
        before,
        enabled=before.enabled if enabled is None else enabled,
        bootstrap=before.bootstrap if bootstrap is None else bootstrap,
    )
    if not after.enabled:
        after = replace(after, refusal=None, message=None, refused_since=None)
    if not after.enabled or not after.bootstrap:
        after = after.without_wait()
    if (before.enabled, before.bootstrap) != (after.enabled, after.bootstrap):
        save_state(tx, before, after)
        audit.record(
            tx,
            actor,
            "subdomain.set_automatic_ds",
            subdomain.id,
            before={"enabled": before.enabled, "bootstrap": before.bootstrap},
            after={"enabled": after.enabled, "bootstrap": after.bootstrap},
        )
    return Outcome(subdomain.id)
