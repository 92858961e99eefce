"""The tables that `make reference` writes are up to date."""

import pytest
from reference_tables import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_tables_match_the_code(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == PAGES[name](page), "run `make reference`"
