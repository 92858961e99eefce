"""Organizations at the console."""

import re

import pytest

from sublet.web import organizations
from sublet.web.routes import PAGES
from support.console_client import console, newest_mail
from support.running_service import RunningService

ADA, BEN = "ada@example.org", "ben@example.org"


@pytest.mark.operations(
    "list_organizations", "create_organization", "get_organization", "change_organization"
)
@pytest.mark.operations("list_members", "change_member", "remove_member")
@pytest.mark.operations("list_invitations", "invite_member", "revoke_invitation", "accept_invitation")
def test_an_organization_from_its_beginning_to_the_last_owner(service: RunningService) -> None:
    service.environment["SUBLET_PUBLIC_URL"] = "https://names.example.net"
    service.add_user(ADA)
    ben_id = service.add_user(BEN).id
    ada, ben = console(service, ADA), console(service, BEN)
    mine = ada.get("/organizations")
    assert ("(your own)" in mine.text, ada.submit(mine, "/organizations", name=" ").status) == (True, 422)
    page = ada.submit(mine, "/organizations", name="Ada & Co <b>")
    assert ("The organization is created." in page.text, "<b>" in page.response.text) == (True, False)
    root = page.path.removesuffix("/members")
    assert f'href="{root}/names"' in ada.get("/names").response.text, "the switcher"
    assert "The organization is renamed." in ada.submit(page, f"{root}/rename", name="Ada & Co").text
    wrong = ada.submit(page, f"{root}/invitations", email="nowhere")
    assert (wrong.status, 'id="email-error"' in wrong.response.text) == (422, True)

    page = ada.submit(wrong, f"{root}/invitations", email="carl@example.org", role="viewer")
    (revoking,) = [each.action for each in page.forms if each.action.endswith("/revoke")]
    assert "The invitation is revoked." in ada.submit(page, revoking).text
    page = ada.submit(ada.get(page.path), f"{root}/invitations", email=BEN, role="viewer")
    assert "The invitation is on its way." in page.text
    assert ben.get(f"{root}/members").status == 404
    (link,) = re.findall(r"/signup/confirm\?token=\S+", newest_mail(service, BEN))
    assert f"{BEN} is in Ada & Co now, as viewer." in ben.submit(ben.get(link), "/signup/confirm").text
    seen = ben.get(f"{root}/members")
    assert (ADA in seen.text, f"{root}/rename" in seen.response.text) == (True, False)
    stolen = ben.post(f"{root}/rename", seen.form("/signout").fields | {"name": "Ben's"})
    assert (stolen.status, "Ben's" in ben.get("/organizations").text) == (403, False)

    leaving = f"/organizations/{root.removeprefix('/o/')}/leave"
    page = ada.get(f"{root}/members")
    found = re.findall(r'<summary class="button danger">(\w+)', page.response.text)
    assert sorted(found) == ["Leave", "Remove"]
    page = ada.submit(page, leaving)
    assert (page.status, "Nothing is changed" in page.text) == (409, True), "the only owner"
    page = ada.submit(ada.get(f"{root}/members"), f"{root}/members/{ben_id}/role", role="owner")
    assert "The role is changed." in page.text
    assert "The member is removed." in ada.submit(page, f"{root}/members/{ben_id}/remove").text
    assert (ben.get(f"{root}/members").status, ben.get(f"{root}/names").status) == (404, 404)
    assert ben.get(f"{root}/names").form("/signout").fields, "the browser is still signed in"


def test_members_come_in_pages(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organizations, "LISTED_MAX", 1)
    service.operator("user", "add", ADA, "--organization", "Club", "--name", "Ada")
    service.operator("user", "add", BEN, "--organization", "Club", "--name", "Ben")
    ada = console(service, ADA)
    page = ada.get("/o/1/members")
    (link,) = re.findall(r'href="(\?cursor=[^"]+)">More members', page.response.text)
    both = [page.response.text, ada.get(f"/o/1/members{link}").response.text]
    assert [each.count('<th scope="row">') for each in both] == [1, 1]
    assert [BEN in each for each in both] == [True, False]


