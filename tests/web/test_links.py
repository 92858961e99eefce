"""Whoever signs in can follow each link of each page."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from sublet.accounts.model import ROLES, SCOPES_OF
from support.console_client import ConsoleClient, console
from support.console_pages import ADA, DOMAIN, fill
from support.running_service import RunningService, registry_address, running_service

BEN = "ben@example.org"
LINK = re.compile(r'<a\b[^>]* href="([^"]+)"')


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("links")
    with running_service(registry_address(path), signup="open") as running:
        fill(running)
        running.operator("subdomain", "register", f"operators.{DOMAIN}", "--user", ADA)
        yield running


@pytest.fixture(scope="module")
def organization(service: RunningService) -> int:
    """An organization of Ada's that holds a name."""
    ada = service.issue_token(ADA)
    made = service.call(ada, "POST", "/organizations", {"name": "Choir"}).json()["organization"]
    service.register(service.token_for(ada, made["id"]), f"choir.{DOMAIN}")
    return int(made["id"])


@pytest.mark.parametrize("role", ROLES)
def test_a_member_can_follow_all_links(service: RunningService, organization: int, role: str) -> None:
    service.operator("organization", "set-role", str(organization), "--user", BEN, "--role", role)
    visited = visit_all(console(service, BEN), "/", f"/o/{organization}/names")
    assert {f"/o/{organization}/names/choir.{DOMAIN}", f"/o/{organization}/members"} <= visited
    may_write = "subdomains:write" in SCOPES_OF[role]
    assert (f"/o/{organization}/names/choir.{DOMAIN}/delete" in visited) is may_write
    assert (f"/o/{organization}/register" in visited) is may_write


def test_a_holder_and_a_visitor_can_follow_all_links(service: RunningService) -> None:
    visited = visit_all(console(service, ADA), "/", "/names", f"/names/old.{DOMAIN}")
    assert {f"/names/operators.{DOMAIN}", "/tickets/T-000001", "/transfers/2"} <= visited
    assert {"/", "/signin"} <= visit_all(console(service), "/")


def visit_all(browser: ConsoleClient, *starts: str) -> set[str]:
    """Load pages and all pages to which they link, each once; return their paths. Each must be there."""
    waiting, visited = [*starts], set()
    while waiting:
        address = waiting.pop()
        if address.partition("?")[0] in visited:
            continue  # several pages link to it
        page = browser.get(address)
        # The only owner of an organization with names can't delete the account, and the page says so.
        expected = (200, 409) if address == "/account/delete" else (200,)
        assert page.status in expected, (address, page.status, page.text)
        visited.add(address.partition("?")[0])
        for link in LINK.findall(page.response.text):
            parts = urlsplit(urljoin(page.path, unescape(link)))
            is_ours = not parts.netloc and not parts.path.startswith(("/docs", "/api"))
            if is_ours and parts.path not in visited:
                waiting.append(parts._replace(fragment="").geturl())
    return visited
