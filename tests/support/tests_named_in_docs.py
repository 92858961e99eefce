"""Find the tests that pages name as `tests/FILE.py::FUNCTION`, and check that they exist."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
A_TEST = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")


def named_in(page: str) -> list[str]:
    """Return the tests that a page names, sorted."""
    return sorted(set(re.findall(r"`(tests/[^`]+::[^`]+)`", page)))


def check_is_there(name: str) -> None:
    """Check that a test exists."""
    file, _, function = name.partition("::")
    path = ROOT / file
    assert path.is_file(), f"there is no {file}"
    assert function.startswith("test_")
    assert function in functions_of(path), f"{file} has no {function}"


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of a file's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
