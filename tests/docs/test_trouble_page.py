"""The page on trouble has a line for each invariant that the doctor can name, and for no other."""

import re
from pathlib import Path

from sublet.dns.primary import CAUSES
from sublet.worker.judgement import SENTENCES

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r'(?:Violation|\bFault)\(\s*"([a-z_]+)"|\("([a-z_]+)", [a-z]+_problem\(')


def test_every_invariant_has_a_line_that_says_what_to_do() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "sublet").rglob("*.py"))
    named = {first or second for source in sources for first, second in _NAMED.findall(source)}
    assert len(named) > 25
    page = (ROOT / "docs" / "operating" / "trouble.md").read_text(encoding="utf-8")
    table = page.partition("| Invariant |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([a-z_]+)`", row.split(" | ")[0])} == named
    assert all(len(row.split(" | ")) == 3 for row in rows)


def test_every_cause_has_a_line_that_says_where_to_look() -> None:
    page = (ROOT / "docs" / "operating" / "trouble.md").read_text(encoding="utf-8")
    table = page.partition("| Cause |")[2].partition("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert {row[0].strip("| `") for row in rows} == set(CAUSES)
    assert all(len(row) == 3 for row in rows)


def test_every_cause_that_is_a_zones_has_its_sentence() -> None:
    assert set(CAUSES) - set(SENTENCES) == {"in_use", "partial"}
