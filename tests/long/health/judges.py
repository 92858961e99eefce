"""Random delegations: a check says `broken` if and only if unbound and BIND both fail to resolve the name."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode

from long.health.random_delegations import ADDRESSES, BIND, UNBOUND, random_world
from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from sublet.health.dns_client import DnsClient
from sublet.health.findings import report
from sublet.health.model import BROKEN, HEALTHY, Level, Report, Target
from sublet.health.observe import observe
from sublet.health.resolve import CachingResolver, ForwardingResolver, IteratingResolver
from sublet.structs import replace
from support.dns_world import (
    ROOT_ADDRESS,
    World,
    ZoneKey,
    bind_resolver_running,
    unbound_running,
    world_running,
)

_BY_LUCK = (
    "ds_without_key",
    "ds_broken",
    "denial_missing",
    "signatures_expire",
    "zone_nameservers_fail",
)
"""The findings with which a resolver may fail or not, if they are warnings.

Only some nameservers' answers validate, or only those of the nameservers at the parent work."""
AT_ONCE = 16
RESOLVED_AT_ONCE = 30
RESOLVER_SECONDS = 10.0
TRIES = 2
_SET_UP = """\
ip link set lo up
for address in $ADDRESSES; do echo "address add $address dev lo"; done | ip -batch -
exec "$@"
"""


def run(trial: Trial) -> Outcome:
    """Judge in a network of its own, and compare."""
    result = run_in_network(ADDRESSES, "long.health.judges", trial)
    assert result["differ"] == [], result
    return Outcome("\n".join(result["told"]))


def run_in_network(addresses: Sequence[str], module: str, trial: Trial) -> dict[str, Any]:
    """Run a module with folder, seed and count in a network that has these addresses; return the JSON of its
    last line.
    """
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
    "Delegations on Knot, BIND, NSD and PowerDNS, also behind proxies with faults: each fault of a table, "
    "then random ones. `broken` if and only if unbound and BIND both fail, `healthy` only if both answer "
    "each question. Names on which only some nameservers validate may be `degraded` "
    "nevertheless. Each name is checked with and without a resolver. Counts names.",
    run,
    {SOAK: {SQLITE: 1000}},
)


@asynccontextmanager
async def _claimed(_addresses: Sequence[str]) -> AsyncIterator[None]:
    yield


async def check_all(targets: Sequence[Target], resolver_address: str | None = None) -> list[Report]:
    """Return the report of one check of each delegation, with a resolver, or by referrals from the root."""
    client, places = DnsClient(), asyncio.Semaphore(AT_ONCE)
    forwarding = None if resolver_address is None else ForwardingResolver(client, resolver_address, 53)
    resolver = CachingResolver(forwarding or IteratingResolver(client, [ROOT_ADDRESS]))

    async def one(target: Target) -> Report:
        async with places:
            seen = await observe(target, client, resolver, _claimed, seconds=60, forwarding=forwarding)
            return report(target, seen, datetime.now(UTC))

    return list(await asyncio.gather(*(one(each) for each in targets)))


@dataclass(frozen=True)
class Resolved:
    """A resolver's rcodes for A and AAAA of a name, and for A of a name below it; empty after a timeout."""

    address: str
    address_six: str
    below: str

    @property
    def fails(self) -> bool:
        """True if the resolver has no answer for the name, or for a name below it."""
        is_apex_answered = "NOERROR" in (self.address, self.address_six)
        return not is_apex_answered or self.below not in ("NOERROR", "NXDOMAIN")

    @property
    def is_perfect(self) -> bool:
        """True if the resolver answers each question."""
        return not self.fails and self.address == self.address_six == "NOERROR"


