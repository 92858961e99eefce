"""docs/faults.md names existing tests for each fault, and every trial of `make faults`."""

import re

import pytest

from long.scenario import FAULTS
from long.suites import trial_name, trials_of
from support.tests_named_in_docs import A_TEST, ROOT, check_is_there, named_in

PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = named_in(PAGE)
PARTS = ("Money", "Names", "Processes", "DNS", "Input", "Time", "Security", "Broken twins")


def rows_of(part: str) -> list[list[str]]:
    """Return the rows of a part's table, each as its cells."""
    text = PAGE.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]  # without the head and the line below it


def test_the_tests_named_on_the_page_exist() -> None:
    for name in NAMED:
        check_is_there(name)


@pytest.mark.parametrize("part", PARTS)
def test_every_fault_has_its_result_and_a_test(part: str) -> None:
    rows = rows_of(part)
    assert rows
    for row in rows:
        fault, outcome, tests, _trials = (cell.strip() for cell in row)
        assert fault
        assert outcome, fault
        assert A_TEST.search(tests), fault


def test_the_page_lists_the_trials_of_make_faults() -> None:
    named = [name for part in PARTS for row in rows_of(part) for name in re.findall(r"`([^`]+)`", row[3])]
    assert sorted(named) == sorted(trial_name(*trial) for trial in trials_of(FAULTS))
