"""The pages of the API reference: its first requests work, its links lead to their entries, and people keep
their menu.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from html import unescape

import pytest

from support.console_client import console
from support.console_pages import ADA, DOMAIN
from support.running_service import RunningService, registry_address, running_service

PRE = re.compile(r'<pre data-copy="the command">(.*?)</pre>', re.DOTALL)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path_factory.mktemp("reference"))) as running:
        yield running


@pytest.mark.parametrize(
    ("options", "answer"),
    [((), "NS\tns1.provider.example."), (("--records", "on"), "example.github.io.")],
)
def test_the_first_requests_work_as_shown(
    service: RunningService, options: tuple[str, ...], answer: str
) -> None:
    domain = f"{'records' if options else 'plain'}.{DOMAIN}"
    service.add_domain(domain, *options)
    token, register, dig = (
        unescape(each) for each in PRE.findall(console(service).get("/docs").response.text)
    )
    assert token == "export SUBLET_TOKEN=sublet_…"
    secret = service.add_user(f"{domain}@example.org").token
    host, port = service.dns
    dig = dig.replace("+trace", "+norecurse +noall +authority").replace("dig", f"dig @{host} -p {port}")
    lines = [token.replace("sublet_…", secret), f"{register} -sS", "echo", dig]
    ran = subprocess.run(["bash", "-ec", "\n".join(lines)], capture_output=True, text=True, check=True)
    answered, _, found = ran.stdout.partition("\n")
    assert json.loads(answered)["subdomain"]["status"] == "active"
    assert answer in found


def test_every_link_leads_to_an_entry_and_old_links_to_the_contents(service: RunningService) -> None:
    browser = console(service)
    start = browser.get("/docs").response.text
    links = set(re.findall(r'href="(/docs/[\w-]+)#([\w-]+)"', start))
    pages = {path: browser.get(path).response.text for path in {path for path, _ in links}}
    assert len(pages) == 11
    for path, anchor in links:
        assert f'id="{anchor}"' in pages[path], (path, anchor)
        assert f'id="{anchor}"' in start, f"/docs#{anchor} led to an entry of the former page"
    for path in pages:
        assert f'id="{path.removeprefix("/docs/")}"' in start, "/docs#GROUP too"


def test_the_search_is_a_form(service: RunningService) -> None:
    page = console(service).get("/docs?q=%3Cb%3E+glue_required")
    assert (page.status, "<b>" in page.response.text) == (200, False)
    assert "0 results" in page.text
    (found, *_) = re.findall(
        r'href="(/docs/[^"]*#[^"]*)"', console(service).get("/docs?q=glue_re").response.text
    )
    assert found == "/docs/field-codes#field-glue_required"


@pytest.mark.parametrize("path", ["/docs", "/docs/records", "/docs?q=glue"])
def test_a_user_keeps_the_menu_and_a_search_beside_it_is_not_compressed(
    service: RunningService, path: str
) -> None:
    service.add_user(ADA) if not service.operator("user", "list", "--containing", ADA) else None
    for email in ("", ADA):
        page = console(service, email).get(path)
        assert ('action="/signout"' in page.response.text) == bool(email)
        is_small = "content-encoding" in page.response.headers
        assert is_small == (not email or "?q=" not in path)


def test_an_unknown_group_is_not_found(service: RunningService) -> None:
    page = console(service).get("/docs/nothing", accept="text/html")
    assert (page.status, "Look in its contents, at /docs." in page.text) == (404, True)
