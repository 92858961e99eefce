"""The sweep: it takes each step of a name once, at its date, with an event and a mail."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from sublet.accounts.store import update_user
from sublet.accounts.users import suspend_user, unsuspend_user
from sublet.audit import audit_events
from sublet.credits.entries import adjust_credits
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.doctor.running import check_sweep
from sublet.errors import SubdomainUnavailable
from sublet.mail.store import mails
from sublet.subdomains import store
from sublet.subdomains.dates.set_auto_renew import set_auto_renew
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.lifecycle import SweepDates, dates_of
from sublet.subdomains.renew import renew
from sublet.subdomains.store import subdomains
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.sweep import FAULT_PAUSE, RECOMPUTED_MAX, Swept, is_sweep_due, sweep
from support.registry import OPERATOR, Dump, Registry
from support.repetitions import share
from support.subdomain_states import State, add_names

NAME = "blog.example.test"
NS = ("ns1.provider.example", "ns2.provider.example")
DAY = timedelta(days=1)
LIFE = {
    "renewal_opens": 305,
    "expires_in_30_days": 335,
    "expires_in_7_days": 358,
    "expires_in_1_day": 364,
    "expired": 365,
    "trashed": 395,
    "trash_ends": 418,
    "purged": 425,
    "released": 432,
}
"""The day of each step in a name's life without actions of its user, with the default settings of a platform
domain.
"""


def told(registry: Registry) -> list[tuple[str, str]]:
    """Return the milestone and recipient of each mail, the oldest first."""

    def ask(tx: Tx) -> list[tuple[str, str]]:
        rows = tx.connection.execute(select(mails.c.reference, mails.c.recipient).order_by(mails.c.id))
        return [(reference.partition(":")[0], recipient) for reference, recipient in rows]

    return registry.read(ask)


def events(registry: Registry, subdomain_id: int) -> list[tuple[str, str]]:
    """Return the action and the kind of actor of each audit event about a name, the oldest first."""

    def ask(tx: Tx) -> list[tuple[str, str]]:
        query = select(audit_events.c.action, audit_events.c.actor_kind).where(
            (audit_events.c.object_type == "subdomain") & (audit_events.c.object_id == subdomain_id)
        )
        return [(row[0], row[1]) for row in tx.connection.execute(query.order_by(audit_events.c.id))]

    return registry.read(ask)


def reached(registry: Registry, subdomain_id: int) -> dict[str, datetime]:
    """Return the milestones of a name, and when it reached each."""
    return {each.kind: each.created_at for each in registry.read(sweep_store.list_milestones, subdomain_id)}


@pytest.mark.uncovered
@pytest.mark.whole_on_postgresql
def test_a_name_without_any_action_of_its_user(registry: Registry) -> None:
    """Each step is taken at its date. A user with reminders off gets no mail."""
    name = registry.register(NAME, nameservers=NS)
    registry.write(lambda tx: update_user(tx, registry.users["ben"], reminders=False))
    bens = registry.register("ben.example.test", "ben")
    registry.publish()
    began = registry.now
    for kind, days in LIFE.items():
        registry.live(days=(began + days * DAY - registry.now).days - 1)
        registry.now = began + days * DAY - timedelta(microseconds=1)
        registry.sweep()
        assert kind not in reached(registry, name.id)
        registry.now = began + days * DAY
        registry.sweep()
    expected = {kind: began + days * DAY for kind, days in LIFE.items()}
    assert reached(registry, name.id) == reached(registry, bens.id) == expected
    silent = ("renewal_opens", "purged", "released")
    assert told(registry) == [(kind, "ann@example.org") for kind in LIFE if kind not in silent]
    assert [each for each in events(registry, name.id) if each[0] != "subdomain.publish"] == [
        ("subdomain.register", "user"),
        ("subdomain.open_renewal", "system"),
        *[("subdomain.remind", "system")] * 3,
        ("subdomain.expire", "system"),
        ("subdomain.trash", "system"),
        ("subdomain.remind", "system"),
        ("subdomain.purge", "system"),
        ("subdomain.release", "system"),
    ]
    assert registry.doctor() == []
    again = registry.register(NAME, "ben")
    assert again.id != name.id


def test_the_user_s_own_trash_is_emptied_after_a_reminder(registry: Registry) -> None:
    name = registry.register(NAME, nameservers=NS)
    registry.publish()
    registry.write(delete, registry.actor(), NAME)
    assert registry.live(days=29) == Counter(["trash_ends"])
    assert told(registry) == [("trash_ends", "ann@example.org")]
    assert registry.live(days=1) == Counter(["purged"])
    with registry.refuses(SubdomainUnavailable):
        registry.register(NAME, "ben")
    assert registry.live(days=7) == Counter(["released"])
    assert registry.register(NAME, "ben").id != name.id


def test_the_last_attempt_to_renew_is_at_the_end_of_grace(registry: Registry) -> None:
    """A user who buys credits on the last day keeps the name, no matter when the earlier attempts were."""
    name = registry.register(NAME, registration_mode="plus")
    auto_renewing(registry, name, 50)
    registry.write(adjust_credits, OPERATOR, "ann@example.org", -90)
    assert registry.live(days=394)["auto_renew_failed"] == 90
    assert told(registry).count(("auto_renew", "ann@example.org")) == 1
    registry.grant("ann", 11)
    assert registry.live(days=2, step_days=1)["auto_renewed"] == 1
    assert registry.subdomain(name.id).trashed_at is None
    assert registry.balance() == 0


def auto_renewing(registry: Registry, name: Any, max_credits: int) -> None:
    registry.write(lambda tx: store.update_subdomain(tx, name.id, auto_renew_max_credits=max_credits))


@pytest.mark.uncovered
def test_a_name_is_renewed_automatically_up_to_its_ceiling(registry: Registry) -> None:
    name = registry.register(NAME, registration_mode="plus")
    auto_renewing(registry, name, 11)
    assert registry.live(days=304) == Counter()
    assert registry.live(days=1) == Counter(["auto_renewed"])
    assert registry.balance() == 100 - 10 - 11
    found = registry.subdomain(name.id)
    assert found.expires_at == name.expires_at + 365 * DAY
    assert registry.live(days=364) == Counter()
    assert registry.live(days=1) == Counter(["auto_renewed"])
    assert [kind for kind, _ in told(registry)] == ["auto_renew", "auto_renew"]


def test_a_renewal_above_the_ceiling_is_not_made_and_mailed(registry: Registry) -> None:
    name = registry.register(NAME, registration_mode="plus")
    auto_renewing(registry, name, 10)
    done = registry.live(days=307)
    assert done == Counter({"auto_renew_failed": 3, "renewal_opens": 1})
    assert registry.balance() == 90
    past = registry.read(sweep_store.list_milestones, name.id)
    details = {each.detail for each in past if each.kind == "auto_renew_failed"}
    assert details == {"It would cost 11 credits, and the ceiling is 10."}
    assert told(registry) == [("auto_renew", "ann@example.org")]
    auto_renewing(registry, name, 11)
    assert registry.live(days=1)["auto_renewed"] == 1
    assert registry.balance() == 79


def test_a_registration_stores_its_dates_and_leaves_the_sweep_nothing_to_do(registry: Registry) -> None:
    name = registry.register(NAME, nameservers=NS)
    registry.publish()
    registry.register("paid.example.test", registration_mode="plus")
    registry.sweep()  # remembers that it ran
    stored = registry.dates()[name.id]
    assert stored == SweepDates(registry.now + 305 * DAY, registry.now + 395 * DAY)
    before = registry.dump()
    registry.register("another.example.test", "ben")
    after = registry.dump()
    assert before != after
    assert not registry.read(is_sweep_due)
    assert registry.write(sweep) == Swept(Counter())
    assert registry.dump() == after


def test_a_verb_that_changes_the_dates_stores_them(registry: Registry) -> None:
    name = registry.register(NAME)
    registry.sweep()
    registry.now += 310 * DAY
    expires_at = name.expires_at + 365 * DAY
    dates = SweepDates(expires_at - 60 * DAY, expires_at + 30 * DAY)
    for verb, expected in (
        (lambda tx: renew(tx, registry.actor(), NAME, Payable()), dates),
        (lambda tx: suspend(tx, OPERATOR, NAME), SweepDates(None, None)),
        (lambda tx: unsuspend(tx, OPERATOR, NAME), dates),
        (lambda tx: set_auto_renew(tx, registry.actor(), NAME, 11, may_spend=True), dates),
    ):
        registry.write(verb)
        assert registry.dates()[name.id] == expected
    assert registry.doctor() == []


def add_many(registry: Registry, count: int) -> None:
    """Store names that aren't due in one statement, with the dates that follow from the present settings."""
    state = State("no", False, "early", False, False, "published", "free")
    wanted = [(registry.users["ann"], f"many-{number}", state) for number in range(count)]
    registry.write(add_names, wanted, registry.domains["example.test"], "example.test")
    registry.write(
        lambda tx: store.recompute_dates(
            tx, [row[0] for row in tx.connection.execute(select(subdomains.c.id))]
        )
    )


