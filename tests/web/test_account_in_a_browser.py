"""Organizations, tickets and passkeys at the console, in a real Chromium: wide with JavaScript, and narrow
without it.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import select

from sublet.mail.store import mails
from support.browsers import signed_in
from support.chromium import AUTHENTICATOR, VARIANTS, chromium, outside, tab
from support.running_service import Registrant, RunningService, registry_address, running_service

pytestmark = pytest.mark.slow
DOMAIN = "example.test"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path_factory.mktemp("account"))) as running:
        running.add_domain(DOMAIN)
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="module")
def browser(service: RunningService) -> Iterator[Browser]:
    """It ends before the service does: its event loop is in the thread of the tests."""
    with chromium() as found:
        yield found


def add_user(service: RunningService, email: str) -> tuple[Registrant, str]:
    return outside(lambda: (service.add_user(email), signed_in(service, email).secret))


def link_to(service: RunningService, email: str) -> str:
    query = select(mails.c.text).where(mails.c.recipient == email).order_by(mails.c.id.desc()).limit(1)
    text = outside(service.read, lambda tx: str(tx.connection.execute(query).scalar_one()))
    return str(re.findall(r"/signup/confirm\?token=\S+", text)[0])


@pytest.mark.operations("create_organization", "invite_member", "accept_invitation", "remove_member")
@pytest.mark.parametrize("way", VARIANTS)
def test_two_people_share_a_name(browser: Browser, service: RunningService, way: dict[str, Any]) -> None:
    mark = f"{way['javascript']}-{way['size'][0]}".lower()
    (_, ada), (_, ben) = (
        add_user(service, f"ada-{mark}@example.org"),
        add_user(service, f"ben-{mark}@example.org"),
    )
    fqdn = f"shared-{mark}.{DOMAIN}"
    with tab(browser, service, secret=ada, **way) as opened:
        opened.open("/organizations")
        opened.fill("Name", "Valley Museum")
        opened.press("Create")
        assert "The organization is created." in opened.text
        opened.fill("E-mail address", f"ben-{mark}@example.org")
        opened.page.get_by_label("Role", exact=True).select_option("viewer")
        opened.press("Invite")
        opened.page.locator(".menu summary", has_text="Valley Museum").click()
        opened.press("Valley Museum")
        opened.press("Register your first name")
        opened.fill("Name", f"shared-{mark}")
        opened.page.get_by_label("Name").first.press("Enter")
        opened.press(f"Register {fqdn}")
        assert f"{fqdn} is yours." in opened.text
        opened.open("/names")
        assert fqdn not in opened.text, "it is the organization's"
    with tab(browser, service, secret=ben, **way) as opened:
        opened.open(link_to(service, f"ben-{mark}@example.org"))
        opened.press("Join")
        opened.press("Its names")
        assert fqdn in opened.text
        opened.page.locator(".menu summary", has_text="Valley Museum").click()
        opened.press("Members of Valley Museum")
        opened.press("Leave")
        assert "You have left the organization." in opened.text


@pytest.mark.operations("open_ticket", "reply", "get_ticket")
@pytest.mark.parametrize("way", VARIANTS)
def test_a_ticket_is_opened_and_answered(
    browser: Browser, service: RunningService, way: dict[str, Any]
) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    _, secret = add_user(service, f"asker-{way['javascript']}-{way['size'][0]}@example.org".lower())
    with tab(browser, service, secret=secret, **way) as opened:
        opened.open("/tickets")
        opened.press("Open a ticket")
        opened.fill("Subject", hostile)
        opened.fill("Message", "   ")
        opened.press("Open the ticket")
        assert opened.page.get_by_label("Message").get_attribute("aria-invalid") == "true"
        opened.fill("Message", f"Help!\n{hostile}")
        opened.press("Open the ticket")
        assert hostile in opened.page.locator(".prose").first.inner_text()
        number = opened.page.url.rpartition("/")[2]
        outside(service.operator, "ticket", "reply", number, "--message", hostile)
        opened.open(f"/tickets/{number}")
        opened.fill("Your reply", "Thank you")
        opened.press("Reply")
        assert opened.page.locator("article").count() == 3


@pytest.mark.operations("list_passkeys", "offer_passkey", "add_passkey", "remove_passkey")
@pytest.mark.operations("start_recovery", "stop_recovery")
def test_a_passkey_is_added_and_removed(browser: Browser, service: RunningService) -> None:
    _, secret = add_user(service, "keys@example.org")
    with tab(browser, service, secret=secret) as opened:
        devtools = opened.page.context.new_cdp_session(opened.page)
        devtools.send("WebAuthn.enable")
        devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
        opened.open("/passkeys")
        opened.fill("Name", "phone")
        opened.press("Add a passkey")
        assert "phone" in opened.page.get_by_role("table").inner_text()
        opened.press("Start a recovery")
        assert "A recovery is under way" in opened.text
        opened.press("Stop the recovery")
        assert "The recovery is stopped." in opened.text
        service.clock.advance(minutes=11)
        opened.press("Remove phone")
        assert "This needs a sign-in" in opened.text
        opened.press("Sign in again")
        opened.press("Sign in with a passkey")
        opened.open("/passkeys")
        opened.press("Remove phone")
        assert "You have no passkeys." in opened.text


def test_a_token_and_its_secret_are_copied(browser: Browser, service: RunningService) -> None:
    _, secret = add_user(service, "copier@example.org")
    with tab(browser, service, secret=secret) as opened:
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.open("/tokens/new")
        opened.fill("Name", "laptop")
        opened.press("Create the token")
        opened.page.get_by_role("button", name="Copy").click()
        copied = opened.page.evaluate("navigator.clipboard.readText()")
    assert service.call(copied, "GET", "/me").json()["token"]["name"] == "laptop"


HOSTILE = (
    "<script>window.hit=1</script><img src=x onerror=window.hit=1>",
    "\"'><svg onload=window.hit=1>{{7*7}}{% raw %}",
    "javascript:window.hit=1//</textarea></title><iframe srcdoc='<script>top.hit=1</script>'>",
)
PAGES = (
    *("/account", "/organizations", "/names", "/credits", "/transfers", "/tokens", "/sessions"),
    *("/activity", "/tickets"),
)


def test_hostile_text_is_text(browser: Browser, service: RunningService) -> None:
    """What users and the operator type is shown as they typed it on every page that shows it; nothing of it
    runs.
    """

    def fill() -> str:
        ada = service.add_user("hostile@example.org", credit_count=1)
        service.operator("package", "add", HOSTILE[0], "--credits", "1", "--price", "1", "--currency", "EUR")
        service.operator("credits", "grant", ada.email, "--credits", "1", "--reason", HOSTILE[1])
        for text in HOSTILE:
            for path, body in (
                ("/tokens", {"name": text, "scopes": ["account:read"]}),
                ("/organizations", {"name": text}),
                ("/support/tickets", {"subject": text, "message": text}),
            ):
                assert service.call(ada, "POST", path, body).status_code == 201
        found = signed_in(service, ada.email)
        assert found.call("PATCH", "/me", {"name": HOSTILE[0]}).status_code == 200
        return found.secret

    secret = outside(fill)
    with tab(browser, service, secret=secret) as opened:
        for path in PAGES:
            opened.open(path)
            assert opened.page.evaluate("window.hit") is None, path
            assert HOSTILE[0] in (opened.page.locator("body").text_content() or ""), path
            for part in ("/tickets/T-", "/tokens/", "/o/"):
                inner = opened.page.locator(f"main a[href^='{part}']").first
                if inner.count():
                    opened.open(str(inner.get_attribute("href")))
                    assert opened.page.evaluate("window.hit") is None, path


def test_the_api_is_tried_with_the_session(browser: Browser, service: RunningService) -> None:
    _, secret = add_user(service, "trier@example.org")
    with tab(browser, service, secret=secret) as opened:
        page = opened.page
        opened.open("/try#list_tickets")
        page.get_by_label("Path and query").fill("/api/v1/support/tickets?limit=1")
        page.get_by_role("button", name="Send").click()
        page.locator("#answer", has_text='"tickets": []').wait_for()
        page.get_by_label("Operation").select_option("open_ticket")
        expect(page.get_by_label("Path and query")).to_have_value("/api/v1/support/tickets", timeout=60_000)
        page.get_by_label("Body, as JSON").fill(
            '{"subject": "<img src=x onerror=alert(1)>", "message": "Hello"}'
        )
        page.get_by_role("button", name="Send").click()
        page.locator("#answer", has_text='"ticket_number": "T-').wait_for()
        assert page.locator("#answer img").count() == 0
        opened.open("/tickets")
        assert "<img src=x onerror=alert(1)>" in opened.text
