"""Write which client has which operation: the table of docs/clients.md. tools/generate_client.py runs it, and
tests compare.

Commands of `subletctl` say what they use. Of Terraform, Ansible and MCP it reads the sources: each use of a
method of the Python client, such as `client.subdomains.renew`, is one of its operation.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generate_client import FOR_PROGRAMS, PLACES
from generate_subletctl import commands

from sublet.surfaces import OPERATIONS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/clients.md"
SUBLETCTL = "subletctl"
NOT_IN_SUBLETCTL = {"challenge": "proof of work, which a page in a browser solves"}
"""The operations without a command, each with its reason."""
SOURCES = {
    "Terraform": "clients/terraform/src/sublet_terraform",
    "Ansible": "clients/ansible/plugins/modules",
    "MCP": "clients/mcp/src/sublet_mcp",
}
"""The sources of the clients on top of the Python client."""
CLIENTS = (SUBLETCTL, *SOURCES)
BY_HAND: dict[tuple[str, ...], tuple[str, ...]] = {
    ("subdomains", "wait"): ("get_subdomain",),
    ("subdomains", "quote"): ("availability", "register"),
}
"""Methods of the Python client that aren't generated, with the operations that they use."""
METHODS: dict[tuple[str, ...], tuple[str, ...]] = {place: (name,) for name, place in PLACES.items()}
METHODS |= BY_HAND
SHARED = {"find": "get_subdomain", "find_trashed": "list_subdomains"}
"""Functions that the modules of Ansible share."""
FUNCTIONS = {"change_record_set": ("get_records", "change_records")}
"""Functions of the Python client that use operations."""
MARK = "<!-- the table of `make client` -->\n"


def coverage() -> dict[str, dict[str, list[str]]]:
    """Return for each operation the commands, resources, modules and tools that use it, by client."""
    found: dict[str, dict[str, set[str]]] = {name: {each: set() for each in CLIENTS} for name in PLACES}
    for words, command in commands():
        for operation in command.uses:  # type: ignore[attr-defined] # of sublet_client.cli.session.command
            found[operation][SUBLETCTL].add(words)
    for client, folder in SOURCES.items():
        for path in sorted((ROOT / folder).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for name, part in _parts(client, path.stem, tree):
                for operation in _operations(part):
                    found[operation][client].add(name)
    return {
        operation: {client: sorted(names) for client, names in uses.items()}
        for operation, uses in found.items()
    }


def _parts(client: str, module: str, tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield what users call a part of the client, and its code."""
    for node in ast.walk(tree):
        if client == "Ansible" and isinstance(node, ast.Module):
            yield module, node
        elif client == "MCP" and isinstance(node, ast.AsyncFunctionDef) and node.name != "close_client":
            yield node.name, node
        elif client == "Terraform" and isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "name":
                    kind = "data." if node.name.endswith("Data") else ""
                    yield f"{kind}sublet_{ast.literal_eval(each.value)}", node


def _operations(part: ast.AST) -> Iterator[str]:
    """Yield the operations that code uses."""
    for node in ast.walk(part):
        if isinstance(node, ast.Name):
            yield from FUNCTIONS.get(node.id, ())
        if not isinstance(node, ast.Attribute):
            continue
        words = tuple(ast.unparse(node).split("."))
        yield from METHODS.get(words[-2:], ())
        if words[0] == "registry" and words[-1] in SHARED:
            yield SHARED[words[-1]]


def table() -> str:
    """Return the table, and the operations that aren't in it."""
    rows = [
        f"| Operation | `Client` and `AsyncClient` | `{SUBLETCTL}` | {' | '.join(SOURCES)} |",
        "|---|---|---|" + "---|" * len(SOURCES),
    ]
    uses = coverage()
    for each in FOR_PROGRAMS:
        cells = {
            client: ", ".join(f"`{name}`" for name in names) for client, names in uses[each.name].items()
        }
        cells[SUBLETCTL] = cells[SUBLETCTL] or NOT_IN_SUBLETCTL.get(each.name, "")
        method = ".".join(PLACES[each.name])
        rows.append(f"| {each.method} {each.path} | `{method}` | {' | '.join(cells.values())} |")
    others = (each for each in OPERATIONS if each not in FOR_PROGRAMS)
    listed = ", ".join(f"{each.method} {each.path}" for each in others)
    return "\n".join([*rows, "", f"For browsers alone, which have a session: {listed}.", ""])


def missing() -> list[str]:
    """Return the operations that have neither a command nor a reason."""
    return [name for name, uses in coverage().items() if not uses[SUBLETCTL] and name not in NOT_IN_SUBLETCTL]


def page(text: str) -> str:
    """Return the page with the present table."""
    pattern = re.compile(f"{re.escape(MARK)}.*?{re.escape(MARK)}", re.DOTALL)
    return pattern.sub(lambda _: f"{MARK}\n{table()}\n{MARK}", text)


def main() -> None:
    """Write the table."""
    if without := missing():
        sys.exit(
            f"Give {', '.join(without)} a command (of one word: also in COMMANDS of cli/main.py), "
            f"or a reason in NOT_IN_SUBLETCTL ({__file__})."
        )
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
