"""The tables that `make reference` writes are up to date."""

import pytest
from reference_tables import DOCS, PAGES, checks_of


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_tables_match_the_code(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == PAGES[name](page), "run `make reference`"


def test_a_remark_stays_with_its_code() -> None:
    codes = ["rate_limited", "conflict", "not_found", "rate_limited"]
    former = "`conflict` (a; b), `gone` (c), `rate_limited` (d), `rate_limited`; what `GET /x` says"
    made = "`rate_limited` (d), `conflict` (a; b), `not_found`, `rate_limited`; what `GET /x` says"
    assert checks_of(codes, former) == made
    assert checks_of(["conflict"], "nothing more") == "`conflict`"
    assert checks_of([], "`conflict`") == "nothing more"
