"""Publishing into a name server of one's own, beside bare RFC 2136 updates into the same one; the functions are those of `bench_dns.py`."""

import asyncio
import tempfile
from pathlib import Path

from bench_dns import ZONE, bare_batches, fill_registry, sustained, zone_text

from name_servers import primary
from service_on import primary_settings
from speed.figures import Figure, Results


def measure_primary(kind: str, names: int, count: int, rounds: int) -> Results:
    """Return how many names a second get into a signed zone with so many delegations: in bare messages, and published by the worker."""
    bare: list[float] = []
    ours: list[float] = []
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as name:
        folder = Path(name)
        with primary(kind, folder, ZONE) as server:
            url = f"sqlite:///{folder}/registry.db"
            user_id = asyncio.run(fill_registry(url, names))
            server.rebuild(zone_text(server, names))
            section = primary_settings(folder, server)
            for number in range(rounds):
                bare.append(asyncio.run(bare_batches(server, count, f"bare{number}-")))
                ours.append(asyncio.run(sustained(url, section, user_id, count, f"ours{number}-")))
    return Results(
        kind.capitalize(),
        names,
        [
            Figure("bare_updates", "reference: names in bare UPDATE messages", tuple(bare)),
            Figure("published", "names published, 100 in a message", tuple(ours), "bare", tuple(bare)),
        ],
    )
