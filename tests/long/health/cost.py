"""The cost of checks: many names, half of them signed, looked at by one worker. Per 100,000 a day that is at most 5 percent of a core."""

import asyncio
import json
import sys
import time
from pathlib import Path
from random import Random

from sqlalchemy import update

from long.health.judges import run_in_network
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.config import Settings
from sublet.db import Database, Tx, open_database, utc_now
from sublet.dns.types import GlueInput
from sublet.health.checker import Checker
from sublet.health.health_keeper import HealthKeeper
from sublet.health.looks import list_all_names
from sublet.health.store import count_states, delegation_health
from support.dns_world import Server, World, Zone, ZoneKey, world_running
from support.registry import Registry, prepare

ADDRESSES = tuple(f"9.{9 + number % 2}.{number}.1" for number in range(1, 201))
SHARE_MAX = 0.05
NAMES_A_DAY = 100_000
LOOKED_AT_MAX_SECONDS = 3600


def run(trial: Trial) -> Outcome:
    """Measure in a network of its own."""
    found = run_in_network(ADDRESSES, "long.health.cost", trial)
    share = found["cpu_seconds"] / trial.count * NAMES_A_DAY / 86_400
    told = (
        f"{found['cpu_seconds'] / trial.count * 1000:.1f} ms of CPU for a name, so {NAMES_A_DAY:,} a day take {share:.1%} of a core\n"
        f"{found['states']}; put off {found['put_off']} times; {found['seconds']:.0f} s"
    )
    return Outcome(told, "" if share <= SHARE_MAX else f"more than {SHARE_MAX:.0%} of a core")


COST = Scenario(
    "health-cost",
    "Names with two of 200 nameserver addresses each, half of them signed, are checked by one worker. Counts names.",
    run,
    {SOAK: {SQLITE: 5000}},
)


def measure(folder: Path, seed: int, count: int) -> dict[str, object]:
    """Return the CPU time of the looks at so many names, and what they saw."""
    rng, key = Random(seed), ZoneKey.new()  # noqa: S311 - a test's draw
    url = f"sqlite:///{folder}/registry.db"
    prepared = prepare(url)
    with asyncio.Runner() as runner:
        registry = Registry(runner.run, users=prepared.users, domains=prepared.domains)
        registry.db = open_database(url, utc_now)
        zones = [_register(registry, rng, key, f"n{number}.example.test") for number in range(count)]
        with world_running(folder / "world", World((Server("knot", ADDRESSES, tuple(zones)),))):
            return runner.run(_look_at_all(registry.db, count))


def _register(registry: Registry, rng: Random, key: ZoneKey, fqdn: str) -> Zone:
    addresses = rng.sample(ADDRESSES, 2)
    hosts = tuple(f"ns{number}.{fqdn}" for number in (1, 2))
    signed = rng.random() < 0.5
    registry.register_by_operator(
        fqdn,
        nameservers=hosts,
        glue=tuple(GlueInput(host, address, None) for host, address in zip(hosts, addresses, strict=True)),
        ds_records=tuple(
            f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}" for each in [key.ds(fqdn)]
        )
        if signed
        else (),
    )
    records = (
        *(f"@ NS {host}." for host in hosts),
        *(f"ns{n} A {each}" for n, each in enumerate(addresses, 1)),
    )
    return Zone(fqdn, records, key if signed else None)


async def _look_at_all(db: Database, count: int) -> dict[str, object]:
    keeper = HealthKeeper(db, Checker(Settings(), db))
    after_id: int | None = 0
    while after_id is not None:
        after_id = await db.write(list_all_names, after_id)

    def make_due(tx: Tx) -> None:
        tx.connection.execute(update(delegation_health).values(due_at=tx.now))

    await db.write(make_due)
    began, cpu = time.monotonic(), time.process_time()
    running = asyncio.create_task(keeper.run())
    while sum(keeper.looks.values()) - keeper.looks["put_off"] < count:
        await asyncio.sleep(0.5)
        assert time.monotonic() - began < LOOKED_AT_MAX_SECONDS, keeper.looks
    spent, took = time.process_time() - cpu, time.monotonic() - began
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    states = await db.read(count_states)
    await db.close()
    return {"cpu_seconds": spent, "seconds": took, "states": states, "put_off": keeper.looks["put_off"]}


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