async def resolve_all(resolver: str, targets: Sequence[Target]) -> list[Resolved]:
    """Ask a resolver what clients ask, after it has cached the NS records of the zones.

    It may prefer them to those at the parent.
    """
    places = asyncio.Semaphore(RESOLVED_AT_ONCE)

    async def ask(name: str, rdtype: str, tries: int = TRIES) -> str:
        query, found = dns.message.make_query(name, rdtype, want_dnssec=True), ""
        for _ in range(tries):
            with suppress(dns.exception.DNSException, OSError, EOFError):
                reply, _ = await dns.asyncquery.udp_with_fallback(query, resolver, RESOLVER_SECONDS)
                found = dns.rcode.to_text(reply.rcode())
            if found in ("NOERROR", "NXDOMAIN"):
                break
        return found

    async def one(target: Target) -> Resolved:
        async with places:
            await ask(target.fqdn, "NS", tries=1)
            below = await ask(f"n{secrets.token_hex(4)}.{target.fqdn}", "A")
            return Resolved(*await asyncio.gather(ask(target.fqdn, "A"), ask(target.fqdn, "AAAA")), below)

    return list(await asyncio.gather(*(one(each) for each in targets)))


@dataclass(frozen=True)
class Look:
    """What both resolvers say about a name, and a check without a resolver and one with unbound."""

    target: Target
    unbound: Resolved
    bind: Resolved
    report: Report
    with_resolver: Report

    @property
    def is_wrong(self) -> bool:
        """True if a check says healthy though a resolver fails, or not broken if and only if both fail."""
        return any(self._is_wrong(each) for each in (self.report, self.with_resolver))

    def _is_wrong(self, found: Report) -> bool:
        if found.state == HEALTHY:
            return not (self.unbound.is_perfect and self.bind.is_perfect)
        # A resolver's luck decides: which nameserver it asks first, and how often it tries.
        is_mixed = any(each.level == Level.WARNING and each.code in _BY_LUCK for each in found.findings)
        return (found.state == BROKEN) != (self.unbound.fails and self.bind.fails) and not is_mixed

    @property
    def told(self) -> str:
        """The name with all verdicts."""
        states = f"{self.report.state}, with a resolver {self.with_resolver.state}"
        codes = sorted({f"{each.level}:{each.code}" for each in self.report.findings})
        hosts = ", ".join(self.target.delegation.nameservers)
        return f"{self.target.fqdn}: {states}, unbound {self.unbound}, BIND {self.bind}: {codes} {hosts}"


def _look_at(targets: Sequence[Target]) -> list[Look]:
    async def ask_both() -> list[list[Resolved]]:
        return list(await asyncio.gather(*(resolve_all(each, targets) for each in (UNBOUND, BIND))))

    by_unbound, by_bind = asyncio.run(ask_both())
    published = [replace(each, is_published=True) for each in targets]
    reports = (asyncio.run(check_all(targets)), asyncio.run(check_all(published, UNBOUND)))
    return [Look(*each) for each in zip(targets, by_unbound, by_bind, *reports, strict=True)]


@contextmanager
def look_at_running(folder: Path, world: tuple[World, list[Target], ZoneKey]) -> Iterator[list[Look]]:
    """Run a world, and yield what resolvers and checks say about its names."""
    running, targets, root_key = world
    root = (ROOT_ADDRESS, root_key)
    with (
        world_running(folder / "world", running),
        unbound_running(folder / "unbound", UNBOUND, root),
        bind_resolver_running(folder / "bind", BIND, root),
    ):
        looks = _look_at(targets)
        # Names on which they differ get a second look, because resolvers give up early on a busy machine.
        again = {
            each.target.fqdn: each for each in _look_at([each.target for each in looks if each.is_wrong])
        }
        yield [again.get(each.target.fqdn, each) for each in looks]


def judge(folder: Path, seed: int, count: int, only: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Return the names on which a check and the resolvers differ, and figures."""
    world = random_world(Random(seed), count, only=only)  # noqa: S311 - a test's draw
    with look_at_running(folder, world) as looks:
        pass
    table = Counter((each.report.state, each.unbound.fails, each.bind.fails) for each in looks)
    differ = [each.told for each in looks if each.is_wrong]
    told = [
        f"{state}; unbound {_word(by_unbound)}, BIND {_word(by_bind)}: {number}"
        for (state, by_unbound, by_bind), number in sorted(table.items())
    ]
    return {"differ": differ, "told": told}


def _word(fails: bool) -> str:
    return "fails" if fails else "answers"


if __name__ == "__main__":
    print(json.dumps(judge(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or None)))
