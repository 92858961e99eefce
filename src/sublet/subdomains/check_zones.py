"""Check the zones: what `sublet doctor` asks of them."""

from collections.abc import Iterator
from datetime import timedelta

from sublet.counted import counted
from sublet.db import Tx
from sublet.dns.primary import CAUSES
from sublet.invariants import Violation
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.zone_state_store import ZoneState
from sublet.subdomains.check_zone import check_built_in_zone

UNSEEN_MAX = timedelta(minutes=10)
"""For how long a zone on a primary may go unwatched."""


def check_zones(tx: Tx) -> Iterator[Violation]:
    """Return how zones differ from the registry: the built-in name server's now, others as the last check found them."""
    states = zone_state_store.list_zone_states(tx)
    for platform_domain in platform_domain_store.list_platform_domains(tx):
        if platform_domain.primary:
            sentences = _by_last_check(states.get(platform_domain.id))
        else:
            sentences = _by_comparison(tx, platform_domain)
        for sentence in sentences:
            yield Violation("zone_is_registry", "zone", platform_domain.domain, sentence)


def _by_last_check(state: ZoneState | None) -> Iterator[str]:
    if state is not None and (state.missing or state.different or state.orphaned):
        yield (
            f"the check of {state.checked_at:%Y-%m-%d %H:%M:%S} UTC found {counted(state.missing, 'name')} missing, "
            f"{state.different} otherwise, {state.orphaned} left over"
        )


def _by_comparison(tx: Tx, platform_domain: PlatformDomain) -> Iterator[str]:
    differences = check_built_in_zone(tx, platform_domain).differences
    for name in differences.missing:
        yield f"{name} is missing in the zone"
    for different in differences.different:
        yield f"{different.name} stands otherwise in the zone"
    for record in differences.orphaned:
        yield f"{record.owner} {record.type} is left over"


def check_watch(tx: Tx) -> Iterator[Violation]:
    """Return which zones on primaries are not watched, or whose repair waits for the operator's word."""
    states = zone_state_store.list_zone_states(tx)
    for platform_domain_id, domain, primary in zone_state_store.list_zones_on_primaries(tx):
        state = states.get(platform_domain_id, ZoneState(platform_domain_id))
        if state.watch_problem is not None:
            meaning = CAUSES.get(state.watch_problem, "the check does not end")
            sentence = f"it can't be checked on {primary}: {meaning} ({state.watch_problem_detail})"
            yield Violation("zone_is_watched", "zone", domain, sentence)
        elif state.seen_at is None or state.seen_at < tx.now - UNSEEN_MAX:
            yield Violation("zone_is_watched", "zone", domain, "nobody watches it; is the worker running?")
        if state.repair_stopped_at is not None:
            sentence = f"since {state.repair_stopped_at:%Y-%m-%d %H:%M} UTC: {state.repair_stopped_reason}"
            yield Violation("zone_is_repaired", "zone", domain, sentence)
