"""The page that registers a name."""

import pytest

from sublet.web import register
from support.console_client import console
from support.running_service import RunningService

TYPED = {"registration_mode": "plus", "coupon_code": "SPRING", "nameservers": "ns1.provider.example"}


def test_another_name_keeps_the_rest_of_the_form(service: RunningService) -> None:
    """Also if the name was edited before the button that registers, and after a name that is taken."""
    service.add_domain()
    service.register(service.add_user("ben@example.org"), "taken.example.test")
    ada = service.add_user(credit_count=100)
    browser = console(service, ada.email)
    page = browser.get("/register?fqdn=First.example.test")
    searched = browser.submit(page, "/register", **TYPED, label="second", search="yes")
    edited = browser.submit(searched, "/register", label="taken")
    assert {each.path for each in (searched, edited)} == {"/register"}
    assert ("Available second.example.test" in searched.text, "Taken" in edited.text) == (True, True)
    third = browser.submit(edited, "/register", label="third", search="yes")
    fields = third.form("/register").fields
    assert {name: fields[name].strip() for name in TYPED} == TYPED
    quoted = browser.submit(third, "/register", coupon_code="")
    assert (quoted.status, "Please confirm" in quoted.text) == (402, True)
    other = browser.submit(quoted, "/register", label="fourth", confirm="yes")
    assert (other.status, "Please confirm" in other.text) == (200, False), "a price is of one name"
    done = browser.submit(quoted, "/register", confirm="yes")
    assert (done.path, "ns1.provider.example" in done.text) == ("/names/third.example.test", True)
    assert [each["fqdn"] for each in service.call(ada, "GET", "/subdomains").json()["subdomains"]] == [
        "third.example.test"
    ]


def test_a_price_stays_in_view_if_its_confirmation_needs_a_new_sign_in(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user(credit_count=100)
    browser = console(service, ada.email)
    asked = {"registration_mode": "plus"}
    quoted = browser.submit(browser.get("/register?fqdn=late.example.test"), "/register", **asked)
    service.clock.advance(minutes=11)
    refused = browser.submit(quoted, "/register", confirm="yes")
    assert (refused.status, "Please confirm" in refused.text) == (403, True)
    assert "come back here, and press the button again" in refused.text
    service.clock.advance(minutes=-11)
    done = browser.submit(refused, "/register", confirm="yes")
    assert (done.path, "It cost 10 credits." in done.text) == ("/names/late.example.test", True)
    service.pass_days(340)
    browser = console(service, ada.email)
    renewal = browser.submit(browser.get("/names/late.example.test/renew"), "/names/late.example.test/renew")
    service.clock.advance(minutes=11)
    refused = browser.submit(renewal, "/names/late.example.test/renew", confirm="yes")
    assert (refused.status, "Please confirm" in refused.text) == (403, True)


def test_a_plan_that_the_next_name_does_not_have_is_not_kept(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user()
    page = console(service, ada.email).post(
        "/register", {"label": "a", "domain": "example.test", "registration_mode": "gold", "search": "yes"}
    )
    assert page.status == 403, "it has no token of the session"
    assert page.form("/register").fields["registration_mode"] == "free"


def test_a_name_beyond_ascii_is_shown_as_it_is_read(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user()
    browser = console(service, ada.email)
    page = browser.get("/register?label=müller&domain=example.test")
    assert "Available xn--mller-kva.example.test müller.example.test" in page.text
    named = browser.submit(page, "/register")
    assert named.path == "/names/xn--mller-kva.example.test"
    for shown in (named, browser.get("/names")):
        assert "xn--mller-kva.example.test müller.example.test" in shown.text


@pytest.mark.parametrize("listed_max", [20, 1])
def test_a_name_under_a_nested_or_unlisted_platform_domain(
    service: RunningService, monkeypatch: pytest.MonkeyPatch, listed_max: int
) -> None:
    service.add_domain()
    service.add_domain("sub.example.test")
    ada = service.add_user()
    monkeypatch.setattr(register, "DOMAINS_MAX", listed_max)
    browser = console(service, ada.email)
    for fqdn in ("a.sub.example.test", "b.example.test"):
        page = browser.get(f"/register?fqdn={fqdn}")
        assert browser.submit(page, "/register").path == f"/names/{fqdn}"
