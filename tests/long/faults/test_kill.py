"""SIGKILL at named points of a write and at random times under load; SIGTERM. A real process, real dig."""

import json
import signal
import socket
from pathlib import Path

import httpx
import pytest

from sublet.config import parse_listen
from sublet.primaries.store import count_waiting
from support import http_clients
from support.crash_checks import HOST, NAME, WITH_GLUE, standing, zone_is_right
from support.repetitions import share
from support.running_service import DS, Registrant, RunningService, registry_address
from support.serve_process import ServeProcess, serve_process
from support.service_on_primary import serve_process_on
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> str:
    return registry_address(tmp_path)


PLUS = {**WITH_GLUE, "registration_mode": "plus", "confirm": True}
RDATA = {"ns1.provider.example.", f"{HOST}.", "8.8.4.4", "2001:4860:4860::8844", DS}


@pytest.mark.parametrize(
    "point", share(["written_ahead"], whole=["committed", "written_ahead", "applied", "recorded"])
)
def test_a_committed_name_is_published_after_the_restart(url: str, tmp_path: Path, point: str) -> None:
    with serve_process_on("knot", tmp_path, database_url=url) as (on, serving):
        serving.environment["SUBLET_PUBLISH_WAIT_MS"] = "20000"  # killed before the answer
        ada = on.service.add_user(credit_count=10)
        serving.start(point)
        _lose_the_answer(on.service, ada, serving)
        assert bool(on.records()) is (point in ("applied", "recorded")), "it was not killed at the point"
        serving.start()
        # No retry, no further request.
        wait_until(lambda: on.service.read(count_waiting) == {})
        assert {rdata for _, _, rdata in on.records()} == RDATA
        _check_charged_once(on.service, ada)
        wait_until(lambda: on.service.doctor() == [])


def _lose_the_answer(service: RunningService, who: Registrant, serving: ServeProcess) -> None:
    """Send a registration to a process that dies before it answers."""
    with pytest.raises(httpx.TransportError):
        service.call(who, "POST", "/subdomains", PLUS, idempotency_key="k-1")
    assert serving.wait() == -signal.SIGKILL


def _check_charged_once(service: RunningService, who: Registrant) -> None:
    """Check that the name is active, and that the repeated request has the same result without a further
    charge.
    """
    shown = service.call(who, "GET", f"/subdomains/{NAME}").json()["subdomain"]
    assert shown["status"] == "active"
    again = service.call(who, "POST", "/subdomains", PLUS, idempotency_key="k-1")
    assert (again.status_code, again.json()["subdomain"]["id"]) == (201, shown["id"])
    assert again.json()["charged_credits"] == 10
    assert service.call(who, "GET", "/credits").json()["credit_balance"] == 0


def test_a_kill_before_the_commit_leaves_no_trace(url: str, tmp_path: Path) -> None:
    with serve_process(url, tmp_path) as serving:
        service = serving.service
        service.add_domain()
        ada = service.add_user(credit_count=10)
        serving.start("before_commit")
        _lose_the_answer(service, ada, serving)
        serving.start()
        assert service.call(ada, "GET", f"/subdomains/{NAME}").status_code == 404
        assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 10
        answer = service.call(ada, "POST", "/subdomains", PLUS, idempotency_key="k-1")
        assert answer.status_code == 201
        assert "idempotent-replayed" not in answer.headers
        assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 0
        assert service.doctor() == []


def _begin_request(service: RunningService, who: Registrant, body: bytes) -> socket.socket:
    """Send a registration's head, and return the connection once the service waits for its body."""
    connection = socket.create_connection(
        parse_listen("http_listen", service.settings.http_listen), timeout=60
    )
    head = (
        "POST /api/v1/subdomains HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {who.token}\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    connection.sendall(head.encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
    return connection


def _refuses_connections(service: RunningService) -> bool:
    """True if nothing new is taken in."""
    try:
        http_clients.get(service.base_url)
    except httpx.TransportError as broken:
        return isinstance(broken, httpx.ConnectError)
    return False


def test_sigterm_finishes_the_requests_in_flight(url: str, tmp_path: Path) -> None:
    with serve_process(url, tmp_path) as serving:
        service = serving.service
        service.add_domain()
        ada = service.add_user()
        serving.start()
        bodies = [
            json.dumps({"fqdn": f"n{number}.example.test", "nameservers": ["ns1.provider.example"]}).encode()
            for number in range(8)
        ]
        connections = [_begin_request(service, ada, body) for body in bodies]
        assert serving.process is not None
        serving.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _refuses_connections(service))
        for connection, body in zip(connections, bodies, strict=True):
            connection.sendall(body)
        for connection in connections:
            with connection:
                assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
        assert serving.wait() == 0
        serving.start()
        assert len(service.call(ada, "GET", "/subdomains").json()["subdomains"]) == 8
        assert zone_is_right(service)
        assert len(standing(service)) == 8
        assert service.doctor() == []
