"""The part `publishing`: names published per second into a signed zone of each name server, beside bare RFC
2136 updates.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import dns.query
import dns.rcode
import dns.tsig
import dns.update
from servers import service_running
from speed import WAITING, first_value, say

from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.credits.model import Payable
from sublet.db import Tx, open_database
from sublet.migrations import upgrade
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from sublet.subdomains.store import list_unreleased_names
from support.name_servers import NameServerProcess, primary
from support.service_on_primary import primary_settings, settings_file

ZONE = "bench.test"
OPERATOR = Actor(kind="operator", name="bench")
QUOTA = 1_000_000
BATCH = 100
NAMESERVERS = ("ns1.provider.example", "ns2.provider.example")
TTL_SECONDS = 3600
WAIT_SECONDS = 3600.0
COUNT_UNPUBLISHED = "SELECT count(*) FROM subdomains WHERE generation <> published_generation"


def bare_updates(server: NameServerProcess, names: int, prefix: str) -> float:
    """Send new delegations, 100 in a message; return how many a second the server takes."""
    key = dns.tsig.Key(f"{server.key.name}.", server.key.secret.reveal(), server.key.algorithm)
    began = time.perf_counter()
    for start in range(0, names, BATCH):
        message = dns.update.UpdateMessage(ZONE, keyring=key)
        for number in range(start, min(start + BATCH, names)):
            for host in NAMESERVERS:
                message.add(f"{prefix}{number}", TTL_SECONDS, "NS", f"{host}.")
        answer = dns.query.tcp(message, server.address, 60, server.port)
        assert answer.rcode() == dns.rcode.NOERROR, answer
    return names / (time.perf_counter() - began)


async def register_names(url: str, names: int) -> None:
    """Make a registry whose names all wait for their publication."""
    upgrade(url)
    database = open_database(url)

    def furnish(tx: Tx) -> int:
        settings = {"primary": "main"}
        add_platform_domain(tx, OPERATOR, ZONE, settings, names_held=list_unreleased_names)
        return add_user(tx, OPERATOR, "bench@example.org", "Bench", free_quota=QUOTA).user.id

    def some(tx: Tx, user_id: int, numbers: range) -> None:
        for number in numbers:
            command = Register(fqdn=f"ours{number}.{ZONE}", nameservers=NAMESERVERS, payable=Payable())
            register(tx, Actor("user", user_id=user_id), command, free_quota=QUOTA)

    try:
        user_id = await database.write(furnish)
        for start in range(0, names, BATCH):
            await database.write(some, user_id, range(start, min(start + BATCH, names)))
    finally:
        await database.close()


def published(server: NameServerProcess, folder: Path, names: int) -> float:
    """Start a service over a registry with unpublished names; return how many a second it publishes."""
    url = f"sqlite:///{folder}/registry.db"
    asyncio.run(register_names(url, names))
    config = settings_file(folder, [primary_settings(folder, server)])
    with service_running(url, folder, {"SUBLET_CONFIG": str(config)}):
        began = time.perf_counter()
        waiting: int = first_value(url, COUNT_UNPUBLISHED)
        while first_value(url, WAITING):
            assert time.perf_counter() - began < WAIT_SECONDS, "names are still unpublished"
            time.sleep(0.02)
        return waiting / (time.perf_counter() - began)


def measure_publishing(kind: str, names: int) -> str:
    """Return a line with both rates of a name server, in a zone that grows from nothing to three times
    `names` delegations.
    """
    say(f"{kind}: publishing")
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as name:
        folder = Path(name)
        with primary(kind, folder / "server", ZONE) as server:
            # A larger zone makes some servers slower, so the reference is measured before and after.
            before = bare_updates(server, names, "before")
            ours = published(server, folder, names)
            after = bare_updates(server, names, "after")
    bare = 2 / (1 / before + 1 / after)
    return (
        f"{kind}: {names:,} names, bare {bare:,.0f} a second, published {ours:,.0f} a second, ratio "
        f"{ours / bare:.2f}"
    )
