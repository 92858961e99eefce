"""Check that the tests find small faults: change the source in one place, and run the tests that could see
it.

`make mutants` runs it.

The seed draws the mutants, evenly over four groups of `src/sublet`. Each mutant runs in a clone in a
temporary folder, never in your working tree. A mutant survives if no test fails. Then either a test is
missing, or the change makes no difference.
"""

import argparse
import ast
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from itertools import accumulate, zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIT = shutil.which("git") or "git"
DEADLINE_SECONDS = 1800
"""A mutant with which the tests of a folder run longer has made an endless loop, so it counts as found."""
ENDLESS = "the deadline"
FOLDERS = {
    "rules": ("rules", "verbs", "contract"),
    "verbs": ("verbs", "contract"),
    "stores": ("verbs", "http", "contract"),
    "edges": ("rules", "http", "web", "cli", "contract"),
}
"""The groups, each with the folders of the tests that could see its mutants, fastest first."""
EDGES = ("http", "web", "cli", "mail")
LEFT_OUT = ("migrations", "db", "processes", "primaries", "service")
"""What migrations decide, and parts whose tests start processes and name servers,
which takes too long here.
"""
IMPURE = ("sqlalchemy", "asyncio", "socket", "threading", "subprocess")
PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = dict(PAIRS) | {new: old for old, new in PAIRS}
NOT_ENTERED = {"annotation", "returns", "decorator_list", "type_params"}
SCHEMA = {"Table", "Column", "Index", "CheckConstraint", "UniqueConstraint", "ForeignKeyConstraint"}
"""What migrations decide, so that a change here has no effect."""
LOG_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A change of one place."""

    group: str
    file: str
    function: str
    change: str
    nth: int
    """Tells equal changes in one function apart."""
    line: int
    start: int
    end: int
    """The bytes of the file that `text` replaces."""
    text: str
    found_by: str | None = None
    seconds: float = 0

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies the mutant also after lines have moved."""
        return self.file, self.function, self.change, self.nth


def group_of(file: str, tree: ast.Module) -> str | None:
    """Return the group of a file below `src/sublet`, or None if no mutants are made of it."""
    part = file.split("/", maxsplit=1)[0]
    if part in LEFT_OUT:
        return None
    if file.endswith("store.py"):
        return "stores"
    if part in EDGES:
        return "edges"
    imported = {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    imported |= {each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names}
    if "sublet.db" in imported:
        return "verbs"
    return None if any(each.split(".")[0] in IMPURE for each in imported) else "rules"


def mutants_of(root: Path) -> Iterator[Mutant]:
    """Yield every mutant of the sources below `root`."""
    folder = root / "src/sublet"
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        tree = ast.parse(source)
        group = group_of(path.relative_to(folder).as_posix(), tree)
        if group is None:
            continue
        lines = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]
        seen: Counter[tuple[str, str]] = Counter()
        for function, node, text, change in _changes(tree, tree, ""):
            seen[function, change] += 1
            start = lines[node.lineno - 1] + node.col_offset
            end = lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            place = group, path.relative_to(root).as_posix(), function, change, seen[function, change]
            yield Mutant(*place, node.lineno, start, end, text)


def _changes(
    node: ast.AST, parent: ast.AST, function: str
) -> Iterator[tuple[str, ast.expr | ast.stmt, str, str]]:
    """Yield the changes of a node and below: the function that it is in, what is replaced, by which text, and
    the change in words.
    """
    if isinstance(node, ast.JoinedStr) or _is_call_of(node, SCHEMA) or _is_log(node):
        return  # Python 3.11 has no positions inside f-strings
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if isinstance(node, ast.expr | ast.stmt) and (text := _changed(node)) is not None:
        around = f" in {ast.unparse(parent)}" if isinstance(node, ast.Constant) else ""
        yield function, node, text, f"{ast.unparse(node)} → {text}{around}"
    for name, field in ast.iter_fields(node):
        if name not in NOT_ENTERED:
            for each in field if isinstance(field, list) else [field]:
                if isinstance(each, ast.AST):
                    yield from _changes(each, node, function)


