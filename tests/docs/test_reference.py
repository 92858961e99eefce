"""What `make reference` and `make reports` write is up to date."""

import pytest
from reference_tables import DOCS, PAGES, checks_of

from long.reports import render_page


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_tables_match_the_code(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == PAGES[name](page), "run `make reference`"


def test_the_page_of_reports_is_rendered_from_the_saved_results() -> None:
    page = (DOCS / "reports.md").read_text(encoding="utf-8")
    assert page == render_page(DOCS / "reports.json"), "run `make reports`"


def test_a_remark_stays_with_its_code() -> None:
    codes = ["rate_limited", "conflict", "not_found", "rate_limited"]
    former = "`conflict` (a; b), `gone` (c), `rate_limited` (d), `rate_limited`; what `GET /x` says"
    made = "`rate_limited` (d), `conflict` (a; b), `not_found`, `rate_limited`; what `GET /x` says"
    assert checks_of(codes, former) == made
    assert checks_of(["conflict"], "nothing more") == "`conflict`"
    assert checks_of([], "`conflict`") == "nothing more"
