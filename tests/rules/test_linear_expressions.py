"""Every regular expression of the package takes time in proportion to its input, for any input.

A backtracking expression is slow for a text that matches at first and fails later. So `EXAMPLES` has matching
texts for each; in these, each character is repeated at each place, and a character that doesn't match is
appended.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sublet
from sublet.dns import look_alikes
from support.repetitions import share
from support.time_growth import FACTOR, growth, seconds

pytestmark = pytest.mark.slow

LONGEST = 64 * 1024
"""No input is longer: a body has 64 KiB."""
SCREENED = share(
    (16, 25, 40, 64, 100, 160, 256), whole=(16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256)
)
"""The lengths at which all hostile texts of an expression are tried, to find the worst. The steps are small,
because an exponential one that takes no time at one length would take years at twice the length.
"""
TOO_LONG_SECONDS = 0.02
FOLLOWED = 3
"""The number of the worst texts that are measured at full length."""
_USUAL = ' \t\na0.-:;"%=/@*_\\,(\x00'

EXAMPLES: dict[str | bytes, tuple[str, ...]] = {
    r"[^a-z0-9]+": ("A",),
    r"[a-z0-9]+": ("a1",),
    r"[\s,;|]+": (" , ",),
    "[0-9A-Za-z+/=]{16,}|[0-9A-Fa-f]{8,}": ("a" * 64, "1F981F98"),
    r"records\[(\d+)\](?:\.values\[(\d+)\])?": ("records[2].values[0]", "records[0].ttl"),
    r"records\[(\d+)\](?:\.(name|type|ttl|values))?(?:\[\d+\])?": (
        "records[2].values[0]",
        "records[0].ttl",
    ),
    r"(\*\.)?([a-z0-9_-]{1,63}\.)*": ("*.www.", "_acme-challenge.www."),
    r"@|(\*|[a-z0-9_-]{1,63})(\.[a-z0-9_-]{1,63})*(\.\*)?": ("@", "*.dev", "_acme-challenge.*"),
    r"(/(?:devices|auth/+invitations)/+)[^/]+": ("/devices/VRWT-DGPG", "/auth//invitations//code"),
    r"\[(?P<ipv6>[^\]]*)\](:[0-9]+)?|(?P<ipv4>[0-9.]+)(:[0-9]+)?|(?P<other>.*)": (
        "[2001:db8::1]:443",
        "192.0.2.1:443",
    ),
    r"(/[A-Za-z0-9._-]+)+": ("/var/lib/knot",),
    r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+": ("mail.example.net",),
    r"[0-9]{1,3}(\.[0-9]{1,3}){3}": ("192.0.2.1",),
    r"([0-9A-Fa-f]{2})+": ("ab12",),
    r"[0-9]{1,10}|([0-9]{1,10}[WDHMS])+": ("3600", "1h30m"),
    r";[^\n]*": ("; comment",),
    r'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*': ('"a" ', r'"a\"b\\" '),
    r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*": ("_sublet.example", "a" * 63 + ".a"),
    r"`([^`]+)`": ("`a`",),
    r"\n\s*\n": ("\n \n",),
    r'"#/components/schemas/(\w+)"': ('"#/components/schemas/User"',),
    r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{0,5})?": ("a.example:8053", "[::1]:80"),
    r"\*+": ("**",),
    r"sublet_[0-9A-Za-z]{16,}": ("sublet_" + "a" * 16,),
    r"(\bbearer[ :]+)[\w.~+/=-]{8,}": ("Bearer: abcdefgh",),
    r"(://[^\s:/@]*:)[^\s/]+@": ("://ada:secret@",),
    r"([?&](?:ssl)?password=)[^&\s'\"]+": ("?password=secret", "&sslpassword=secret"),
    r"ticket:(?:T-)?([0-9]+)(?::.*)?": ("ticket:T-000123:reply",),
    r"""[^\s@:/"(),;<>\[\]\\]{1,64}@[\w-]++(\.[\w-]++)++\.?""": ("ada@example.net",),
    r'[;()]|alpn="[\w./+,-]*[^\w./+,"-]': ('alpn="h2,a b"', ";"),
}


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


def loops(expression: Expression) -> int:
    """Count the loops of an expression without a bound. A loop of a group counts more."""
    source = expression.pattern.pattern
    text = source.decode() if isinstance(source, bytes) else source
    text = re.sub(r"\\.", "c", text)
    text = re.sub(r"\[\^?\]?[^\]]*\]", "c", text)
    return len(re.findall(r"[*+]|\{\d*,\}", text)) + 2 * len(re.findall(r"\)[*+{]", text))


