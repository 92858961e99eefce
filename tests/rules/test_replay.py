"""Replaying the events of a name: each step of the table, events that are no steps, and the resulting row."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sublet.structs import replace
from sublet.subdomains.lifecycle import ACTIONS
from sublet.subdomains.replay import EMPTY_DELEGATION, TRANSITIONS, Event, PastTerm, RowFields, replay
from sublet.web.activity import ACTION_WORDS

BEGAN = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = 365 * DAY
DELEGATION = {"nameservers": ["ns1.example.org"], "glue": [], "ds_records": []}
REGISTERED = {"fqdn": "a.example.test", "registration_type": "free", "charged_credits": 0, **DELEGATION}
TERM = PastTerm(1, "register", BEGAN + YEAR, 0, BEGAN)
ROW = RowFields("a.example.test", "free", BEGAN, BEGAN + YEAR, delegation=DELEGATION)


def _life(*steps: str | tuple[str, dict[str, Any], dict[str, Any]], by: str = "user") -> list[Event]:
    """Return events a day apart, after the registration: an action alone, or with its values before and
    after.
    """
    events = [Event(1, BEGAN, "user", "register", {}, REGISTERED)]
    for number, step in enumerate(steps, 1):
        action, before, after = (step, {}, {}) if isinstance(step, str) else step
        events.append(Event(1 + number, BEGAN + number * DAY, by, action, before, after))
    return events


def _faults(events: list[Event], row: RowFields = ROW, terms: tuple[PastTerm, ...] = (TERM,)) -> list[str]:
    return [each.invariant for each in replay(events, terms, row)]


def test_a_registration_makes_its_row() -> None:
    assert _faults(_life()) == []
    assert _faults([]) == ["audited"]


@pytest.mark.parametrize("action", ["delete", "trash"])
def test_into_the_trash_and_out_of_it(action: str) -> None:
    assert _faults(_life(action), replace(ROW, trashed_at=BEGAN + DAY)) == []
    assert _faults(_life(action)) == ["row_is_replayed"]
    assert _faults(_life(action, "restore")) == []
    assert _faults(_life(action, "restore"), replace(ROW, trashed_at=BEGAN + DAY)) == ["row_is_replayed"]


def test_the_system_removes_and_announces_nameservers_of_suspended_names_too() -> None:
    removed = ("remove_nameservers", DELEGATION, EMPTY_DELEGATION)
    for held in ([], ["suspend"], ["delete"]):
        events = _life(*held, "nameserver_notice", removed)
        told = [
            replace(each, actor_kind="operator" if each.action == "suspend" else "system") for each in events
        ]
        row = replace(
            ROW,
            delegation=EMPTY_DELEGATION,
            suspended_at=BEGAN + DAY if held == ["suspend"] else None,
            trashed_at=BEGAN + DAY if held == ["delete"] else None,
        )
        assert _faults(told, row) == []
        assert _faults(told, replace(row, delegation=DELEGATION)) == ["row_is_replayed"]
    assert _faults(
        _life(("remove_nameservers", EMPTY_DELEGATION, EMPTY_DELEGATION)),
        replace(ROW, delegation=EMPTY_DELEGATION),
    ) == ["edges_only"]


def test_purged_and_released() -> None:
    gone = replace(
        ROW,
        trashed_at=BEGAN + DAY,
        purged_at=BEGAN + 2 * DAY,
        released_at=BEGAN + 3 * DAY,
        delegation=EMPTY_DELEGATION,
    )
    assert _faults(_life("delete", "purge", "release"), gone) == []
    assert _faults(_life("delete", "purge", "release"), replace(gone, delegation=DELEGATION)) == [
        "row_is_replayed"
    ]


def test_a_renewal_and_a_paid_restore_take_a_term_each() -> None:
    second = PastTerm(2, "renew", BEGAN + 2 * YEAR, 10, BEGAN + DAY)
    ends = {"expires_at": second.ends_at.isoformat(), "charged_credits": 10}
    renewed = ("renew", {"expires_at": (BEGAN + YEAR).isoformat()}, ends)
    row = replace(ROW, expires_at=BEGAN + 2 * YEAR, last_renewed_at=BEGAN + DAY)
    assert _faults(_life(renewed), row, (TERM, second)) == []
    assert _faults(_life(renewed), row) == ["term_is_audited", "row_is_replayed"]
    assert _faults(_life(), ROW, (TERM, second)) == ["term_is_audited"]
    third = PastTerm(2, "restore", BEGAN + 2 * YEAR, 10, BEGAN + 2 * DAY)
    extended = ("restore", {"expires_at": (BEGAN + YEAR).isoformat()}, ends)
    row = replace(row, last_renewed_at=BEGAN + 2 * DAY)
    assert _faults(_life("delete", extended, "restore"), row, (TERM, third)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"ends_at": BEGAN + 3 * YEAR},
        {"charged_credits": 11},
        {"action": "restore"},
        {"created_at": BEGAN},
    ],
)
def test_a_term_that_does_not_match_its_renewal(changed: dict[str, Any]) -> None:
    second = replace(PastTerm(2, "renew", BEGAN + 2 * YEAR, 10, BEGAN + DAY), **changed)
    after = {"expires_at": (BEGAN + 2 * YEAR).isoformat(), "charged_credits": 10}
    renewed = ("renew", {"expires_at": (BEGAN + YEAR).isoformat()}, after)
    row = replace(ROW, expires_at=second.ends_at, last_renewed_at=BEGAN + DAY)
    assert _faults(_life(renewed), row, (TERM, second)) == ["term_is_audited"]


def test_an_expiry_never_moves_back() -> None:
    second = PastTerm(2, "renew", BEGAN + YEAR - DAY, 0, BEGAN + DAY)
    after = {"expires_at": second.ends_at.isoformat(), "charged_credits": 0}
    renewed = ("renew", {"expires_at": (BEGAN + YEAR).isoformat()}, after)
    row = replace(ROW, expires_at=second.ends_at, last_renewed_at=BEGAN + DAY)
    assert _faults(_life(renewed), row, (TERM, second)) == ["term_is_audited"]


def test_a_change_starts_from_the_delegation_before_it() -> None:
    other = {**DELEGATION, "nameservers": ["ns2.example.org"]}
    row = replace(ROW, delegation=other)
    assert _faults(_life(("update_nameservers", DELEGATION, other)), row) == []
    assert _faults(_life(("update_nameservers", other, other)), row) == ["edges_only"]


@pytest.mark.parametrize("steps", [("restore",), ("purge",), ("release",), ("unsuspend",), ("register",)])
def test_no_steps_of_a_live_name(steps: tuple[str, ...]) -> None:
    assert "edges_only" in _faults(_life(*steps))


def test_no_user_moves_a_suspended_name() -> None:
    suspended = _life("suspend", by="operator")
    row = replace(ROW, suspended_at=BEGAN + DAY)
    assert _faults(suspended, row) == []
    for kind in ("user", "system"):
        later = Event(9, BEGAN + 2 * DAY, kind, "delete", {}, {})
        assert "edges_only" in _faults([*suspended, later], replace(row, trashed_at=later.at))
    freed = Event(9, BEGAN + 2 * DAY, "operator", "unsuspend", {}, {})
    assert _faults([*suspended, freed]) == []


def test_every_step_has_words_for_the_console() -> None:
    steps = {step for state in TRANSITIONS.values() for step in state}
    without_words = {each for each in steps if f"subdomain.{each}" not in ACTION_WORDS} - {"extend"}
    assert without_words == set(), "add the words of the event to src/sublet/web/activity.py"


def test_every_verb_of_the_contract_is_a_step_of_some_state() -> None:
    steps = {step for state in TRANSITIONS.values() for step in state}
    assert set(ACTIONS) <= steps
    assert {state for steps_of in TRANSITIONS.values() for state in steps_of.values()} <= set(TRANSITIONS)


def test_a_name_changes_its_user_only_by_a_transfer() -> None:
    events = [replace(_life()[0], user_id=1)]
    moved = Event(2, BEGAN + DAY, "operator", "transfer", {"user_id": 1}, {"user_id": 2})
    assert _faults(events, replace(ROW, user_id=1)) == []
    assert _faults(events, replace(ROW, user_id=2)) == ["row_is_replayed"]
    assert _faults([*events, moved], replace(ROW, user_id=2)) == []
    assert _faults([*events, replace(moved, before={"user_id": 3})], replace(ROW, user_id=2)) == [
        "edges_only"
    ]
    by_operator = replace(events[0], user_id=None, after={**REGISTERED, "user_id": 2})
    assert _faults([by_operator], replace(ROW, user_id=2)) == []
