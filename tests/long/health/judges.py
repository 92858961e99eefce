"""Random delegations: a check says `broken` if and only if unbound and BIND both fail to resolve the name."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode

from long.health.random_delegations import BIND, UNBOUND, random_world
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.health.dns_client import DnsClient
from sublet.health.findings import report
from sublet.health.model import BROKEN, Level, Report, Target
from sublet.health.observe import observe
from sublet.health.resolve import CachingResolver, IteratingResolver
from support.dns_world import ROOT_ADDRESS, bind_resolver_running, unbound_running, world_running

_OF_CHAINS = ("ds_without_key", "ds_broken", "signatures_expire")
AT_ONCE = 16
RESOLVER_SECONDS = 20.0
_SET_UP = 'ip link set lo up; for address in $ADDRESSES; do ip address add $address dev lo; done; exec "$@"'


def run(trial: Trial) -> Outcome:
    """Judge in a network of its own, and compare."""
    world, _, _ = random_world(Random(trial.seed), 1)  # noqa: S311 - a test's draw
    result = run_in_network(world.addresses, "long.health.judges", trial)
    assert result["differ"] == [], result
    return Outcome("\n".join(result["told"]))


def run_in_network(addresses: Sequence[str], module: str, trial: Trial) -> dict[str, Any]:
    """Run a module with folder, seed and count in a network that has these addresses; return the JSON of its last line."""
    environment = {**os.environ, "ADDRESSES": " ".join(addresses), "PYTHONPATH": ":".join(sys.path)}
    environment["PATH"] = f"{environment.get('PATH', '')}:/usr/sbin:/sbin"
    words = [sys.executable, "-m", module, str(trial.folder), str(trial.seed), str(trial.count)]
    done = subprocess.run(
        ["unshare", "--net", "sh", "-euc", _SET_UP, "sh", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


JUDGED = Scenario(
    "delegations",
    "Random delegations on Knot, BIND, NSD and PowerDNS, good and broken: `broken` if and only if unbound and BIND both fail. Names on which only some "
    "nameservers validate are left out. Counts names.",
    run,
    {SOAK: {SQLITE: 1000}},
)


@asynccontextmanager
async def _claimed(_addresses: Sequence[str]) -> AsyncIterator[None]:
    yield


async def check_all(targets: Sequence[Target]) -> list[Report]:
    """Return the report of one check of each delegation."""
    client, places = DnsClient(), asyncio.Semaphore(AT_ONCE)
    resolver = CachingResolver(IteratingResolver(client, [ROOT_ADDRESS]))

    async def one(target: Target) -> Report:
        async with places:
            seen = await observe(target, client, resolver, _claimed, seconds=60)
            return report(target, seen, datetime.now(UTC))

    return list(await asyncio.gather(*(one(each) for each in targets)))


async def _fails(resolver: str, targets: Sequence[Target]) -> list[bool]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(target: Target) -> bool:
        async with places:
            query = dns.message.make_query(target.fqdn, "SOA", want_dnssec=True)
            try:
                reply, _ = await dns.asyncquery.udp_with_fallback(query, resolver, RESOLVER_SECONDS)
            except (dns.exception.DNSException, OSError, EOFError):
                return True
            return bool(reply.rcode() != dns.rcode.NOERROR)

    return list(await asyncio.gather(*(one(each) for each in targets)))


def judge(folder: Path, seed: int, count: int) -> dict[str, list[str]]:
    """Return the names on which a check and the resolvers differ, and figures."""
    world, targets, root_key = random_world(Random(seed), count)  # noqa: S311 - a test's draw
    root = (ROOT_ADDRESS, root_key)
    with (
        world_running(folder / "world", world),
        unbound_running(folder / "unbound", UNBOUND, root),
        bind_resolver_running(folder / "bind", BIND, root),
    ):
        reports = asyncio.run(check_all(targets))
        unbound, bind = (asyncio.run(_fails(each, targets)) for each in (UNBOUND, BIND))
    differ, table = [], Counter[tuple[str, bool, bool]]()
    for target, found, by_unbound, by_bind in zip(targets, reports, unbound, bind, strict=True):
        table[found.state, by_unbound, by_bind] += 1
        # If only some nameservers' answers validate, it depends on which one a resolver asks first, and how often it tries.
        is_mixed = any(each.level == Level.WARNING and each.code in _OF_CHAINS for each in found.findings)
        if (found.state == BROKEN) != (by_unbound and by_bind) and not is_mixed:
            codes = sorted({f"{each.level}:{each.code}" for each in found.findings})
            verdict = f"{found.state}, unbound fails {by_unbound}, BIND fails {by_bind}"
            differ.append(f"{target.fqdn}: {verdict}: {codes} {target.delegation.nameservers}")
    told = [
        f"{state}; unbound {_word(by_unbound)}, BIND {_word(by_bind)}: {number}"
        for (state, by_unbound, by_bind), number in sorted(table.items())
    ]
    return {"differ": differ, "told": told}


def _word(fails: bool) -> str:
    return "fails" if fails else "answers"


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
