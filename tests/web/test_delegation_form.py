"""The forms for nameservers, glue and DS records: what they check, and what they show before it is stored."""

from collections.abc import Iterator
from pathlib import Path

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


def test_a_blank_for_a_dot_is_shown_before_it_is_stored(
    service: RunningService, browser: ConsoleClient
) -> None:
    service.register(service.issue_token("ada@example.org"), "typo.example.test")
    path = "/names/typo.example.test/nameservers"
    typed = "ns1.provider.example\nns2 provider.example"
    shown = browser.submit(browser.get(path), path, nameservers=typed)
    assert "This changes" in shown.text
    assert (
        "Nothing is stored yet. Nameservers added: ns1.provider.example added: provider.example" in shown.text
    )
    assert service.delegation("typo.example.test") == set()


@pytest.mark.operations("check_delegation")
def test_entries_are_checked_without_a_limit_and_nameservers_with_one(browser: ConsoleClient) -> None:
    page = browser.get(PATH)
    valid = {"nameservers": "ns2.provider.example"}
    asked = browser.submit(page, PATH, **valid)
    assert (asked.status, "The nameservers are not asked now" in asked.text) == (200, False)
    refused = browser.submit(page, PATH, nameservers=GARBAGE)
    assert (refused.status, "nameservers-error" in refused.response.text) == (422, True)
    assert "This changes" not in refused.text, "only what is checked is shown as a change"
    shown = browser.submit(page, PATH, **valid)
    assert "This changes" in shown.text
    assert "These entries are well-formed. The nameservers are not asked now." in shown.text
    assert "You had nameservers asked more than 1 times in a minute. Try again" in shown.text
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
    assert "Not used" not in shown.text, "a title has nothing to take"
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
    owls = [str(number) + "\N{OWL}" * 100 for number in range(4)]
    registered = browser.submit(
        page, "/register", nameservers="\n".join(["ns1.provider.example", "Copy", *owls])
    )
    told = "The nameservers are ns1.provider.example. Not used: Copy , 0\N{OWL}"
    assert f"new.example.test is registered. {told}" in registered.text
    assert "\N{OWL} … " in registered.text, "a cookie has no room for all"


def test_only_the_shown_entries_are_confirmed(service: RunningService, browser: ConsoleClient) -> None:
    pasted = "Nameservers at provider.example\nNS ns1.provider.example\nNS ns2.provider.example\nCopy"
    shown = browser.submit(browser.get(PATH), PATH, nameservers=pasted)
    hosts = "ns1.provider.example\nns2.provider.example"
    assert shown.form(PATH).fields["nameservers"].split() == hosts.split(), "as it would be stored"
    before = service.delegation(FQDN)
    other = browser.submit(shown, PATH, confirm="yes", nameservers=f"{hosts}\nns3.provider.example")
    assert ("This changes" in other.text, service.delegation(FQDN)) == (True, before)
    assert browser.submit(other, PATH, confirm="yes").path == f"/names/{FQDN}"
    assert service.delegation(FQDN) == {f"ns{number}.provider.example" for number in (1, 2, 3)}


def test_a_change_that_needs_a_new_sign_in_stays_in_view(
    service: RunningService, browser: ConsoleClient
) -> None:
    shown = browser.submit(browser.get(PATH), PATH, nameservers="ns8.provider.example")
    service.clock.advance(minutes=11)
    told = browser.submit(shown, PATH)
    assert "A change needs a sign-in within the last ten minutes." in told.text
    refused = browser.submit(told, PATH, confirm="yes")
    assert (refused.status, "Save the change" in refused.text) == (403, True)
    service.clock.advance(minutes=-11)
    assert browser.submit(refused, PATH, confirm="yes").path == f"/names/{FQDN}"
    assert service.delegation(FQDN) == {"ns8.provider.example"}


def test_a_name_that_points_nowhere_asks_where_its_dns_is(
    service: RunningService, browser: ConsoleClient
) -> None:
    service.register(service.add_user("ben@example.org"), "bare.example.test")
    ben = console(service, "ben@example.org")
    page = ben.get("/names/bare.example.test")
    assert "Where is your DNS?" in page.text
    assert "dig +short NS bare.example.test" in page.text
    assert "Website, mail, or a text" not in page.text, "the platform domain has no records"
    path = "/names/bare.example.test/nameservers"
    refused = ben.submit(page, path, nameservers="ns1_a.example")
    assert (refused.status, refused.path) == (422, path)
    shown = ben.submit(page, path, nameservers="ns1.provider.example\nns2.provider.example")
    assert "This changes" in shown.text, "nothing answers, so the check is shown first"
    done = ben.submit(shown, path, confirm="yes")
    assert "Where is your DNS?" not in done.text
    assert service.delegation("bare.example.test") == {"ns1.provider.example", "ns2.provider.example"}


def test_other_names_are_suggested(browser: ConsoleClient) -> None:
    stranger = ConsoleClient(browser.service)
    for page in (
        browser.get("/register?label=my+caf%C3%A9+%26+bar&domain=example.test"),
        stranger.get("/?q=my+caf%C3%A9+%26+bar"),
        browser.get("/register?fqdn=my-cafe-bar_.example.test"),
    ):
        assert (page.status, "my-cafe-bar.example.test" in page.text) == (422, True)
    taken = browser.get(f"/register?fqdn={FQDN}")
    assert "These names are free: my-own.example.test , own-home.example.test" in taken.text
    assert "my-own.example.test" in stranger.get("/?q=own").text
    assert "free:" not in browser.get("/register?fqdn=other.example.test").text


def test_ds_records_below_an_unsigned_zone_are_shown_first_with_a_notice(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path)) as running:
        running.add_domain("example.test")
        running.register(running.add_user("ada@example.org"), FQDN)
        ada = console(running, "ada@example.org")
        shown = ada.submit(
            ada.get(PATH),
            PATH,
            nameservers="ns1.provider.example ns2.provider.example",
            ds_records=f"2371 13 2 {'1f987cc6' * 8}",
        )
    assert "This changes" in shown.text
    assert (
        "example.test isn't signed, so the DS records have no effect. Keep them, and ask the operator"
        in shown.text
    )
