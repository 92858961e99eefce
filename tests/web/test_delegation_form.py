"""The forms for nameservers, glue and DS records: what they check, and what they show before it is stored."""

from collections.abc import Iterator

import pytest

from support.console_client import ConsoleClient, console
from support.running_service import RunningService, registry_address, running_service

FQDN = "own.example.test"
PATH = f"/names/{FQDN}/nameservers"
GARBAGE = "what.is_this"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    # Nothing answers at this address, so each check ends at once.
    limits = {"rate_limits": True, "rate_limit_health_per_minute": 1}
    checks = {"health_checks": True, "health_root_hints": "127.0.0.99", **limits}
    with running_service(registry_address(tmp_path_factory.mktemp("forms")), **checks) as running:
        running.add_domain("example.test")
        running.register(running.add_user("ada@example.org"), FQDN, nameservers=["ns1.provider.example"])
        yield running
        assert running.doctor() == []


@pytest.fixture
def browser(service: RunningService) -> ConsoleClient:
    return console(service, "ada@example.org")


@pytest.mark.operations("check_delegation")
def test_entries_are_checked_without_a_limit_and_nameservers_with_one(browser: ConsoleClient) -> None:
    page = browser.get(PATH)
    valid = {"nameservers": "ns2.provider.example"}
    asked = browser.submit(page, PATH, check="yes", **valid)
    assert (asked.status, "The nameservers are not asked now" in asked.text) == (200, False)
    for action in ({"check": "yes"}, {}):
        refused = browser.submit(page, PATH, nameservers=GARBAGE, **action)
        assert (refused.status, "nameservers-error" in refused.response.text) == (422, True)
        assert "This changes" not in refused.text, "only what is checked is shown as a change"
    shown = browser.submit(page, PATH, **valid)
    assert "This changes" in shown.text
    assert "These entries are well-formed. The nameservers are not asked now." in shown.text
    assert "You had nameservers asked more than 1 times in a minute. Wait" in shown.text
    answer = browser.post("/delegation-check", page.form(PATH).fields | {"nameservers": GARBAGE})
    assert len(answer.response.json()["errors"]["nameservers"]) == 1
