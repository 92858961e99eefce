"""The structure of the source: its imports, the length of its functions, and text that must not be in the
repository.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sublet"
FILES = sorted(SOURCE.rglob("*.py"))

FUNCTION_LINES_MAX = 70


def _module(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def imports_of(source: str) -> Iterator[str]:
    """Yield every module that a source imports: `a.b` for `import a.b`, `a.b` and `a.b.c` for `from a.b
    import c`.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports here are absolute"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _imports() -> dict[str, set[str]]:
    return {_module(path): set(imports_of(path.read_text(encoding="utf-8"))) for path in FILES}


def importers(*packages: str) -> set[str]:
    """Return the files of the source that import one of these packages, or a module in them."""
    return {
        module
        for module, names in _imports().items()
        if any(name == package or name.startswith(f"{package}.") for name in names for package in packages)
    }


def _may_have_sql(module: str) -> bool:
    name = module.rpartition("/")[2]
    in_noun = "/" in module
    return (
        module in ("schema.py", "schema_revision.py", "sqlite_file.py", "audit.py")
        or module.startswith(("db/", "doctor/", "migrations/"))
        or (in_noun and (name == "store.py" or name.endswith("_store.py")))
    )


def test_the_source_is_found() -> None:
    assert len(FILES) > 100
    assert set(imports_of("import a.b\ndef f():\n    from c import d\n")) == {"a.b", "c", "c.d"}


def test_files_that_the_source_names_exist() -> None:
    known = [*FILES, *sorted((ROOT / "tests").rglob("*.py"))]
    for path in FILES:
        for name in re.findall(r"`([a-z_/]+\.py)`", path.read_text(encoding="utf-8")):
            assert any(each.as_posix().endswith(f"/{name}") for each in known), f"{_module(path)}: {name}"


def test_sql_lives_in_stores_db_audit_and_migrations() -> None:
    found = importers("sqlalchemy", "alembic", "psycopg", "sqlite3")
    assert {"db/postgresql.py", "audit.py", "subdomains/store.py", "doctor/credits.py"} <= found
    assert sorted(module for module in found if not _may_have_sql(module)) == []


def test_the_real_clock_is_read_in_one_place() -> None:
    # Verbs and rules get the transaction's instant; tests couldn't move a clock of their own.
    nouns = ("accounts", "credits", "mail", "platform_domains", "subdomains", "tickets", "dns")
    pattern = re.compile(r"\butc_now\(|datetime\.now\(|\btime\.time\(")
    reading = {
        _module(path)
        for path in FILES
        if _module(path).startswith(nouns) and pattern.search(path.read_text(encoding="utf-8"))
    }
    assert reading == set()


def test_functions_fit_a_screen() -> None:
    long = {
        f"{_module(path)}: {node.name}": lines
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


def _tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


# In pieces, so that this file doesn't match.
_PLACES = re.compile(
    r"(?<![\w.\-/}])/" + r"work/(main|wt|shared)\b"
    "|" + r"/home/" + r"\w+/|/root/" + r"\w"
)
_REGISTRIES = re.compile(
    r"--(extra-)?index-" + r"url|--find-" + r"links|--trusted-" + r"host"
    "|" + r"(artifactory|nexus|devpi|jfrog)\." + r"|[\w.-]+/simple/" + r"(\s|$)"
)


def test_no_file_names_the_machine_it_was_written_on() -> None:
    found = []
    for path in _tracked_files():
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            if _PLACES.search(line) or _REGISTRIES.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_the_search_for_machine_names_works() -> None:
    for text in ("see /" + "work/main/x", "--index-" + "url https://x", "https://x.example/simple/" + " "):
        assert _PLACES.search(text) or _REGISTRIES.search(text), text
