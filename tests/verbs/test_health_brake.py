"""The brake of health checks: implausibly many breakages, mails or removals stop their consequences; on both
databases.
"""

import pytest

from sublet import audit
from sublet.doctor.notices import list_notices
from sublet.errors import Conflict
from sublet.health import brake, store
from sublet.health.brake import undelegate
from sublet.health.due_checks import record_check
from sublet.health.model import BROKEN, HEALTHY, UNKNOWN, Finding, Health, Level, Report
from sublet.mail.store import list_mails
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from support.registry import OPERATOR, Registry

LAME = Finding("lame", Level.ERROR, "ns1.example.org", "It is lame.", "Repair it.")
HOSTS = ("ns1.example.org",)
NAMES_MAX = brake.ALLOWED_MIN


def register(registry: Registry, count: int) -> list[int]:
    """Register names, and return their ids."""
    return [
        registry.register_by_operator(f"n{number}.example.test", nameservers=HOSTS).id
        for number in range(count)
    ]


def record(registry: Registry, subdomain_id: int, state: str) -> Health:
    """Record the result of a check, and return the health."""
    generation = registry.subdomain(subdomain_id).published_generation
    findings = (LAME,) if state == BROKEN else ()
    health = registry.write(record_check, subdomain_id, generation, Report(state, findings, registry.now))
    assert health is not None
    return health


def states(registry: Registry) -> dict[str, int]:
    return registry.read(store.count_states)


def subjects(registry: Registry) -> list[str]:
    return [each.subject for each in registry.read(list_mails, waiting=True, user_id=None, limit=100)]


def test_too_many_breakages_stop_their_consequences_until_the_operator_resumes_them(
    registry: Registry,
) -> None:
    names = register(registry, NAMES_MAX + 3)
    for each in names:
        record(registry, each, BROKEN)  # also first checks obey
    assert states(registry) == {BROKEN: NAMES_MAX, UNKNOWN: 3}
    (finding,) = record(registry, names[-1], BROKEN).findings
    assert finding.code == "checks_impaired"
    (notice,) = registry.read(list_notices)
    assert notice.notice == "health_stopped"
    registry.advance(hours=4)
    for each in names:
        record(registry, each, BROKEN)
    assert subjects(registry) == []
    registry.write(brake.resume, OPERATOR)
    with pytest.raises(Conflict):
        registry.write(brake.resume, OPERATOR)
    for _ in range(2):
        registry.advance(minutes=10)
        for each in names:
            record(registry, each, BROKEN)
    assert states(registry) == {BROKEN: len(names)}
    assert len(subjects(registry)) == NAMES_MAX
    actions = [
        each.action
        for each in registry.read(audit.list_events, "health", [1], ["health.stop", "health.resume"])
    ]
    assert actions == ["health.stop", "health.resume"]
    assert registry.doctor() == []


def test_breakages_within_a_tenth_of_many_names_are_plausible(registry: Registry) -> None:
    names = register(registry, 80)
    for each in names:
        record(registry, each, HEALTHY)
    registry.advance(minutes=30)
    for _ in range(2):
        for each in names[:8]:
            record(registry, each, BROKEN)
        registry.advance(minutes=10)
    assert states(registry) == {BROKEN: 8, HEALTHY: 72}
    for _ in range(2):
        for each in names[8:10]:
            record(registry, each, BROKEN)
        registry.advance(minutes=10)
    assert states(registry)[BROKEN] == 8
    assert registry.read(store.find_brake).stopped_at is not None


def test_too_many_removals_stop(registry: Registry) -> None:
    registry.write(edit_zone_settings, OPERATOR, "example.test", {"broken_days": 1})
    names = register(registry, NAMES_MAX + 2)
    registry.write(lambda tx: store.update_brake(tx, resumed_at=tx.now))
    for each in names:
        record(registry, each, BROKEN)
    for hours in (3, 9):
        registry.advance(hours=hours)
        for each in names:
            record(registry, each, BROKEN)
    registry.advance(days=1)
    removed = [registry.write(undelegate, each, 1) for each in names]
    assert removed == [True] * NAMES_MAX + [False] * 2
    assert "leave the DNS" in (registry.read(store.find_brake).stopped_reason or "")


def test_no_name_becomes_broken_while_a_worker_can_not_check(registry: Registry) -> None:
    (name,) = register(registry, 1)
    record(registry, name, HEALTHY)
    registry.write(brake.record_impairment, "No root server answers.")
    (notice,) = registry.read(list_notices)
    assert notice.notice == "health_impaired"
    for _ in range(2):
        registry.advance(minutes=10)
        found = record(registry, name, BROKEN)
    assert (found.state, found.mailed_at) == (UNKNOWN, None)
    registry.write(brake.record_impairment, None)
    for _ in range(2):
        registry.advance(minutes=10)
        found = record(registry, name, BROKEN)
    assert found.state == BROKEN


def test_checks_of_a_clock_that_was_ahead_are_made_again(registry: Registry) -> None:
    (name,) = register(registry, 1)
    registry.advance(days=3)
    record(registry, name, BROKEN)
    registry.advance(days=-3)
    registry.write(store.reset_future_checks)
    health = registry.read(store.find_health, name)
    assert health is not None
    assert (health.since, health.checked_at, health.due_at) == (registry.now,) * 3
