"""docs/where.md tells where each rule of the contract lives: every file it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_that_the_page_of_rules_names_exists() -> None:
    page = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| \d ", line)]
    assert len(rows) > 30
    for row in rows:
        files = re.findall(r"`([a-z_/]+\.py)`", row)
        assert files, row
        for file in files:
            assert file == "find.py" or (ROOT / "src" / "sublet" / file).is_file(), file
