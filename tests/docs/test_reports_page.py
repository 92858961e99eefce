"""The page of reports is what `make reports` renders from docs/reports.json, and a run's result replaces its
last one.
"""

from pathlib import Path

from long.reports import ROOT, render_page, save_report


def test_the_page_is_rendered_from_the_saved_results() -> None:
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    assert page == render_page(ROOT / "docs" / "reports.json"), "run `make reports`"


def test_a_result_replaces_the_last_one_of_its_name_and_no_other(tmp_path: Path) -> None:
    for name, line in (
        ("kills-knot", "old figures"),
        ("kills-bind", "of bind"),
        ("kills-knot", "new figures"),
    ):
        save_report(
            tmp_path,
            name,
            title="SIGKILL",
            command=f"make {name}",
            about="A server is killed.",
            lines=[line],
            programs=["postgresql"],
        )
    page = (tmp_path / "reports.md").read_text(encoding="utf-8")
    assert "- of bind\n" in page
    assert "- new figures\n" in page
    assert "old figures" not in page
    assert page.count("## SIGKILL\n\nA server is killed.\n") == 1, "results of one title share a section"
    assert "`make kills-knot`; 20" in page
    assert "; Python 3." in page
    assert ", postgresql 1" in page
