"""Forms that a page of another site sends, or sent without the token of the session, change nothing; nor does
one sent twice.
"""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from sublet.web.routes import PAGES
from support.console_client import ConsoleClient, console
from support.running_service import Registrant, RunningService, registry_address, running_service

FQDN = "own.example.test"
FORMS = [page for page in PAGES if page.post is not None]
PATHS = [re.sub(r"\{\w+(:\w+)?\}", "1", page.path.replace("{fqdn}", FQDN)) for page in FORMS]
ELSEWHERE = {
    "another site": {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    "the same site": {"origin": "http://localhost:1", "sec_fetch_site": "same-site"},
    "an old browser": {"origin": "https://evil.example", "sec_fetch_site": ""},
    "no origin": {"origin": "null", "sec_fetch_site": ""},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("forged")
    with running_service(registry_address(path), signup="open", rate_limits=False) as running:
        running.add_domain()
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    found = service.add_user("ada@example.org", credit_count=100)
    service.register(found, FQDN, nameservers=["ns1.provider.example"])
    return found


def state(service: RunningService, ada: Registrant) -> object:
    answers = (
        service.call(ada, "GET", path).json()
        for path in (
            "/subdomains",
            f"/subdomains/{FQDN}/auto-renew",
            "/credits",
            "/tokens",
            "/transfers",
            "/me",
        )
    )
    found = [{name: value for name, value in each.items() if name != "token"} for each in answers]
    for token in found[3]["tokens"]:
        del token["last_used_at"], token["last_used_from"]  # stored in intervals
    return found


def test_a_form_from_another_site_is_refused(service: RunningService, ada: Registrant) -> None:
    before = state(service, ada)
    browser = console(service, ada.email)
    token = browser.get("/names").form("/signout").fields["form_token"]
    for path, (where, headers) in product(PATHS, ELSEWHERE.items()):
        page = browser.post(path, {"form_token": token, "confirm": "yes"}, **headers)
        assert (page.status, "comes from another site" in page.text) == (403, True), (path, where)
    assert state(service, ada) == before
    assert browser.get("/names").path == "/names", "it is still signed in"


def test_a_form_without_the_token_of_the_session_is_refused(service: RunningService, ada: Registrant) -> None:
    ben = service.add_user("ben@example.org")
    other = console(service, ben.email).get("/names").form("/signout").fields["form_token"]
    before = state(service, ada)
    browser = console(service, ada.email)
    for path in (path for path, page in zip(PATHS, FORMS, strict=True) if not page.is_open):
        for fields in ({"a": ""}, {"form_token": ""}, {"form_token": other}, {"form_token": "ä" * 64}):
            # 404: the page shows the form again, and there is no ticket or offer 1.
            assert browser.post(path, {"confirm": "yes", **fields}).status in (403, 404), (path, fields)
        nowhere = browser.post(path, {"confirm": "yes"}, origin="", sec_fetch_site="")
        assert nowhere.status in (403, 404), path
    refused = browser.post("/tickets/new", {"form_token": other, "form_user": str(ben.id)})
    assert f"You have signed in again, as {ada.email}," in refused.text
    assert state(service, ada) == before


def test_a_form_sent_twice_pays_once(service: RunningService, ada: Registrant) -> None:
    browser = console(service, ada.email)
    page = browser.get("/register?fqdn=twice.example.test")
    quoted = browser.submit(page, "/register", registration_mode="plus", nameservers="ns1.provider.example")
    assert (quoted.status, "Please confirm" in quoted.text) == (402, True)
    form = quoted.form("/register").fields | {"registration_mode": "plus", "confirm": "yes"}
    for _ in range(2):
        done = browser.post("/register", form)
        assert (done.status, done.path) == (200, "/names/twice.example.test")
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 90


def test_a_price_that_rose_is_not_paid(service: RunningService, ada: Registrant) -> None:
    browser: ConsoleClient = console(service, ada.email)
    page = browser.get("/register?fqdn=dearer.example.test")
    quoted = browser.submit(page, "/register", registration_mode="plus")
    form = quoted.form("/register").fields | {"registration_mode": "plus", "confirm": "yes"}
    offer = (
        "domain",
        "offer",
        "example.test",
        "--mode",
        "plus",
        "--renewal-price",
        "10",
        "--period-days",
        "365",
    )
    service.operator(*offer, "--price", "20")
    refused = browser.post("/register", form)
    assert (refused.status, "20 credits" in refused.text) == (409, True)
    service.operator(*offer, "--price", "10")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", "{}"),
        ("multipart/form-data; boundary=x", "--x--"),
        ("application/x-www-form-urlencoded", "a=%00"),
        ("application/x-www-form-urlencoded", "a=%ff"),
        ("application/x-www-form-urlencoded", "a=" + "x" * 70_000),
        ("application/x-www-form-urlencoded", "a=" + "x" * 200_000),
        ("application/x-www-form-urlencoded", "&".join(["a=1"] * 300)),
    ],
)
def test_a_malformed_form_is_refused(service: RunningService, content_type: str, body: str) -> None:
    origin = console(service).origin
    headers = {"content-type": content_type, "origin": origin}
    answer = service.client.post(f"{origin}/signin", content=body, headers=headers)
    assert answer.status_code in (400, 413)
    assert "text/html" in answer.headers["content-type"]
