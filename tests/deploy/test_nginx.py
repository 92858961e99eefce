"""The example of a reverse proxy in a real nginx, before two real `sublet api` on one PostgreSQL."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from sublet.config import Settings
from sublet.http.security_headers import SECURITY_HEADERS
from support import http_clients
from support.nginx import NAME, READY_SECONDS, nginx
from support.postgresql import fresh_database
from support.running_service import MovableClock, RunningService, initialised_postgresql
from support.serve_process import free_address as free_host_and_port
from support.serve_process import wait_until

pytestmark = pytest.mark.slow

AT_ONCE_MAX, AHEAD_MAX = 100, 200
"""What sublet.conf allows: requests of an address at once, and those of one connection."""


@dataclass(slots=True)
class Api:
    """A `sublet api` of its own."""

    address: str
    process: "subprocess.Popen[bytes]"

    def is_ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return http_clients.get(f"http://{self.address}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@dataclass(slots=True)
class Breaking:
    """An upstream that takes a request and closes the connection without an answer; it
    counts them by method.
    """

    address: str
    listening: socket.socket
    methods: list[str] = field(default_factory=list)

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                self.methods.append(connection.recv(65536).split(b" ", 1)[0].decode())


def free_address() -> str:
    host, port = free_host_and_port()
    return f"{host}:{port}"


@contextmanager
def started_api(url: str, folder: Path, number: int) -> Iterator[Api]:
    address = free_address()
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(each for each in sys.path if each),
        "SUBLET_DATABASE_URL": url,
        "SUBLET_DATABASE_MAY_LOSE_WRITES": "yes",
        "SUBLET_HTTP_LISTEN": address,
        "SUBLET_TRUSTED_PROXIES": "127.0.0.1",
        "SUBLET_RATE_LIMIT_FAILED_AUTH_PER_MINUTE": "3",
        "SUBLET_PUBLIC_URL": f"https://{NAME}",
        "SUBLET_PUBLISH_WAIT_MS": "0",
    }
    with (folder / f"api-{number}.log").open("wb") as log:
        command = [sys.executable, "-m", "sublet.cli.main", "api", "--workers", "1"]
        api = Api(address, subprocess.Popen(command, stdout=log, stderr=log, env=environment))
    try:
        yield api
    finally:
        api.end()


@contextmanager
def breaking_upstream() -> Iterator[Breaking]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        breaking = Breaking(f"127.0.0.1:{listening.getsockname()[1]}", listening)
        thread = threading.Thread(target=breaking.run, daemon=True)
        thread.start()
        yield breaking
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.fixture(scope="module")
def url(postgresql_server: str) -> Iterator[str]:
    with fresh_database(postgresql_server, like=initialised_postgresql()) as url:
        yield url


@pytest.fixture(scope="module")
def token(url: str) -> str:
    registry = RunningService(Settings(database_url=url, database_may_lose_writes=True), MovableClock())
    with registry.client:
        registry.operator("domain", "add", "example.test")
        registry.operator("user", "add", "ada@example.org", "--name", "Ada")
        return str(registry.operator("token", "issue", "ada@example.org", "--name", "t")["token"])


@pytest.fixture(scope="module")
def apis(url: str, token: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    _ = token  # the database is made by then
    folder = tmp_path_factory.mktemp("apis")
    with started_api(url, folder, 1) as first, started_api(url, folder, 2) as second:
        for each in (first, second):
            wait_until(each.is_ready, READY_SECONDS)
        yield first, second


@pytest.fixture
def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def assert_secured(answer: httpx.Response) -> None:
    """Require the headers of every answer, once each, whether it is Sublet's or nginx's own."""
    for name in ("strict-transport-security", "cache-control", "x-content-type-options"):
        assert answer.headers.get_list(name) == [SECURITY_HEADERS[name]], name


def test_the_api_and_its_documentation_are_served_over_tls_only(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy, proxy.client() as client:
        for _ in range(4):
            answer = client.get("/api/v1/subdomains", headers=bearer)
            assert answer.status_code == 200, answer.text
            assert_secured(answer)
        for path in ("/", "/docs", "/openapi.json", "/auth/challenge", "/signup/confirm", "/signin"):
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            assert_secured(answer)
        for path in ("/metrics", "/%6detrics", "/metrics/", "/healthz", "/readyz", "/docsx"):
            assert client.get(path).status_code == 404
        assert client.get("/api/v1/docs", headers=bearer).json()["error"] == "not_found"
        assert (
            http_clients.get(
                f"http://{proxy.http[0]}:{proxy.http[1]}/api/v1/subdomains", headers=bearer
            ).status_code
            == 404
        )


def test_the_api_sees_the_address_of_the_client(apis: tuple[Api, Api], tmp_path: Path) -> None:
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy:
        statuses = []
        with proxy.client("127.0.0.2") as client:
            for number in range(8):
                invented = {"Authorization": "Bearer x", "X-Forwarded-For": f"198.51.100.{number}"}
                statuses.append(client.get("/api/v1/subdomains", headers=invented).status_code)
        assert set(statuses) == {401, 429}, statuses
        with proxy.client("127.0.0.3") as client:
            answer = client.get("/api/v1/subdomains", headers={"Authorization": "Bearer x"})
            assert answer.status_code == 401


def test_a_post_request_is_never_sent_twice(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    for method, status in (("POST", 503), ("GET", 200)):
        folder = tmp_path / method
        folder.mkdir()
        with (
            breaking_upstream() as breaking,
            nginx(folder, breaking.address, apis[1].address) as proxy,
            proxy.client() as client,
        ):
            body = {"fqdn": "once.example.test"} if method == "POST" else None
            answer = client.request(method, "/api/v1/subdomains", headers=bearer, json=body)
            assert answer.status_code == status, answer.text
            assert breaking.methods == [method]
            if method == "POST":
                assert answer.json()["error"] == "unavailable"
                assert_secured(answer)
                assert answer.headers["content-type"] == "application/json"
                assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_the_proxy_refuses_too_large_requests_like_the_api(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy, proxy.client() as client:
        headers = bearer | {"Content-Type": "application/json"}
        answer = client.post("/api/v1/subdomains", headers=headers, content=b" " * 70_000)
        assert (answer.status_code, answer.json()["error"]) == (413, "payload_too_large")
        assert_secured(answer)
        with http_clients.Client(base_url=f"http://{apis[0].address}") as direct:
            own = direct.post("/api/v1/subdomains", headers=headers, content=b" " * 70_000)
        assert set(own.json()) == set(answer.json())
        assert own.json()["message"] == answer.json()["message"]


@pytest.mark.whole
def test_slow_and_many_requests_of_one_address_leave_room_for_others(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    head = f"POST /api/v1/subdomains HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 1000\r\n\r\n".encode()
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy, ExitStack() as stack:
        slow = [stack.enter_context(proxy.connect("127.0.0.2")) for _ in range(AT_ONCE_MAX + 1)]
        for each in slow:  # their bodies never come
            each.sendall(head)
        assert slow[-1].recv(100).startswith(b"HTTP/1.1 429 ")
        with proxy.client("127.0.0.3") as other:
            assert other.get("/api/v1/subdomains", headers=bearer).status_code == 200
        half = stack.enter_context(proxy.connect("127.0.0.4"))
        half.sendall(head[:20])
        began = time.monotonic()
        assert half.recv(100) == b""
        assert slow[0].recv(100) == b""
        assert time.monotonic() - began < 40
        ahead = stack.enter_context(proxy.connect("127.0.0.5"))
        ahead.sendall(f"GET /metrics HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode() * 2 * AHEAD_MAX)
        with suppress(OSError), ahead.makefile("rb") as answers:
            received = b"".join(answers)
        assert received.count(b"HTTP/1.1 ") <= AHEAD_MAX


def test_the_service_works_with_one_of_two_apis(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    """The last one: it ends the APIs."""
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy, proxy.client() as client:
        apis[0].end()
        for number in range(4):  # a POST, too, where the connection is refused: nothing was sent
            answer = client.post(
                "/api/v1/subdomains", headers=bearer, json={"fqdn": f"n{number}.example.test"}
            )
            assert answer.status_code == 201, answer.text
        apis[1].end()
        answer = client.get("/api/v1/subdomains", headers=bearer)
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
