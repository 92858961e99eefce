"""docs/rdap.md names each query and each status."""

import re
from pathlib import Path

from sublet.surfaces import RDAP_OPERATIONS
from sublet.web.about import STATUS_WORDS
from support.rdap_world import LISTED

PAGE = (Path(__file__).parents[2] / "docs" / "rdap.md").read_text(encoding="utf-8")


def test_each_query_is_on_the_page() -> None:
    first_cells = re.findall(r"^\| (`/rdap/[^|]*) \|", PAGE, re.MULTILINE)
    told = re.findall(r"`([^`]+)`", " ".join(first_cells))
    assert sorted(told) == sorted(
        re.sub(r"\{path(:path)?\}", "…", each.full_path) for each in RDAP_OPERATIONS
    )
    assert all(each.is_open and each.method == "GET" for each in RDAP_OPERATIONS)


def test_each_status_is_on_the_page_and_has_words() -> None:
    told = {
        status
        for row in re.findall(r"^\|[^|]*\|[^|]*\| (`[^|]*) \|$", PAGE, re.MULTILINE)
        for status in re.findall(r"`([a-z ]+)`", row)
    }
    assert told - {"expiration"} == set(STATUS_WORDS) == set(LISTED.values())
