"""The benchmark itself: small runs of each part write their results, and the table says what misses its
bound.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from page import BEGINS, ENDS, ROWS, table, write_page
from registries import POSTGRESQL, SQLITE, registry_on
from speed import Results

from support.repetitions import share

ROOT = Path(__file__).parents[2]
NAMES = 100


def run_bench(folder: Path, *words: str) -> str:
    """Run the benchmark with a few names, and return what it prints."""
    command = [
        sys.executable,
        str(ROOT / "bench" / "bench.py"),
        "--names",
        f"{NAMES}",
        "--write",
        str(folder),
    ]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.sqlite_only
@pytest.mark.whole
def test_a_small_run_writes_the_table_and_the_pictures(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"# Performance\n\n{BEGINS}\nold\n{ENDS}\n\nWhat limits it\n", encoding="utf-8")
    printed = run_bench(tmp_path, "--quick")
    text = page.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == "|  | SQLite, 100 names | PostgreSQL, 100 names | wanted |"
    assert len(lines) == len(ROWS) + 2
    for line in lines[2:]:
        _, _title, *figures, _wanted, _ = (cell.strip(" *") for cell in line.split("|"))
        assert all(float(each.replace(",", "")) >= 0 for each in figures), line
        assert line in printed
    assert "old" not in text
    assert text.endswith(f"{ENDS}\n\nWhat limits it\n")
    for name in ("ratios.svg", "delays.svg"):
        assert f"![{name}](performance/{name})" in text
        assert ET.parse(tmp_path / "performance" / name).getroot().tag.endswith("svg")  # noqa: S314 - our own file


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.sqlite_only
def test_publishing_and_copy_save_their_reports(tmp_path: Path) -> None:
    run_bench(tmp_path, "--part", "publishing", "--server", "knot")
    run_bench(tmp_path, "--part", "copy")
    saved = json.loads((tmp_path / "reports.json").read_text(encoding="utf-8"))
    assert saved["publishing"]["lines"][0].startswith("knot: 100 names, bare ")
    assert len(saved["copy"]["lines"]) == 3


@pytest.mark.slow
@pytest.mark.sqlite_only
@pytest.mark.parametrize("database", share([SQLITE], whole=[SQLITE, POSTGRESQL]))
def test_a_registry_to_measure_is_consistent(database: str, tmp_path: Path) -> None:
    with registry_on(database, 2 * NAMES, tmp_path, grown=NAMES) as registry:
        command = [sys.executable, "-m", "sublet.cli.main", "doctor", "--json"]
        environment = os.environ | {"SUBLET_DATABASE_URL": registry.url}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout)
        # The reader's names were registered without a service, so they are still unpublished.
        assert {each["invariant"] for each in found["violations"]} <= {"zone_is_registry"}
        assert sum(len(each.fqdns) for each in registry.senders) > NAMES / 2


def results(database: str, names: int, **values: float) -> Results:
    return Results(database, names, values)


def cells(text: str, title: str) -> list[str]:
    """Return the cells of a row of a table."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {title} |")]
    return [each.strip() for each in line.split("|")[2:-1]]


def test_a_figure_that_misses_its_bound_is_bold() -> None:
    text = table(
        [
            results(SQLITE, 1000, get_ratio=0.39, alone_read_p99_ms=9.9, memory_mib=151),
            results(POSTGRESQL, 1000, get_ratio=0.39, alone_read_p99_ms=25.1, memory_mib=151),
        ]
    )
    assert text.count("… ÷ bare hello") == 2, "of a name, and of a list"
    assert "| … ÷ bare hello | **0.390** | 0.390 | ≥ 0.420 (SQLite), ≥ 0.200 (PostgreSQL) |" in text
    assert cells(text, "half load: p99 of reads, ms")[:2] == ["9.9", "**25.1**"]
    assert cells(text, "memory after the load, MiB") == ["**151**", "151", "≤ 150 (SQLite)"]


def test_growth_is_the_cost_in_bare_hellos_from_the_smallest_to_the_largest_registry() -> None:
    sizes = [
        results(SQLITE, 100_000, get=100, get_hellos=0.2),
        results(SQLITE, 1000, get=100, get_hellos=0.4, list_hellos=0.4),
        results(SQLITE, 1_000_000, get=50, get_hellos=0.32, list_hellos=0.2),
    ]
    text = table(sizes)
    assert cells(text, "GET a name, per second") == ["100", "100", "50", "**1.25**", ""]
    assert cells(text, "GET a list of 100, per second")[3] == "**2.00**"


def test_a_page_without_its_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    for broken in ("# Performance", f"{ENDS}{BEGINS}", f"{BEGINS}{ENDS}{BEGINS}{ENDS}"):
        page.write_text(broken, encoding="utf-8")
        with pytest.raises(ValueError, match="needs the lines"):
            write_page(page, [], "a run")