def changed_rows(registry: Registry, before: Dump) -> int:
    """Return the number of names whose dates have changed."""
    return len({*map(repr, before["subdomains"])} - {*map(repr, registry.dump()["subdomains"])})


@pytest.mark.parametrize("count", [3, share(RECOMPUTED_MAX + 3, whole=3000)])
def test_new_days_change_no_row_until_the_sweep_recomputes_all_in_batches(
    registry: Registry, count: int
) -> None:
    registry.register(NAME, "ben")
    registry.add_domain("other.test")
    registry.register("stays.other.test", "ben")
    add_many(registry, count)
    registry.sweep()
    before = registry.dump()
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 100})
    assert changed_rows(registry, before) == 0
    assert registry.read(check_sweep) == []
    assert registry.read(is_sweep_due)
    assert registry.write(sweep).more
    assert 0 < changed_rows(registry, before) <= RECOMPUTED_MAX
    assert registry.read(check_sweep) == []
    registry.sweep()
    assert changed_rows(registry, before) == count + 1
    assert not registry.read(is_sweep_due)
    stored = registry.dates()
    for each in registry.read(store.list_subdomains, list(stored)):
        assert stored[each.id] == dates_of(each, registry.now)


def test_a_kill_between_batches_of_new_dates_loses_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process continues after the last committed step, and repeats a step that didn't commit."""
    monkeypatch.setattr("sublet.subdomains.sweep.sweep.RECOMPUTED_MAX", 4)
    add_many(registry, 10)
    registry.sweep()
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 100})
    assert registry.write(sweep).more

    def killed(tx: Tx) -> None:
        assert sweep(tx).more
        raise InterruptedError

    with pytest.raises(InterruptedError):
        registry.write(killed)
    assert registry.write(sweep_store.lock_redating) == (registry.domains["example.test"], 4)
    registry.sweep()
    stored = registry.dates()
    assert len(stored) == 10
    for each in registry.read(store.list_subdomains, list(stored)):
        assert stored[each.id] == dates_of(each, registry.now)


