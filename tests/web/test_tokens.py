"""Tokens at the console."""

import re
from datetime import timedelta
from typing import Any

import pytest

from sublet.web.page import PAGE_LIMIT
from support.console_client import console
from support.running_service import RunningService


@pytest.mark.operations(
    "list_tokens", "create_token", "get_token", "change_token", "rotate_token", "revoke_token"
)
def test_a_token_from_creation_to_revocation(service: RunningService) -> None:
    ada = service.add_user()
    browser = console(service, ada.email)
    form = browser.get("/tokens/new")
    wrong = browser.submit(form, "/tokens/new", name="laptop", networks="here", daily_credits="many")
    assert (wrong.status, "here" in wrong.text) == (400, True)
    wrong = browser.submit(form, "/tokens/new", name="laptop", networks="here")
    assert (wrong.status, "here is not a network" in wrong.text) == (422, True)
    assert (
        wrong.form("/tokens/new").fields["networks"].strip(),
        'id="networks-error"' in wrong.response.text,
    ) == ("here", True)
    fields: dict[str, Any] = wrong.form("/tokens/new").fields | {
        "networks": "127.0.0.0/8\n\n",
        "names": "a.example.test\n*.b.test",
    }
    until = f"{service.clock() + timedelta(days=99):%Y-%m-%d}"
    fields |= {
        "scopes": ["account:read", "subdomains:read"],
        "expires_at": until,
        "daily_credits": "5",
    }
    asked = browser.post("/tokens/new", fields)
    assert "You have no name a.example.test." in asked.text
    fields |= {"shown_names": asked.form("/tokens/new").fields["shown_names"]}
    created = browser.post("/tokens/new", fields)
    secret = next(word for word in created.text.split() if len(word) > 30)
    assert f'"Authorization: Bearer {secret}" http' in created.text
    stored = service.call(secret, "GET", "/me").json()["token"]
    assert (stored["name"], stored["scopes"], stored["expires_at"]) == (
        "laptop",
        ["account:read", "subdomains:read"],
        f"{until}T23:59:59Z",
    )
    again = browser.post("/tokens/new", fields)
    assert (again.status, secret in again.response.text, "was shown once" in again.text) == (200, False, True)
    (token,) = [each for each in service.list_all(ada, "/tokens", "tokens") if each["name"] == "laptop"]
    restrictions = {name: token[name] for name in ("names", "networks", "daily_credits")}
    assert restrictions == {
        "names": ["a.example.test", "*.b.test"],
        "networks": ["127.0.0.0/8"],
        "daily_credits": 5,
    }

    path = f"/tokens/{token['id']}"
    listed = browser.get("/tokens").text
    limits = "Only names: a.example.test, *.b.test Only from: 127.0.0.0/8 At most 5 credits a day"
    assert f"account:read, subdomains:read {limits}" in listed
    page = browser.get(path)
    fields = page.form(path).fields | {"name": "<b>desk</b>", "names": "", "scopes": token["scopes"]}
    for _ in range(2):  # a form that is sent twice acts once
        changed = browser.post(path, fields)
        assert (changed.path, "The token is changed." in changed.text) == (path, True)
    assert "<b>desk" not in changed.response.text
    now = service.call(ada, "GET", path).json()["token"]
    assert (now["name"], now["names"], now["expires_at"]) == ("<b>desk</b>", None, token["expires_at"])
    fields = {name: value for name, value in changed.form(path).fields.items() if name != "scopes"}
    no_scope = browser.post(path, fields)
    assert (no_scope.status, "A token needs a scope" in no_scope.text) == (422, True)

    rotated = browser.submit(changed, f"{path}/rotate", overlap_seconds="0")
    fresh = next(word for word in rotated.text.split() if len(word) > 30)
    assert [service.call(each, "GET", "/me").status_code for each in (secret, fresh)] == [401, 200]
    revoked = browser.submit(browser.get(path), f"{path}/revoke")
    assert (revoked.path, "is revoked" in revoked.text) == ("/tokens", True)
    assert service.call(fresh, "GET", "/me").status_code == 401
    assert browser.get("/tokens/9999").status == 404


def test_the_form_of_an_old_page_does_not_widen_a_token(service: RunningService) -> None:
    ada = service.add_user()
    browser = console(service, ada.email)
    members = {"name": "ci", "scopes": ["account:read", "subdomains:read"]}
    token = service.call(ada, "POST", "/tokens", members).json()["token"]
    path = f"/tokens/{token['id']}"
    old = browser.get(path)
    service.call(ada, "PATCH", path, {"networks": ["192.0.2.0/24"]})
    typed = {"name": "desk", "names": "no.example.test", "scopes": token["scopes"]}
    asked = browser.post(path, old.form(path).fields | typed)
    assert "You have no name no.example.test." in asked.text
    refused = browser.post(path, asked.form(path).fields | typed)
    assert (refused.status, "This has changed since you read it." in refused.text) == (412, True)
    assert "Only from: 192.0.2.0/24" in refused.text
    again = refused.form(path).fields | typed | {"names": "", "networks": "192.0.2.0/24"}
    assert "The token is changed." in browser.post(path, again).text
    now = service.call(ada, "GET", path).json()["token"]
    assert (now["name"], now["networks"]) == ("desk", ["192.0.2.0/24"])


def test_a_long_message_is_whole(service: RunningService) -> None:
    ada = service.add_user()
    name = "\N{OWL}" * 200
    made = service.call(ada, "POST", "/tokens", {"name": name, "scopes": ["account:read"]}).json()["token"]
    browser = console(service, ada.email)
    path = f"/tokens/{made['id']}"
    assert f"The token {name} is revoked." in browser.submit(browser.get(path), f"{path}/revoke").text


@pytest.mark.operations("list_tokens")
def test_a_list_of_several_pages(service: RunningService) -> None:
    ada = service.add_user()
    for number in range(PAGE_LIMIT):
        body = {"name": f"token {number}.", "scopes": ["account:read"]}
        assert service.call(ada, "POST", "/tokens", body).status_code == 201
    browser = console(service, ada.email)
    newest = browser.get("/tokens")
    (older,) = re.findall(r'href="(\?cursor=[^"]+)"', newest.response.text)
    assert ("token 49." in newest.text, "token 0." in newest.text) == (True, True)
    oldest = browser.get(f"/tokens{older}")
    assert (oldest.status, "token 0." in oldest.text, "Older" in oldest.text) == (200, False, False)


def test_a_token_for_a_name_that_does_not_exist_is_asked_about(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user()
    service.register(ada, "blog.example.test")
    browser = console(service, ada.email)
    names = "Blog.Example.test\nblgo.example.test\n*.any.test"
    asked = browser.submit(browser.get("/tokens/new"), "/tokens/new", name="x", names=names)
    assert "You have no name blgo.example.test. Correct it below" in asked.text
    assert ">x<" not in browser.get("/tokens").response.text
    assert "The token is created" in browser.submit(asked, "/tokens/new").text
    (path,) = re.findall(r'href="(/tokens/\d+)">x<', browser.get("/tokens").response.text)
    shown = browser.get(path)
    assert "Limits Only names: blog.example.test, blgo.example.test, *.any.test" in shown.text
    assert "You have no name blgo.example.test. Correct it below." in shown.text
    wrong = browser.submit(shown, path, names="bolg.example.test")
    assert "You have no name bolg.example.test. Correct it below, or press" in wrong.text
    fixed = browser.submit(wrong, path, names="blog.example.test")
    assert ("The token is changed." in fixed.text, "You have no name" in fixed.text) == (True, False)
