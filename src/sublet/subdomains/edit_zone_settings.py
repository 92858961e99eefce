"""Edit a platform domain and let the DNS of its names follow (the operator's `sublet domain edit`)."""

from collections.abc import Mapping
from typing import Any

from sublet.audit import Actor
from sublet.counted import counted
from sublet.db import Tx
from sublet.dns.types import Record
from sublet.dns.verify import DELEGATION_TYPES
from sublet.errors import Conflict
from sublet.platform_domains import zone_state_store, zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import edit_platform_domain
from sublet.subdomains import publish_store, store
from sublet.subdomains.availability import carries_the_zone
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.sweep import store as sweep_store

DAYS = ("renewal_window_days", "grace_days", "trash_days", "cooling_off_days")


def edit_zone_settings(
    tx: Tx, actor: Actor, identifier: str, settings: Mapping[str, Any], *, force: bool = False
) -> PlatformDomain:
    """Change a platform domain; with another TTL of delegations every delegated name of it is published again.

    After a change of days the sweep recomputes the dates of its names, in batches. On another primary every delegated name is published again, and
    counts as such only when that one serves it; the zone on the server that it leaves stays there as it is.

    Raises, in this order:
        NotFound, ValidationFailed: as `edit_platform_domain`.
        Conflict: a nameserver of the zone would stand at or below a name that a registrant holds.
        Conflict: names would go to the trash or be purged at once by other days, and `force` is not given.
        Conflict: the zone would leave the built-in name server, which has records that are not ours, and `force` is not given.
    """
    before = find_platform_domain(tx, identifier)
    losses_before = (
        sweep_store.count_losses_by_rule(tx, tx.now, before.id) if _days_given(settings) else (0, 0)
    )
    edited = edit_platform_domain(tx, actor, identifier, settings)
    if (edited.apex_nameservers, edited.soa_mname) != (before.apex_nameservers, before.soa_mname):
        _refuse_held_nameservers(tx, edited)
    if any(getattr(edited, name) != getattr(before, name) for name in DAYS):
        if not force:
            _refuse_losses(losses_before, sweep_store.count_losses_by_rule(tx, tx.now, edited.id))
        sweep_store.set_redate_after(tx, edited.id, 0)
    if edited.primary != before.primary:
        _leave_server(tx, before, force=force)
    if (edited.delegation_ttl_seconds, edited.primary) != (before.delegation_ttl_seconds, before.primary):
        names = publish_store.list_published(tx, edited.id)
        publish_store.republish(tx, [each.id for each in names if is_delegated(each)])
    return edited


def _leave_server(tx: Tx, before: PlatformDomain, *, force: bool) -> None:
    """Forget what stands on the server that the zone is leaving; what the new one has is found out by the first check.

    Of a zone that leaves the built-in name server the records that are not ours stay noted until then: the new server is to have
    them, and nobody is to register their names meanwhile.
    """
    noted = [] if before.primary else _not_ours(tx, before.id)
    if noted and not force:
        raise Conflict(
            f"The built-in name server has {counted(len(noted), 'record')} of {before.domain} that no registrant's delegation accounts for "
            f"(`sublet zone check {before.domain}` lists them), and this would lose them. Put them into the zone on the new "
            "server first, then give --force."
        )
    zone_store.delete_records(tx, before.id)
    zone_store.insert_records(tx, before.id, noted)
    zone_state_store.forget_zone_state(tx, before.id)
    zone_state_store.update_zone_state(tx, before.id, rebuilt_at=tx.now)  # to be checked as a whole


def _not_ours(tx: Tx, platform_domain_id: int) -> list[Record]:
    ours = store.list_published_owners_of_zone(tx, platform_domain_id, only_sent=True)
    return [
        each
        for each in zone_store.list_zone_records(tx, platform_domain_id)
        if each.owner not in ours or each.type not in DELEGATION_TYPES
    ]


def _days_given(settings: Mapping[str, Any]) -> bool:
    return not settings.keys().isdisjoint(DAYS)


def _refuse_held_nameservers(tx: Tx, edited: PlatformDomain) -> None:
    for each in publish_store.list_published(tx, edited.id):
        if carries_the_zone(edited, each.fqdn):
            raise Conflict(
                f"{each.fqdn} is held by a registrant, who would then answer for the whole zone; take another host name."
            )


def _refuse_losses(before: tuple[int, int], after: tuple[int, int]) -> None:
    to_trash, to_purge = (max(0, now - then) for then, now in zip(before, after, strict=True))
    if to_trash or to_purge:
        raise Conflict(
            f"By these days {counted(to_trash, 'name')} would go to the trash at once, and {to_purge} in the trash would be purged, "
            "which nothing brings back. Give --force if that is meant."
        )
