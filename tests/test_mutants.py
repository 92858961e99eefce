"""The tool that changes the source to check the tests: what it changes, what it draws, and that it tells
found from survived.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from mutants import ROOT, Mutant, draw, found_before, mutants_of, run

RULE = '''"""Is 1 < 2 or not 3?"""

import structlog
from typing import Literal

log = structlog.get_logger(__name__)
KINDS: Literal[7] = 7
TABLE = Table("names", Column("label", String(63)))


def is_open(state: Literal[5], seconds: int) -> bool:
    """True if 4 != 5."""
    log.warning("asked", count=6)
    if not state:
        raise ValueError(f"{state!r:9} isn't a state")
    check(state)
    return state == "é" and seconds < 60


def unseen(state: int) -> int:
    return state - 10
'''
TESTS = """import pytest

from sublet.rule import is_open


@pytest.mark.parametrize("seconds", [59, 60])
def test_is_open(seconds):
    assert is_open("é", seconds) is (seconds < 60)
    with pytest.raises(ValueError):
        is_open("", 1)
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of one file with its tests, which need no plugins."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for path, text in (
        ("src/sublet/__init__.py", ""),
        (
            "src/sublet/rule.py",
            RULE.replace('TABLE = Table("names", Column("label", String(63)))', "check = print"),
        ),
        ("tests/rules/test_rule.py", TESTS),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def only(tree: Path, change: str) -> Mutant:
    (found,) = (each for each in mutants_of(tree) if each.change == change)
    return found


def test_what_is_changed(tree: Path) -> None:
    (tree / "src/sublet/rule.py").write_text(RULE, encoding="utf-8")
    assert [(each.function, each.change) for each in mutants_of(tree)] == [
        ("", "7 → 8 in KINDS: Literal[7] = 7"),
        ("is_open", "not state → (state)"),
        ("is_open", """raise ValueError(f"{state!r:9} isn't a state") → pass"""),
        ("is_open", "check(state) → pass"),
        ("is_open", "state == 'é' and seconds < 60 → (state == 'é' or seconds < 60)"),
        ("is_open", "state == 'é' → state != 'é'"),
        ("is_open", "seconds < 60 → seconds <= 60"),
        ("is_open", "60 → 61 in seconds < 60"),
        ("unseen", "10 → 11 in state - 10"),
    ]


@pytest.mark.whole
def test_a_mutant_is_found_by_the_test_that_fails_or_survives(tree: Path) -> None:
    for change, found_by in (
        ("seconds < 60 → seconds <= 60", "tests/rules/test_rule.py::test_is_open[60]"),
        ("10 → 11 in state - 10", None),
    ):
        assert run(tree, only(tree, change), workers=1, whole=False).found_by == found_by
    assert "seconds < 60" in (tree / "src/sublet/rule.py").read_text(encoding="utf-8")


@pytest.mark.whole
def test_a_test_that_fails_without_the_mutant_too_finds_nothing(tree: Path) -> None:
    (tree / "tests/rules/test_rule.py").write_text("def test_rule():\n    assert False\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="test_rule fails without the mutant too"):
        run(tree, only(tree, "10 → 11 in state - 10"), workers=1, whole=False)


@pytest.mark.whole
def test_a_seed_draws_the_same_mutants_evenly_by_group() -> None:
    every = list(mutants_of(ROOT))
    drawn = draw(every, 1, 8)
    assert [each.group for each in drawn] == ["rules", "verbs", "stores", "edges"] * 2
    assert draw(every, 1, 4) == drawn[:4] != draw(every, 2, 4)
    assert not [each for each in every if "/migrations/" in each.file]
    for each in every[::500]:
        source = (ROOT / each.file).read_bytes()
        compile(source[: each.start] + each.text.encode() + source[each.end :], each.file, "exec")


@pytest.mark.whole
def test_what_an_earlier_run_found_is_repeated_where_the_code_is_the_same(tree: Path) -> None:
    every = list(mutants_of(tree))
    found, survived, *_ = every
    gone = replace(found, function="removed", found_by="a test")
    moved = replace(found, line=found.line + 9, start=0, end=0, found_by="a test")
    file = tree / "before.json"
    file.write_text(json.dumps([asdict(each) for each in (moved, survived, gone)]), encoding="utf-8")
    assert found_before(file, every) == [found]
