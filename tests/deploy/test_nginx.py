"""The example of a reverse proxy in a real nginx, before two real `sublet api` on one PostgreSQL."""

import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from sublet.http.security_headers import SECURITY_HEADERS
from support import http_clients
from support.free_ports import free_address
from support.nginx import NAME, nginx
from support.role_processes import Apart, RoleProcess, apart

pytestmark = pytest.mark.slow

AT_ONCE_MAX, AHEAD_MAX = 100, 200
"""What sublet.conf allows: requests of an address at once, and those of one connection."""


@dataclass(slots=True)
class Api:
    """A `sublet api` of its own."""

    address: str
    role: RoleProcess


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
def roles(postgresql_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    with apart(postgresql_server, tmp_path_factory.mktemp("apis")) as opened:
        yield opened


@pytest.fixture(scope="module")
def token(roles: Apart) -> str:
    return roles.service.add_user().token


@pytest.fixture(scope="module")
def apis(roles: Apart) -> tuple[Api, Api]:
    settings = {
        "trusted_proxies": "127.0.0.1",
        "rate_limits": "on",
        "rate_limit_failed_auth_per_minute": "3",
        "public_url": f"https://{NAME}",
        "publish_wait_ms": "0",
    }

    def start() -> Api:
        address = "{}:{}".format(*free_address())
        return Api(address, roles.start("api", "--workers", "1", http_listen=address, **settings))

    return start(), start()


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
        answer = client.post("/api/v1/subdomains", headers=headers, content=b" " * 200_000)
        assert (answer.status_code, answer.json()["error"]) == (413, "payload_too_large")
        assert_secured(answer)
        with http_clients.Client(base_url=f"http://{apis[0].address}") as direct:
            own = direct.post("/api/v1/subdomains", headers=headers, content=b" " * 200_000)
        assert set(own.json()) == set(answer.json())
        assert own.json()["message"] == answer.json()["message"]


def test_the_addresses_of_an_ipv6_network_count_as_one(tmp_path: Path) -> None:
    host, port = free_address()
    (tmp_path / "sublet-asked.conf").write_text(
        f"server {{ listen {host}:{port}; set_real_ip_from {host}; real_ip_header X-Real-IP;"
        " location / { return 200 $sublet_client; } }"
    )

    def key(address: str) -> bytes:
        return http_clients.get(f"http://{host}:{port}/", headers={"X-Real-IP": address}).content

    with nginx(tmp_path, f"{host}:1"):
        for network in ("2001:db8:1:2:", "2001:db8::", "2001:db8:1::", "2001:db8:0:5:"):
            assert key(f"{network}a:b:c:d") == key(f"{network}e:f:1:2"), network
        others = [
            "2001:db8:1:2::1",
            "2001:db8:1:3::1",
            "2001:db8:1::1",
            "2001:db8::1",
            "192.0.2.1",
            "192.0.2.2",
        ]
        assert len({key(each) for each in others}) == len(others)


@pytest.mark.whole
def test_slow_and_many_requests_of_one_address_leave_room_for_others(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    head = f"POST /api/v1/subdomains HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 1000\r\n\r\n".encode()
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy, ExitStack() as stack:
        context, answered = proxy.context(), b""

        def open_slowly(_number: int) -> ssl.SSLSocket:
            """Send a head whose body never comes."""
            plain = socket.create_connection(proxy.https, timeout=60, source_address=("127.0.0.2", 0))
            slow = context.wrap_socket(plain, server_hostname=proxy.https[0])
            slow.sendall(head)
            return slow

        with ThreadPoolExecutor(AT_ONCE_MAX) as threads:
            slow = [stack.enter_context(each) for each in threads.map(open_slowly, range(AT_ONCE_MAX + 10))]
        for each in select.select(slow, [], [], 60)[0]:
            answered += each.recv(100)
        assert answered.startswith(b"HTTP/1.1 429 ")
        with proxy.client("127.0.0.3") as other:
            assert other.get("/api/v1/subdomains", headers=bearer).status_code == 200
        half = stack.enter_context(proxy.connect("127.0.0.4"))
        half.sendall(head[:20])
        began = time.monotonic()
        assert half.recv(100) == b""
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
        apis[0].role.end()
        for number in range(4):  # a POST, too, where the connection is refused: nothing was sent
            answer = client.post(
                "/api/v1/subdomains", headers=bearer, json={"fqdn": f"n{number}.example.test"}
            )
            assert answer.status_code == 201, answer.text
        apis[1].role.end()
        answer = client.get("/api/v1/subdomains", headers=bearer)
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
        page = client.get("/names", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert "Load this page again" in page.text
        assert_secured(page)
