"""Licences, bill of materials and known flaws of the run-time dependencies.

    python tools/supply_chain.py licences              write docs/licences.md
    python tools/supply_chain.py sbom FILE             write a CycloneDX 1.6 bill of materials, in JSON
    python tools/supply_chain.py audit [PROGRAM]       query the databases of known flaws with pip-audit

The packages are those of `requirements.lock`, the licences those that they declare.
"""

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
PAGE = ROOT / "docs" / "licences.md"
OURSELVES = "sublet (pyproject.toml)"
NAMESPACE = uuid.UUID("6f0d6d0e-6f5c-5f5e-9a63-0c9ad8e6f6f1")
"""The namespace of our bills' serial numbers: equal bills have equal numbers."""
DATABASES = ("pypi", "osv")
"""The databases for pip-audit; the second is used if the first can't be reached."""
FLAWS, NOT_ASKED = 1, 3
"""Exit codes of `audit`: there are known flaws; no database could be reached."""
ELSEWHERE = {"colorama": "BSD-3-Clause", "tzdata": "Apache-2.0"}
"""Licences of packages that are installed on other systems only."""
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "BSD-2-Clause": "BSD-2-Clause",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
}
"""SPDX identifiers of the classifiers in older packages."""
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)(?: ; (?P<marker>[^\\]+?))? \\")


@dataclass(frozen=True, slots=True)
class Package:
    """A package of a lock: installed if `marker` holds; the SHA-256 of its files, and the packages that need
    it.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]


def read_lock(path: Path = LOCK) -> list[Package]:
    """Return the entries of a lock.

    Raises:
        ValueError: an entry is not pinned to one version, or has no hash.
    """
    found = []
    text = path.read_text(encoding="utf-8")
    for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        if not entry.strip() or entry.startswith("#"):
            continue
        pinned = _PINNED.match(entry)
        hashes = tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
        if pinned is None or not hashes:
            raise ValueError(f"{path.name}: {entry.splitlines()[0]!r} is not pinned, or has no hash")
        via = entry.rpartition("# via")[2].replace("#", "").splitlines()
        needed_by = tuple(line.strip() for line in via if line.strip())
        found.append(Package(pinned["name"], pinned["version"], pinned["marker"] or "", hashes, needed_by))
    return found


def licence_of(package: Package) -> str:
    """Return the licence that a package declares, as SPDX writes it.

    Raises:
        LookupError: it is not installed, in another version, or declares none.
    """
    if package.name in ELSEWHERE:
        return ELSEWHERE[package.name]
    try:
        distribution = importlib.metadata.distribution(package.name)
    except importlib.metadata.PackageNotFoundError:
        raise LookupError(f"{package.name} is not installed, so its licence can't be read") from None
    if distribution.version != package.version:
        raise LookupError(f"{package.name} is installed as {distribution.version}, not as the lock has it")
    declared = distribution.metadata.json.get("license_expression")
    if declared:
        return str(declared)
    classifiers = distribution.metadata.get_all("Classifier") or []
    named = str(distribution.metadata.json.get("license"))
    known = sorted(
        {SPDX[each] for each in (*classifiers, named) if each in SPDX} or {named} & {*SPDX.values()}
    )
    if not known:
        raise LookupError(f"{package.name} declares no licence that is known here")
    return " OR ".join(known)


def licences_page(packages: list[Package]) -> str:
    """Return the page of licences."""
    lines = [
        "# Licences",
        "",
        (
            "The packages of `requirements.lock`, with the licences that they declare. `make lock` writes "
            "this page. The [bill of"
        ),
        "materials](security-standards.md#supply-chain) has the same for machines.",
        "",
        "| Package | Version | Licence | Needed by |",
        "|---|---|---|---|",
    ]
    for each in packages:
        needed_by = ", ".join("Sublet" if name == OURSELVES else name for name in each.needed_by)
        note = f" (only if {each.marker})" if each.marker else ""
        lines.append(f"| {each.name} | {each.version} | {licence_of(each)} | {needed_by}{note} |")
    return "\n".join(lines) + "\n"


def bill_of_materials(packages: list[Package], version: str, made_at: datetime) -> dict[str, Any]:
    """Return the CycloneDX document of Sublet with its run-time dependencies; the same for the same lock and
    instant.
    """
    refs = {each.name: f"pkg:pypi/{each.name}@{each.version}" for each in packages}
    ours = f"pkg:pypi/sublet@{version}"
    components = [
        {
            "type": "library",
            "bom-ref": refs[each.name],
            "name": each.name,
            "version": each.version,
            "purl": refs[each.name],
            "scope": "optional" if each.marker else "required",
            "licenses": [{"expression": licence_of(each)}],
            # Only one of these files is installed, so they are no `hashes` of the component.
            "properties": [{"name": "sublet:file:sha256", "value": value} for value in each.hashes],
        }
        for each in packages
    ]
    needs: dict[str, list[str]] = {ours: [], **{ref: [] for ref in refs.values()}}
    for each in packages:
        for name in each.needed_by:
            needs[ours if name == OURSELVES else refs[name]].append(refs[each.name])
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": made_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": "sublet",
                "version": version,
                "purl": ours,
            },
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(needed)} for ref, needed in needs.items()],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{serial}"}


def build_instant() -> datetime:
    """Return the instant of a build: `SOURCE_DATE_EPOCH` (the last commit's), or now."""
    return datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.now(UTC).timestamp()), UTC
    )


def write_bill(path: Path) -> None:
    """Write the bill of materials into a file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    document = bill_of_materials(read_lock(), project["version"], build_instant())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def audit(program: str, lock: Path = LOCK) -> int:
    """Print the known flaws of the packages in a lock.

    Returns 0, `FLAWS`, or `NOT_ASKED` if no database could be reached.
    """
    complaints = []
    for database in DATABASES:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            words = [
                program,
                "--requirement",
                str(lock),
                "--require-hashes",
                "--disable-pip",
                "--progress-spinner",
                "off",
            ]
            words += ["--vulnerability-service", database, "--format", "json", "--output", str(report)]
            ran = subprocess.run(words, capture_output=True, text=True, check=False)
            try:
                found = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
            except (OSError, ValueError, KeyError):
                complaints.append(
                    f"{database}: {(ran.stderr.strip().splitlines() or ['no answer'])[-1][:300]}"
                )
                continue
        flaws = [(each["name"], each["version"], flaw) for each in found for flaw in each.get("vulns", ())]
        for name, version, flaw in flaws:
            print(
                f"{name} {version}: {flaw['id']}, fixed in "
                f"{', '.join(flaw['fix_versions']) or 'no version yet'}"
            )
        print(f"{len(found)} packages looked up in the database {database}: {len(flaws)} known flaws.")
        return FLAWS if flaws else 0
    print("NOT AUDITED: no database of known flaws can be reached.", *complaints, sep="\n  ")
    return NOT_ASKED


def main() -> int:
    """Run the chosen command."""
    parser = argparse.ArgumentParser(
        description="Licences, bill of materials and known flaws of the dependencies."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("licences", help="write docs/licences.md")
    commands.add_parser("sbom", help="write a bill of materials").add_argument("file", type=Path)
    commands.add_parser("audit", help="query the databases of known flaws").add_argument(
        "program", nargs="?", default="pip-audit"
    )
    options = parser.parse_args()
    if options.command == "licences":
        PAGE.write_text(licences_page(read_lock()), encoding="utf-8")
    elif options.command == "sbom":
        write_bill(options.file)
    else:
        return audit(options.program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
