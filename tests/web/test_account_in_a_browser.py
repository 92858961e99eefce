"""Organizations, tickets and passkeys at the console, in a real Chromium: wide with JavaScript, and narrow
without it.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from support.browsers import signed_in
from support.chromium import AUTHENTICATOR, chromium, outside, tab
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
        opened.page.get_by_role("button", name="Copy the token").click()
        copied = opened.page.evaluate("navigator.clipboard.readText()")
        assert f"Bearer {copied}" in opened.page.get_by_role("region", name="Command").inner_text()
    assert service.call(copied, "GET", "/me").json()["token"]["name"] == "laptop"


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