def test_a_viewer_gets_no_form_that_would_be_refused(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user(ADA)
    service.add_user(BEN)
    coop = service.call(ada, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
    service.operator("organization", "set-role", "Coop", "--user", BEN, "--role", "viewer")
    root, fqdn = f"/o/{coop['id']}", "shop.example.test"
    owner, viewer = console(service, ADA), console(service, BEN)
    owner.submit(owner.get(f"{root}/register?fqdn={fqdn}"), f"{root}/register")
    assert "points nowhere yet. Choose" not in viewer.get(f"{root}/names/{fqdn}").text
    paths = [each.path.replace("{organization:id}", str(coop["id"])) for each in PAGES if each.scope]
    for path in [path if path.startswith(root) else root + path.format(fqdn=fqdn) for path in paths]:
        shown = viewer.get(path)
        told = "Your role in Coop is viewer, which doesn't allow this." in shown.text
        assert (shown.status, told, len(shown.forms)) == (403, True, 1), path  # the form to sign out
        assert owner.get(path).status == 200, path


@pytest.mark.operations("list_received_invitations", "accept_received_invitation", "decline_invitation")
def test_an_invited_person_finds_the_invitations_and_answers_them(service: RunningService) -> None:
    service.add_domain()
    ada, ben = service.add_user(ADA), service.add_user(BEN)
    ids = {}
    for name in ("Choir", "Guild <b>"):
        made = service.call(ada, "POST", "/organizations", {"name": name}).json()["organization"]
        path, invited = f"/organizations/{made['id']}/invitations", {"email": BEN, "role": "member"}
        ids[name] = service.call(ada, "POST", path, invited).json()["invitation"]["id"]
        root = f"/o/{made['id']}"
    browser = console(service, BEN)
    page = browser.get("/names")
    assert "This waits for you" in page.text
    assert "ada (ada@example.org) invites you to Choir as member" in page.text
    assert "ben 2 to answer" in page.text, "the user's menu"
    assert ("Organizations 2 to answer" in page.text, "<b>" in page.response.text) == (True, False)
    page = browser.get("/organizations")
    declining = f"/organizations/invitations/{ids['Choir']}/decline"
    declined = browser.submit(page, declining)
    assert (declined.path, "The invitation is declined." in declined.text) == ("/organizations", True)
    assert ("Choir" in declined.text, "Guild" in declined.text) == (False, True)
    accepting = f"/organizations/invitations/{ids['Guild <b>']}/accept"
    accepted = browser.submit(declined, accepting)
    assert (accepted.path, "You are in Guild <b> now, as member." in accepted.text) == (f"{root}/names", True)
    assert "to answer" not in accepted.text
    again = browser.post(accepting, declined.form(accepting).fields | {"idempotency_key": "again"})
    assert (again.status, "There is no such open invitation." in again.text) == (404, True)

    made = service.call(ada, "POST", "/organizations", {"name": "Band"}).json()["organization"]
    service.call(ada, "POST", f"/organizations/{made['id']}/invitations", invited)
    shown = browser.get(f"{root}/names").text
    assert ("invites you to Band" in shown, "Organizations 1 to answer" in shown) == (True, True)
    service.operator("user", "suspend", ben.email)
    page = browser.get("/organizations")
    assert "Your account is suspended" in page.text, "before a form is filled in"
    (accepting,) = [each.action for each in page.forms if each.action.endswith("/accept")]
    assert browser.submit(page, accepting).status == 403


@pytest.mark.operations("delete_organization")
def test_an_owner_deletes_an_organization_with_its_name(service: RunningService) -> None:
    service.add_domain()
    user = service.add_user(ADA)
    ada = console(service, ADA)
    page = ada.submit(ada.get("/organizations"), "/organizations", name="Guild Hall")
    root = page.path.removesuffix("/members")
    service.register(service.token_for(user, int(root.removeprefix("/o/"))), "hall.example.test")
    assert f'href="{root}/delete"' in page.response.text
    shown = ada.get(f"{root}/delete")
    assert "1 name leaves the DNS" in shown.text
    wrong = ada.submit(shown, f"{root}/delete", confirm="guild")
    assert (wrong.status, "The organization is not deleted" in wrong.text) == (422, True)
    (slug,) = set(re.findall(r"guild-hall-\w+", shown.text))
    done = ada.submit(wrong, f"{root}/delete", confirm=slug)
    assert (done.path, "The organization is deleted." in done.text) == ("/organizations", True)
    assert ada.get(f"{root}/members").status == 404
    assert ada.get("/names").status == 200
