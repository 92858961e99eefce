"""Write which operations the thin clients use: `clients/operations.json`, and the table of docs/clients.md. `make client` runs it.

It reads the sources of the clients: each use of a method of the Python client, such as `client.subdomains.renew`, is one of its operation.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from generate_client import PLACES

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "clients/operations.json", ROOT / "docs/clients.md"
CLIENTS = {
    "Terraform": "clients/terraform/src/sublet_terraform",
    "Ansible": "clients/ansible/plugins/modules",
    "MCP": "clients/mcp/src/sublet_mcp",
}
"""The sources of each client."""
BY_HAND: dict[tuple[str, ...], tuple[str, ...]] = {
    ("subdomains", "wait"): ("get_subdomain",),
    ("subdomains", "quote"): ("availability", "register"),
}
"""Methods of the Python client that aren't generated, with the operations that they use."""
OPERATIONS: dict[tuple[str, ...], tuple[str, ...]] = {place: (name,) for name, place in PLACES.items()}
OPERATIONS |= BY_HAND
SHARED = {"find": "get_subdomain", "find_trashed": "list_subdomains"}
"""Functions that the modules of Ansible share."""
MARK = "<!-- the table of `make client` -->\n"


def coverage() -> dict[str, dict[str, list[str]]]:
    """Return for each operation the resources, modules and tools of each client that use it."""
    found: dict[str, dict[str, set[str]]] = {name: {each: set() for each in CLIENTS} for name in PLACES}
    for client, folder in CLIENTS.items():
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
        if not isinstance(node, ast.Attribute):
            continue
        words = tuple(ast.unparse(node).split("."))
        yield from OPERATIONS.get(words[-2:], ())
        if words[0] == "registry" and words[-1] in SHARED:
            yield SHARED[words[-1]]


def table(uses: dict[str, dict[str, list[str]]]) -> str:
    """Return the table: a row for each operation that a client uses."""
    rows = [f"| Operation | {' | '.join(CLIENTS)} |", "|---|" + "---|" * len(CLIENTS)]
    for operation, by_client in uses.items():
        if any(by_client.values()):
            cells = (", ".join(f"`{each}`" for each in by_client[client]) for client in CLIENTS)
            rows.append(f"| `{operation}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """Return the page with the present table."""
    pattern = re.compile(f"{re.escape(MARK)}.*?{re.escape(MARK)}", re.DOTALL)
    return pattern.sub(lambda _: f"{MARK}\n{table(coverage())}\n{MARK}", text)


def data() -> str:
    """Return the same as JSON."""
    return json.dumps(coverage(), indent=2) + "\n"


def main() -> None:
    """Write both."""
    DATA.write_text(data(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
