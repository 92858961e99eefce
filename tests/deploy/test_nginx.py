"""The example of a reverse proxy in a real nginx, before two real `sublet api` on one PostgreSQL."""

import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sublet.config import Settings
from sublet.http.security_headers import SECURITY_HEADERS
from support import http_clients
from support.deploy_files import DEPLOY, find_program
from support.postgresql import fresh_database
from support.running_service import MovableClock, RunningService
from support.serve_process import free_address as free_host_and_port
from support.serve_process import wait_until

EXAMPLE = DEPLOY / "nginx" / "sublet.conf"
NAME = "names.example.net"
READY_SECONDS = 120.0
"""How long two APIs and nginx may take to start on a machine that others load."""
pytestmark = pytest.mark.slow


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
        self.process.wait(30)


@dataclass(slots=True)
class Breaking:
    """An upstream that takes a request and closes the connection without an answer; it counts them by method."""

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
        thread.join(10)


def make_certificate(folder: Path) -> None:
    """Write a certificate that says it is 127.0.0.1's, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


@dataclass(slots=True)
class Proxy:
    """A running nginx with the example: where it takes HTTPS and HTTP."""

    https: str
    http: str
    folder: Path

    def client(self, address: str = "127.0.0.1") -> httpx.Client:
        """Return a client with an address of its own of this host's."""
        context = ssl.create_default_context(cafile=str(self.folder / "tls.pem"))
        transport = httpx.HTTPTransport(local_address=address, verify=context)
        return http_clients.Client(
            transport=transport, base_url=f"https://{self.https}", headers={"Host": NAME}, timeout=30
        )


@contextmanager
def nginx(folder: Path, *upstreams: str) -> Iterator[Proxy]:
    """Run nginx with the example as it is, but for addresses and the places of files."""
    proxy = Proxy(free_address(), free_address(), folder)
    make_certificate(folder)
    text = EXAMPLE.read_text(encoding="utf-8")
    for given, wanted in (
        (r"^    server 192\.0\.2\.11:8053 (.*)$", rf"    server {upstreams[0]} \1"),
        (r"^    server 192\.0\.2\.12:8053 (.*)$", rf"    server {upstreams[1]} \1"),
        (r"^    listen \[::\]:\d+.*\n", ""),
        (r"listen 80;", f"listen {proxy.http};"),
        (r"listen 443 ssl;", f"listen {proxy.https} ssl;"),
        (r"/etc/nginx/tls/names\.example\.net\.pem", f"{folder}/tls.pem"),
        (r"/etc/nginx/tls/names\.example\.net\.key", f"{folder}/tls.key"),
    ):
        text, count = re.subn(given, wanted, text, flags=re.MULTILINE)
        assert count, given
    (folder / "sublet.conf").write_text(text, encoding="utf-8")
    places = "".join(
        f"    {each}_temp_path {folder}/{each};\n"
        for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/nginx.pid;\nerror_log stderr;\nworker_processes 1;\nevents {{}}\n"
        f"http {{\n{places}    access_log off;\n    include {folder}/sublet.conf;\n}}\n",
        encoding="utf-8",
    )
    words = [find_program("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    tried = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False, timeout=60)
    assert tried.returncode == 0, tried.stderr
    assert "[warn]" not in tried.stderr.replace('the "user" directive', ""), tried.stderr
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen([*words, "-g", "daemon off;"], stdout=log, stderr=log)
    try:
        wait_until(lambda: _listens(proxy.https), READY_SECONDS)
        yield proxy
    finally:
        process.terminate()
        process.wait(30)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.fixture(scope="module")
def url(postgresql_server: str) -> Iterator[str]:
    find_program("nginx")
    with fresh_database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="module")
def token(url: str) -> str:
    registry = RunningService(Settings(database_url=url, database_may_lose_writes="yes"), MovableClock())
    with registry.client:
        registry.operator("init")
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


def test_api_and_its_documentation_are_passed_and_by_tls_alone(
    apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path
) -> None:
    with nginx(tmp_path, apis[0].address, apis[1].address) as proxy, proxy.client() as client:
        for _ in range(4):
            answer = client.get("/api/v1/subdomains", headers=bearer)
            assert answer.status_code == 200, answer.text
            assert_secured(answer)
        for path in ("/docs", "/openapi.json"):
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            assert_secured(answer)
        for path in ("/metrics", "/healthz", "/readyz", "/", "/docs/", "/docsx", "/openapi.jsonx"):
            assert client.get(path).status_code == 404
        assert client.get("/api/v1/docs", headers=bearer).json()["error"] == "not_found"
        assert http_clients.get(f"http://{proxy.http}/api/v1/subdomains", headers=bearer).status_code == 404


def test_the_clients_address_is_seen_through(apis: tuple[Api, Api], tmp_path: Path) -> None:
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


def test_what_was_sent_by_post_is_never_sent_again(
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


def test_too_much_is_refused_as_sublet_does_it(
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


def test_one_api_is_enough(apis: tuple[Api, Api], bearer: dict[str, str], tmp_path: Path) -> None:
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
