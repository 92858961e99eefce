"""Transfers and the activity at the console."""

import pytest

from support.console_client import console
from support.running_service import RunningService

ADA, BEN = "ada@example.org", "ben@example.org"


@pytest.mark.operations("list_transfers", "get_transfer", "accept", "decline", "withdraw", "activity")
def test_offers_are_withdrawn_declined_and_accepted(service: RunningService) -> None:
    service.add_domain()
    user = service.add_user(ADA)
    service.add_user(BEN)
    names = [service.register(user, f"{each}.example.test")["subdomain"]["fqdn"] for each in "abc"]
    ids = [
        service.call(user, "POST", f"/subdomains/{each}/transfer", {"to": BEN}).json()["transfer"]["id"]
        for each in names
    ]
    ada, ben = console(service, ADA), console(service, BEN)
    sent = ada.get("/transfers")
    assert (
        "The offer of a.example.test is withdrawn." in ada.submit(sent, f"/transfers/{ids[0]}/withdraw").text
    )
    received = ben.get("/transfers?direction=received&state=pending")
    assert ("a.example.test" in received.text, "b.example.test" in received.text) == (False, True)
    declined = ben.submit(received, f"/transfers/{ids[1]}/decline")
    assert "b.example.test stays with its holder." in declined.text
    service.clock.advance(minutes=11)
    old = ben.submit(received, f"/transfers/{ids[2]}/accept")
    assert (old.status, "Sign in again" in old.text) == (403, True)
    service.clock.advance(minutes=-11)
    assert "c.example.test is yours now." in ben.submit(old, f"/transfers/{ids[2]}/accept").text
    over = ada.post(f"/transfers/{ids[1]}/withdraw", sent.form(f"/transfers/{ids[1]}/withdraw").fields)
    assert (over.status, "Nothing is changed" in over.text) == (409, True)
    assert ben.get("/transfers?state=wrong").status == 400
    assert "No transfer matches" in ben.get("/transfers?state=expired").text

    page = ada.get("/activity?action=subdomain.register")
    assert (page.text.count("Name registered"), "changes" in page.text) == (
        1 + 3,  # the filter has it too
        True,
    )
    assert "Charged credits 0" in page.text
    today = f"{service.clock():%Y-%m-%d}"
    assert "c.example.test" in ada.get(f"/activity?since={today}&until={today}").text
    assert "Nothing matches" in ada.get("/activity?until=2001-01-01").text
    assert ada.get("/activity?since=yesterday").status == 400


@pytest.mark.operations("push")
def test_a_name_moves_to_an_organization_and_back_by_one_form(service: RunningService) -> None:
    service.add_domain()
    user = service.add_user(ADA, free_quota="5")
    service.register(user, "choir.example.test")
    path = "/names/choir.example.test/transfer"
    assert "move it" not in console(service, ADA).get(path).text, "there is no other holder"
    made = service.call(user, "POST", "/organizations", {"name": "Choir"}).json()["organization"]
    browser = console(service, ADA)
    page = browser.get(path)
    (form,) = [each for each in page.forms if "holder" in each.fields]
    assert form.choices["holder"] == [str(made["id"])]
    unchosen = browser.post(path, form.fields | {"holder": ""})
    assert (unchosen.status, "Choose the new holder." in unchosen.text) == (422, True)
    told = "choir.example.test belongs to Choir now."
    for _ in range(2):  # a form that is sent twice acts once
        moved = browser.post(path, form.fields | {"holder": str(made["id"])})
        assert (moved.path, told in moved.text) == ("/names", True), "the user goes on acting for themselves"
    assert f"{ADA}, as another holder" in browser.get("/transfers").text
    of_organization = f"/o/{made['id']}/names/choir.example.test"
    page = browser.get(f"{of_organization}/transfer")
    (form,) = [each for each in page.forms if "holder" in each.fields]
    assert form.choices["holder"] == ["personal"]
    back = form.fields | {"holder": "personal"}
    service.operator("user", "edit", ADA, "--free-quota", "0")
    refused = browser.post(f"{of_organization}/transfer", back)
    assert (refused.status, browser.get(of_organization).status) == (403, 200), refused.text
    assert "The name is not moved" in refused.text
    pending = service.call(user, "GET", "/transfers?state=pending").json()["transfers"]
    assert pending == [], "a refusal leaves no offer behind"
    service.operator("user", "edit", ADA, "--free-quota", "5")
    (again,) = [each for each in refused.forms if "holder" in each.fields]
    moved = browser.post(f"{of_organization}/transfer", again.fields)
    assert (moved.path, "is yours now" in moved.text) == (f"/o/{made['id']}/names", True)
    subjects = [each["subject"] for each in service.operator("mail", "list")]
    assert (subjects.count("choir.example.test was transferred"), "A name is offered to you" in subjects) == (
        4,
        False,
    )


def test_an_offered_name_is_accepted_for_the_chosen_holder(service: RunningService) -> None:
    service.add_domain()
    ada, ben = service.add_user(ADA), service.add_user(BEN, free_quota="0")
    service.register(ada, "choir.example.test")
    made = service.call(ben, "POST", "/organizations", {"name": "Choir"}).json()["organization"]
    service.call(ada, "POST", "/subdomains/choir.example.test/transfer", {"to": BEN})
    browser = console(service, BEN)
    for path in (f"/o/{made['id']}/names", f"/o/{made['id']}/transfers"):
        assert 'href="/transfers/1"' in browser.get(path).response.text, "the offer is the person's"
    listed = browser.get("/transfers")
    assert "/transfers/1/accept" not in [each.action for each in listed.forms], "it asks for whom"
    page = browser.get("/transfers/1")
    form = page.form("/transfers/1/accept")
    assert (form.fields["holder"], form.choices["holder"]) == ("personal", [str(made["id"]), "personal"])
    assert "0 of your 0 free names are in use" in page.text
    assert "none in the DNS" in browser.get("/about/choir.example.test").text
    assert 'href="/about/choir.example.test"' in page.response.text
    refused = browser.submit(page, "/transfers/1/accept")
    assert (refused.status, "or choose another holder" in refused.text) == (403, True)
    done = browser.submit(refused, "/transfers/1/accept", holder=str(made["id"]))
    assert (done.path, "choir.example.test belongs to Choir now." in done.text) == ("/names", True)
