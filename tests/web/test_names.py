"""The list of names."""

import re

import pytest

from sublet.web.names import CHOSEN_MAX
from sublet.web.waiting import READ_COOKIE
from support.console_client import console
from support.running_service import RunningService


@pytest.mark.operations("list_subdomains")
def test_the_list_is_filtered_and_paged(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user(free_quota="60")
    for number in range(55):
        service.register(ada, f"n{number:02d}.example.test", nameservers=["ns1.elsewhere.example"])
    browser = console(service, ada.email)
    page = browser.get("/names")
    assert (page.status, "n54.example.test" in page.text, "n04.example.test" in page.text) == (
        200,
        True,
        False,
    )
    older = page.response.text.partition('<a class="button quiet" href="')[2].partition('"')[0]
    older_page = browser.get(f"/names{older.replace('&amp;', '&')}")
    assert ("5 older names" in older_page.text, "n04.example.test" in older_page.text) == (True, True)
    assert ("Choose the first 50" in page.text, "Choose all" in older_page.text) == (True, True)
    found = browser.get("/names?q=n07&status=active")
    assert ("n07.example.test" in found.text, "n08.example.test" in found.text) == (True, False)
    assert "No name matches" in browser.get("/names?q=nothing").text
    refused = browser.get("/names?status=wrong")
    assert (refused.status, "This search can't be done" in refused.text) == (400, True)


def test_what_waits_is_on_top_and_counted_on_every_page(service: RunningService) -> None:
    service.add_domain()
    ada, ben = service.add_user("ada@example.org"), service.add_user("ben@example.org")
    service.register(ben, "gift.example.test")
    service.call(ben, "POST", "/subdomains/gift.example.test/transfer", {"to": ada.email})
    service.call(ada, "POST", "/support/tickets", {"subject": "Why?", "message": "It is."})
    assert "This waits for you" in console(service, ada.email).get("/names").text
    service.operator("ticket", "reply", "T-000001", "--message", "Because.")
    browser = console(service, ada.email)
    page = browser.get("/names")
    assert "gift.example.test : ben@example.org offers it to you" in page.text
    assert "Why? : your ticket is answered" in page.text
    for path in ("/names", "/account"):
        shown = browser.get(path).text
        assert ("Transfers 1 offered to you" in shown, "Help 1 answered" in shown) == (True, True), shown
    assert "Help 1 answered" not in browser.get("/tickets/T-000001").text
    browser.cookies[READ_COOKIE] += '_"x;y'
    assert "your ticket is answered" not in browser.get("/names").text, "this browser has shown the answer"
    service.clock.advance(minutes=1)
    service.operator("ticket", "reply", "T-000001", "--message", "Really.")
    assert "your ticket is answered" in browser.get("/names").text
    service.pass_days(8)
    assert "answered" not in console(service, ada.email).get("/account").text
    assert "waits for you" not in console(service, ben.email).get("/names").text


def test_names_are_ordered_counted_and_changed_together(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user("ada@example.org")
    service.operator("domain", "edit", "example.test", "--records", "on")
    service.register(ada, "cello.example.test", records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
    for label in ("alto", "bass"):
        service.register(ada, f"{label}.example.test")
    browser = console(service, ada.email)
    listed = browser.get("/names?sort=name&choose=all")
    assert ("3 names" in listed.text, listed.response.text.count(" checked>")) == (True, 3)
    assert re.findall(r'"DNS">(\w+)<', listed.response.text) == ["none", "none", "records"]
    places = [listed.text.index(f"{label}.example.test") for label in ("alto", "bass", "cello")]
    assert places == sorted(places)
    chosen = "fqdn=alto.example.test&fqdn=bass.example.test"
    file = browser.get(f"/names/many?do=export&{chosen}").response.text.splitlines()
    assert [line.split(",")[0] for line in file] == ["name", "alto.example.test", "bass.example.test"]
    assert browser.get("/names/many?do=trash").path == "/names", "no name is chosen"
    too_many = browser.get(f"/names/many?do=trash{'&fqdn=alto.example.test' * (CHOSEN_MAX + 3)}")
    assert "You chose 53 names. These are the first 50" in too_many.text
    both = ["alto.example.test", "bass.example.test", "cello.example.test"][:2]
    page = browser.get(f"/names/many?do=nameservers&{chosen}")
    fields = page.form("/names/many").fields | {
        "nameservers": "NS ns1.provider.example\nns2 provider example"
    }
    done = browser.post("/names/many", fields | {"fqdn": both})
    assert "2 of 2 names changed Not used: ns2 provider example ." in done.text, done.text
    assert service.delegation("bass.example.test") == {"ns1.provider.example"}
    page = browser.get(f"/names/many?do=auto-renew&{chosen}")
    done = browser.post("/names/many", page.form("/names/many").fields | {"fqdn": both, "max_credits": "5"})
    assert "2 of 2 names changed" in done.text, done.text
    page = browser.get(f"/names/many?do=trash&{chosen}")
    done = browser.post("/names/many", page.form("/names/many").fields | {"fqdn": [*both, "no.example.test"]})
    assert "2 of 3 names changed" in done.text
    assert "1 name" in browser.get("/names").text
    service.clock.advance(minutes=11)
    refused = browser.submit(browser.get("/names/many?do=trash&fqdn=cello.example.test"), "/names/many")
    assert (refused.status, refused.form("/names/many").fields["fqdn"]) == (403, "cello.example.test")


def test_chosen_names_move_to_an_organization(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user("ada@example.org", free_quota="3")
    for label in ("alto", "bass", "cello"):
        service.register(ada, f"{label}.example.test")
    assert 'value="move"' not in console(service, ada.email).get("/names").response.text, "to no one"
    made = service.call(ada, "POST", "/organizations", {"name": "Choir"}).json()["organization"]
    service.operator("user", "edit", f"organization:{made['id']}", "--free-quota", "2")
    browser = console(service, ada.email)
    assert 'value="move"' in browser.get("/names").response.text
    chosen = [f"{label}.example.test" for label in ("alto", "bass", "cello")]
    fields = browser.get("/names/many?do=move&fqdn=alto.example.test").form("/names/many").fields
    unchosen = browser.post("/names/many", fields | {"fqdn": chosen, "holder": ""})
    assert (unchosen.status, "Choose the new holder." in unchosen.text) == (422, True)
    done = browser.post("/names/many", fields | {"fqdn": chosen, "holder": str(made["id"])})
    assert "2 of 3 names changed" in done.text
    assert "All 2 free names of Choir are in use." in done.text
    assert done.text.count("belongs to Choir") == 2
    moved = browser.get(f"/o/{made['id']}/names")
    assert ("You act for Choir. Act for yourself" in moved.text, "2 names" in moved.text) == (True, True)
    assert "1 name" in browser.get("/names").text
    pending = service.call(ada, "GET", "/transfers?state=pending").json()["transfers"]
    assert pending == [], "a refusal leaves no offer behind"
