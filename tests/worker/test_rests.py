"""A zone rests after a small batch, so that names that come one after the other go together."""

from pathlib import Path

import pytest
from sqlalchemy import select

from service import registry_address, running_service
from serving import wait_until
from sublet.db import Tx
from sublet.subdomains.publish_store import count_waiting
from sublet.subdomains.store import subdomains
from sublet.worker import publisher
from sublet.worker.publisher import REST_MAX_SECONDS, SMALL_BATCH, rest_after

TWO = {"nameservers": ["ns1.example.com", "ns2.example.com"]}


@pytest.mark.parametrize(
    ("names", "took_seconds", "rests_seconds"),
    [
        (1, 0.004, 4 * 0.004),
        (SMALL_BATCH - 1, 0.01, 4 * 0.01),
        (1, 30.0, REST_MAX_SECONDS),
        (SMALL_BATCH, 0.02, 0.0),
        (100, 5.0, 0.0),
    ],
)
def test_several_times_as_long_as_it_took_within_bounds(
    names: int, took_seconds: float, rests_seconds: float
) -> None:
    assert rest_after(names, took_seconds) == rests_seconds


def test_what_comes_during_a_rest_goes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "rest_after", lambda _names, _took_seconds: 3.0)
    with running_service(registry_address(tmp_path), publish_wait_ms=0) as service:
        service.add_domain("example.test")
        ada = service.add_user()

        for label in ("one", "two", "three", "four"):
            service.register(ada, f"{label}.example.test", **TWO)
        wait_until(lambda: service.read(count_waiting) == {})
        serials = dict(service.read(_serials))
        first = serials.pop("one.example.test")
        assert set(serials.values()) == {first + 1}


def _serials(tx: Tx) -> list[tuple[str, int]]:
    rows = tx.connection.execute(select(subdomains.c.fqdn, subdomains.c.published_serial))
    return [(row[0], row[1]) for row in rows]
