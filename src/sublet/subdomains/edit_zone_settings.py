"""Edit a platform domain, and republish its names or recompute their dates if necessary (`sublet domain
edit`).
"""

from collections.abc import Mapping
from typing import Any

from sublet.audit import Actor
from sublet.counted import counted
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain, has_zone_nameserver
from sublet.platform_domains.nested import refuse_missing_cuts
from sublet.platform_domains.platform_domain import edit_platform_domain, find_platform_domain
from sublet.subdomains import published_owner_store, store
from sublet.subdomains.sweep import store as sweep_store

DAYS = ("renewal_window_days", "grace_days", "trash_days", "cooling_off_days")


def edit_zone_settings(
    tx: Tx, actor: Actor, identifier: str, settings: Mapping[str, Any], *, force: bool = False
) -> PlatformDomain:
    """Change a platform domain.

    If the delegations' TTL or the zone's server changes, publish the delegated names again.

    On a new primary, names become published when the primary serves them; on the built-in name server, at
    once. The former primary keeps its copy of the zone. If the numbers of days change, the sweep recomputes
    the dates of the names, in batches.

    Raises, in this order:
        NotFound, ValidationFailed: see `edit_platform_domain`.
        Conflict: a nameserver of the zone would be at or below a registrant's name.
        Conflict: the new days would trash or purge names at once, and `force` is false.
        Conflict: the zone would leave the built-in name server and lose its adopted records, and `force` is
            false.
        Conflict: the zone would move to a primary that is not known to delegate a platform domain below the
            zone, and `force` is false.
    """
    before = find_platform_domain(tx, identifier)
    has_days = not settings.keys().isdisjoint(DAYS)
    losses_before = sweep_store.count_losses_by_rule(tx, tx.now, before.id) if has_days else (0, 0)
    if settings.get("primary", before.primary) != before.primary:
        # A name that is registered beside a move would count as published on the former server.
        platform_domain_store.lock_against_registrations(tx, before.id)
    edited = edit_platform_domain(tx, actor, identifier, settings)
    if (edited.apex_nameservers, edited.soa_mname) != (before.apex_nameservers, before.soa_mname):
        _refuse_held_nameservers(tx, edited)
    if any(getattr(edited, name) != getattr(before, name) for name in DAYS):
        if not force:
            refuse_losses(losses_before, sweep_store.count_losses_by_rule(tx, tx.now, edited.id))
        sweep_store.set_redate_after(tx, edited.id, 0)
    if edited.primary != before.primary:
        _change_server(tx, before, edited, force=force)
    elif edited.delegation_ttl_seconds != before.delegation_ttl_seconds:
        store.republish_zone(tx, edited.id)
    return edited


def _change_server(tx: Tx, before: PlatformDomain, edited: PlatformDomain, *, force: bool) -> None:
    """Delete the stored state of the zone on its former server, and have the zone's names published on the
    new server.

    On a move from the built-in name server, the adopted records stay stored until the first check of the new
    server, so that their names can't be registered before. The owner names of delegations and records are
    stored as if they were sent, because the new server may have a copy of the zone.
    """
    adopted = [] if before.primary else zone_store.list_zone_records(tx, before.id)
    if adopted and not force:
        raise Conflict(
            f"The built-in name server has {counted(len(adopted), 'adopted record')} of {before.domain} "
            f"(`sublet zone check {before.domain}` lists them), which the move would lose. Add them to the "
            "zone on the new server first, then give --force."
        )
    if before.primary:
        zone_store.delete_records(tx, before.id)
    else:
        published_owner_store.insert_owners_in_dns(tx, edited.id)
    zone_store.delete_zone_state(tx, before.id)
    if edited.primary:
        # The new server may have an old copy of the zone. `rebuilt_at` makes its first check compare the
        # whole zone.
        zone_store.update_zone_state(tx, before.id, rebuilt_at=tx.now)
    else:
        published_owner_store.delete_published_owners_of_zone(tx, before.id)
    store.republish_zone(tx, before.id)
    if not edited.primary:
        # The rest are names that have left the DNS, which the former primary has not removed.
        store.republish(tx, store.list_unpublished_ids(tx, before.id))
    if not force:
        refuse_missing_cuts(tx, edited)


def _refuse_held_nameservers(tx: Tx, edited: PlatformDomain) -> None:
    for each in published_owner_store.stream_published(tx, edited.id):
        if has_zone_nameserver(edited, each.fqdn):
            raise Conflict(
                f"The holder of {each.fqdn} could answer queries for the whole zone. Choose another host "
                "name."
            )


def refuse_losses(before: tuple[int, int], after: tuple[int, int]) -> None:
    """Raise `Conflict` if a change increases the losses that are due now.

    Both arguments are results of `sweep_store.count_losses_by_rule`.
    """
    to_trash, to_purge = (max(0, now - then) for then, now in zip(before, after, strict=True))
    if to_trash or to_purge:
        raise Conflict(
            f"This change would move {counted(to_trash, 'name')} to the trash at once, and permanently "
            f"purge {to_purge} of the names in the trash. "
            "Give --force to apply it."
        )
