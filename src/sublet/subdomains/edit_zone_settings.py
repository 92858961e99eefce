"""Edit a platform domain and let the DNS of its names follow (the operator's `sublet domain edit`)."""

from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.platform_domains.edit_platform_domain import edit_platform_domain
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.settings import PlatformDomainSettings
from sublet.subdomains import publish_store, sweep_store
from sublet.subdomains.availability import carries_the_zone
from sublet.subdomains.lifecycle import is_delegated

DAYS = ("renewal_window_days", "grace_days", "trash_days", "cooling_off_days")


def edit_zone_settings(
    tx: Tx, actor: Actor, identifier: str, settings: PlatformDomainSettings
) -> PlatformDomain:
    """Change a platform domain; with another TTL of delegations every delegated name of it is published anew.

    With other days every name of it is dated anew by the sweep; that asks first where many names would be lost by it.

    Raises:
        NotFound, ValidationFailed: as `edit_platform_domain`.
        Conflict: a nameserver of the zone would stand at or below a name that a registrant holds.
    """
    before = find_platform_domain(tx, identifier)
    edited = edit_platform_domain(tx, actor, identifier, settings)
    held = [
        each.fqdn
        for each in publish_store.list_published(tx, edited.id)
        if carries_the_zone(edited, each.fqdn)
    ]
    if held:
        raise Conflict(
            f"{held[0]} is held by a registrant, who would then answer for the whole zone; take another host name."
        )
    if edited.delegation_ttl_seconds != before.delegation_ttl_seconds:
        names = publish_store.list_published(tx, edited.id)
        publish_store.republish(tx, [each.id for each in names if is_delegated(each)])
    if any(getattr(edited, name) != getattr(before, name) for name in DAYS):
        # A sweep under way still goes by the days of before, and would store its dates after these.
        sweep_store.lock_clockwork(tx)
        sweep_store.date_anew(tx, edited.id)
    return edited
