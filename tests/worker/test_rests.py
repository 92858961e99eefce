"""A zone rests after a small batch, and the sweep after a small step, so that names that come one after the other go together."""

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import select

from sublet.db import Tx
from sublet.primaries import publisher
from sublet.primaries.publisher import REST_MAX_SECONDS, SMALL_BATCH, rest_after
from sublet.primaries.store import count_waiting
from sublet.subdomains.store import subdomains
from sublet.subdomains.sweep import clockwork
from sublet.subdomains.sweep.sweep import BATCH_MAX, Swept
from support.running_service import registry_address, running_service
from support.serve_process import wait_until

TWO = {"nameservers": ["ns1.example.com", "ns2.example.com"]}


@pytest.mark.parametrize(
    ("names", "took_seconds", "rests_seconds"),
    [
        (1, 0.004, 4 * 0.004),
        (1, 0.01, 4 * 0.01),
        (3, 0.001, 3 * 4 * 0.001),
        (SMALL_BATCH - 1, 0.01, REST_MAX_SECONDS),
        (1, 30.0, REST_MAX_SECONDS),
        (SMALL_BATCH, 0.02, 0.0),
        (100, 5.0, 0.0),
    ],
)
def test_several_times_as_long_as_it_took_within_bounds(
    names: int, took_seconds: float, rests_seconds: float
) -> None:
    assert rest_after(names, took_seconds) == rests_seconds


@pytest.mark.parametrize(
    ("names", "took_seconds", "rests_seconds"),
    [
        (BATCH_MAX, 0.02, 3 * 0.02),
        (BATCH_MAX, 2.0, 3 * 2.0),
        (BATCH_MAX - 1, 0.02, clockwork.FEW_SECONDS),
        (1, 2.0, 2.0),
    ],
)
def test_the_sweep_rests_longer_than_its_step_and_after_few_names_for_more_to_come(
    names: int, took_seconds: float, rests_seconds: float
) -> None:
    swept = Swept(Counter(looked=names), more=True, names=names)
    assert clockwork.rest_after(swept, took_seconds) == rests_seconds


@pytest.mark.parametrize("swept", [None, Swept(Counter()), Swept(Counter(), stopped_reason="the clock")])
def test_a_sweep_with_nothing_to_do_looks_each_second(swept: Swept | None) -> None:
    assert clockwork.rest_after(swept, 0.01) == clockwork.POLL_SECONDS


def test_what_comes_during_a_rest_goes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "rest_after", lambda _names, _took_seconds: 3.0)
    with running_service(registry_address(tmp_path), publish_wait_ms=0) as service:
        service.add_domain("example.test")
        ada = service.add_user()

        service.register(ada, "one.example.test", **TWO)
        wait_until(lambda: service.read(count_waiting) == {})  # else the next may go with it
        for label in ("two", "three", "four"):
            service.register(ada, f"{label}.example.test", **TWO)
        wait_until(lambda: service.read(count_waiting) == {})
        serials = dict(service.read(_serials))
        first = serials.pop("one.example.test")
        assert set(serials.values()) == {first + 1}


def _serials(tx: Tx) -> list[tuple[str, int]]:
    rows = tx.connection.execute(select(subdomains.c.fqdn, subdomains.c.published_serial))
    return [(row[0], row[1]) for row in rows]
