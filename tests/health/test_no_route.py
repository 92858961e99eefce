"""A host without IPv6, as many are, checks delegations over IPv4."""

import asyncio
from datetime import UTC, datetime

import pytest

from sublet.health.control import NO_ROUTE, Control
from sublet.health.dns_client import DnsClient
from support.faulty_name_server import FaultyNameServer, faulty_servers_running
from support.network_namespace import runs_outside

ROOT, WITHOUT_A_ROUTE = "16.1.1.1", "2620:1:1::1"


def test_a_family_without_a_route_is_no_problem(request: pytest.FixtureRequest) -> None:
    if runs_outside(request, [ROOT]):
        return

    def find_problem(*roots: str) -> str | None:
        control = Control(DnsClient(), roots, None, lambda: datetime.now(UTC))
        return asyncio.run(control.find_problem(after=0.0))

    root = FaultyNameServer(ROOT, (". 300 IN SOA root. hostmaster. 1 3600 900 86400 60",))
    with faulty_servers_running([root]):
        assert find_problem(ROOT, WITHOUT_A_ROUTE) is None
        assert find_problem(WITHOUT_A_ROUTE) == NO_ROUTE
