"""The tables that `make reference` writes are up to date."""

import pytest
from reference_tables import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == PAGES[name](page), "run `make reference`"
