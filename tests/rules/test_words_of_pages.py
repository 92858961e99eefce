"""Pages say what a person does, and not what a program sends."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.web.wording import FOR_PROGRAMS, in_words_of_pages

SOURCE = Path(__file__).parents[2] / "src" / "sublet"
SILENT = ("cli", "migrations", "doctor", "service", "primaries", "rdap", "mail", "db", "http")
"""Folders whose messages no page shows."""
ONLY_PROGRAMS = ("Authorization", "Content-Type", "Idempotency-Key", "JSON", "POST /auth/device", "Sec-Fetch", "body",
                 "/nic/update", "organization_header", "header")  # fmt: skip
"""Words in refusals of requests that no page makes."""
MAKERS = {"FieldError", "validation_failed"}


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) if isinstance(each, ast.Constant) else "7" for each in node.values)
    return ""


def messages() -> Iterator[str]:
    """Yield the texts of refusals in the source that have words of programs."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in SILENT or path.name == "copy_registry.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            is_refusal = node.func.id in MAKERS or node.func.id in REFUSALS
            for each in [*node.args, *(word.value for word in node.keywords)] if is_refusal else ():
                text = text_of(each)
                if FOR_PROGRAMS.search(text) and not any(word in text for word in ONLY_PROGRAMS):
                    yield text


def _refusal_names() -> set[str]:
    tree = ast.parse((SOURCE / "errors.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


REFUSALS = _refusal_names()


def test_refusals_have_the_words_of_pages() -> None:
    found = [*messages()]
    assert len(found) > 20
    left = [(text, in_words_of_pages(text)) for text in found]
    assert [pair for pair in left if FOR_PROGRAMS.search(pair[1])] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Reserved. Choose another name.", "Reserved. Choose another name."),
        ("You sent more than 60 `write` requests in a minute. Wait 5 s.", "More than 60 actions in a minute are too many. Wait 5 s."),
        ("Send 1 to 200 characters.", "Give 1 to 200 characters."),
        ("Your role is viewer, which doesn't allow this request.", "Your role is viewer, which doesn't allow this."),
    ],
)  # fmt: skip
def test_words(text: str, words: str) -> None:
    assert in_words_of_pages(text) == words
