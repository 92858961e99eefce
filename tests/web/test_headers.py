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


def test_a_private_page_leads_strangers_to_the_sign_in(service: RunningService) -> None:
    stranger = console(service)
    for page in (each for each in PAGES if each.get is not None and not each.is_open):
        shown = stranger.get(re.sub(r"\{\w+(:\w+)?\}", "1", page.path))
        assert (shown.path, shown.status) == ("/signin", 200), page.path


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
