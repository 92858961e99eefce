"""Print which files, functions and statements a request passes, and the lines of `src/sublet`, for `make
walk`.

A profiler sees the calls in each thread of a service with SQLite. Each request is sent once before, so that
nothing is imported or compiled while it is counted. Not counted: libraries, and generator expressions and
comprehensions, which are parts of their functions.
"""

import ast
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sublet"
sys.path[:0] = [str(ROOT / "tests")]

from support.console_client import console  # noqa: E402 - after the path is set
from support.running_service import RunningService, running_service  # noqa: E402
from support.statements import recorded_statements  # noqa: E402

NAME = "walk.example.test"
TRIES = 5


class Seen:
    """What is seen while `counting`: functions of the source as (file, name). `statements` are all that were
    sent.
    """

    def __init__(self, statements: list[str]) -> None:
        self.counting = False
        self.functions: set[tuple[str, str]] = set()
        self.statements = statements

    def watch(self, frame: types.FrameType, event: str, _arg: object) -> None:
        """Profile a thread (`threading.setprofile`)."""
        code = frame.f_code
        is_ours = code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<")
        if self.counting and event == "call" and is_ours:
            self.functions.add((code.co_filename, code.co_qualname))

    def during(self, send: Callable[[], object]) -> tuple[int, int, int]:
        """Return the numbers of files, functions and statements of a request: the least of a few, because the
        worker runs beside it.
        """
        send()
        found = []
        for _ in range(TRIES):
            self.functions, self.counting, before = set(), True, len(self.statements)
            send()
            self.counting = False
            files = {file for file, _ in self.functions}
            found.append((len(files), len(self.functions), len(self.statements) - before))
        return min(found)


def _print_walks(service: RunningService, seen: Seen) -> None:
    service.add_domain("example.test")
    user = service.add_user("walk@example.org")
    service.register(user, NAME, nameservers=["ns1.provider.example"])
    browser = console(service, user.email)
    numbers = iter(range(100))

    def register() -> None:
        body = {"fqdn": f"n{next(numbers)}.example.test", "nameservers": ["ns1.provider.example"]}
        assert service.call(user, "POST", "/subdomains", body).status_code == 201  # noqa: S101

    walks: dict[str, Callable[[], object]] = {
        "GET /subdomains/{fqdn}": lambda: service.call(user, "GET", f"/subdomains/{NAME}"),
        "GET /subdomains": lambda: service.call(user, "GET", "/subdomains"),
        "POST /subdomains": register,
        "the page of a name": lambda: browser.get(f"/names/{NAME}"),
    }
    print("| Request | files | functions | statements |\n|---|---|---|---|")
    for name, send in walks.items():
        print(f"| {name} | {' | '.join(map(str, seen.during(send)))} |")


def _print_lines() -> None:
    kinds: Counter[str] = Counter()
    files = sorted(SOURCE.rglob("*.py"))
    for path in files:
        text = path.read_text(encoding="utf-8")
        documented = set[int]()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for number, line in enumerate(text.splitlines(), 1):
            kinds["docstring" if number in documented else "code" if line.strip() else "blank"] += 1
    print(
        f"\n{len(files)} files, {kinds.total()} lines: "
        + ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    )


def main() -> None:
    """Start a service, and print what its requests pass."""
    with tempfile.TemporaryDirectory() as place, recorded_statements() as statements:
        seen = Seen(statements)
        threading.setprofile(seen.watch)
        address = f"sqlite:///{place}/registry.db"
        with running_service(address, log_level="error", free_quota=1_000) as service:
            _print_walks(service, seen)
    _print_lines()


if __name__ == "__main__":
    main()
