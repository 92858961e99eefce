"""docs/operating/trouble.md has a line for each invariant and each notice of the doctor, and for no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(
    r'(?:Violation\(|\bFault\(|yield_violations\(\s*tx,|yield)\s*\(?\s*"([a-z_]+)"|\("([a-z_]+)", '
    r"[a-z]+_problem\("
)


def test_every_invariant_has_a_line_that_says_what_to_do() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "sublet").rglob("*.py"))
    named = {first or second for source in sources for first, second in _NAMED.findall(source)}
    assert len(named) > 25
    page = (ROOT / "docs" / "operating" / "trouble.md").read_text(encoding="utf-8")
    table = page.partition("| Invariant |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split(" | ")[0])} == named
    assert all(len(row.split(" | ")) == 3 for row in rows)


def test_every_notice_has_a_line_that_says_what_to_do() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "sublet").rglob("*.py"))
    named = {name for source in sources for name in re.findall(r'\bNotice\("([a-z_]+)"', source)}
    assert named
    assert set(_table("Notice")) == named


def _table(heading: str) -> dict[str, list[str]]:
    page = (ROOT / "docs" / "operating" / "trouble.md").read_text(encoding="utf-8")
    table = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}
