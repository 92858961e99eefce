"""The page about a name, its link in the search, and security.txt."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sublet.config import Settings
from sublet.http.app import security_txt
from support.console_client import console
from support.rdap_world import SETTINGS, RdapWorld, build_world
from support.running_service import registry_address, running_service


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RdapWorld]:
    path: Path = tmp_path_factory.mktemp("about")
    with running_service(registry_address(path), **SETTINGS) as service:
        yield build_world(service)


def test_a_name_is_shown_with_how_to_report_it(world: RdapWorld) -> None:
    page = console(world.service).get("/about/active.example.test")
    assert page.status == 200
    for words in (
        "active.example.test",
        "In the DNS",
        "Registered",
        "ns1.active.example.test",
        "8.8.4.4",
        "signed",
    ):
        assert words in page.text, words
    assert 'href="mailto:abuse@example.net"' in page.response.text
    assert 'href="/rdap/domain/active.example.test"' in page.response.text
    assert 'href="https://example.net/terms"' in page.response.text
    assert "rdap@example.org" not in page.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("suspended.example.test", "Suspended by the operator"),
        ("new.waiting.test", "On its way into the DNS"),
        ("B%C3%9CCHER.example.test", "xn--bcher-kva.example.test"),
    ],
)
def test_the_state_of_a_name_is_shown(world: RdapWorld, name: str, words: str) -> None:
    page = console(world.service).get(f"/about/{name}")
    assert (page.status, words in page.text) == (200, True)


def test_of_a_hidden_name_no_dates_are_shown(world: RdapWorld) -> None:
    page = console(world.service).get("/about/delegated.hidden.test")
    assert (page.status, "ns1.provider.example" in page.text, "Expires" in page.text) == (200, True, False)


def test_names_that_are_not_public_look_alike(world: RdapWorld) -> None:
    shown = set()
    for name in world.alike:
        page = console(world.service).get(f"/about/{name}")
        assert page.status == 404
        shown.add(page.response.text.replace(name, "NAME"))
    assert len(shown) == 1
    assert "publishes nothing under this name" in shown.pop()
    assert console(world.service).get("/about/a_b").status == 400


def test_the_search_links_to_taken_names(world: RdapWorld) -> None:
    found = console(world.service).get("/?q=active.example.test").response.text
    assert 'href="/about/active.example.test"' in found
    assert "/about/" not in console(world.service).get("/?q=free.example.test").response.text
    own = console(world.service, world.ada.email).get("/?q=active.example.test").response.text
    assert "/about/" not in own
    assert 'href="/names/active.example.test"' in own


def test_security_txt_of_a_service(world: RdapWorld) -> None:
    answer = world.service.client.get(f"{world.root}/.well-known/security.txt")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    *contacts, expires = answer.text.splitlines()
    assert contacts == ["Contact: mailto:abuse@example.net", "Contact: https://example.net/imprint"]
    at = datetime.fromisoformat(expires.removeprefix("Expires: "))
    assert timedelta(days=28) < at - world.service.clock() < timedelta(days=365)


@pytest.mark.parametrize(
    ("settings", "contacts"),
    [
        ({}, []),
        (
            {"site_contact": "hello@example.net", "abuse_contact": "https://example.net/abuse"},
            ["https://example.net/abuse"],
        ),
        (
            {"site_contact": "http://example.net/contact", "site_imprint_url": "https://example.net/"},
            ["https://example.net/"],
        ),
        ({"site_contact": "http://example.net/contact"}, []),
        (
            {
                "abuse_contact": "a+b%c@münchen.example",
                "site_imprint_url": "https://münchen.example/%20?a=ü#b",
            },
            ["mailto:a+b%25c@m%C3%BCnchen.example", "https://m%C3%BCnchen.example/%20?a=%C3%BC#b"],
        ),
        (
            {"abuse_contact": "https://example.net/", "site_imprint_url": "https://example.net/"},
            ["https://example.net/"],
        ),
    ],
)
def test_security_txt(settings: dict[str, str], contacts: list[str]) -> None:
    """RFC 9116, section 2.5: contacts are URIs, pages are https. Without a contact there is no file."""
    now = datetime.fromisoformat("2026-11-27T12:00:00Z")
    chosen = Settings(**settings)  # type: ignore[arg-type] # all of them are texts
    text = security_txt(chosen, "https://names.example.net", now)
    assert re.findall(r"^Contact: (.*)$", text, re.MULTILINE) == contacts
    assert ("Expires: 2026-12-27T00:00:00Z\n" in text) == bool(contacts)
    assert ("Canonical: https://names.example.net/.well-known/security.txt\n" in text) == bool(contacts)
