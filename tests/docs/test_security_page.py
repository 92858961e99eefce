"""docs/security-standards.md names an existing test for each row."""

import re

from support.tests_named_in_docs import A_TEST, ROOT, check_is_there, named_in

PAGE = (ROOT / "docs" / "security-standards.md").read_text(encoding="utf-8")
NAMED = named_in(PAGE)
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (API\d|\d)", line)]


def test_the_tests_named_on_the_page_exist() -> None:
    for name in NAMED:
        check_is_there(name)


def test_every_row_names_a_test() -> None:
    assert ROWS
    assert [row for row in ROWS if not A_TEST.search(row.split("|")[-2])] == []
