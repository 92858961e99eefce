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


def test_a_paste_is_taken_as_the_provider_shows_it(service: RunningService, browser: ConsoleClient) -> None:
    digest = "1F987CC6583E92DF0890718C42A1D3B1A1F4B4A6B2D8A1DD09A4C1D7F4D3E5A6"
    shown = browser.submit(
        browser.get(PATH),
        PATH,
        nameservers="Type\tValue\nNS\tabby.ns.provider.example\nNS\tclark.ns.provider.example",
        ds_records=f"Key Tag\n2371\nAlgorithm\n13 (ECDSAP256SHA256)\nDigest Type\n2\nDigest\n{digest}",
    )
    assert "Nothing is taken from Type Value" in shown.text
    done = browser.submit(shown, PATH, confirm="yes")
    assert f"2371 13 2 {digest.lower()}" in done.text
    assert service.delegation(FQDN) == {"abby.ns.provider.example", "clark.ns.provider.example"}
    wrong = browser.submit(
        browser.get(PATH), PATH, nameservers="ns1_a.example\nNS ns1_a.example\nns1_a.example"
    )
    assert wrong.response.text.count("ns1_a.example") == 5, (
        "each error once: above, and at the field that has it thrice"
    )
    page = browser.get("/register?fqdn=new.example.test")
    registered = browser.submit(page, "/register", nameservers="ns1.provider.example\nCopy")
    assert "new.example.test is yours. Nothing is taken from Copy" in registered.text
