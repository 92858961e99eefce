"""Choices, "Subdomain states": while the clock is implausible no name gets dates from it, over the real
service.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.error_triggers import new_user, unused_name
from support.running_service import RunningService, registry_address, running_service
from support.waiting import wait_until

NS = ["ns1.provider.example", "ns2.provider.example"]


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path_factory.mktemp("clock"))) as service:
        service.add_domain()
        yield service  # the doctor would find the events of the wrong clock, which are to come


@pytest.mark.parametrize("days", [401])
def test_no_name_gets_dates_from_a_wrong_clock(shop: RunningService, days: int) -> None:
    user = new_user(shop)
    held, gone = (shop.register(user, unused_name(), nameservers=NS)["subdomain"]["fqdn"] for _ in range(2))
    shop.call(user, "DELETE", f"/subdomains/{gone}")
    wait_until(lambda: shop.operator("sweep", "status")["seen_at"] is not None)
    shop.clock.advance(days=days)
    wait_until(lambda: bool(shop.operator("sweep", "status")["stopped"]))
    wanted = unused_name()
    requests: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/subdomains", {"fqdn": wanted}),
        ("/subdomains", {"fqdn": wanted, "registration_mode": "plus"}),
        (f"/subdomains/{held}/renew", {"confirm": True}),
        (f"/subdomains/{gone}/restore", {}),
    )
    for path, body in requests:
        refused = shop.call(user, "POST", path, body, idempotency_key=f"{path} {body}"[:99].replace(" ", ""))
        assert (refused.status_code, refused.json()["error"]) == (503, "clock_implausible"), refused.text
        assert refused.headers["retry-after"] == "60"
    # What takes no dates from the clock goes on.
    shop.call(user, "PUT", f"/subdomains/{held}/nameservers", {"nameservers": NS[:1]})
    wait_until(lambda: shop.delegation(held) == {NS[0]})
    shop.clock.advance(days=-days)
    shop.register(user, wanted)
    restored = shop.call(user, "POST", f"/subdomains/{gone}/restore", {})
    assert restored.status_code == 200, restored.text
