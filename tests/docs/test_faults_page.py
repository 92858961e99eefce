"""The page of faults names existing tests and trials for each fault, and every trial of `make faults`."""

import re

import pytest

from long.scenario import FAULTS as FAULTS_SUITE
from long.suites import trial_name, trials_of
from support.tests_named_in_docs import A_TEST, ROOT, check_is_there, named_in

PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = named_in(PAGE)
FAULTS = {
    "Money": 6,
    "Names": 5,
    "Processes": 13,
    "DNS": 7,
    "Input": 5,
    "Time": 5,
    "Security": 3,
    "Broken twins": 13,
}
"""How many rows each part of the page has: a fault that is tried no more is not to vanish from it."""


def rows_of(part: str) -> list[list[str]]:
    """Return the rows of a part's table, each as its cells."""
    text = PAGE.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]  # without the head and the line below it


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_page_names_exists(name: str) -> None:
    check_is_there(name)


@pytest.mark.parametrize("part", FAULTS)
def test_every_fault_has_what_comes_of_it_and_a_test(part: str) -> None:
    rows = rows_of(part)
    assert len(rows) == FAULTS[part]
    for row in rows:
        fault, outcome, tests, _trials = (cell.strip() for cell in row)
        assert fault
        assert outcome, fault
        assert A_TEST.search(tests), fault


def test_the_trials_are_those_of_make_faults() -> None:
    named = [name for part in FAULTS for row in rows_of(part) for name in re.findall(r"`([^`]+)`", row[3])]
    assert sorted(named) == sorted(trial_name(*trial) for trial in trials_of(FAULTS_SUITE))
