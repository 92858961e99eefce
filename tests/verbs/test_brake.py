"""The brake of the sweep: where the clock or the losses are implausible nothing is lost, until the operator says so."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from registry import OPERATOR, Registry
from sublet.db import Tx
from sublet.errors import Conflict
from sublet.platform_domains.settings import PlatformDomainSettings
from sublet.subdomains import store, sweep_store
from sublet.subdomains.check_sweep import check_sweep
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.resume_sweep import resume_sweep
from sublet.subdomains.stop_sweep import stop_sweep


def fill(registry: Registry, count: int) -> None:
    """Register as many names for one user, at one instant."""
    registry.add_user("carl", free_quota=count)
    for number in range(count):
        registry.register(f"n{number}.example.test", "carl")


def trashed(registry: Registry) -> int:
    """How many names are in the trash, or were."""

    def ask(tx: Tx) -> int:
        query = store.select_subdomains().where(store.subdomains.c.trashed_at.is_not(None))
        return len(store.fetch(tx, query))

    return registry.read(ask)


def lapse(tx: Tx, ids: range, expires_at: datetime) -> None:
    """Have names expire at another date, as a fault may."""
    for subdomain_id in ids:
        store.update_subdomain(tx, subdomain_id, expires_at=expires_at)


def test_a_clock_far_after_what_was_seen_stops_it_until_the_operator_s_word(registry: Registry) -> None:
    fill(registry, 3)
    registry.sweep()
    registry.advance(days=400)
    reason = registry.sweep().stopped_reason
    assert reason is not None
    assert "400 days after the sweep last ran" in reason
    registry.advance(days=1)
    assert registry.sweep().stopped_reason == reason
    assert trashed(registry) == 0
    assert [each.invariant for each in registry.read(check_sweep)] == ["sweep_runs"]
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 3
    assert registry.read(check_sweep) == []


def test_a_week_without_the_worker_is_no_reason(registry: Registry) -> None:
    fill(registry, 1)
    registry.sweep()
    registry.advance(days=7)
    assert registry.sweep().stopped_reason is None
    registry.advance(days=7, microseconds=1)
    assert registry.sweep().stopped_reason is not None


def test_more_losses_than_the_dates_forecast_stop_it(registry: Registry) -> None:
    fill(registry, 30)
    registry.live(days=380)
    registry.write(edit_zone_settings, OPERATOR, "example.test", PlatformDomainSettings(grace_days=1))
    swept = registry.sweep()
    assert swept.stopped_reason is not None
    assert swept.stopped_reason.startswith("30 names of 30 would go to the trash or be purged now")
    assert trashed(registry) == 0
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 30
    assert registry.live(days=40)["released"] == 30


def test_as_many_losses_as_were_forecast_do_not(registry: Registry) -> None:
    fill(registry, 100)
    done = registry.live(days=440, step_days=1)
    assert done["trashed"] == done["purged"] == done["released"] == 100


def test_a_few_surprises_do_not(registry: Registry) -> None:
    fill(registry, 20)
    registry.live(days=380)
    registry.write(edit_zone_settings, OPERATOR, "example.test", PlatformDomainSettings(grace_days=1))
    assert registry.sweep().done["trashed"] == 20


def test_surprises_of_one_day_count_together(registry: Registry) -> None:
    fill(registry, 30)
    registry.live(days=380)
    registry.write(lapse, range(1, 21), registry.now - timedelta(days=31))
    assert registry.sweep().done["trashed"] == 20
    registry.advance(hours=23)
    registry.write(lapse, range(25, 26), registry.now - timedelta(days=31))
    assert registry.sweep().stopped_reason is not None


def test_a_wrong_setting_put_right_needs_no_losses(registry: Registry) -> None:
    fill(registry, 30)
    registry.live(days=380)
    registry.write(edit_zone_settings, OPERATOR, "example.test", PlatformDomainSettings(grace_days=1))
    assert registry.sweep().stopped_reason is not None
    registry.write(edit_zone_settings, OPERATOR, "example.test", PlatformDomainSettings(grace_days=30))
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done == Counter(looked=30)
    assert trashed(registry) == 0


def test_the_word_is_for_what_was_told_and_no_more(registry: Registry) -> None:
    fill(registry, 60)
    registry.live(days=380)
    long_ago = registry.now - timedelta(days=31)
    registry.write(lapse, range(1, 31), long_ago)
    assert registry.sweep().stopped_reason is not None
    registry.write(resume_sweep, OPERATOR)
    registry.write(lapse, range(31, 52), long_ago)  # 21 more before the worker looks
    assert registry.sweep().stopped_reason is not None
    assert trashed(registry) == 0


def test_users_may_empty_their_accounts(registry: Registry) -> None:
    fill(registry, 50)
    registry.live(days=10)
    for number in range(50):
        registry.write(delete, registry.actor("carl"), f"n{number}.example.test")
    assert registry.live(days=40)["purged"] == 50


def test_the_operator_stops_and_resumes_it(registry: Registry) -> None:
    fill(registry, 1)
    registry.live(days=394)
    registry.write(stop_sweep, OPERATOR, "maintenance")
    with registry.refuses(Conflict):
        registry.write(stop_sweep, OPERATOR)
    registry.advance(days=1)
    assert registry.sweep().stopped_reason == "maintenance"
    assert trashed(registry) == 0
    registry.write(resume_sweep, OPERATOR)
    with registry.refuses(Conflict):
        registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 1
    with registry.refuses(Conflict):
        registry.write(resume_sweep, OPERATOR)


@pytest.mark.parametrize("ago", [timedelta(hours=1), timedelta(days=3), timedelta(days=300)])
def test_a_clock_put_back_loses_nothing_and_goes_on(registry: Registry, ago: timedelta) -> None:
    fill(registry, 2)
    registry.live(days=380)
    registry.now -= ago
    assert registry.sweep().stopped_reason is None
    assert trashed(registry) == 0
    assert registry.read(sweep_store.find_clockwork).seen_at == registry.now
    assert registry.live(days=16 + ago.days)["trashed"] == 2


def test_names_that_the_sweep_forgets_are_told(registry: Registry) -> None:
    fill(registry, 1)
    registry.sweep()
    registry.advance(days=306)
    assert [each.invariant for each in registry.read(check_sweep)] == ["sweep_is_in_time"]


def test_a_registry_that_was_never_swept_asks_before_it_loses_many(registry: Registry) -> None:
    fill(registry, 30)
    registry.advance(days=800)
    swept = registry.sweep()
    assert swept.stopped_reason is not None
    assert trashed(registry) == 0
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 30
