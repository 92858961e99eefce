"""Every trial of a suite ends and is reported, whatever it raises."""

import json
from pathlib import Path

from long.scenario import FAULTS, POSTGRESQL, SOAK, SQLITE, NotPossibleError, Outcome, Scenario, Trial
from long.suites import run_suite


def well(trial: Trial) -> Outcome:
    assert trial.folder.is_dir()
    return Outcome("none | lost", "too late" if trial.server == "knot" else "")


def violated(_trial: Trial) -> Outcome:
    raise AssertionError("2 lost")


def not_possible(_trial: Trial) -> Outcome:
    raise NotPossibleError("mounting is not allowed")


SCENARIOS = (
    Scenario("sigkill", "About kills.", well, {FAULTS: {SQLITE: 3}, SOAK: {SQLITE: 30}}),
    Scenario("kills", "About servers.", well, {FAULTS: {POSTGRESQL: 2}}, ("knot", "bind")),
    Scenario("disk-full", "About disks.", violated, {FAULTS: {SQLITE: 1}}),
    Scenario("eio", "About disks.", not_possible, {FAULTS: {SQLITE: 1}}),
)


def test_every_trial_ends_and_is_reported(tmp_path: Path) -> None:
    results = list(run_suite(FAULTS, 7, scenarios=SCENARIOS))
    assert [(each.name, each.state, each.count) for each in results] == [
        ("sigkill/sqlite", "well", 3),
        ("kills/postgresql/knot", "late", 2),
        ("kills/postgresql/bind", "well", 2),
        ("disk-full/sqlite", "VIOLATED", 1),
        ("eio/sqlite", "not tried", 1),
    ]
    for each in results:
        each.save(tmp_path)
    saved = json.loads((tmp_path / "reports.json").read_text())
    assert saved["faults-kills-postgresql-knot"]["lines"][0].startswith("late: 2 in 0 s, seed 7")
    assert all(each in saved["faults-kills-postgresql-knot"]["versions"] for each in ("postgresql", "knot"))
    page = (tmp_path / "reports.md").read_text()
    assert "- none | lost\n- too late\n" in page
    assert "`make faults ONLY='disk-full/sqlite'`" in page
    assert "- AssertionError: 2 lost\n" in page


def test_trials_are_chosen_by_suite_and_name_and_counted_as_asked() -> None:
    assert [each.count for each in run_suite(SOAK, 7, scenarios=SCENARIOS)] == [30]
    assert [each.count for each in run_suite(FAULTS, 7, only="*/bind", count=5, scenarios=SCENARIOS)] == [5]
