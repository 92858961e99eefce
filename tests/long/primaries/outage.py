"""Trials of a primary's faults as functions with parameters: the tests call them small, `make soak` large."""

import time
from dataclasses import dataclass
from pathlib import Path

from support.running_service import Registrant
from support.serve_process import wait_until
from support.service_on_primary import ZONE, ServiceOn, service_on

CAUGHT_UP_SECONDS = 120.0
"""How long a trial waits before it calls what is missing lost; the promise is `Outage.promised_seconds`."""


@dataclass(frozen=True, slots=True)
class Outage:
    """What came of a primary that was away: for how long, how many names waited, and how long after its return they stood."""

    kind: str
    names: int
    away_seconds: float
    published_seconds: float

    @property
    def promised_seconds(self) -> float:
        """Within this time of the primary's return all is to be published."""
        return 30 + self.names / 100

    def __str__(self) -> str:
        """Return it as a line of a report."""
        return (
            f"{self.kind}: {self.names} names registered while the primary was away for {self.away_seconds:.0f} s "
            f"were all published {self.published_seconds:.1f} s after its return (promised: {self.promised_seconds:.0f} s)"
        )


def primary_away(
    kind: str, folder: Path, *, names: int, away_seconds: float, caught_up_seconds: float = CAUGHT_UP_SECONDS
) -> Outage:
    """Kill a primary, register names while it is away, start it, and wait until all stand in its zone and the API says so.

    Nobody acts: no retry is asked for. Fails where a registration is refused, where the API tells of a name as active that was not
    published, where names don't get published, or where the zone is another than the registry wants in the end.
    """
    with service_on(kind, folder, publish_wait_ms=0) as on:
        ada = on.service.add_user()
        on.service.register(ada, f"before.{ZONE}", nameservers=["ns.provider.example"])
        wait_until(lambda: statuses(on, ada) == {"active": 1})
        on.primary.kill()
        killed = time.monotonic()
        expected = {(f"before.{ZONE}", "NS", "ns.provider.example.")}
        for number in range(names):
            name = f"n{number}.{ZONE}"
            host = f"ns1.{name}"
            on.service.register(ada, name, nameservers=[host], glue=[{"host": host, "ipv4": "9.9.9.9"}])
            expected |= {(name, "NS", f"{host}."), (host, "A", "9.9.9.9")}
        assert statuses(on, ada).get("active") == 1, "told as published while the primary was away"
        wait_until(lambda: time.monotonic() - killed >= away_seconds, away_seconds + 1)
        on.primary.start()
        returned = time.monotonic()
        wait_until(lambda: statuses(on, ada) == {"active": names + 1}, caught_up_seconds)
        ended = time.monotonic()
        assert on.records() == expected
        broken = [each for each in on.service.doctor() if each.invariant != "zone_is_registry"]
        assert broken == []  # the zone itself is compared above, as it is transferred
    return Outage(kind, names, returned - killed, ended - returned)


def statuses(on: ServiceOn, who: Registrant) -> dict[str, int]:
    """Count a registrant's names by their status, over all pages."""
    counts: dict[str, int] = {}
    cursor = ""
    while True:
        page = on.service.call(who, "GET", f"/subdomains?limit=500{cursor}").json()
        for each in page["subdomains"]:
            counts[each["status"]] = counts.get(each["status"], 0) + 1
        if not page["page"]["has_more"]:
            return counts
        cursor = f"&cursor={page['page']['next_cursor']}"
