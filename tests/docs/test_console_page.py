"""Each operation has a page of the console and a test, and the pictures of docs/console.md are there and
small.
"""

import re

from reference_tables import DOCS, operations_tested

from sublet.surfaces import OPERATIONS
from sublet.web.routes import PAGES

NAMES = [each.name for each in OPERATIONS]
WITHOUT_A_PAGE = frozenset({"start_device", "poll_device", "get_zone_file", "replace_zone_file"})
"""Operations of programs that have no browser, whose pages have operations of their own: the page of the
person who decides about a device, and the page of records, which shows a zone file and its difference before
it is stored.
"""
PICTURES_MAX_BYTES = 1_600_000


def test_each_operation_has_a_page_and_a_test() -> None:
    needed, tested = set(NAMES) - WITHOUT_A_PAGE, set(operations_tested())
    listed = {name for page in PAGES for name in page.operations}
    assert needed - listed == set(), "no page of src/sublet/web/routes.py lists it"
    assert needed - tested == set(), "no test in tests/web is marked with it"
    assert tested <= set(NAMES)


def test_all_pictures_exist_and_are_small() -> None:
    shown = set(re.findall(r"\(console/([^)]+)\)", (DOCS / "console.md").read_text(encoding="utf-8")))
    pictures = list((DOCS / "console").glob("*.png"))
    assert shown <= {each.name for each in pictures}
    assert sum(each.stat().st_size for each in pictures) <= PICTURES_MAX_BYTES
