"""Check zones: how they differ from the registry."""

from collections.abc import Iterator

from sublet.counted import counted
from sublet.db import Tx
from sublet.doctor.model import Violation
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_state_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.zone_state_store import ZoneState
from sublet.subdomains.check_zone import check_built_in_zone


def check_zones(tx: Tx) -> Iterator[Violation]:
    """Yield how zones differ from the registry: zones on the built-in name server now, others at the last check."""
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
            f"{state.different} different, {state.orphaned} left over"
        )


def _by_comparison(tx: Tx, platform_domain: PlatformDomain) -> Iterator[str]:
    differences = check_built_in_zone(tx, platform_domain).differences
    for name in differences.missing:
        yield f"{name} is missing in the zone"
    for different in differences.different:
        yield f"{different.name} is different in the zone"
    for record in differences.orphaned:
        yield f"{record.owner} {record.type} is left over"