def test_a_name_that_cannot_be_read_does_not_delay_other_names(registry: Registry) -> None:
    names = [registry.register(f"{label}.example.test", label) for label in ("ann", "ben")]
    broken = registry.register("broken.example.test")
    registry.sweep()
    registry.write(lambda tx: store.update_subdomain(tx, broken.id, glue=[{"nonsense": 1}]))
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"grace_days": 100})
    registry.write(sweep)
    swept = registry.write(sweep)
    assert swept.done == Counter(looked=2)
    assert [subdomain_id for subdomain_id, _ in swept.faults] == [broken.id]
    found = registry.dates()
    for each in names:
        assert found[each.id] == SweepDates(each.registered_at + 305 * DAY, each.registered_at + 465 * DAY)
    assert found[broken.id] == SweepDates(registry.now + FAULT_PAUSE, None)


def test_a_new_ceiling_at_the_instant_of_a_failure_is_tried_at_the_next_sweep(registry: Registry) -> None:
    """A milestone is stored once for an instant, and this must not delay the next attempt."""
    registry.add_user("rich", credit_count=100)
    name = registry.register("soon.example.test", "rich", registration_mode="plus")
    auto_renewing(registry, name, 10)
    assert registry.live(days=305)["auto_renew_failed"] == 1
    registry.advance(days=1)
    assert registry.sweep().done["auto_renew_failed"] == 1
    registry.write(set_auto_renew, registry.actor("rich"), name.fqdn, 11, may_spend=True)
    swept = registry.write(sweep)
    assert (swept.done, swept.faults) == (Counter(["looked"]), ())
    registry.advance(seconds=1)
    assert registry.sweep().done["auto_renewed"] == 1
    assert registry.doctor() == []


def test_a_suspended_user_s_name_is_not_renewed_automatically(registry: Registry) -> None:
    name = registry.register(NAME)
    auto_renewing(registry, name, 0)
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    assert registry.live(days=305) == Counter(["auto_renew_failed", "renewal_opens"])
    registry.live(days=30)
    reminder, failure = registry.mails()
    assert (reminder.subject, failure.subject) == (
        f"{NAME} expires on 21 November 2027",
        f"{NAME} could not be renewed automatically",
    )
    assert all("Only the operator can renew it. To keep it, ask" in each.text for each in (reminder, failure))
    assert "ceiling" not in failure.text
    registry.write(unsuspend_user, OPERATOR, "ann@example.org")
    assert registry.live(days=1) == Counter(["auto_renewed"])
