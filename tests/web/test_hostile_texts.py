"""Texts of users, operators and name servers are texts on every page: nothing in them runs, and no policy is
broken.

Names of users, of platform domains, coupons, nameservers, queries and messages are filled with a corpus that
breaks out of HTML in each of its contexts, and the pages are loaded in a real Chromium, which reports what
ran.
"""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from support.browsers import signed_in
from support.chromium import chromium, origin_of, tab
from support.repetitions import share
from support.running_service import RunningService, registry_address, running_service

pytestmark = pytest.mark.slow
CORPUS = (
    "<script>document.title='ran'</script>",
    "\"><img src=x onerror=document.title='ran'>",
    "'><svg/onload=document.title='ran'>",
    "</textarea><script>document.title='ran'</script>",
    "</title><script>document.title='ran'</script>",
    "javascript:document.title='ran'",
    "{{ 7*7 }}{% raw %}",
    "\" autofocus onfocus=document.title='ran' x=\"",
)
ADA = "ada@example.org"
FQDN = "own.example.test"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningService, str]]:
    url = registry_address(tmp_path_factory.mktemp("hostile"))
    with running_service(url, signup="open", rate_limits=False, site_name=CORPUS[0]) as running:
        running.operator(
            *("domain", "add", "example.test", "--public-name", CORPUS[1]),
            *("--description", CORPUS[2], "--records", "on"),
        )
        running.operator("user", "add", ADA, "--name", CORPUS[0])
        token = running.issue_token(ADA)
        running.register(token, FQDN, nameservers=["ns1.provider.example"])
        running.operator("subdomain", "suspend", FQDN, "--reason", CORPUS[1])
        running.register(token, "other.example.test", nameservers=["ns1.provider.example"])
        quoted = ['"' + each.replace('"', '\\"') + '"' for each in CORPUS]
        texts = {"name": "@", "type": "TXT", "values": quoted}
        running.register(token, "texts.example.test", records=[texts])
        yield running, signed_in(running, ADA).secret


@pytest.fixture(scope="module")
def browser(service: tuple[RunningService, str]) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_no_text_of_a_user_runs_as_a_script(browser: Browser, service: tuple[RunningService, str]) -> None:
    running, secret = service
    with tab(browser, running, secret=secret) as opened:
        texts = "/names/texts.example.test"
        for path in (
            "/",
            "/names",
            f"/names/{FQDN}",
            "/register",
            texts,
            f"{texts}/records",
            f"{texts}/delegation",
        ):
            opened.open(path)
            assert opened.page.title() != "ran"
        for text in share(CORPUS[:2], whole=CORPUS):
            asked = quote(text, safe="")
            for path in (f"/?q={asked}", f"/names?q={asked}&domain={asked}", f"/register?fqdn={asked}"):
                opened.open(path)
                assert opened.page.title() != "ran"
            opened.open("/register?fqdn=new.example.test")
            for label in ("Nameservers", "Glue", "DS records"):
                opened.page.get_by_label(label).evaluate("(field, text) => field.value = text", text)
            opened.press("Register new.example.test")
            assert opened.page.get_by_label("Nameservers").input_value() == text
            opened.open("/names/other.example.test/nameservers")
            opened.fill("Nameservers", text)
            opened.press("Go on: see the change")
            assert opened.page.get_by_label("Nameservers").input_value() == text
            opened.open("/names/texts.example.test/records")
            opened.page.get_by_text("Paste a zone file").click()
            opened.fill("Zone file", text)
            opened.press("Go on: see the change")
            assert opened.page.get_by_label("Zone file").first.input_value() == text
        opened.page.context.add_cookies(
            [
                {
                    "name": "__Host-sublet_message",
                    "value": quote(CORPUS[0]),
                    "url": origin_of(running).replace("http://", "https://"),
                    "secure": True,
                }
            ]
        )
        opened.open("/names")
        assert (CORPUS[0] in opened.text, opened.page.title() != "ran") == (True, True)
