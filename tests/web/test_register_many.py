"""Many names at once: prices, one confirmation, results, a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.web import register_many
from sublet.web.names import CONCURRENCY
from support.console_client import console
from support.running_service import RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("many")
    with running_service(registry_address(path), rate_limits=False) as running:
        running.add_domain()
        yield running
        assert running.doctor() == []


def test_many_names_are_quoted_confirmed_and_reported(service: RunningService) -> None:
    ada = service.add_user("ada@example.org", credit_count=25)
    service.register(ada, "taken.example.test")
    browser = console(service, ada.email)
    page = browser.get("/register/many")
    names = "one\ntwo.example.test\ntaken\n-wrong-\none\nOne.example.test"
    quoted = browser.submit(
        page,
        "/register/many",
        names=names,
        nameservers="ns1.provider.example\nns2.provider.example\nns3 provider example",
    )
    assert ("2 names for no credits" in quoted.text, "Not used: ns3" in quoted.text) == (True, True)
    quoted = browser.submit(quoted, "/register/many", registration_mode="plus")
    assert (quoted.status, "2 names for 20 credits" in quoted.text) == (200, True)
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 25
    form = quoted.form("/register/many").fields | {"confirm": "yes", "registration_mode": "plus"}
    for _ in range(2):
        done = browser.post("/register/many", form)
        assert "2 of 2 names registered" in done.text
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 5
    assert service.delegation("one.example.test") == {"ns1.provider.example", "ns2.provider.example"}
    file = browser.submit(done, "/register/many/download")
    assert file.response.headers["content-disposition"].startswith("attachment")
    assert file.response.text.splitlines()[1:] == [
        "one.example.test,yes,In the DNS",
        "two.example.test,yes,In the DNS",
    ]


def test_a_list_is_priced_with_the_remaining_quota_and_credits(service: RunningService) -> None:
    dora = service.add_user("dora@example.org", credit_count=15, free_quota="3")
    service.register(dora, "first.example.test")
    browser = console(service, dora.email)
    names = "\n".join(f"priced{number}" for number in range(4))
    page = browser.submit(browser.get("/register/many"), "/register/many", names=names)
    assert "3 names for 10 credits" in page.text
    assert "2 free, 1 for 10 credits together. 1 of your 3 free names is in use." in page.text
    assert "The balance is 15 credits, 5 credits afterwards." in page.text
    assert (
        "priced3.example.test No It costs 10 credits, and the names before it leave you 5 credits"
        in page.text
    )
    only_free = browser.submit(page, "/register/many", registration_mode="free")
    assert "2 names for no credits" in only_free.text
    assert "priced2.example.test No All 3 free names are in use" in only_free.text
    done = browser.submit(page, "/register/many", confirm="yes")
    assert "3 of 3 names registered" in done.text
    assert service.call(dora, "GET", "/credits").json()["credit_balance"] == 5
    spent = browser.submit(browser.get("/register/many"), "/register/many", names="more")
    assert (
        "It costs 10 credits, and the names before it leave you 5 credits" in spent.text,
        "confirm" in spent.response.text,
    ) == (
        True,
        False,
    )


def test_a_long_list_is_registered_completely_in_parts(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(register_many, "PORTION_SECONDS", 0)
    service.add_user("carl@example.org", free_quota="50")
    browser = console(service, "carl@example.org")
    names = "\n".join(f"long{number}" for number in range(CONCURRENCY + 2))
    quoted = browser.submit(browser.get("/register/many"), "/register/many", names=names)
    first = browser.submit(quoted, "/register/many", confirm="yes")
    assert "5 of 7 names registered" in first.text
    again = browser.submit(browser.get("/register/many"), "/register/many", names=names)
    assert (again.text.count("Yours already"), "2 names for no credits" in again.text) == (5, True)
    for _ in range(2):  # a portion that is sent twice acts once
        last = browser.submit(first, "/register/many", confirm="yes")
        assert "7 of 7 names registered" in last.text
    assert browser.submit(last, "/register/many/download").response.text.count(",yes,") == 7


def test_the_checks_of_a_page_count_as_one_request(tmp_path: Path) -> None:
    """A second list of 50 names is checked completely, and so are the names of a search, with and without a
    session.
    """
    with running_service(
        registry_address(tmp_path), rate_limits=True, rate_limit_availability_per_minute=3
    ) as running:
        for number in range(5):
            running.add_domain(f"domain{number}.test")
        running.add_user("ada@example.org", free_quota="100")
        browser = console(running, "ada@example.org")
        for round_ in ("a", "b"):
            names = "\n".join(f"{round_}{number}.domain0.test" for number in range(50))
            quoted = browser.submit(browser.get("/register/many"), "/register/many", names=names)
            assert "50 names for no credits" in quoted.text
        for visitor in (browser, console(running)):
            page = visitor.get("/?q=garden")
            assert page.status == 200
            assert all(f"garden.domain{number}.test" in page.text for number in range(5))
            assert "times in a minute" not in page.text
        last = browser.submit(browser.get("/register/many"), "/register/many", names="one.domain0.test")
        assert "times in a minute" in last.text
        assert "1 name for no credits" not in last.text


def test_too_many_names_are_refused(service: RunningService) -> None:
    service.add_user("ben@example.org")
    browser = console(service, "ben@example.org")
    names = "\n".join(f"name{number}" for number in range(51))
    refused = browser.submit(browser.get("/register/many"), "/register/many", names=names)
    assert (refused.status, "50 at most" in refused.text) == (422, True)
