"""What people do at the console, in a real Chromium: wide with JavaScript, and narrow without it."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, expect

from sublet.web import register_many
from support.browsers import signed_in
from support.chromium import AUTHENTICATOR, PLAIN, VARIANTS, Tab, chromium, outside, tab
from support.repetitions import share
from support.running_service import Registrant, RunningService, registry_address, running_service
from support.smtp_server import Mailbox, smtp_server, text_of
from support.waiting import wait_until

pytestmark = pytest.mark.slow
DOMAIN = "example.test"
SITES = "sites.test"


@pytest.fixture(scope="module")
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, mailbox: Mailbox) -> Iterator[RunningService]:
    with (
        smtp_server(mailbox) as port,
        running_service(
            registry_address(tmp_path_factory.mktemp("stories")),
            signup="open",
            free_quota=50,
            new_user_free_quota=50,
            mail_transport="smtp",
            mail_from="names@example.net",
            smtp_host="127.0.0.1",
            smtp_port=port,
            smtp_security="none",
        ) as running,
    ):
        running.add_domain(SITES, "--records", "on")
        running.add_domain(DOMAIN)  # the newest is the default
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="module")
def browser(service: RunningService) -> Iterator[Browser]:
    """It ends before the service does: its event loop is in the thread of the tests."""
    with chromium() as found:
        yield found


def add_user(service: RunningService, email: str, **more: Any) -> tuple[Registrant, str]:
    def add() -> tuple[Registrant, str]:
        return service.add_user(email, **more), signed_in(service, email).secret

    return outside(add)


def code_to(mailbox: Mailbox, email: str) -> str:
    def newest() -> list[str]:
        texts = [text_of(each) for each in mailbox.messages() if each["to"] == email]
        return re.findall(r"your code is (\d{6})", texts[-1]) if texts else []

    wait_until(lambda: bool(newest()))
    return newest()[0]


def open_account(opened: Tab, mailbox: Mailbox, email: str) -> None:
    opened.fill("E-mail address", email)
    if opened.javascript:
        expect(opened.page.locator("#challenge")).not_to_have_value("")
    opened.press("Mail me a code")
    opened.fill("Code of six digits", code_to(mailbox, email))
    opened.press("Go on")
    assert "Your account is open, and you are signed in." in opened.text


@pytest.mark.operations(
    "challenge",
    "sign_up",
    "confirm_sign_up",
    "platform_domains",
    "availability",
    "register",
    "get_subdomain",
    "timeline",
)
@pytest.mark.parametrize("way", share(VARIANTS[1:], whole=VARIANTS))
def test_from_stranger_to_delegation(
    browser: Browser, service: RunningService, mailbox: Mailbox, way: dict[str, Any]
) -> None:
    label = f"stranger-{way['javascript']}-{way['size'][0]}".lower()
    with tab(browser, service, **way) as opened:
        opened.open("/")
        opened.page.get_by_label("Name").fill(label)
        opened.press("Search")
        opened.press(f"Register {label}.{DOMAIN}")
        open_account(opened, mailbox, f"{label}@example.org")
        opened.fill("Nameservers", "ns1.provider.example\nns2.provider.example")
        opened.press(f"Register {label}.{DOMAIN}")
        assert f"{label}.{DOMAIN} is registered." in opened.text
        opened.page.locator(".chip.good", has_text="Active").first.wait_for()
    assert service.delegation(f"{label}.{DOMAIN}") == {"ns1.provider.example", "ns2.provider.example"}


@pytest.mark.operations("register", "set_record")
@pytest.mark.parametrize("way", share([VARIANTS[0], PLAIN], whole=VARIANTS))
def test_from_stranger_to_website(
    browser: Browser, service: RunningService, mailbox: Mailbox, way: dict[str, Any]
) -> None:
    """A person who knows no DNS has a website, moves it to a server, and then to a DNS provider."""
    fqdn = f"site-{way['javascript']}-{way['size'][0]}.{SITES}".lower()
    with tab(browser, service, **way) as opened:
        opened.open("/")
        opened.page.get_by_label("Name").fill(fqdn)
        opened.press("Search")
        opened.press(f"Register {fqdn}")
        open_account(opened, mailbox, f"{fqdn}@example.org".replace(".sites", ""))
        opened.press(f"Register {fqdn}")
        opened.page.get_by_text("Website at a host name").click()
        opened.fill("Host name", "mysite")
        opened.press("Point it there")
        opened.fill("Host name", "https://mysite.pages.example/")
        opened.press("Point it there")
        assert f"Stored, and in the DNS now. Now enter {fqdn}" in opened.text
        assert service.dig(fqdn, "CNAME", "+short").strip() == "mysite.pages.example."
        opened.fill("Values of CNAME of @", "other.pages.example")
        opened.press("Save CNAME of @")
        assert opened.page.locator(".removed").inner_text().endswith("mysite.pages.example.")
        opened.press("Save the change")
        assert service.dig(fqdn, "CNAME", "+short").strip() == "other.pages.example."
        opened.press("Ask the servers of sites.test")
        assert "As stored" in opened.text
        opened.open(f"/names/{fqdn}/nameservers")
        opened.fill("Nameservers", "ns1.provider.example\nns2.provider.example")
        opened.press("Go on: see the change")
        opened.press("Save the change")
    assert service.delegation(fqdn) == {"ns1.provider.example", "ns2.provider.example"}


def test_a_name_that_can_t_be_paid_leads_to_the_credits(browser: Browser, service: RunningService) -> None:
    """The page says what is missing, and a refusal goes away with the name that it is about."""
    ada, secret = add_user(service, "poor@example.org", credit_count=4)
    service.register(ada, f"mine.{DOMAIN}")
    with tab(browser, service, secret=secret) as opened:
        opened.open("/register")
        assert opened.page.evaluate("document.activeElement.id") == "label"
        opened.page.keyboard.type("anna shop")
        opened.press("Go on")
        expect(opened.page.locator("#refused")).to_contain_text("Name: ")
        opened.fill("Name", "mine")
        expect(opened.page.locator("#refused")).to_have_count(0)
        expect(opened.page.locator("#availability")).to_have_text(f"Yours already mine.{DOMAIN}")
        opened.fill("Name", "poor")
        expect(opened.page.locator("#availability")).to_have_text(f"Available poor.{DOMAIN}")
        opened.press("Go on")
        opened.page.get_by_label("Plus").check()
        opened.press(f"Register poor.{DOMAIN}")
        assert "You need more credits" in opened.text
        assert "6 credits" in opened.page.locator("#quote").inner_text()
        opened.press("See how to get credits")
        assert opened.page.get_by_role("heading", name="Credits", exact=True).is_visible()
        opened.open("/register")
        opened.fill("Name", "mine")
        expect(opened.page.locator("#availability")).to_have_text(f"Yours already mine.{DOMAIN}")
        opened.page.context.clear_cookies()
        opened.fill("Name", "other")
        expect(opened.page.locator("#availability")).to_have_text("")


@pytest.mark.operations("update_nameservers", "delegation")
@pytest.mark.parametrize("way", VARIANTS)
def test_a_change_shows_its_difference_first(
    browser: Browser, service: RunningService, way: dict[str, Any]
) -> None:
    label = f"change-{way['javascript']}-{way['size'][0]}".lower()
    ada, secret = add_user(service, f"{label}@example.org")
    fqdn = f"{label}.{DOMAIN}"
    service.register(ada, fqdn, nameservers=["ns1.provider.example"])
    service.register(ada, f"other-{fqdn}", nameservers=["ns9.provider.example"])
    with tab(browser, service, secret=secret, **way) as opened:
        opened.open(f"/names/{fqdn}")
        opened.press("Nameservers and DNSSEC")
        opened.page.get_by_label("Or copy them from").select_option(index=0)
        with nullcontext() if opened.javascript else opened.page.expect_navigation():
            opened.page.get_by_role("button", name="Fill in").click()
        expect(opened.page.get_by_label("Nameservers")).to_have_value("ns9.provider.example")
        opened.press("Go on: see the change")
        assert "There is only one nameserver" in opened.text
        opened.page.get_by_text("Correct the entries").click()
        opened.fill("Nameservers", f"ns1.provider.example, ns2.{fqdn}")
        if opened.javascript:
            opened.page.get_by_label("Nameservers").blur()
            expect(opened.page.locator("#nameservers-error")).to_contain_text("as glue")
        opened.press("Go on: see the change")
        assert f"ns2.{fqdn}" in opened.page.locator("#refused").inner_text(), "its glue is missing"
        opened.fill("Glue", f"ns2.{fqdn} 9.9.9.9")
        opened.press("Go on: see the change")
        assert opened.page.locator(".added").first.inner_text().strip().endswith(f"ns2.{fqdn}")
        opened.press("Save the change")
        opened.press("Ask the servers of example.test")
        assert "As stored" in opened.text
    assert service.delegation(fqdn) == {"ns1.provider.example", f"ns2.{fqdn}"}


def test_the_registration_of_many_names_continues_without_clicks(
    browser: Browser, service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register_many, "PORTION_SECONDS", 0)
    _, secret = add_user(service, "many@example.org")
    with tab(browser, service, secret=secret) as opened:
        opened.open("/register/many")
        opened.fill("Names", "\n".join(f"many{number}" for number in range(12)))
        opened.press("Show the prices")
        opened.press("Register 12 names for no credits")
        expect(opened.page.get_by_role("heading", name="12 of 12 names registered")).to_be_visible()
        for _ in range(2):
            with opened.page.expect_download():
                opened.page.get_by_role("button", name="Download").click()


def test_a_sent_form_is_busy_until_the_browser_shows_it_again(
    browser: Browser, service: RunningService
) -> None:
    ada, secret = add_user(service, "busy@example.org")
    service.register(ada, f"busy.{SITES}", records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
    with tab(browser, service, secret=secret) as opened:
        opened.open(f"/names/busy.{SITES}/records")
        form, button = opened.page.locator("#row-1"), opened.page.get_by_role("button", name="Save A of @")
        form.evaluate("form => form.addEventListener('submit', event => event.preventDefault())")
        button.click()
        expect(button).to_be_disabled()
        opened.page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        expect(button).to_be_enabled()
        expect(form).to_have_attribute("aria-busy", "false")


def test_text_in_another_form_is_not_lost_without_a_question(
    browser: Browser, service: RunningService
) -> None:
    ada, secret = add_user(service, "typed@example.org")
    path = f"/names/typed.{SITES}/records"
    service.register(ada, f"typed.{SITES}", records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
    asked: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    with tab(browser, service, secret=secret) as opened:
        opened.open(path)
        opened.fill("Values of the new record", "8.8.8.8")
        opened.fill("TTL of A of @", "600")
        opened.page.once("dialog", dismiss)
        opened.page.get_by_role("button", name="Save A of @").click()
        expect(opened.page.get_by_label("Values of the new record")).to_have_value("8.8.8.8")
        assert [each[:23] for each in asked] == ["Text that you typed els"]
        opened.page.once("dialog", lambda dialog: dialog.accept())
        opened.press("Save A of @")
        assert "600" in opened.text


def test_a_form_that_a_person_stops_can_be_sent_again(browser: Browser, service: RunningService) -> None:
    _, secret = add_user(service, "stops@example.org")
    with tab(browser, service, secret=secret) as opened:
        opened.open("/organizations")
        opened.page.route("**/organizations", lambda _route: None)  # no answer
        opened.fill("Name", "Stops")
        states = opened.page.evaluate("""async () => {
            const form = document.querySelector("main form"), button = form.querySelector("button")
            const on = (type) => new Promise((found) => navigation.addEventListener(type, found))
            const begun = on("navigate"), stopped = on("navigateerror")
            form.requestSubmit()
            await Promise.all([begun, new Promise((passed) => setTimeout(passed))])
            const sending = button.disabled
            stop()  // as the key Esc does
            await stopped
            return [sending, button.disabled, form.getAttribute("aria-busy")]
        }""")
    assert states == [True, False, "false"]


def test_a_page_that_follows_a_publication_keeps_an_open_form(
    browser: Browser, service: RunningService
) -> None:
    ada, secret = add_user(service, "follows@example.org")
    fqdn = f"follows.{DOMAIN}"
    service.register(ada, fqdn, nameservers=["ns1.provider.example"])
    with tab(browser, service, secret=secret) as opened:
        opened.page.route(f"**/{fqdn}/delegation", lambda route: route.fulfill(status=503))
        opened.open(f"/names/{fqdn}?published=yes")
        renewal = opened.page.get_by_text("Automatic renewal: off")
        renewal.click()
        opened.fill("If it costs at most", "7")
        other = {"subdomain": {"status": "failed"}}
        opened.page.route(f"**/subdomains/{fqdn}", lambda route: route.fulfill(json=other))
        for _ in range(2):
            opened.page.wait_for_event("response", lambda each: each.url.endswith(f"/subdomains/{fqdn}"))
        assert opened.page.get_by_label("If it costs at most").input_value() == "7"
        with opened.page.expect_navigation():
            renewal.click()


def test_an_error_in_a_folded_field_is_shown(browser: Browser, service: RunningService) -> None:
    _, secret = add_user(service, "folded@example.org")
    with tab(browser, service, secret=secret) as opened:
        opened.open(f"/register?fqdn=folded.{SITES}")
        opened.page.get_by_text("I have nameservers of a DNS provider").click()
        opened.fill("Nameservers", "ns1.provider.example\n2371 13 2 0123456789abcdef0123")
        opened.page.get_by_label("Nameservers").blur()
        expect(opened.page.locator("#ds_records-error")).to_be_visible()


def test_each_control_is_usable_with_the_keyboard_only(browser: Browser, service: RunningService) -> None:
    """Each control is reached by Tab in the order of the page, its focus is seen, and Enter uses it."""
    ada, secret = add_user(service, "keyboard@example.org")
    service.register(ada, f"keyboard.{DOMAIN}")
    with tab(browser, service, secret=secret) as opened:
        opened.open("/names")
        page = opened.page

        def tab_to(words: str) -> None:
            for _ in range(40):
                page.keyboard.press("Tab")
                focused = page.evaluate(
                    "[document.activeElement.innerText || '', "
                    "getComputedStyle(document.activeElement).outlineStyle]"
                )
                if words in focused[0] and focused[0].strip() == words:
                    assert focused[1] != "none", f"the focus on {words} isn't seen"
                    return
            raise AssertionError(f"{words} isn't reached")

        tab_to("Skip to the content")
        page.keyboard.press("Enter")
        tab_to("Register a name")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        page.get_by_label("Name", exact=True).focus()
        page.keyboard.type("by-keyboard")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        tab_to(f"Register by-keyboard.{DOMAIN}")
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert f"by-keyboard.{DOMAIN} is registered." in opened.text


@pytest.mark.operations("list_passkeys", "offer_passkey", "add_passkey", "remove_passkey")
@pytest.mark.operations("start_recovery", "stop_recovery", "challenge_passkey", "confirm_passkey")
def test_a_passkey_is_added_signs_in_and_is_removed(browser: Browser, service: RunningService) -> None:
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
        opened.page.locator("summary", has_text="Remove phone").click()
        opened.press("Remove phone")
        assert "This needs a sign-in" in opened.text
        opened.press("Sign in again")
        assert "You have passkeys, so this needs a sign-in with one of them." in opened.text
        opened.page.route(
            "**/auth/passkeys/*", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>")
        )
        opened.page.get_by_role("button", name="Sign in with a passkey").click()
        expect(opened.page.locator("#passkey-problem")).to_contain_text("can't be reached")
        opened.page.unroute("**/auth/passkeys/*")
        opened.press("Sign in with a passkey")
        opened.page.context.clear_cookies()
        opened.open("/passkeys")
        opened.press("Sign in with a passkey")
        opened.page.wait_for_url("**/passkeys")
        opened.page.locator("summary", has_text="Remove phone").click()
        opened.press("Remove phone")
        assert "You have no passkeys." in opened.text
        opened.page.context.clear_cookies()
        opened.fill("Name", "phone")
        opened.page.get_by_role("button", name="Add a passkey").click()
        opened.press("Sign in again")
        opened.page.get_by_role("button", name="Sign in with a passkey").click()
        expect(opened.page.locator("#passkey-problem")).to_have_text(re.compile("^This passkey was refused"))


def test_a_token_and_its_secret_are_copied(browser: Browser, service: RunningService) -> None:
    _, secret = add_user(service, "copier@example.org")
    with tab(browser, service, secret=secret) as opened:
        opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.open("/tokens/new")
        opened.fill("Name", "laptop")
        opened.press("Create the token")
        opened.page.get_by_role("button", name="Copy the token").click()
        opened.page.get_by_role("button", name="Copied the token").wait_for()
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
        expect(page.get_by_label("Path and query")).to_have_value("/api/v1/support/tickets")
        page.get_by_label("Body, as JSON").fill(
            '{"subject": "<img src=x onerror=alert(1)>", "message": "Hello"}'
        )
        page.get_by_role("button", name="Send").click()
        page.locator("#answer", has_text='"ticket_number": "T-').wait_for()
        assert page.locator("#answer img").count() == 0
        opened.open("/tickets")
        assert "<img src=x onerror=alert(1)>" in opened.text
