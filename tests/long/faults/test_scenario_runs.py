"""How a run of scenarios goes on: each trial has its end, whatever becomes of it, and all of them are in the report."""

import json
from pathlib import Path

from long.faults.run import run_all, save_outcomes
from long.faults.scenario import POSTGRESQL, SQLITE, Asked, NotPossibleError, Outcome, Scenario


def well(asked: Asked) -> Outcome:
    assert asked.folder.is_dir()
    return Outcome(
        "none | lost", {"lost": 0, "count": asked.count}, ("late",) if asked.server == "knot" else ()
    )


def violated(_asked: Asked) -> Outcome:
    raise AssertionError("2 lost")


def not_possible(_asked: Asked) -> Outcome:
    raise NotPossibleError("nobody may mount here")


SCENARIOS = (
    Scenario(
        "sigkill",
        "about kills",
        well,
        {SQLITE: 3, POSTGRESQL: 2},
        {SQLITE: 30},
        servers={POSTGRESQL: ("knot", "bind")},
    ),
    Scenario("disk-full", "about disks", violated, {SQLITE: 1}),
    Scenario("eio", "about disks", not_possible, {SQLITE: 1}),
)


def test_every_trial_comes_to_its_end_and_is_reported(tmp_path: Path) -> None:
    came = list(run_all(7, scenarios=SCENARIOS))
    assert [(each.name, each.how, each.count) for each in came] == [
        ("sigkill/sqlite", "well", 3),
        ("sigkill/postgresql/knot", "beyond", 2),
        ("sigkill/postgresql/bind", "well", 2),
        ("disk-full/sqlite", "VIOLATED", 1),
        ("eio/sqlite", "not tried", 1),
    ]
    save_outcomes(tmp_path, 7, came, name="faults", title="Faults", command="make faults")
    saved = json.loads((tmp_path / "reports.json").read_text())["faults"]
    assert saved["lines"][0].startswith("seed 7;")
    assert all(each in saved["versions"] for each in ("postgresql", "knot", "bind", "powerdns"))
    page = (tmp_path / "reports.md").read_text()
    assert "- sigkill/postgresql/knot: beyond: none | lost; late (" in page
    assert "- disk-full/sqlite: VIOLATED: AssertionError: 2 lost (" in page


def test_trials_are_chosen_by_name_and_counted_as_asked() -> None:
    chosen = list(run_all(7, chosen=lambda name: name == "sigkill/sqlite", full=True, scenarios=SCENARIOS))
    assert [each.count for each in chosen] == [30]
    assert [
        each.count for each in run_all(7, chosen=lambda name: "bind" in name, count=5, scenarios=SCENARIOS)
    ] == [5]
