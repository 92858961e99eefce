"""Sign in and out at the console, without a browser."""

import re

import pytest

from sublet.operations.client import COOKIE
from support.console_client import console, newest_mail
from support.running_service import RunningService

ADA = "ada@example.org"


@pytest.mark.operations("request_sign_in", "confirm_sign_in", "end_session")
def test_a_code_signs_in_and_leads_to_the_requested_page(service: RunningService) -> None:
    service.add_user(ADA)
    browser = console(service)
    asked = browser.get("/names?status=trashed")
    assert asked.path == "/signin"
    sent = browser.submit(asked, "/signin", email=ADA)
    (code,) = re.findall(r"your code is (\d{6})", newest_mail(service, ADA))
    wrong = browser.submit(sent, "/signin/code", code=f"{(int(code) + 1) % 1_000_000:06d}")
    assert (wrong.status, "code" in wrong.text) == (422, True)
    names = browser.submit(wrong, "/signin/code", code=f"{code[:3]} {code[3:]}")
    assert (names.status, names.path, names.response.url.query) == (200, "/names", b"status=trashed")
    assert "You are signed in." in names.text
    assert "You are signed in." not in browser.get("/names").text, "a message is shown once"
    for _ in range(2):  # the second time from a tab whose session has ended
        assert "You are signed out." in browser.submit(names, "/signout").text
        assert COOKIE not in browser.cookies
    assert browser.get("/names").path == "/signin"


def test_a_requested_path_keeps_its_letters(service: RunningService) -> None:
    service.add_user(ADA)
    browser = console(service)
    sent = browser.submit(browser.get("/names/käse.example.test?a=%2F"), "/signin", email=ADA)
    (code,) = re.findall(r"your code is (\d{6})", newest_mail(service, ADA))
    shown = browser.submit(sent, "/signin/code", code=code)
    assert shown.response.url.raw_path == b"/names/k%C3%A4se.example.test?a=%2F"


def test_a_browser_without_cookies_is_told_before_its_code_is_used(service: RunningService) -> None:
    service.add_user(ADA)
    browser = console(service)
    sent = browser.submit(browser.get("/signin?next=/tokens%3F" + "a" * 4000), "/signin", email=ADA)
    (code,) = re.findall(r"your code is (\d{6})", newest_mail(service, ADA))
    kept, browser.cookies = browser.cookies, {}
    refused = browser.submit(sent, "/signin/code", code=code)
    assert (refused.status, "Allow cookies for this site" in refused.text) == (400, True)
    browser.cookies = kept
    assert browser.submit(refused, "/signin/code", code=code).path == "/names"


def test_a_browser_is_told_at_once_when_another_code_needs_a_pause(service: RunningService) -> None:
    service.add_user(ADA)
    browser = console(service)
    browser.submit(browser.get("/signin"), "/signin", email=ADA)
    again = browser.submit(browser.get("/signin"), "/signin", email=ADA.upper())
    assert "There was no second mail yet. Another code in" in again.text
    assert "is on its way" not in again.text
    other = browser.submit(browser.get("/signin"), "/signin", email="ben@example.org")
    assert "is on its way" in other.text
    service.clock.advance(minutes=2)
    later = browser.submit(browser.get("/signin"), "/signin", email=ADA)
    assert "is on its way" in later.text


def test_a_link_needs_a_click_and_works_once(service: RunningService) -> None:
    service.add_user(ADA)
    service.environment["SUBLET_PUBLIC_URL"] = "https://names.example.net"
    link = service.operator("user", "sign-in-link", ADA)["link"]
    path = "/signin/confirm" + link.partition("/signin/confirm")[2]
    browser = console(service)
    page = browser.get(path)
    assert COOKIE not in browser.cookies
    assert browser.submit(page, "/signin/confirm").path == "/names"
    again = console(service).submit(page, "/signin/confirm")
    assert (again.status, "not signed in" in again.text) == (422, True)


def test_the_sign_in_never_redirects_to_another_site(service: RunningService) -> None:
    service.add_user(ADA)
    browser = console(service, ADA)
    for asked in ("//evil.example/x", "https%3A//evil.example", "/\\evil.example"):
        assert browser.get(f"/signin?next={asked}").path == "/names", asked
    assert browser.get("/signin?next=/tokens%3Fa=b").path == "/tokens"


def test_a_form_of_a_lost_session_keeps_what_was_typed(service: RunningService) -> None:
    ada = service.add_user()
    browser = console(service, ada.email)
    form = browser.get("/tickets/new")
    browser.cookies.clear()
    typed = {"subject": "It broke", "message": "One\n<b>two</b>"}
    lost = browser.submit(form, "/tickets/new", **typed)
    assert (lost.status, "What you typed is kept on this page." in lost.text) == (401, True)
    kept = lost.form("").fields
    assert {name: kept[name] for name in typed} == typed
    assert "form_token" not in kept
    ben = console(service, service.add_user("ben@example.org").email)
    other = ben.post("/tickets/new", kept)
    assert (other.status, "Nothing is changed yet. Press the button again" in other.text) == (403, True)
    assert "It broke" not in ben.get("/tickets").text, "another user has signed in since"
    assert ben.submit(other, "/tickets/new").path.startswith("/tickets/T-")
    browser.cookies = console(service, ada.email).cookies
    for _ in range(2):
        assert browser.post("/tickets/new", kept).path.startswith("/tickets/T-")
    assert browser.get("/tickets").text.count("It broke") == 1


@pytest.mark.parametrize("headers", [{"sec_fetch_site": "cross-site"}, {"origin": "", "sec_fetch_site": ""}])
def test_a_form_that_may_come_from_another_site_is_not_shown_again(
    service: RunningService, headers: dict[str, str]
) -> None:
    ada = service.add_user()
    signed_in = console(service, ada.email)
    for browser in (signed_in, console(service)):
        page = browser.post("/tickets/new", {"subject": "chosen elsewhere"}, **headers)
        assert (page.status in (401, 403), "chosen elsewhere" in page.response.text) == (True, False)


def test_a_form_is_kept_during_a_new_sign_in(service: RunningService) -> None:
    ada = service.add_user()
    browser = console(service, ada.email)
    form = browser.get("/tokens/new")
    service.clock.advance(minutes=11)
    old = browser.submit(form, "/tokens/new", name="laptop", names="*.example.test")
    assert (old.status, 'target="_blank">Sign in again' in old.response.text) == (403, True)
    assert browser.get("/signin/done").text.count("You are signed in") == 1
    browser.cookies = console(service, ada.email).cookies
    assert old.form("/tokens/new").fields["names"].strip() == "*.example.test"
    asked = browser.submit(form, "/tokens/new", name="laptop", names="a.example.test")
    assert (asked.path, "You have no name a.example.test." in asked.text) == ("/tokens/new", True)
    assert "The token is created" in browser.submit(old, "/tokens/new").text