def is_linear(expression: Expression) -> bool:
    """Return True if an expression can't backtrack far: no loop, or one from the start of its input."""
    return loops(expression) <= int(set(expression.methods) <= {"match", "fullmatch"})


FOUND = [each for each in expressions() if not is_linear(each)]
_OLD_MEDIA_TYPE = (
    r'[ \t]*application/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*(?:utf-8|"utf-8")[ \t]*)?;?[ \t]*'
)
"""A former expression for `Content-Type`, which took three seconds for 31,000 spaces."""


def test_every_regular_expression_of_the_source_is_tested() -> None:
    patterns = {each.pattern for each in expressions()}
    for module, pattern in compiled():
        assert pattern in patterns, (
            f"{module} has the expression {pattern.pattern!r}, which is no call of `re.compile` there"
        )
    written = {each.pattern.pattern for each in FOUND}
    assert written - EXAMPLES.keys() == set(), "give texts that they take in EXAMPLES"
    assert EXAMPLES.keys() - written == set(), "these are gone; take them out of EXAMPLES"
    assert all(each.methods for each in FOUND), "an expression that nothing uses"


def hostile(example: str, length: int) -> Iterator[str]:
    """Yield texts of about this length that begin like the example, or repeat it, and end differently."""
    places = sorted({round(at * len(example) / 24) for at in range(25)})
    for unit in sorted({example, *(example[at : at + 2] for at in places[:-1])} - {""}):
        yield unit * (length // len(unit)) + "\n!"
    for at in places:
        for char in sorted({*example[:24], *_USUAL}):
            run = char * length
            yield example[:at] + run + "\n!"
            yield example[:at] + run + example[at:] + "\n!"


def call(expression: Expression, text: str) -> Callable[[], object]:
    """Return a function that uses an expression on a text with all methods that the package calls."""
    is_bytes = isinstance(expression.pattern.pattern, bytes)
    given: Any = text.encode("latin-1", "replace") if is_bytes else text
    empty: Any = b"" if is_bytes else ""

    def use() -> list[object]:
        return [
            getattr(expression.pattern, method)(*((empty, given) if method == "sub" else (given,)))
            for method in expression.methods
        ]

    return use


def worst(expression: Expression, examples: tuple[str, ...]) -> float:
    """Return the time for the full length as a multiple of that for half of it, for the worst texts."""
    # Texts are numbered by kind, so that the half and the full text have the same form.
    kinds = [(example, kind) for example in examples for kind, _ in enumerate(hostile(example, SCREENED[0]))]
    timed: list[tuple[float, str, int]] = []
    reached = 0
    for reached in SCREENED:
        texts = {example: list(hostile(example, reached)) for example in examples}
        timed = []
        for example, kind in kinds:
            timed.append((seconds(call(expression, texts[example][kind])), example, kind))
            if timed[-1][0] > TOO_LONG_SECONDS:
                break
        if timed[-1][0] > TOO_LONG_SECONDS:
            break
    factors = []
    for _, example, kind in sorted(timed, reverse=True)[:FOLLOWED]:
        length = reached
        while length < LONGEST and seconds(call(expression, _text(example, kind, length))) < TOO_LONG_SECONDS:
            length = min(length * 5 // 4, LONGEST)
        half, full = (call(expression, _text(example, kind, each)) for each in (length // 2, length))
        factors.append(growth(half, full).factor)
        if factors[-1] > FACTOR:
            break
    return max(factors)


def _text(example: str, kind: int, length: int) -> str:
    return next(text for number, text in enumerate(hostile(example, length)) if number == kind)


@pytest.mark.parametrize("expression", FOUND, ids=[each.place for each in FOUND])
def test_an_expression_takes_time_in_proportion_to_its_input(expression: Expression) -> None:
    examples = EXAMPLES[expression.pattern.pattern]
    for example in examples:
        assert call(expression, example)() not in ([None], [[]]), f"{example!r} is none that it takes"
    assert worst(expression, examples) < FACTOR


@pytest.mark.parametrize(
    ("source", "method", "example"),
    [
        (_OLD_MEDIA_TYPE, "fullmatch", "application/json; charset=utf-8"),
        (r"(a+)+b", "fullmatch", "aaab"),
        (r"\s+$", "search", "a "),
        (r"(a|b|ab)*c", "fullmatch", "ababc"),
    ],
)
def test_a_quadratic_expression_fails_the_test(source: str, method: str, example: str) -> None:
    expression = Expression("here", re.compile(source, re.IGNORECASE), (method,))
    assert not is_linear(expression)
    assert worst(expression, (example,)) > FACTOR
