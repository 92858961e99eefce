"""Where the code that runs comes from: pinned and hashed, few, with their licences and a bill of materials; a
wheel built twice is one.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest
import supply_chain
from supply_chain import FLAWS, NOT_ASKED, PAGE, ROOT, bill_of_materials, licences_page, read_lock

DIRECT_MAX = 20
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PERMISSIVE = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0"}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_there_are_few_direct_dependencies_and_each_is_locked() -> None:
    direct = [normalised(re.split(r"[\[<>=~! ;]", each)[0]) for each in PROJECT["project"]["dependencies"]]
    assert len(direct) <= DIRECT_MAX
    assert set(direct) <= {normalised(each.name) for each in read_lock()}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_dependency_is_pinned_with_hashes_and_names_no_index(name: str) -> None:
    packages = read_lock(ROOT / name)
    assert len(packages) > 20
    assert all(each.hashes and each.version for each in packages)
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "entry", ["a==1\n", "a>=1 \\\n    --hash=sha256:" + "0" * 64 + "\n", "a==1 \\\n    --hash=md5:00\n"]
)
def test_an_unpinned_lock_fails_the_test(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "bad.lock"
    path.write_text(entry, encoding="utf-8")
    with pytest.raises(ValueError, match="not pinned"):
        read_lock(path)


def test_the_page_of_licences_matches_the_lock() -> None:
    """Every package with its version, its licence as it declares it, and no other; `tools/supply_chain.py
    licences` writes it.
    """
    assert PAGE.read_text(encoding="utf-8") == licences_page(read_lock())


def test_all_licences_are_permissive() -> None:
    other = set()
    for each in read_lock():
        parts = set(re.split(r" (?:OR|AND) ", supply_chain.licence_of(each)))
        if not parts <= PERMISSIVE:
            other.add((each.name, *parts))
    # The library for PostgreSQL: used as it is, by import, which its licence allows to any program.
    assert other == {("psycopg", "LGPL-3.0-only"), ("psycopg-binary", "LGPL-3.0-only")}


def test_the_bill_of_materials_is_valid_cyclonedx() -> None:
    """The required fields of CycloneDX 1.6, references that lead somewhere, and every package of the lock
    once.
    """
    made_at = datetime(2026, 11, 22, tzinfo=UTC)
    packages = read_lock()
    bill = bill_of_materials(packages, "1.2.3", made_at)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert str(uuid.UUID(bill["serialNumber"].removeprefix("urn:uuid:"))) == bill["serialNumber"][9:]
    assert bill["metadata"]["timestamp"] == "2026-11-22T00:00:00Z"
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/sublet@1.2.3"
    assert [(each["name"], each["version"]) for each in bill["components"]] == [
        (each.name, each.version) for each in packages
    ]
    for component in bill["components"]:
        assert component["type"] == "library"
        assert component["purl"] == component["bom-ref"]
        assert component["licenses"][0]["expression"]
        assert component["properties"]
    refs = {bill["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in bill["components"])}
    assert len(refs) == len(packages) + 1
    assert {each["ref"] for each in bill["dependencies"]} == refs
    needed = {ref for each in bill["dependencies"] for ref in each["dependsOn"]}
    assert needed == refs - {bill["metadata"]["component"]["bom-ref"]}  # nothing is there that nobody needs
    assert bill == bill_of_materials(packages, "1.2.3", made_at)
    assert bill["serialNumber"] != bill_of_materials(packages, "1.2.4", made_at)["serialNumber"]


@pytest.mark.slow
def test_the_wheel_and_its_bill_are_reproducible(tmp_path: Path) -> None:
    """From two copies with other times and permissions of their files: the same octets."""
    digests = []
    for number, mask in enumerate(("022", "077")):
        copy, out = tmp_path / f"copy{number}", tmp_path / f"out{number}"
        copied = (
            "src",
            "tools",
            "docs",
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "requirements.lock",
            ".gitignore",
        )
        copy.mkdir()
        for name in copied:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        for path in copy.rglob("*.py"):
            os.utime(path, (number * 10**9, number * 10**9))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "PYTHONHASHSEED": str(number + 1)}
        build = f'umask {mask}; exec "$0" "$@"'
        for words in (
            ["-m", "flit_core.wheel", "--outdir", str(out)],
            ["tools/supply_chain.py", "sbom", str(out / "sublet.cdx.json")],
        ):
            subprocess.run(
                ["/bin/sh", "-c", build, sys.executable, *words],
                cwd=copy,
                env=environment,
                check=True,
                timeout=300,
            )
        assert len(list(out.iterdir())) == 2
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()})
    assert digests[0] == digests[1]


def stand_in(folder: Path, script: str) -> str:
    """A program in the place of pip-audit, which is no dependency of the tests: it needs a network."""
    path = folder / "pip-audit"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


FOUND = (
    '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}, '
    '{"name": "b", "version": "1", "vulns": []}]}'
)
"""The report in the form that pip-audit 2 writes."""
TO_REPORT = 'while [ "$1" != --output ]; do shift; done; '


def test_an_audit_without_a_reachable_database_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert supply_chain.audit(stand_in(tmp_path, "echo 'connection refused' >&2; exit 1")) == NOT_ASKED
    told = capsys.readouterr().out
    assert told.startswith("NOT AUDITED")
    assert told.count("connection refused") == 2


def test_an_audit_reports_flaws_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert supply_chain.audit(stand_in(tmp_path, f"{TO_REPORT} echo '{FOUND}' > \"$2\"; exit 1")) == FLAWS
    assert "a 1: X-1, fixed in 2" in capsys.readouterr().out


def test_an_audit_without_flaws_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    well = FOUND.replace('{"id": "X-1", "fix_versions": ["2"]}', "")
    assert supply_chain.audit(stand_in(tmp_path, f"{TO_REPORT} echo '{well}' > \"$2\"")) == 0
    assert "2 packages looked up in the database pypi: 0 known flaws." in capsys.readouterr().out