def _changed(node: ast.expr | ast.stmt) -> str | None:
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in SWAPPED:
            return ast.unparse(ast.Compare(left, [SWAPPED[type(operator)]()], [right]))
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(ast.Not(), operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(int() as value) if not isinstance(value, bool):
            return str(value + 1)
        case ast.Raise() | ast.Expr(ast.Call() | ast.Await(ast.Call())):
            return "pass"
    return None


def _is_call_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_log(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    return (
        isinstance(called, ast.Attribute) and called.attr in LOG_LEVELS and "log" in ast.unparse(called.value)
    )


def draw(mutants: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """Return `count` of the mutants, evenly by group.

    Each has its own hash, so changes of other code hardly change which are drawn.
    """
    ranked = sorted(mutants, key=lambda each: sha256(repr((seed, each.key)).encode()).digest())
    groups = [[each for each in ranked if each.group == group] for group in FOLDERS]
    return [each for turn in zip_longest(*groups) for each in turn if each is not None][:count]


def clone(folder: Path) -> Path:
    """Copy the working tree, with what is not committed yet."""
    copied = folder / "tree"
    subprocess.run([GIT, "clone", "-q", ROOT, copied], check=True)
    listed = (GIT, "-C", str(ROOT), "ls-files", "-z", "--others", "--modified", "--exclude-standard")
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        (copied / name).unlink(missing_ok=True)
        if (ROOT / name).exists():
            (copied / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copied / name)
    where = _python(copied, "-c", "import sublet; print(sublet.__file__)")[1].strip()
    if not where.startswith(str(copied)):
        raise SystemExit(f"The tests would import {where} instead of the clone's package.")
    return copied


def _python(tree: Path, *arguments: str) -> tuple[int | None, str]:
    """Run Python on a clone. Return the exit code, or None after the deadline, and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            printed = process.communicate(timeout=DEADLINE_SECONDS)[0]
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, printed


def first_failure(tree: Path, workers: int, *tests: str) -> str | None:
    """Run tests until one fails. Return its name, or None if all passed."""
    parallel = ("-n", str(workers), "--dist", "loadfile") if workers > 1 else ()
    code, printed = _python(tree, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *parallel, *tests)
    if code is None:
        return ENDLESS
    if code in (0, 5):  # 5: no test was selected
        return None
    failed = FAILED.search(printed)
    if failed is None:
        raise SystemExit(f"pytest failed without a failing test:\n{printed[-4000:]}")
    return failed[1]


def tests_for(tree: Path, mutant: Mutant, *, whole: bool) -> Iterator[tuple[str, ...]]:
    """Yield the tests that could see a mutant, run by run.

    First come the files that name its module, then those that name its function or folder, then the folders,
    at last every test.
    """
    path = Path(mutant.file).with_suffix("")
    module = re.escape(".".join(path.parts[1:]))
    name = re.escape(mutant.function.rsplit(".", 1)[-1]) or module
    left = {
        file: f"{file.stem}\n" + file.read_text(encoding="utf-8")
        for folder in FOLDERS[mutant.group]
        for file in sorted((tree / "tests" / folder).glob("test_*.py"))
    }
    for words in (f"{module}|test_{path.name}", f"{name}|test_{path.parent.name}"):
        near = [file for file, text in left.items() if re.search(rf"\b(?:{words})\b", text)]
        yield _not_slow(tree, near)
        left = {file: text for file, text in left.items() if file not in near}
    for folder in FOLDERS[mutant.group]:
        yield _not_slow(tree, [file for file in left if file.parent.name == folder])
    if whole:
        yield ("tests",)


def _not_slow(tree: Path, files: list[Path]) -> tuple[str, ...]:
    return ("-m", "not slow", *(file.relative_to(tree).as_posix() for file in files)) if files else ()


def run(tree: Path, mutant: Mutant, *, workers: int, whole: bool) -> Mutant:
    """Run the tests with a mutant.

    Return it with the test that found it, if one did, and how long it took.
    """
    path = tree / mutant.file
    before, started = path.read_bytes(), time.monotonic()
    failed = None
    for tests in filter(None, tests_for(tree, mutant, whole=whole)):
        _write(path, before[: mutant.start] + mutant.text.encode() + before[mutant.end :])
        failed = first_failure(tree, workers, *tests)
        _write(path, before)
        if failed is not None:
            break
    seconds = round(time.monotonic() - started, 1)
    if failed not in (None, ENDLESS) and first_failure(tree, 1, failed) is not None:
        raise SystemExit(f"{failed} fails without the mutant too. Repair it first.")
    return replace(mutant, found_by=failed, seconds=seconds)


def _write(path: Path, source: bytes) -> None:
    """Write a module, and remove the compiled one: Python compares only length and second."""
    path.write_bytes(source)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def found_before(file: Path, every: list[Mutant]) -> list[Mutant]:
    """Return the mutants that a saved run found, as they are in the source now."""
    known = {each.key: each for each in every}
    found = [Mutant(**each) for each in json.loads(file.read_text(encoding="utf-8")) if each["found_by"]]
    now = [known[each.key] for each in found if each.key in known]
    print(f"{len(now)} of {len(found)} mutants are still possible. The code of the others was changed.")
    return now


def main() -> None:
    """Run mutants that the seed draws, or those that an earlier run found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants")
    parser.add_argument("--count", type=int, default=30, help="how many to draw")
    parser.add_argument("--whole", action="store_true", help="run every test with a mutant that survives")
    parser.add_argument("--workers", type=int, default=1, help="how many tests run at a time")
    parser.add_argument("--json", type=Path, help="the file to which the results are saved")
    parser.add_argument(
        "--compare", type=Path, help="run what this file says was found; fail if one survives"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the clone is removed, and its tests end
    mutants = list(mutants_of(ROOT))
    mutants = (
        found_before(options.compare, mutants)
        if options.compare
        else draw(mutants, options.seed, options.count)
    )
    results: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = clone(Path(folder))
        for each in mutants:
            result = run(tree, each, workers=options.workers, whole=options.whole)
            print(f"{_shown(each)}  {result.found_by or 'survived'}  {result.seconds} s", flush=True)
            results.append(result)
            if options.json:
                options.json.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")
    survived = [each for each in results if each.found_by is None]
    print(f"{len(results) - len(survived)} of {len(results)} mutants found, {len(survived)} survived.")
    sys.exit(1 if options.compare and survived else 0)


def _shown(mutant: Mutant) -> str:
    words = " ".join(mutant.change.split()).split(" → ", 1)
    change = " → ".join(each if len(each) <= 70 else f"{each[:69]}…" for each in words)
    return f"{mutant.group}  {mutant.file}:{mutant.line} {mutant.function}: {change}"


if __name__ == "__main__":
    main()
