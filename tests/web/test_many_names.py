"""The pages of a user with 10,000 names: none holds the event loop up for long."""

import gc
from collections.abc import Iterator
from functools import partial

import pytest

from sublet.accounts.store import find_user_by_email
from sublet.audit import Actor
from sublet.db import Tx
from sublet.subdomains.model import Register
from sublet.subdomains.register import register
from support.console_client import ConsoleClient, console
from support.console_pages import ADA, DOMAIN, PAGES, fill
from support.running_service import RunningService, registry_address, running_service
from support.turns import TURN_MAX_SECONDS, watched

pytestmark = [pytest.mark.slow, pytest.mark.whole]
NAMES = 10_000
AT_ONCE = 500
MORE = (
    "/names?q=n",
    "/names?status=active",
    "/api/v1/me/export",
    "/api/v1/subdomains?limit=500",
    "/api/v1/activity?limit=500",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    url = registry_address(tmp_path_factory.mktemp("many-names"))
    with running_service(url, free_quota=2 * NAMES, publish_wait_ms=0) as running:
        fill(running)
        for start in range(0, NAMES, AT_ONCE):
            running.write(partial(_register_names, numbers=range(start, start + AT_ONCE)))
        # A collection of all that made the names would count as a turn.
        gc.collect()
        gc.freeze()
        yield running
        gc.unfreeze()


def _register_names(tx: Tx, numbers: range) -> None:
    ada = find_user_by_email(tx, ADA)
    assert ada is not None
    actor = Actor(kind="user", user_id=ada.id)
    for number in numbers:
        wanted = Register(
            fqdn=f"n{number}.{DOMAIN}", nameservers=("ns1.provider.example", "ns2.provider.example")
        )
        register(tx, actor, wanted, free_quota=2 * NAMES)


def test_no_page_blocks_the_event_loop(service: RunningService) -> None:
    assert service.loop is not None
    browser = console(service, ADA)
    paths = (*(each.path for each in PAGES), *MORE)
    found = {path: _longest_turn(service, browser, path) for path in paths}
    assert max(found.values()) <= TURN_MAX_SECONDS, found


def _longest_turn(service: RunningService, browser: ConsoleClient, path: str) -> float:
    assert service.loop is not None
    with watched(service.loop) as turns:
        status = browser.get(path).status
    assert status in (200, 404, 422), path
    return turns.longest_seconds
