"""The headers of pages and assets, who sees which page, and pages for organizations."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.web import start
from sublet.web.routes import PAGES
from support.console_client import console
from support.running_service import RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("headers")
    logo = path / "logo.svg"
    logo.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>', encoding="utf-8")
    with running_service(
        registry_address(path),
        signup="open",
        site_name="Valley <Names>",
        site_color="#ff8800",
        site_logo=str(logo),
        site_contact="hello@example.net",
        site_imprint_url="https://example.net/imprint",
    ) as running:
        running.add_domain()
        running.add_user("ada@example.org")
        yield running


def test_pages_run_only_our_scripts_and_are_not_stored(service: RunningService) -> None:
    headers = console(service, "ada@example.org").get("/names").response.headers
    policy = headers["content-security-policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"} <= set(
        policy.split("; ")
    )
    assert "require-trusted-types-for 'script'" in policy
    assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


def test_assets_are_compressed_and_cached_permanently(service: RunningService) -> None:
    page = console(service).get("/")
    urls = set(re.findall(r'(?:href|src)="(/assets/[^"]+)"', page.response.text))
    assert {each.rpartition("-")[2] for each in urls} == {"console.css", "icon.svg", "page.js", "logo.svg"}
    origin = console(service).origin
    for url in urls:
        answer = service.client.get(origin + url)
        assert "immutable" in answer.headers["cache-control"]
    style = next(each for each in urls if each.endswith(".css"))
    with service.client.stream("GET", origin + style, headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert b"--accent" in gzip.decompress(b"".join(answer.iter_raw()))
    assert service.client.get(f"{origin}/assets/no-such.css").status_code == 404


def test_the_operators_name_logo_and_contact_are_shown(service: RunningService) -> None:
    page = console(service).get("/")
    assert "Valley <Names>" in page.text
    assert 'href="mailto:hello@example.net"' in page.response.text
    assert 'href="https://example.net/imprint"' in page.response.text


@pytest.mark.parametrize(
    "page",
    [each for each in PAGES if each.get is not None and not each.is_open],
    ids=lambda each: str(each.path),
)
def test_a_private_page_leads_strangers_to_the_sign_in(service: RunningService, page: object) -> None:
    path = re.sub(r"\{\w+(:\w+)?\}", "1", page.path)  # type: ignore[attr-defined]
    shown = console(service).get(path)
    assert (shown.path, shown.status) == ("/signin", 200)


def test_browsers_get_pages_for_refusals(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = console(service).origin
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    monkeypatch.setattr(start, "find_availability", None)  # a fault

    def asked(method: str, path: str, headers: dict[str, str]) -> tuple[int, bool]:
        answer = service.client.request(method, origin + path, headers=headers)
        return answer.status_code, answer.headers["content-type"].startswith("text/html")

    assert asked("GET", "/nothing/here", browser) == (404, True)
    assert asked("POST", "/nothing/here", browser) == (404, True)
    assert asked("GET", "/nothing/here", {}) == (404, False)
    assert asked("GET", "/api/v1/nothing", browser) == (404, False)
    assert asked("GET", "/api/v1/subdomains", browser) == (401, False)
    assert asked("GET", "/signout", browser) == (405, True)
    assert asked("DELETE", "/names", browser) == (405, True)
    assert asked("DELETE", "/names", {}) == (405, False)
    assert asked("GET", "/?q=garden", browser) == (500, True)
    shown = console(service, "ada@example.org").get("/nothing/here", accept="text/html")
    assert 'href="/credits"' in shown.response.text, "the navigation of who is signed in"


def test_too_many_requests_get_a_page(tmp_path: Path) -> None:
    limits = {"rate_limits": True, "rate_limit_address_per_minute": 1, "trusted_proxies": "127.0.0.1"}
    headers = {"accept": "text/html", "x-forwarded-for": "192.0.2.7"}  # loopback has no limit
    with running_service(registry_address(tmp_path), **limits) as service:
        pages = [console(service).get("/nothing", **headers) for _ in range(2)]
        assert [each.status for each in pages] == [404, 429]
        assert pages[1].response.headers["content-type"].startswith("text/html")
        assert (int(pages[1].response.headers["retry-after"]) > 0, "Try again" in pages[1].text) == (
            True,
            True,
        )


def test_pages_of_an_organization_are_for_its_members(service: RunningService) -> None:
    ben = service.add_user("ben@example.org")
    made = service.call(ben, "POST", "/organizations", {"name": "Guild"}).json()["organization"]
    service.register(service.token_for(ben, made["id"]), "guild.example.test")
    browser = console(service, "ben@example.org")
    page = browser.get(f"/o/{made['id']}/names")
    assert ("guild.example.test" in page.text, f'href="/o/{made["id"]}/register"' in page.response.text) == (
        True,
        True,
    )
    assert "guild.example.test" not in browser.get("/names").text
    assert browser.get(f"/o/{made['id']}/names/guild.example.test").status == 200
    stranger = console(service, "ada@example.org").get(f"/o/{made['id']}/names")
    assert (stranger.status, "guild.example.test" in stranger.text) == (404, False)
