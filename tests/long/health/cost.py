"""The cost of checks: many names, half of them signed, checked by one worker.

For 100,000 a day that is at most 6 percent of a core.
"""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from random import Random

from sqlalchemy import update

from long.health.judges import run_in_network
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.child_zones.followers import CsyncFollower, DsFollower
from sublet.config import Settings
from sublet.db import Database, Tx, open_database, utc_now
from sublet.dns.types import GlueEntry
from sublet.health.checker import Checker
from sublet.health.due_checks import schedule_first_checks
from sublet.health.health_keeper import HealthKeeper
from sublet.health.model import HEALTHY
from sublet.health.store import count_states, delegation_health
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from support.dns_world import ROOT_ADDRESS, Server, World, Zone, ZoneKey, ds_text, world_running
from support.registry import OPERATOR, Registry, prepare
from support.turns import Turns

ADDRESSES = tuple(f"9.{9 + number % 2}.{number}.1" for number in range(1, 201))
SHARE_MAX = 0.06
NAMES_A_DAY = 100_000
CHECKED_WITHIN_SECONDS = 3600
TURN_MAX_SECONDS = 0.05
"""How long checks and decisions may hold up the event loop, in its own CPU time: other processes on the
machine don't count.
"""


def run(trial: Trial) -> Outcome:
    """Measure in a network of its own."""
    found = run_in_network((ROOT_ADDRESS, *ADDRESSES), "long.health.cost", trial)
    share = found["cpu_seconds"] / trial.count * NAMES_A_DAY / 86_400
    told = (
        f"{found['cpu_seconds'] / trial.count * 1000:.1f} ms of CPU for a name, so {NAMES_A_DAY:,} a day "
        f"take {share:.1%} of a core\n"
        f"{found['states']}; decisions {found['decisions']}; put off {found['put_off']} times; "
        f"{found['seconds']:.0f} s\n"
        f"the event loop worked at most {found['turn_seconds'] * 1000:.0f} ms between two turns"
    )
    # On a busy machine some checks reach their time limits, and are unknown.
    assert found["states"].get(HEALTHY, 0) >= trial.count / 2, told
    assert found["turn_seconds"] <= TURN_MAX_SECONDS, told
    return Outcome(told, "" if share <= SHARE_MAX else f"more than {SHARE_MAX:.0%} of a core")


COST = Scenario(
    "health-cost",
    "Names with two of 200 nameserver addresses each, half of them signed and with CDS records, are "
    "checked and followed by one worker. Counts names.",
    run,
    {SOAK: {SQLITE: 5000}},
)


def measure(folder: Path, seed: int, count: int) -> dict[str, object]:
    """Return the CPU time and the results of the checks of `count` names."""
    rng, key = Random(seed), ZoneKey.new()  # noqa: S311 - a test's draw
    url = f"sqlite:///{folder}/registry.db"
    prepared = prepare(url)
    with asyncio.Runner() as runner:
        registry = Registry(runner.run, users=prepared.users, domains=prepared.domains)
        registry.db = open_database(url, utc_now)
        registry.write(edit_zone_settings, OPERATOR, "example.test", {"automatic_ds": "all", "csync": True})
        zones = [_register(registry, rng, key, f"n{number}.example.test") for number in range(count)]
        # Without a root server, each check would find that this host can't check.
        root = Server("knot", (ROOT_ADDRESS,), (Zone(".", ("@ NS root", f"root A {ROOT_ADDRESS}"), key),))
        with world_running(folder / "world", World((root, Server("knot", ADDRESSES, tuple(zones))))):
            return runner.run(_look_at_all(registry.db, count))


def _register(registry: Registry, rng: Random, key: ZoneKey, fqdn: str) -> Zone:
    addresses = rng.sample(ADDRESSES, 2)
    hosts = tuple(f"ns{number}.{fqdn}" for number in (1, 2))
    signed, own = rng.random() < 0.5, key.ds(fqdn)
    ds = ds_text(own)
    registry.register_by_operator(
        fqdn,
        nameservers=hosts,
        glue=tuple(GlueEntry(host, address, None) for host, address in zip(hosts, addresses, strict=True)),
        ds_records=(ds,) if signed else (),
    )
    records = (
        *(f"@ NS {host}." for host in hosts),
        *(f"ns{n} A {each}" for n, each in enumerate(addresses, 1)),
        *([f"@ CDS {ds}"] if signed else ()),
    )
    return Zone(fqdn, records, key if signed else None)


async def _look_at_all(db: Database, count: int) -> dict[str, object]:
    checker = Checker(Settings(health_root_hints=ROOT_ADDRESS), db)
    children, csync = DsFollower(db), CsyncFollower(db, checker)
    keeper = HealthKeeper(db, checker, followers=(children, csync))
    after_id: int | None = 0
    while after_id is not None:
        after_id = await db.write(schedule_first_checks, after_id)

    def make_due(tx: Tx) -> None:
        tx.connection.execute(update(delegation_health).values(due_at=tx.now))

    await db.write(make_due)
    # As the service does when it starts: a collection of all that made the world would count as a turn.
    gc.collect()
    gc.freeze()
    began, cpu = time.monotonic(), time.process_time()
    running, turns = asyncio.create_task(keeper.run()), Turns()
    watching = asyncio.create_task(turns.watch())
    while sum(keeper.checks.values()) - keeper.checks["put_off"] < count:
        await asyncio.sleep(0.5)
        assert time.monotonic() - began < CHECKED_WITHIN_SECONDS, keeper.checks
    spent, took = time.process_time() - cpu, time.monotonic() - began
    running.cancel()
    watching.cancel()
    await asyncio.gather(running, watching, return_exceptions=True)
    states = await db.read(count_states)
    await db.close()
    return {
        "cpu_seconds": spent,
        "seconds": took,
        "states": states,
        "put_off": keeper.checks["put_off"],
        "decisions": dict(children.decisions),
        "turn_seconds": turns.longest_seconds,
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
