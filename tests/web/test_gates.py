"""Sensitive forms of the console after an old sign-in: each leads through a new sign-in, and back to a page
that is shown.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pytest

from support.browsers import Browser, signed_in
from support.console_client import ConsoleClient, Shown, console
from support.open_registry import opened
from support.running_service import RunningService

ADA, BEN = "ada@example.org", "ben@example.org"


@dataclass(frozen=True, slots=True)
class World:
    """A user with a name, an offer, a token and an organization. `old` was signed in eleven minutes ago."""

    service: RunningService
    old: ConsoleClient
    ids: dict[str, object]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(tmp_path_factory.mktemp("gates")) as service:
        ada, ben = service.add_user(ADA, credit_count=100), service.add_user(BEN)
        service.register(ada, "blog.example.test", registration_mode="plus", confirm=True)
        service.register(ada, "blog.records.test")
        service.register(ben, "shop.example.test")
        offered = service.call(ben, "POST", "/subdomains/shop.example.test/transfer", {"to": ADA}).json()
        made = service.call(ada, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
        service.operator("organization", "set-role", "Coop", "--user", BEN, "--role", "member")
        token = service.call(ada, "POST", "/tokens", {"name": "ci", "scopes": ["account:read"]}).json()[
            "token"
        ]
        other, old = signed_in(service, ADA), console(service, ADA)
        (session, *_) = other.call("GET", "/sessions").json()["sessions"][1:]
        service.clock.advance(minutes=11)
        device = service.client.post(service.origin + "/auth/device", json={}).json()
        ids = {
            "offer": offered["transfer"]["id"],
            "token": token["id"],
            "organization": made["id"],
            "ben": ben.id,
            "session": session["id"],
            "code": device["user_code"],
        }
        yield World(service, old, ids)


@pytest.mark.parametrize(
    ("path", "action", "fields"),
    [
        ("/tokens/new", "/tokens/new", {"name": "x"}),
        ("/tokens/{token}", "/tokens/{token}/rotate", {}),
        ("/device?code={code}", "/device", {"do": "allow"}),
        ("/account", "/account/email", {"email": "eve@example.org"}),
        ("/sessions", "/sessions/{session}/end", {}),
        ("/passkeys", "/passkeys/recovery", {}),
        ("/o/{organization}/members", "/o/{organization}/members/{ben}/role", {"role": "owner"}),
        ("/names/blog.example.test/nameservers", "", {"nameservers": "ns1.evil.example ns2.evil.example"}),
        ("/names/blog.records.test/records", "", {"purpose": "addresses", "addresses": "8.8.4.4"}),
        ("/names/blog.example.test", "/names/blog.example.test/auto-renew", {"enabled": "yes", "max_credits": "9"}),  # noqa: E501
        ("/transfers/{offer}", "/transfers/{offer}/accept", {}),
        ("/register?fqdn=more.example.test", "/register", {"registration_mode": "plus", "confirm": "yes"}),
    ],
)  # fmt: skip
def test_an_old_sign_in_is_led_through_a_new_one_and_back(
    world: World, path: str, action: str, fields: dict[str, str]
) -> None:
    path, action = path.format(**world.ids), (action or path).format(**world.ids)
    shown = world.old.get(path)
    is_asked_first = shown.path == "/signin"
    # The form of a recovery is there only for a user with passkeys.
    if is_asked_first or action == "/passkeys/recovery":
        refused = world.old.post(action, fields | {"form_token": shown.form("/signout").fields["form_token"]})
    else:
        form = next(each for each in shown.forms if (each.action, each.method) == (action, "POST"))
        refused = world.old.post(action, form.fields | fields)
    check_way_back(world, refused)


def check_way_back(world: World, refused: Shown) -> None:
    assert refused.status == 403, refused.text
    link = html.unescape(re.findall(r'href="(/signin\?[^"]*again[^"]*)"', refused.response.text)[0])
    (back,) = parse_qs(urlsplit(link).query)["next"]
    fresh = console(world.service, ADA)
    assert fresh.get(link).form("/signin").fields["next"] == back
    page = fresh.get(back)
    assert page.status in (200, 409)  # 409: the only owner of an organization can't delete the account
    assert "Please sign in again" not in page.text


def test_the_page_that_deletes_the_account_leads_to_a_new_sign_in(world: World) -> None:
    refused = world.old.get("/account/delete")
    assert "Please sign in again" in refused.text
    check_way_back(world, refused)


def test_many_names_wait_for_a_new_sign_in(world: World) -> None:
    names = [f"many{number}.example.test" for number in range(12)]
    page = world.old.get("/register/many")
    fields = page.form("/register/many").fields
    order = "\n".join(f"{name} plus 10" for name in names)
    refused = world.old.post("/register/many", fields | {"order": order, "confirm": "yes"})
    check_way_back(world, refused)
    assert "0 of 12 names registered" in refused.text
    assert "Go on" not in refused.text


def test_a_sign_in_is_asked_before_a_form_is_filled_in(world: World) -> None:
    fresh = console(world.service, ADA)
    for path in (
        "/tokens/new",
        "/names/blog.example.test/nameservers",
        "/names/blog.example.test/delete",
        "/names/blog.example.test/transfer",
    ):
        asked = world.old.get(path)
        fields = asked.form("/signin").fields
        assert (asked.path, fields["next"], fields["email"]) == ("/signin", path, ADA)
        assert fresh.get(path).path == path
    for path in (
        "/account",
        "/register?fqdn=more.example.test",
        "/names/blog.example.test",
        "/names/blog.records.test/records",
        f"/names/many?do=trash{'&fqdn=blog.example.test' * 50}",
        f"/o/{world.ids['organization']}/members",
    ):
        assert "in a new tab, then come back here" in world.old.get(path).text
        assert "before you fill in the form" not in fresh.get(path).text


def test_nothing_was_changed(world: World) -> None:
    browser: Browser = signed_in(world.service, ADA)
    assert browser.call("GET", "/credits").json()["credit_balance"] == 90
    name = browser.call("GET", "/subdomains/blog.example.test").json()["subdomain"]
    assert (name["nameservers"], name["status"]) == ([], "inactive")
    members = browser.call("GET", f"/organizations/{world.ids['organization']}/members").json()["members"]
    assert sorted(each["role"] for each in members) == ["member", "owner"]
