"""docs/security-standards.md names an existing test for each row."""

import re

import pytest

from support.tests_named_in_docs import A_TEST, ROOT, check_is_there, named_in

PAGE = (ROOT / "docs" / "security-standards.md").read_text(encoding="utf-8")
NAMED = named_in(PAGE)
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (API\d|\d)", line)]


@pytest.mark.parametrize("name", NAMED)
def test_the_tests_named_on_the_page_exist(name: str) -> None:
    check_is_there(name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_every_row_names_a_test(row: str) -> None:
    assert A_TEST.search(row.split("|")[-2]), row
