"""The pages speak to people: no message of a refusal, error or hint, and no page, has words of programs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sublet

SOURCE = Path(sublet.__file__).parent
WORDS = re.compile(
    r"\b(?:requests?|requested|repeat|repeated|parameters?|modes?|[Ss]end (?!mail))\b"
    r"|\b(?:GET|POST|PUT|PATCH|DELETE) [/…]|`(?:details|errors)\b"
)
NOT_ON_PAGES = re.compile(r"\btokens?\b|\bheader\b|`sublet |POST /auth/device")
"""Messages about tokens, headers, the device flow and commands reach programs or operators only."""
OF_OTHERS = (
    "audit_members.py",
    "cli",
    "config.py",
    "db",
    "doctor",
    "errors.py",
    "http",
    "mail",
    "metrics.py",
    "migrations",
    "platform_domains",
    "primaries",
    "processes",
    "rdap",
    "registry/copy.py",
    "registry/copy_store.py",
    "service",
    "surfaces.py",
    "updates",
)
"""What operators, programs and logs read."""
PAGES_ABOUT_PROGRAMS = {"reference.html.j2", "try_api.html.j2"}


def literals(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module that messages can have: no docstring, and no description of the API."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.keyword) and node.arg in ("description", "summary"):
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        else:
            yield from literals(node)


def test_messages_and_pages_have_no_words_of_programs() -> None:
    modules = [
        path for path in SOURCE.rglob("*.py") if not str(path.relative_to(SOURCE)).startswith(OF_OTHERS)
    ]
    messages = [text for path in modules for text in literals(ast.parse(path.read_text())) if " " in text]
    assert len(messages) > 1000, "the messages are somewhere else"
    assert [text for text in messages if WORDS.search(text) and not NOT_ON_PAGES.search(text)] == []


def test_templates_have_no_words_of_programs() -> None:
    found = {}
    for path in (SOURCE / "web" / "templates").iterdir():
        text = re.sub(r"\{[%#{].*?[%#}]\}|<[^>]*>", " ", path.read_text(), flags=re.DOTALL)
        if path.name not in PAGES_ABOUT_PROGRAMS and (words := WORDS.findall(text)):
            found[path.name] = words
    assert found == {}
