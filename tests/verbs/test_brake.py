"""The brake of the sweep: with an implausible clock or too many losses, no name is lost until the operator
resumes the sweep.
"""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from sublet.audit import Actor
from sublet.db import Tx
from sublet.doctor.names import stream_all
from sublet.doctor.running import check_sweep
from sublet.errors import Conflict
from sublet.mail.letter import Message
from sublet.mail.outbox import enqueue_to
from sublet.mail.store import record_logged
from sublet.subdomains import store
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete, move_to_trash
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.lifecycle import lost_at
from sublet.subdomains.model import Subdomain
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.brake import resume_sweep, stop_sweep
from sublet.subdomains.sweep.sweep import sweep
from support.registry import OPERATOR, Registry


def fill(registry: Registry, count: int) -> None:
    """Register `count` names for one user at one instant."""
    registry.add_user("carl", free_quota=count)
    for number in range(count):
        registry.register(f"n{number}.example.test", "carl")


def fill_and_pass_days(registry: Registry, count: int) -> None:
    """Register names, of which no sweep so far expects a loss."""
    fill(registry, count)
    for _ in range(3):
        registry.sweep()
        registry.advance(days=1)
    registry.sweep()


def trashed(registry: Registry) -> int:
    """Return the number of names that are or were in the trash."""

    def ask(tx: Tx) -> int:
        query = store.select_subdomains().where(store.subdomains.c.trashed_at.is_not(None))
        return len(store.read_subdomains(Subdomain, tx.connection.execute(query)))

    return registry.read(ask)


def lapse(tx: Tx, ids: range, expires_at: datetime) -> None:
    """Change the expiry of names, like a fault could."""
    for subdomain_id in ids:
        store.update_subdomain(tx, subdomain_id, expires_at=expires_at)


def test_a_clock_far_ahead_stops_the_sweep_until_the_operator_resumes_it(registry: Registry) -> None:
    fill(registry, 3)
    logged = registry.write(enqueue_to, "eve@example.org", Message("S", "T"), reference="test:1")
    registry.write(record_logged, logged)
    registry.sweep()
    registry.advance(days=400)
    reason = registry.sweep().stopped_reason
    assert reason is not None
    assert "400 days after the sweep last ran" in reason
    registry.advance(days=1)
    assert registry.sweep().stopped_reason == reason
    assert (trashed(registry), [each.text for each in registry.mails()]) == (0, ["T"])
    assert [each.invariant for each in registry.read(check_sweep)] == ["sweep_runs"]
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 3
    assert "T" not in [each.text for each in registry.mails()]
    assert registry.read(check_sweep) == []


@pytest.mark.uncovered
def test_more_losses_than_forecast_stop_the_sweep(registry: Registry) -> None:
    fill(registry, 30)
    registry.live(days=380)
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 1}, force=True)
    swept = registry.sweep()
    assert swept.stopped_reason is not None
    assert swept.stopped_reason.startswith("Of 30 names, 30 would go to the trash now and 0 would be purged")
    assert trashed(registry) == 0
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 30
    assert registry.live(days=40)["released"] == 30


@pytest.mark.parametrize(
    ("forecasts", "stops"),
    [({1: 0}, True), ({2: 50, 1: 1}, True), ({2: 50, 1: 0}, True), ({2: 0, 1: 50}, False), ({0: 50}, False)],
)
def test_losses_are_compared_with_the_newest_forecast_of_a_day_ago(
    registry: Registry, forecasts: dict[int, int], stops: bool
) -> None:
    """`forecasts` maps an age in days to the number of names that the forecast of then expected to be lost.
    0 is a forecast too.
    """
    fill_and_pass_days(registry, 60)
    now = registry.now

    def replace_forecasts(tx: Tx) -> None:
        sweep_store.delete_forecasts(tx, before=now + timedelta(microseconds=1), since=now)
        for days, losses in forecasts.items():
            sweep_store.insert_forecast(Tx(tx.connection, now - timedelta(days=days)), losses)

    registry.write(replace_forecasts)
    registry.write(lapse, range(1, 51), now - timedelta(days=31))
    assert (registry.sweep().stopped_reason is not None) == stops
    assert trashed(registry) == (0 if stops else 50)


def test_unforecast_losses_of_a_day_count_together(registry: Registry) -> None:
    fill_and_pass_days(registry, 30)
    registry.write(lapse, range(1, 21), registry.now - timedelta(days=31))
    assert registry.sweep().done["trashed"] == 20
    registry.advance(hours=23)
    registry.write(lapse, range(25, 26), registry.now - timedelta(days=31))
    assert registry.sweep().stopped_reason is not None


def test_the_operator_stops_and_resumes_the_sweep(registry: Registry) -> None:
    fill(registry, 1)
    registry.live(days=394)
    registry.write(stop_sweep, OPERATOR, "maintenance")
    registry.refused(Conflict, stop_sweep, OPERATOR)
    registry.advance(days=1)
    assert registry.sweep().stopped_reason == "maintenance"
    assert trashed(registry) == 0
    registry.write(resume_sweep, OPERATOR)
    registry.refused(Conflict, resume_sweep, OPERATOR)
    assert registry.sweep().done["trashed"] == 1
    registry.refused(Conflict, resume_sweep, OPERATOR)


def test_a_clock_set_back_stops_the_sweep_too(registry: Registry) -> None:
    fill(registry, 2)
    registry.live(days=380)
    registry.advance(days=-3)
    assert "before the sweep last ran" in str(registry.sweep().stopped_reason)
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().stopped_reason is None
    assert trashed(registry) == 0
    assert registry.read(sweep_store.find_sweep_state).seen_at == registry.now
    assert registry.live(days=19)["trashed"] == 2


