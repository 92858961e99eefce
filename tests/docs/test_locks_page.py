"""docs/locks.md lists every unique constraint of the schema, and every file that locks rows with a test."""

import re
from pathlib import Path

from sqlalchemy import UniqueConstraint

from sublet.registry.copy_store import list_copied, list_other
from sublet.schema import list_numbered, metadata

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "locks.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "sublet"


def test_the_page_lists_every_unique_constraint() -> None:
    assert len([*list_copied(), *list_other()]) <= len(metadata.tables)  # imports every store
    numbered = {table.name for table in list_numbered()}
    wanted = {f"pk_{name}" for name in metadata.tables if name not in numbered}
    for table in metadata.tables.values():
        wanted |= {str(each.name) for each in table.constraints if isinstance(each, UniqueConstraint)}
        wanted |= {str(each.name) for each in table.indexes if each.unique}
    rows = PAGE.partition("| Constraint |")[2].splitlines()
    listed = [name for row in rows for name in re.findall(r"`((?:uq|pk)_\w+)`", row.split(" | ")[0])]
    assert sorted(listed) == sorted(wanted)


def test_the_page_names_every_file_that_locks() -> None:
    pattern = re.compile(r"with_for_update\(|pg_advisory_xact_lock\(:kind")
    files = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    rows = PAGE.partition("| Order |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([\w/]+\.py)`", rows))
    assert named == files | {"operations/idempotency_store.py"}


def test_each_lock_has_a_test() -> None:
    rows = PAGE.partition("| Order |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) > 13
    for row in rows:
        assert re.search(r"\| (cases?|`tests/\S+`(, `tests/\S+`)*) \|$", row), row
