"""An old update competes with a newer one: the name server hangs with the old one in its queue while the
newer one is sent.

When it continues, it may apply them in either order. The zone must equal the registry at the end.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from long.scenario import SOAK, SQLITE, Outcome, Scenario, Trial
from support.name_servers import KINDS
from support.running_service import Registrant
from support.serve_process import wait_until
from support.service_on_primary import ServiceOn, service_on

NAMES = 3
PATIENCE_SECONDS = 0.3
"""The timeout of an update in these trials."""


@contextmanager
def impatient_service(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ServiceOn, Registrant]]:
    """Run a service with a short timeout of updates, which retries at once."""
    monkeypatch.setattr("sublet.primaries.primary_zone.TIMEOUT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("sublet.primaries.publisher_transactions.ZONE_BACK_OFF_MAX_SECONDS", 0.1)
    with service_on(kind, folder, publish_wait_ms=0) as on:
        yield on, on.service.add_user()


def register_names(on: ServiceOn, ada: Registrant) -> list[str]:
    """Register the names that the trials change, and wait until they are published."""
    names = [f"n{number}.example.test" for number in range(NAMES)]
    for name in names:
        on.service.register(ada, name, nameservers=["ns0.provider.example"])
    wait_until(lambda: len(on.records()) == NAMES)
    return names


def old_against_new(on: ServiceOn, ada: Registrant, names: list[str], number: int) -> None:
    """Freeze the server, send an old change and a newer one, and thaw the server at a random moment.

    Raises AssertionError if the zone differs from the registry when all is published.
    """
    draws = random.Random(number)  # noqa: S311 - moments, no secrets
    server = on.primary
    server.freeze()
    try:
        _change(on, ada, names, f"ns1.old{number}.example")
        time.sleep(draws.uniform(0, 2 * PATIENCE_SECONDS))
        if draws.random() < 0.5:  # else the newer one meets a server that has just continued
            _change(on, ada, names, f"ns1.new{number}.example")
            time.sleep(draws.uniform(0, 2 * PATIENCE_SECONDS))
    finally:
        server.thaw()
    _change(on, ada, names, f"ns1.new{number}.example")
    wanted = {(name, "NS", f"ns1.new{number}.example.") for name in names}
    wait_until(lambda: _are_active(on, ada, names))
    assert on.records() == wanted, (number, on.records() ^ wanted)
    # Any message still queued is applied before this change of the zone, or never.
    server.serial()
    assert on.records() == wanted, (number, on.records() ^ wanted)


def _change(on: ServiceOn, ada: Registrant, names: list[str], nameserver: str) -> None:
    for name in names:
        answer = on.service.call(ada, "PUT", f"/subdomains/{name}/nameservers", {"nameservers": [nameserver]})
        assert answer.status_code == 200, answer.text


def _are_active(on: ServiceOn, ada: Registrant, names: list[str]) -> bool:
    shown = on.service.call(ada, "GET", "/subdomains").json()["subdomains"]
    return all(each["status"] == "active" for each in shown if each["fqdn"] in names)


def run(trial: Trial) -> Outcome:
    """Repeat `old_against_new` on one service."""
    with (
        pytest.MonkeyPatch.context() as patch,
        impatient_service(trial.server, trial.folder, patch) as (on, ada),
    ):
        names = register_names(on, ada)
        for number in range(trial.count):
            old_against_new(on, ada, names, number)
        assert on.service.doctor() == []
    return Outcome(f"{trial.count} trials; the zone equalled the registry after each")


FENCE = Scenario(
    "fence",
    "The name server hangs with an update in its queue, a newer update follows, and the server continues. "
    "Then the zone must equal the registry. Counted are trials.",
    run,
    {SOAK: {SQLITE: 100}},
    KINDS,
)
