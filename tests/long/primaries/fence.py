"""An older update against a newer one: trials that a test repeats a few times, and the soak run often.

A server that hangs has the older message in its queue while the newer one is sent; woken, it may apply them in either order.
Whatever it does, the zone has to equal the registry in the end.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.running_service import Registrant
from support.serve_process import wait_until
from support.service_on_primary import ServiceOn, service_on

NAMES = 3
PATIENCE_SECONDS = 0.3
"""How long the publisher waits for an answer in these trials; it gives a message up for lost after that."""


@contextmanager
def impatient_service(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ServiceOn, Registrant]]:
    """Run a service that gives messages up soon, and tries again at once."""
    monkeypatch.setattr("sublet.worker.primary_zone.TIMEOUT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("sublet.subdomains.publishing.ZONE_BACK_OFF_MAX_SECONDS", 0.1)
    with service_on(kind, folder, publish_wait_ms=0) as on:
        yield on, on.service.add_user()


def register_names(on: ServiceOn, ada: Registrant) -> list[str]:
    """Register the names that the trials change, and wait until they stand."""
    names = [f"n{number}.example.test" for number in range(NAMES)]
    for name in names:
        on.service.register(ada, name, nameservers=["ns0.provider.example"])
    wait_until(lambda: len(on.records()) == NAMES)
    return names


def old_against_new(on: ServiceOn, ada: Registrant, names: list[str], number: int) -> None:
    """One trial: the server hangs, an older change is sent and given up, a newer one follows, the server wakes at some moment.

    Raises AssertionError where the zone is not what the registry says, when all has settled.
    """
    draws = random.Random(number)  # noqa: S311 - moments, no secrets
    server = on.primary
    server.freeze()
    try:
        _change(on, ada, names, f"ns1.old{number}.example")
        time.sleep(draws.uniform(0, 2 * PATIENCE_SECONDS))
        if draws.random() < 0.5:  # else the newer one meets a server that has just woken
            _change(on, ada, names, f"ns1.new{number}.example")
            time.sleep(draws.uniform(0, 2 * PATIENCE_SECONDS))
    finally:
        server.thaw()
    _change(on, ada, names, f"ns1.new{number}.example")
    wanted = {(name, "NS", f"ns1.new{number}.example.") for name in names}
    wait_until(lambda: _are_active(on, ada, names))
    assert on.records() == wanted, (number, on.records() ^ wanted)
    # Whatever was still queued is applied by now, or never: another change of the zone follows all of it.
    server.serial()
    assert on.records() == wanted, (number, on.records() ^ wanted)


def _change(on: ServiceOn, ada: Registrant, names: list[str], nameserver: str) -> None:
    for name in names:
        answer = on.service.call(ada, "PUT", f"/subdomains/{name}/nameservers", {"nameservers": [nameserver]})
        assert answer.status_code == 200, answer.text


def _are_active(on: ServiceOn, ada: Registrant, names: list[str]) -> bool:
    shown = on.service.call(ada, "GET", "/subdomains").json()["subdomains"]
    return all(each["status"] == "active" for each in shown if each["fqdn"] in names)
