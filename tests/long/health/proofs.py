"""Run the tests of delegation health, automatic DS and CSYNC with all their cases, and report what each took
and measured.
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.figures import FILE

ROOT = Path(__file__).resolve().parents[3]
TESTS = (
    "tests/health/test_planted_faults.py",
    "tests/health/test_limits.py",
    "tests/automatic_ds",
    "tests/csync",
    "tests/rules/test_automatic_ds_decisions.py",
)


def run(trial: Trial) -> Outcome:
    """Run the tests in one process; all must pass."""
    figures, results = trial.folder / "figures", trial.folder / "results.xml"
    figures.touch()
    environment = {**os.environ, "TESTS_WHOLE": "yes", FILE: str(figures)}
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", f"--junitxml={results}", *TESTS]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    cases: dict[str, list[float]] = {}
    for each in ET.parse(results).iter("testcase"):  # noqa: S314 - written by pytest
        assert each.find("skipped") is None, each.attrib
        cases.setdefault(each.attrib["name"].partition("[")[0], []).append(float(each.attrib["time"]))
    told = [
        f"{name.removeprefix('test_').replace('_', ' ')}: {len(times)} passed, {sum(times):.0f} s"
        for name, times in cases.items()
    ]
    return Outcome("\n".join([*told, *figures.read_text(encoding="utf-8").splitlines()]))


PROOFS = Scenario(
    "delegation-proofs",
    "Real children on Knot, BIND and PowerDNS below a signed Knot: rollovers, another algorithm, going "
    "insecure, first DS records, CSYNC and attacks, while unbound validates; each finding planted; limits "
    "of targets; 1,000 decisions compared with `dnssec-cds`. Counts runs.",
    run,
    {SOAK: {SQLITE: 1}},
)
