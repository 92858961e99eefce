"""The structure of the source: its imports, the length of its functions, and text that must not be in the
repository.
"""

import ast
import os
import re
import subprocess
import sys
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


def test_sql_lives_in_stores_db_audit_and_migrations() -> None:
    found = importers("sqlalchemy", "alembic", "psycopg", "sqlite3")
    assert {"db/postgresql.py", "audit.py", "subdomains/store.py", "doctor/credits.py"} <= found
    assert sorted(module for module in found if not _may_have_sql(module)) == []


def test_alembic_is_imported_by_the_migrations_alone() -> None:
    assert all(module.startswith("migrations/") for module in importers("alembic"))


def test_the_web_framework_stays_at_the_http_edge() -> None:
    found = importers("starlette", "uvicorn")
    assert found
    assert sorted(module for module in found if not module.startswith(("http/", "web/"))) == []


def test_dnspython_reaches_the_network_from_two_modules_at_most() -> None:
    networked = importers(
        "dns.query",
        "dns.asyncquery",
        "dns.resolver",
        "dns.asyncresolver",
        "dns.nameserver",
        "dns.asyncbackend",
    )
    assert networked <= {"dns/nameserver.py", "dns/read_back.py"}


def callers(*names: str) -> set[str]:
    """Return the files of the source that use one of these names after a dot, or import it."""
    pattern = re.compile(rf"(?:\.|import .*\b|^    )(?:{'|'.join(names)})\b", re.MULTILINE)
    return {_module(path) for path in FILES if pattern.search(path.read_text(encoding="utf-8"))}


def test_a_users_names_are_found_in_one_place() -> None:
    """There the token's restrictions are checked: what finds a name otherwise would show it to any token of
    its user.
    """
    assert callers("find_subdomain_of_user", "OWN_BY_ID", "OWN_BY_NAME") - {
        "tickets/find.py",
        "tickets/reply.py",
    } == {"subdomains/find.py"}
    # By id, without a user: after a change by the same request, and for the operator, the publisher and the
    # sweep.
    of_users = {
        name for name in callers("find_subdomain") if name.endswith("api.py") or name.startswith("tickets/")
    }
    assert of_users == {"subdomains/api.py"}


def test_stores_filter_by_the_holder_and_not_by_the_person_who_acts() -> None:
    """An actor's `user_id` is for the audit.

    Whose names, credits and tickets a request is about is its `holder_id`.
    """
    people = {
        "audit.py",
        "accounts/find.py",
        "accounts/tokens/tokens.py",  # whose session it is
        "sign_in/devices/device.py",  # the program gets a token of this person
        "sign_in/change_account.py",  # the codes for a person's new address
        "subdomains/transfers/find.py",  # to whose address a name is offered
        "organizations/find.py",  # a member's organizations
        "organizations/api.py",  # the outcome of a change that the path names
        "registry/delete_user.py",  # the person whom the request deletes
        "subdomains/register.py",  # whether the audit names the holder too
    }
    found = {_module(path) for path in FILES if "actor.user_id" in path.read_text(encoding="utf-8")}
    assert found == people
    of_holders = {_module(path) for path in FILES if "actor.holder_id" in path.read_text(encoding="utf-8")}
    assert of_holders == {
        "credits/store.py",
        "subdomains/find.py",
        "subdomains/list_store.py",
        "subdomains/transfers/find.py",
        "tickets/find.py",
        "tickets/store.py",
    }


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


def test_scheduling_is_left_to_the_operating_system() -> None:
    pattern = re.compile(r"\bctypes\b|\bsched_\w+\(|\bSIGSTOP\b|\bsetswitchinterval\b|\bsetpriority\b")
    assert [_module(path) for path in FILES if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_imports_go_one_way() -> None:
    """import-linter finds the contracts of pyproject.toml kept."""
    command = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run(
        [str(command), "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


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
