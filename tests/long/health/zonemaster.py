"""What Zonemaster says of delegations, beside what two resolvers and a check say."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

from long.health.judges import look_at_running, run_in_network
from long.health.random_delegations import ADDRESSES, CASES, random_world
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.dns_world import ROOT_ADDRESS

LEVELS = ("CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO")
NAME_SECONDS = 600.0


def run(trial: Trial) -> Outcome:
    """Compare in a network of its own."""
    found = run_in_network(ADDRESSES, "long.health.zonemaster", trial)
    return Outcome("\n".join(found["told"]))


ZONEMASTER = Scenario(
    "zonemaster",
    "What unbound, BIND, a check and Zonemaster say of the main faults of the table, and of random "
    "delegations. Counts names. Zonemaster need not agree: it also judges the style of a zone.",
    run,
    {SOAK: {SQLITE: 60}},
)


def compare(folder: Path, seed: int, count: int) -> dict[str, list[str]]:
    """Return a row for each name of the table, and the number of random names for each set of verdicts."""
    hints = folder / "hints"
    hints.write_text(f". 3600 IN NS root.\nroot. 3600 IN A {ROOT_ADDRESS}\n", encoding="utf-8")
    rows, others = [], Counter[str]()
    world = random_world(Random(seed), count, only=CASES)  # noqa: S311 - a test's draw
    with look_at_running(folder, world) as looks:
        for look in looks:
            worst, tags = judge(look.target.fqdn, hints)
            resolvers = f"unbound {_word(look.unbound.fails)}, BIND {_word(look.bind.fails)}"
            label = look.target.fqdn.partition(".")[0]
            if label in CASES:
                codes = ", ".join(sorted({each.code for each in look.report.findings}))
                found = f"{look.report.state} ({codes})"
                rows.append(f"{label}: {resolvers}; check {found}; Zonemaster {worst} {sorted(tags)}")
            else:
                others[f"{resolvers}; check {look.report.state}; Zonemaster {worst}"] += 1
    return {"told": [*rows, *(f"random, {row}: {number}" for row, number in sorted(others.items()))]}


def _word(fails: bool) -> str:
    return "fails" if fails else "answers"


def judge(name: str, hints: Path) -> tuple[str, set[str]]:
    """Return Zonemaster's worst level of a name, and its tags of that level."""
    words = [
        "zonemaster-cli",
        "--hints",
        str(hints),
        "--json",
        "--raw",
        "--level",
        "INFO",
        "--no-progress",
        "--no-ipv6",
        name,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=NAME_SECONDS, check=True)
    results = json.loads(done.stdout)
    worst = next((each for each in LEVELS if any(one["level"] == each for one in results)), "INFO")
    return worst, {each["tag"] for each in results if each["level"] == worst}


if __name__ == "__main__":
    print(json.dumps(compare(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
