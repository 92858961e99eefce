"""What Zonemaster says of random delegations, beside what a check says."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

from long.health.judges import check_all, run_in_network
from long.health.random_delegations import random_world
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.dns_world import ROOT_ADDRESS, world_running

LEVELS = ("CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO")
NAME_SECONDS = 600.0


def run(trial: Trial) -> Outcome:
    """Compare in a network of its own."""
    world, _, _ = random_world(Random(trial.seed), 1)  # noqa: S311 - a test's draw
    found = run_in_network(world.addresses, "long.health.zonemaster", trial)
    return Outcome("\n".join(found["told"]))


ZONEMASTER = Scenario(
    "zonemaster",
    "Zonemaster's worst level for random delegations, beside the state by a check. Counts names. The two need not agree: Zonemaster "
    "also judges the style of a zone.",
    run,
    {SOAK: {SQLITE: 60}},
)


def compare(folder: Path, seed: int, count: int) -> dict[str, list[str]]:
    """Return a table of states and Zonemaster's worst levels, with its tags for the names that both see differently."""
    world, targets, _ = random_world(Random(seed), count)  # noqa: S311 - a test's draw
    hints = folder / "hints"
    hints.write_text(f". 3600 IN NS root.\nroot. 3600 IN A {ROOT_ADDRESS}\n", encoding="utf-8")
    table, told = Counter[tuple[str, str]](), []
    with world_running(folder / "world", world):
        for target, found in zip(targets, asyncio.run(check_all(targets)), strict=True):
            worst, tags = judge(target.fqdn, hints)
            table[found.state, worst] += 1
            if (found.state == "broken") != (worst in ("CRITICAL", "ERROR")):
                codes = sorted({each.code for each in found.findings})
                told.append(f"{found.state} {codes}, Zonemaster {worst}: {sorted(tags)}")
    rows = [f"{state}, Zonemaster {worst}: {number}" for (state, worst), number in sorted(table.items())]
    return {"told": [*rows, *(f"{text} ({number} times)" for text, number in sorted(Counter(told).items()))]}


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
