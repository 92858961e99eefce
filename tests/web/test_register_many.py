"""Many names at once: prices, one confirmation, results, a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console_client import console
from support.running_service import RunningService, registry_address, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("many")
    with running_service(registry_address(path), rate_limits=False) as running:
        running.add_domain()
        yield running
        assert running.doctor() == []


def test_many_names_are_quoted_confirmed_and_told(service: RunningService) -> None:
    ada = service.add_user("ada@example.org", credit_count=25)
    service.register(ada, "taken.example.test")
    browser = console(service, ada.email)
    page = browser.get("/register/many")
    names = "one\ntwo.example.test\ntaken\n-wrong-\none"
    quoted = browser.submit(
        page,
        "/register/many",
        names=names,
        registration_mode="plus",
        nameservers="ns1.provider.example\nns2.provider.example",
    )
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
    assert file.response.text.splitlines()[1:] == ["one.example.test,Active", "two.example.test,Active"]


def test_too_many_names_are_refused(service: RunningService) -> None:
    service.add_user("ben@example.org")
    browser = console(service, "ben@example.org")
    names = "\n".join(f"name{number}" for number in range(51))
    refused = browser.submit(browser.get("/register/many"), "/register/many", names=names)
    assert (refused.status, "50 at most" in refused.text) == (422, True)
