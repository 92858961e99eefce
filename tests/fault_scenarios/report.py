"""What a run of the fault scenarios tells: a page for people, and the same figures as JSON."""

import json
import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from fault_scenarios.run import SCENARIOS, Came
from machine.soak import commit
from name_servers import KINDS
from postgresql import find_postgresql
from primaries.soak import version


def versions() -> dict[str, str]:
    """Return the versions of everything that plays."""
    ran = subprocess.run(
        [find_postgresql("postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return {
        "sublet": commit(),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": ran.stdout.split()[-1] if "(" not in ran.stdout else ran.stdout.split()[2],
        **{kind: version(kind) for kind in KINDS},
        "Linux": platform.release(),
    }


def write_report(folder: Path, seed: int, came: Sequence[Came], *, name: str, command: str) -> None:
    """Write NAME.md and NAME.json; `command` is what makes the page."""
    found = versions()
    seconds = sum(each.seconds for each in came)
    loads = [each.load for each in came]
    page = [
        "# Faults",
        "",
        "What was done to real services, and what came of it; [faults.md](../faults.md) is the list of faults, with the tests of each.",
        f"`{command}` makes this page.",
        "",
        f"- {datetime.now(UTC):%Y-%m-%d}, {', '.join(f'{what} {text}' for what, text in found.items())}",
        f"- seed {seed}; {len(came)} trials in {seconds / 60:.0f} minutes, one after the other",
        f"- on {os.cpu_count()} cores, which {min(loads):.1f} to {max(loads):.1f} wanted; where more than cores did, times say little",
        "",
        "| trial | times | came | what | s |",
        "|---|---:|---|---|---:|",
        *(
            f"| `{each.name}` | {each.count:,} | {each.how} | {_cell(each.told)} | {each.seconds:.0f} |"
            for each in came
        ),
        "",
        "What is counted, and what each trial does:",
        "",
        *(f"- `{name}`: {SCENARIOS[name].about}." for name in dict.fromkeys(each.scenario for each in came)),
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text("\n".join(page), encoding="utf-8")
    figures = {
        "seed": seed,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": found,
        "seconds": round(seconds),
        "cores": os.cpu_count(),
        "trials": [
            {
                "name": each.name,
                **asdict(each),
                "seconds": round(each.seconds, 1),
                "load": round(each.load, 1),
            }
            for each in came
        ],
    }
    (folder / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
