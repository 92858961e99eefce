"""Find all regular expressions of the package, in its source and among the values of its modules."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import sublet
from sublet.dns import look_alikes

ROOT = Path(sublet.__file__).parent
MADE_INSIDE = {"dns.look_alikes:_reserved": lambda: look_alikes._reserved()[1]}
"""Expressions that a function builds from values."""
_IMPORTS_RE = re.compile(r"^\s*(?:import|from)\b.*\bre\b", re.MULTILINE)
_METHODS = ("fullmatch", "match", "search", "sub", "split", "findall", "finditer")


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression.

    `place` is its module with its variable or its function, `methods` are the methods that use it.
    """

    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


def modules() -> dict[str, ModuleType]:
    """Return all modules of the package by their names."""
    found = {"sublet": sublet}
    for each in pkgutil.walk_packages(sublet.__path__, "sublet."):
        if not each.name.startswith(
            "sublet.migrations."
        ):  # Alembic loads these, and `env` runs when it is loaded
            found[each.name] = importlib.import_module(each.name)
    return found


def expressions() -> list[Expression]:
    """Return the expressions in the source's calls of `re`."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not _IMPORTS_RE.search(text):
            continue  # parsing all files takes seconds
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found += list(_expressions_of(name, text))
    return found


def compiled() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the compiled expressions among the values of modules and their classes, each with its module."""
    for name, module in modules().items():
        for value in vars(module).values():
            values = [value]
            if isinstance(value, type) and value.__module__ == name:
                values = list(vars(value).values())
            elif isinstance(value, dict):
                values = [*value.values()]
            elif isinstance(value, (tuple, list, set, frozenset)):
                values = [*value]
            for each in values:
                if isinstance(each, re.Pattern):
                    yield name, each


def _expressions_of(name: str, text: str) -> Iterator[Expression]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            raise AssertionError(f"{name}: use `import re`, so that its expressions are found")
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name != "re" or alias.asname is None, (
                    f"{name}: `re` is imported as {alias.asname}"
                )
    within = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        if node.func.attr not in ("compile", *_METHODS):
            continue
        yield _expression(name, text, node, node.func.attr, within)


def _expression(
    name: str, text: str, call: ast.Call, attribute: str, within: dict[ast.AST, ast.AST]
) -> Expression:
    holder = within[call]
    if attribute == "compile" and isinstance(holder, (ast.Assign, ast.AnnAssign)):
        target = holder.target if isinstance(holder, ast.AnnAssign) else holder.targets[0]
        assert isinstance(target, ast.Name), name
        place = f"{name}:{target.id}"
        pattern = getattr(importlib.import_module(f"sublet.{name}"), target.id)
        methods = tuple(sorted(set(re.findall(rf"\b{target.id}\.({'|'.join(_METHODS)})\(", text))))
        return Expression(place, pattern, methods)
    while not isinstance(holder, (ast.FunctionDef, ast.AsyncFunctionDef)):
        holder = within[holder]
    place = f"{name}:{holder.name}"
    if attribute == "compile":
        return Expression(place, MADE_INSIDE[place](), ("fullmatch",))
    source = ast.literal_eval(call.args[0])  # an expression that is built from values is in `MADE_INSIDE`
    return Expression(f"{place}: {source}", re.compile(source), (attribute,))