def test_names_changed_while_the_clock_was_ahead_are_swept_in_time(registry: Registry) -> None:
    """Names that were changed while the clock was ahead are renewed automatically, and their users reminded,
    in time.
    """
    name = registry.register("shop.example.test", registration_mode="plus")
    registry.live(days=300)
    registry.write(stop_sweep, OPERATOR, "the clock jumped")
    registry.advance(days=60)
    registry.write(set_auto_renew, registry.actor(), "shop.example.test", 50, may_spend=True)
    registry.write(suspend, OPERATOR, "shop.example.test")
    registry.write(unsuspend, OPERATOR, "shop.example.test")
    registry.advance(days=-60)
    registry.write(resume_sweep, OPERATOR)
    registry.sweep()
    assert registry.read(check_sweep) == []
    assert registry.live(days=6)["auto_renewed"] == 1
    assert registry.subdomain(name.id).expires_at == name.expires_at + timedelta(days=365)


def test_resuming_does_not_allow_later_losses(registry: Registry) -> None:
    """If a wrong setting is corrected before the operator resumes the sweep, a second mistake stops the sweep
    again.
    """
    fill(registry, 30)
    registry.live(days=380)
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 1}, force=True)
    assert registry.sweep().stopped_reason is not None
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 30})
    registry.write(resume_sweep, OPERATOR)
    assert registry.sweep().done == Counter(looked=30)
    registry.advance(hours=20)
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 3}, force=True)
    assert registry.sweep().stopped_reason is not None
    assert trashed(registry) == 0


def test_resuming_allows_the_reported_losses_and_a_few_others(registry: Registry) -> None:
    fill_and_pass_days(registry, 60)
    registry.write(lapse, range(1, 36), registry.now - timedelta(days=31))
    assert registry.sweep().stopped_reason is not None
    registry.write(resume_sweep, OPERATOR)
    registry.advance(minutes=30)
    assert registry.sweep().done["trashed"] == 35
    registry.advance(hours=23, minutes=40)
    registry.write(lapse, range(36, 40), registry.now - timedelta(days=31))
    assert registry.sweep().done["trashed"] == 4
    registry.write(lapse, range(40, 61), registry.now - timedelta(days=31))
    assert registry.sweep().stopped_reason is not None


def test_a_user_who_deletes_all_names_does_not_stop_the_sweep(registry: Registry) -> None:
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"trash_days": 1})
    fill(registry, 30)
    registry.live(days=3)
    for number in range(30):
        registry.write(delete, registry.actor("carl"), f"n{number}.example.test")
    assert registry.live(days=3, step_days=1)["purged"] == 30


def test_days_that_would_lose_names_at_once_are_refused_first(registry: Registry) -> None:
    fill(registry, 3)
    registry.live(days=370)
    registry.write(delete, registry.actor("carl"), "n0.example.test")
    caught = registry.refused(
        Conflict, edit_zone_settings, OPERATOR, "example.test", {"grace_days": 1, "trash_days": 0}
    )
    assert caught.message.startswith(
        "This change would move 2 names to the trash at once, and permanently purge 1 of the names in the "
        "trash"
    )
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 10})


def test_losses_are_counted_by_the_rules(registry: Registry) -> None:
    """The sweep takes the names that `sweep status` counted, including held and released names."""
    fill(registry, 6)
    registry.live(days=370)
    registry.write(delete, registry.actor("carl"), "n0.example.test")
    registry.write(suspend, OPERATOR, "n1.example.test")
    registry.write(suspend, OPERATOR, "n2.example.test")
    registry.write(unsuspend, OPERATOR, "n2.example.test")
    for days in (10, 24, 25, 29, 30, 100):
        told = registry.read(
            lambda tx, days=days: sweep_store.count_losses_by_rule(tx, tx.now + timedelta(days=days))  # type: ignore[misc]
        )
        rows = registry.read(lambda tx: list(stream_all(tx)))
        until = registry.now + timedelta(days=days)
        over = [each for each in rows if (lost_at(each) or until + timedelta(1)) <= until]
        in_trash = sum(each.trashed_at is not None for each in over)
        assert told == (len(over) - in_trash, in_trash)


def test_a_name_that_fails_does_not_delay_other_names(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(registry, 5)
    registry.live(days=394)

    def poisoned(tx: Tx, actor: Actor, subdomain: Subdomain, *, action: str) -> None:
        move_to_trash(tx, actor, subdomain, action=action)
        if subdomain.id == 3:
            raise ZeroDivisionError

    monkeypatch.setattr("sublet.subdomains.sweep.sweep.move_to_trash", poisoned)
    registry.advance(days=1)
    swept = registry.write(sweep)
    assert swept.done["trashed"] == 4
    assert [subdomain_id for subdomain_id, _ in swept.faults] == [3]
    assert registry.subdomain(3).trashed_at is None
    monkeypatch.undo()
    registry.advance(hours=1)
    assert registry.sweep().done["trashed"] == 1


def test_a_clock_that_jumps_between_reading_and_writing_loses_nothing(registry: Registry) -> None:
    fill(registry, 5)
    registry.live(days=390)
    clock_read_at = registry.now
    registry.advance(days=6)
    assert registry.write(sweep, clock_read_at).done == Counter()
    assert trashed(registry) == 0


def test_names_that_the_sweep_misses_are_reported(registry: Registry) -> None:
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
