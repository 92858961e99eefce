"""Every refusal in the source says what to do.

A sentence is an argument of a class of `sublet.errors` or `sublet.http.errors`, of a `FieldError` or `SettingsError`, or of an exception that `dns/`
raises about a name, an address or a DS record. If the argument is a variable, the test reads its assignments in the same function.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sublet import errors
from sublet.errors import Refusal
from sublet.http import errors as http_errors

SOURCE = Path(errors.__file__).parent
REFUSALS = {
    name
    for module in (errors, http_errors)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, Refusal)
}
OTHERS = {"SettingsError", "InvalidName", "InvalidDs", "InvalidAddress"}
VERBS = (
    "Add|Ask|Buy|Change|Check|Choose|Deduct|Delete|Drop|Encode|End|Get|Give|Leave|Lift|Load|Look|Make|Name|No action needed|Omit|Open|Purge|Put|Remove|Repeat|Report|Restore|Run|"
    "Say|See|Select|Send|Set|Shorten|Sign|Stop|Take|Tell|Try|Unblock|Unsuspend|Use|Wait|Write"
)
INSTRUCTION = re.compile(
    rf"(?:^|[.;:?,] |\bthen |\bor )(?:{VERBS})\b|\bmust be\b|\bdocuments are at\b", re.IGNORECASE
)
"""An imperative at the beginning of a sentence or clause, or `must be`."""


def text_of(node: ast.expr) -> str | None:
    """Return the text of a literal, with `{}` for each expression in it; None if it is no literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)  # type: ignore[misc]
    return None


def texts_of(node: ast.expr, function: ast.AST) -> Iterator[str]:
    """Yield the literals that an argument may be, directly or by assignment in the function."""
    if (text := text_of(node)) is not None:
        yield text
    elif isinstance(node, ast.IfExp):
        yield from texts_of(node.body, function)
        yield from texts_of(node.orelse, function)
    elif isinstance(node, ast.Name):
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == node.id for target in each.targets
            ):
                yield from (text for text in [text_of(each.value)] if text is not None)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield every sentence of a refusal with its file and line."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        functions = [
            each for each in ast.walk(module) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for function in functions:
            for call in (each for each in ast.walk(function) if isinstance(each, ast.Call)):
                name = (
                    call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                )
                argument: Any = None
                if name in REFUSALS | OTHERS and call.args:
                    argument = call.args[0]
                elif name == "FieldError" and len(call.args) == 3:
                    argument = call.args[2]
                for text in texts_of(argument, function) if argument is not None else ():
                    yield f"{path.relative_to(SOURCE)}:{call.lineno}", text


FOUND = sorted({(where, text) for where, text in sentences() if re.search(r"[a-z] [a-z]", text)})


def test_the_refusals_of_the_source_are_found() -> None:
    assert len(FOUND) > 200


@pytest.mark.parametrize(("where", "text"), FOUND, ids=lambda each: str(each)[:60])
def test_a_refusal_says_what_to_do(where: str, text: str) -> None:
    if text.endswith(("{}", "{}.")) and len(re.sub(r"\W|\{\}", "", text)) < 40:
        return  # it only joins other sentences
    assert INSTRUCTION.search(text), f"{where}: {text}"
