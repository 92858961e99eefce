"""View automatic DS of a name, and turn it on or off (GET and PUT /subdomains/{fqdn}/automatic-ds;
docs/spec-choices.md, "Automatic DS"). Schedule a check after a child's NOTIFY message (RFC 9859).
"""

from datetime import timedelta

from msgspec import Struct

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.audit import Actor, list_events
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.health import store as health_store
from sublet.health.schedule import new_health
from sublet.structs import replace
from sublet.subdomains.child_state_store import ChildStates, find_automatic_ds, find_child_states, save_state
from sublet.subdomains.delegation_changes import CHANGES_OF_DS, SourcedDs, ds_sources
from sublet.subdomains.find import find_in_account, refuse_unless_allowed

NOTIFY_PAUSE = timedelta(seconds=60)
"""The minimum time between two checks of a name because of NOTIFY messages, which anyone may send."""


class AutomaticDsView(Struct, frozen=True):
    """A name's automatic DS and CSYNC states with the policies of its platform domain, and its DS records
    with their sources.
    """

    states: ChildStates
    ds_records: tuple[SourcedDs, ...]


def view_automatic_ds(tx: Tx, actor: Actor, identifier: str) -> AutomaticDsView:
    """Return the automatic DS of a user's name.

    Raises:
        SubdomainNotFound: the user has no such name, the token isn't for the name, or the name is in the
            trash.
    """
    subdomain = find_in_account(tx, actor, identifier)
    states = find_child_states(tx, subdomain.id)
    ds_records = subdomain.delegation.ds_records
    if not ds_records:
        return AutomaticDsView(states, ())
    events = list_events(tx, "subdomain", [subdomain.id], CHANGES_OF_DS)
    return AutomaticDsView(states, tuple(ds_sources(ds_records, events)))


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


def schedule_check(tx: Tx, fqdn: str) -> bool:
    """Make a check of a followed name due, now or `NOTIFY_PAUSE` after its last check.

    Return False if the name isn't followed.

    Not audited, because it changes no name. Not checked: that automatic DS of the name is on. The check does
    that.
    """
    found = health_store.find_followed(tx, fqdn)
    if found is None:
        return False
    subdomain_id, checked_at, due_at = found
    at = tx.now if checked_at is None else min(max(tx.now, checked_at + NOTIFY_PAUSE), tx.now + NOTIFY_PAUSE)
    if due_at is None:
        health_store.insert_health(tx, [new_health(subdomain_id, tx.now, at)])
    elif at < due_at:
        health_store.reschedule(tx, [subdomain_id], at)
    return True
