"""The primary name server is away while names are registered: all of them are published after its return."""

import time
from collections import Counter
from pathlib import Path

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.name_servers import KINDS
from support.running_service import Registrant
from support.service_on_primary import ZONE, ServiceOn, service_on
from support.waiting import wait_until

NAMES = 1000
AWAY_SECONDS = 180.0
CAUGHT_UP_SECONDS = 600.0
"""How long a trial waits for the names; the promise is far shorter."""


def primary_away(kind: str, folder: Path, *, names: int, away_seconds: float) -> float:
    """Kill a primary, register names, start it again; return the seconds until all names are published.

    Raises AssertionError if a registration is refused, if a name is shown as active while the primary is
    away, if names don't get published, or if the zone differs from the registry at the end.
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
        assert statuses(on, ada).get("active") == 1, "shown as active while the primary was away"
        wait_until(lambda: time.monotonic() - killed >= away_seconds, away_seconds + 1)
        on.primary.start()
        returned = time.monotonic()
        wait_until(lambda: statuses(on, ada) == {"active": names + 1}, CAUGHT_UP_SECONDS)
        ended = time.monotonic()
        assert on.records() == expected
        broken = [each for each in on.service.doctor() if each.invariant != "zone_is_registry"]
        assert broken == []  # the zone itself is compared above, as it is transferred
    return ended - returned


def statuses(on: ServiceOn, who: Registrant) -> Counter[str]:
    """Count a registrant's names by their status."""
    return Counter(each["status"] for each in on.service.list_all(who, "/subdomains", "subdomains"))


def run(trial: Trial) -> Outcome:
    """Register `count` names while the primary is away for three minutes; a smaller
    trial is a shorter one.
    """
    away_seconds = AWAY_SECONDS * min(1.0, trial.count / NAMES)
    seconds = primary_away(trial.server, trial.folder, names=trial.count, away_seconds=away_seconds)
    promised = 30 + trial.count / 100
    return Outcome(
        f"{trial.count} names registered while the primary was away for {away_seconds:.0f} s were all "
        f"published {seconds:.1f} s after its return (promised: {promised:.0f} s)",
        "later than promised" if seconds > promised else "",
    )


OUTAGE = Scenario(
    "outage",
    "Names are registered while the name server is down. All must be published within 30 s of its return, "
    "plus 1 s for each 100 names. "
    "Counted are names.",
    run,
    {SOAK: {SQLITE: NAMES}},
    KINDS,
)
