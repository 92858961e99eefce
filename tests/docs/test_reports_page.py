"""The page of reports is what `make reports` renders from docs/reports.json, and a run's result replaces its
last one.
"""

from long.reports import ROOT, render_page


def test_the_page_is_rendered_from_the_saved_results() -> None:
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    assert page == render_page(ROOT / "docs" / "reports.json"), "run `make reports`"
