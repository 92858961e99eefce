"""`sublet dns`: answers from the database, serves its status, and ends at SIGTERM."""

import re
from pathlib import Path

import pytest

from support import http_clients
from support.free_ports import free_address
from support.role_processes import apart

pytestmark = pytest.mark.slow


def test_the_role_answers_queries_and_serves_its_status(postgresql_server: str, tmp_path: Path) -> None:
    status = "{}:{}".format(*free_address())
    with apart(postgresql_server, tmp_path) as roles:
        name_server = roles.start("dns", dns_status_listen=status)
        assert "status: NOERROR" in roles.service.dig("example.test", "SOA")
        assert "status: NOERROR" in roles.service.dig("example.test", "SOA", "+tcp")
        ready = http_clients.get(f"http://{status}/readyz")
        assert (ready.status_code, ready.json()["checks"]) == (200, {"database": True})
        metrics = http_clients.get(f"http://{status}/metrics").text
        assert 'sublet_dns_answers_total{rcode="NOERROR"} 2.0' in metrics
        assert not re.search("^sublet_(?!dns)", metrics, re.MULTILINE)
        second = roles.start("dns", said="")
        assert second.process.wait(60) == 3
        assert f"Can't listen on {roles.service.settings.dns_listen} for DNS" in second.text
        assert name_server.end() == 0
        assert "stopped" in name_server.text
