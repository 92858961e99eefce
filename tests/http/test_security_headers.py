"""The headers that every answer has: of endpoints, refusals, pages and faults.

Refusals by nginx: tests/contract/test_hostile_http.py.
"""

import asyncio
import re
from collections.abc import Iterator

import httpx
import pytest

from sublet.db import Database, open_database
from sublet.http.app import StatusSources, build_status_app
from sublet.http.security_headers import SECURITY_HEADERS
from sublet.metrics import Metrics
from sublet.surfaces import API_OPERATIONS
from support.running_service import Registrant, RunningService, registry_address, running_service

PAGES = ("/docs", "/openapi.json", "/healthz", "/readyz", "/metrics")
UNKNOWN = ("/assets/no-such.css", "/assets/", "/assets/a/b", "/nothing", "/o/9223372036854775808/names")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path_factory.mktemp("headers"))) as running_one:
        running_one.add_domain()
        yield running_one


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    return service.add_user()


def assert_secured(headers: httpx.Headers, *, but: tuple[str, ...] = ()) -> None:
    """Require each header once, with its value (but for those that have values of their own), and none that
    opens it to other origins.
    """
    for name, value in SECURITY_HEADERS.items():
        assert len(headers.get_list(name)) == 1, name
        if name not in but:
            assert headers[name] == value
    assert headers["x-request-id"]
    assert not [name for name in headers if name.startswith("access-control-")]
    assert "server" not in headers


@pytest.mark.parametrize("endpoint", API_OPERATIONS, ids=lambda endpoint: endpoint.name)
def test_every_endpoint_sends_the_headers(service: RunningService, ada: Registrant, endpoint: object) -> None:
    """With a token and without, as an answer or a refusal; and to a page of another origin, whose answer has
    no header of CORS.
    """
    method, path = endpoint.method, endpoint.path  # type: ignore[attr-defined]
    path = path.replace("{fqdn}", "nothing.example.test").replace("{id}", "777777")
    for who in (ada, None):
        assert_secured(service.call(who, method, path, origin="https://evil.example").headers)
    asked = {"origin": "https://evil.example", "access_control_request_method": method}
    preflight = service.call(None, "OPTIONS", path, **asked)
    assert preflight.status_code == 405
    assert_secured(preflight.headers)


@pytest.mark.uncovered
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_every_page_sends_the_headers(service: RunningService, path: str, method: str) -> None:
    answer = service.client.request(method, service.origin + path)
    assert answer.status_code == (405 if method == "POST" else 200)
    of_its_own = method != "POST" and path.endswith("/docs")
    own = ("content-security-policy", "referrer-policy") if of_its_own else ()
    assert_secured(answer.headers, but=own)
    assert answer.headers["content-security-policy"].startswith("default-src 'none';")


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("accept", ["*/*", "text/html"])
def test_every_unknown_path_sends_the_headers(
    service: RunningService, path: str, method: str, accept: str
) -> None:
    origin = service.origin
    answer = service.client.request(method, origin + path, headers={"accept": accept})
    assert answer.status_code == 404
    is_page = answer.headers["content-type"].startswith("text/html")
    assert_secured(answer.headers, but=("content-security-policy", "referrer-policy") if is_page else ())


def test_assets_send_the_headers(service: RunningService) -> None:
    origin = service.origin
    found = re.findall(r'"(/assets/[^"]+)"', service.client.get(origin + "/signin").text)
    assert found
    for path in found:
        for method, status in (("GET", 200), ("HEAD", 200), ("POST", 405)):
            answer = service.client.request(method, origin + path)
            assert answer.status_code == status
            assert_secured(answer.headers, but=("cache-control",))


def test_refusals_before_an_endpoint_have_the_headers(service: RunningService, ada: Registrant) -> None:
    for method, path in (("GET", "/nothing"), ("PATCH", "/me"), ("GET", "//me")):
        assert_secured(service.call(ada, method, path).headers)
    large = service.call(ada, "POST", "/subdomains", {"fqdn": "a" * 70_000})
    assert large.status_code == 413
    assert_secured(large.headers)


def test_the_status_pages_of_other_processes_have_the_headers(service: RunningService) -> None:
    async def ask(db: Database) -> list[httpx.Response]:
        app = build_status_app(StatusSources(db, Metrics(), asyncio.Event(), {}))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as client:
            return [await client.get(path) for path in ("/healthz", "/readyz", "/metrics", "/api/v1/me")]

    async def story() -> list[httpx.Response]:
        db = open_database(service.settings.database_url, may_lose_writes=True)
        try:
            return await ask(db)
        finally:
            await db.close()

    answers = asyncio.run(story())
    assert [answer.status_code for answer in answers] == [200, 200, 200, 404]
    for answer in answers:
        assert_secured(answer.headers)
