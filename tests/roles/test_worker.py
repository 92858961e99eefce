"""`sublet worker`: publishes names, serves its status, and ends at SIGTERM."""

import re
import socket
from pathlib import Path

import pytest

from support import http_clients
from support.free_ports import free_address
from support.name_servers import primary
from support.role_processes import apart
from support.service_on_primary import primary_settings, settings_file
from support.waiting import wait_until

pytestmark = pytest.mark.slow

NAMESERVERS = ["ns1.provider.example", "ns2.provider.example"]


def test_the_role_publishes_waiting_names_and_serves_its_status(
    postgresql_server: str, tmp_path: Path
) -> None:
    status = "{}:{}".format(*free_address())
    with (
        apart(postgresql_server, tmp_path) as roles,
        primary("knot", tmp_path / "knot", "example.test") as server,
    ):
        service = roles.service
        config = str(settings_file(tmp_path, [primary_settings(tmp_path, server)]))
        service.environment["SUBLET_CONFIG"] = config
        service.operator("domain", "edit", "example.test", "--primary", "main")

        def nameservers() -> set[str]:
            found = [each for each in server.records() if each.owner == "blog.example.test"]
            return {each.rdata.rstrip(".") for each in found}

        roles.start("api", config=config, publish_wait_ms="0")
        ada = service.add_user()
        waiting = service.register(ada, "blog.example.test", nameservers=NAMESERVERS)["subdomain"]
        assert waiting["status"] != "active"
        assert nameservers() == set()
        worker = roles.start("worker", config=config, worker_status_listen=status)
        wait_until(lambda: nameservers() == set(NAMESERVERS))
        assert http_clients.get(f"http://{status}/healthz").json() == {"ok": True}
        ready = http_clients.get(f"http://{status}/readyz")
        assert (ready.status_code, ready.json()["checks"]) == (200, {"database": True, "worker": True})
        wait_until(
            lambda: (
                'sublet_published_names_total{outcome="published"} 1.0'
                in http_clients.get(f"http://{status}/metrics").text
            )
        )
        nothing = http_clients.get(f"http://{status}/api/v1/me")
        assert (nothing.status_code, nothing.json()["error"]) == (404, "not_found")
        assert http_clients.post(f"http://{status}/readyz").status_code == 405
        # A scraper that keeps its connection doesn't delay others.
        with http_clients.Client() as scraper:
            scraper.get(f"http://{status}/metrics")
            assert worker.end() == 0
        assert "stopped" in worker.text


@pytest.mark.whole
def test_unusable_settings_are_reported(postgresql_server: str, tmp_path: Path) -> None:
    with apart(postgresql_server, tmp_path) as roles, socket.create_server(("127.0.0.1", 0)) as other:
        address = "{}:{}".format(*other.getsockname())
        taken = roles.start("worker", said="", worker_status_listen=address)
        assert taken.process.wait(60) == 3
        assert re.search(rf"Can.t listen on {address} for HTTP: .*Check `worker_status_listen`\.", taken.text)
