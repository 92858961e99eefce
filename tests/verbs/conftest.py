"""Which tests `make test` runs on PostgreSQL too."""

import pytest

ON_POSTGRESQL_TOO = """
    audit_events compared_names fence_known filters interleavings leases publisher_transactions
    questions_by_index register view_zones zone_records
"""
"""The files whose statements differ from those of other tests. Of another file, `make test` runs the first
test that hasn't the marker `whole_on_postgresql`, and its refusals; `make test-whole` runs all.
"""


def pytest_itemcollected(item: pytest.Item) -> None:
    if not isinstance(item, pytest.Function) or "[postgresql" not in item.name:
        return
    tests = {name: test for name, test in vars(item.module).items() if name.startswith("test_")}
    marks = {name: {each.name for each in getattr(test, "pytestmark", ())} for name, test in tests.items()}
    first = next((name for name in tests if "whole_on_postgresql" not in marks[name]), None)
    if item.originalname in (first, "test_refusals"):
        return
    if item.path.stem.removeprefix("test_") not in ON_POSTGRESQL_TOO.split():
        item.add_marker(pytest.mark.whole_on_postgresql)
