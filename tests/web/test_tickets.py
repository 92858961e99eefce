"""Tickets and credits at the console."""

from pathlib import Path

import pytest

from sublet.restrictions import SCOPES
from sublet.subdomains.activity import BY
from sublet.subdomains.transfers.model import STATES
from sublet.tickets.model import TICKET_STATUSES, TICKET_TYPES
from sublet.web import activity, tickets, tokens, transfers
from support.console_client import console
from support.running_service import RunningService, registry_address, running_service

HOSTILE = "<script>alert(1)</script>\n\"'><img src=x onerror=alert(1)> {{ 7*7 }}"


@pytest.mark.operations("list_tickets", "open_ticket", "get_ticket", "reply")
def test_a_ticket_from_opening_to_closing(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user()
    service.register(ada, "a.example.test")
    browser = console(service, ada.email)
    assert "You have no tickets" in browser.get("/tickets").text
    form = browser.get("/tickets/new?fqdn=a.example.test")
    assert '<option value="a.example.test">' in form.response.text, "the own names are offered"
    assert 'value="About a.example.test"' in form.response.text
    empty = browser.submit(form, "/tickets/new", subject="", message="")
    assert (
        empty.status,
        'id="subject-error"' in empty.response.text,
        'id="message-error"' in empty.response.text,
    ) == (
        422,
        True,
        True,
    )
    foreign = browser.submit(form, "/tickets/new", subject="Help", message="x", fqdn="b.example.test")
    assert (foreign.status, 'id="fqdn-error"' in foreign.response.text) == (422, True)
    ticket = browser.submit(
        foreign, "/tickets/new", subject=HOSTILE.partition("\n")[2], message=HOSTILE, fqdn="a"
    )
    path = ticket.path
    assert (path.startswith("/tickets/T-"), "is open. You get the answer" in ticket.text) == (True, True)
    assert ("<script>alert" in ticket.response.text, "<img src=x" in ticket.response.text) == (False, False)
    assert "alert(1)" in browser.get("/tickets?status=open&type=support").text
    assert "No ticket matches" in browser.get("/tickets?status=closed").text
    assert browser.get("/tickets?status=wrong").status == 400

    service.operator("ticket", "reply", path.removeprefix("/tickets/"), "--message", HOSTILE)
    answered = browser.get(path)
    assert ("staff" in answered.text, "<img src=x" in answered.response.text) == (True, False)
    nothing = browser.submit(answered, path, message="  ")
    assert (nothing.status, 'id="message-error"' in nothing.response.text) == (422, True)
    replied = browser.submit(nothing, path, message="Thank you")
    assert ("Your reply is stored." in replied.text, "Thank you" in replied.text) == (True, True)
    service.operator("ticket", "close", path.removeprefix("/tickets/"))
    closed = browser.submit(replied, path, message="One more")
    assert (closed.status, "This ticket is closed" in closed.text) == (409, True)
    assert "What you typed: One more" in " ".join(closed.text.split())
    assert "One more" not in browser.get(path).text
    assert console(service, service.add_user("ben@example.org").email).get(path).status == 404


def test_a_message_may_have_its_whole_length_in_any_script(service: RunningService) -> None:
    """Browsers send each of these letters in nine octets."""
    browser = console(service, service.add_user().email)
    opened = browser.submit(
        browser.get("/tickets/new"), "/tickets/new", subject="Long", message="語" * 20_000
    )
    assert opened.path == "/tickets/T-000001"


def test_a_form_is_kept_while_its_page_is_not_available(tmp_path: Path) -> None:
    limits = {"rate_limits": True, "rate_limit_read_per_minute": 1}
    with running_service(registry_address(tmp_path), **limits) as service:
        ada = service.add_user()
        browser = console(service, ada.email)
        page = browser.get("/tickets/new")
        refused = browser.submit(page, "/tickets/new", subject="", message="A long text")
        assert (refused.status, "What you typed is kept" in refused.text) == (429, True)
        assert browser.submit(refused, "", subject="Corrected").path == "/tickets/T-000001"
        ticket = service.call(ada, "GET", "/support/tickets/T-000001").json()["ticket"]
        assert ticket["messages"][0]["message"] == "A long text"


def test_the_same_ticket_is_opened_once(service: RunningService) -> None:
    """Also from a page that the browser has loaded again, as after its button Back."""
    ada = service.add_user()
    browser = console(service, ada.email)
    for _ in range(2):
        first = browser.submit(browser.get("/tickets/new"), "/tickets/new", subject="First", message="One")
        assert first.path == "/tickets/T-000001"
    again = browser.submit(browser.get("/tickets/new"), "/tickets/new", subject="First", message="Two")
    assert again.path == "/tickets/T-000002"


def test_a_form_used_before_is_taken_with_other_values_at_the_second_try(service: RunningService) -> None:
    """As after the browser's button Back: the form has the idempotency key of the first organization."""
    ada = service.add_user()
    browser = console(service, ada.email)
    form = browser.get("/organizations")
    for _ in range(2):
        assert browser.submit(form, "/organizations", name="First").path == "/o/2/members"
    asked = browser.submit(form, "/organizations", name="Second")
    assert (asked.status, "You used this form before" in asked.text) == (422, True)
    assert browser.submit(asked, "/organizations").path == "/o/3/members"


@pytest.mark.operations("credits", "payments", "free_subdomains")
def test_credits_with_packages_and_history(service: RunningService) -> None:
    service.add_domain()
    service.operator("package", "add", "Small", "--credits", "100", "--price", "9.90", "--currency", "EUR")
    ada = service.add_user(credit_count=1200, free_quota="3")
    service.register(ada, "a.example.test")
    for number in range(51):
        service.operator("credits", "grant", ada.email, "--credits", "1", "--reason", f"gift {number}")
    service.register(ada, "b.example.test", registration_mode="plus", confirm=True)
    browser = console(service, ada.email)
    page = browser.get("/credits")
    for expected in ("1,241 credits", "1 of 3", "9.90 EUR", "\N{MINUS SIGN}10", "b.example.test", "gift 50"):
        assert expected in page.text, expected
    assert "gift 0" not in page.text
    older = page.response.text.partition('<a class="button quiet" href="')[2].partition('"')[0]
    assert "+1,200" in browser.get(f"/credits{older.replace('&amp;', '&')}").text
    assert browser.get("/credits?cursor=wrong").status == 400


def test_the_filters_have_every_state_and_type() -> None:
    assert set(tickets.STATUSES) == set(TICKET_STATUSES)
    assert set(tickets.TYPE_WORDS) == set(TICKET_TYPES)
    assert set(transfers.STATES) == set(STATES)
    assert set(tokens.SCOPE_WORDS) == set(SCOPES)
    assert set(activity.BY_WORDS) == set(BY)
