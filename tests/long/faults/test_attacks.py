"""Attacks from one address through the proxy: other clients are answered in time.

The proxy answers all three, not Sublet.
"""

from collections.abc import Iterator

import pytest

from long.faults.attacks import (
    PIPELINING,
    SLOW_BODIES,
    SLOW_HEADS,
    attacked_service,
    measure,
    report,
    violations,
)
from support.nginx import Proxy
from support.serve_process import ServeProcess

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_only]
Attacked = tuple[ServeProcess, Proxy, str]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked_service(tmp_path_factory.mktemp("attacked")) as running:
        yield running


@pytest.mark.whole
def test_slow_heads_are_closed_and_others_answered(attacked: Attacked) -> None:
    measured = measure(SLOW_HEADS, *attacked, 15.0)
    assert violations(measured) == [], report(SLOW_HEADS, measured)
    assert len(measured.beside) > 50
    assert measured.damage.ended >= SLOW_HEADS.count / 2
    assert measured.damage.longest_seconds < 60
    assert measured.damage.succeeded == 0


@pytest.mark.whole
def test_slow_bodies_of_one_address_are_refused_and_others_are_answered(attacked: Attacked) -> None:
    measured = measure(SLOW_BODIES, *attacked, 10.0)
    assert violations(measured) == [], report(SLOW_BODIES, measured)
    assert len(measured.beside) > 50
    assert (
        measured.damage.ended >= SLOW_BODIES.count - 100
    )  # the proxy lets an address have 100 requests at once
    assert measured.damage.succeeded == 0


@pytest.mark.whole
def test_pipelined_requests_cost_no_memory_and_others_are_answered(attacked: Attacked) -> None:
    measured = measure(PIPELINING, *attacked, 10.0)
    assert violations(measured) == [], report(PIPELINING, measured)
    assert len(measured.beside) > 50
