"""Every form of every page, sent once with its defaults, and once with each option, checkbox and button: none
is refused as invalid.

The forms in the answers, such as the confirmation of a price, are sent as well. A page whose form isn't among
them fails the test.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urljoin
from uuid import uuid4

import pytest

from sublet.web import routes
from support.console_client import ConsoleClient, PageForm, Shown, console
from support.console_pages import ADA, DOMAIN, PAGES, RECORDS, fill, settings_of_pages
from support.repetitions import share
from support.running_service import RunningService, registry_address, running_service

TYPED = {
    "email": "zoe@example.org",
    "to": "ben@example.org",
    "subject": "Help",
    "message": "Please.",
    "max_credits": "100",
    "names": f"first.{DOMAIN}\nsecond.{DOMAIN}",
    "nameservers": "ns1.provider.example\nns2.provider.example",
    "host": "my-site.pages.example",
    "github_user": "octocat",
    "addresses": "8.8.4.4",
    "mail_hosts": "mx.provider.example",
    "spf": "v=spf1 -all",
    "text": "verification=1",
    "values": "8.8.8.8",
    "zone_file": "www IN A 8.8.8.8",
}
"""What a person types into a field that is empty."""
VALUES = {
    "AAAA": "2606:4700::1",
    "CAA": '0 issue "ca.example"',
    "CNAME": "my-site.pages.example",
    "HTTPS": "1 . alpn=h2",
    "MX": "10 mx.provider.example",
    "SRV": "10 5 443 www.provider.example",
    "SSHFP": f"4 2 {'ab' * 32}",
    "SVCB": "1 . alpn=dot",
    "TLSA": f"3 1 1 {'ab' * 32}",
    "TXT": "any",
}
"""What a person types as the value of a new record of a type, at a name of its own."""
ENDS = (
    "/delete",
    "/revoke",
    "/end",
    "/end-others",
    "/remove",
    "/leave",
    "/signout",
    "/withdraw",
    "/accept",
    "/decline",
    "/restore",
    "/transfer",
    f"/names/music.{DOMAIN}/nameservers",
)
"""The ends of actions after which pages or their forms are gone. These are sent last."""
NEEDS_A_CODE = ("/signin/confirm", "/signup/confirm", "/device")
"""Forms whose text comes from a mail or from a program: a wrong one is refused."""
NOT_SENT = {
    "/signout": "on every page; tests/web/test_account.py sends it",
    "/delegation-check": "a script sends it, with the fields of the forms for nameservers",
    "/signup/confirm": "a link in a mail opens it; tests/web/test_pages_of_mails.py sends it",
    "/passkeys/{id:id}/remove": "tests/web/test_stories_in_a_browser.py has a passkey",
    "/passkeys/recovery": "the same",
    "/passkeys/recovery/stop": "the same",
    "/o/{organization:id}/members/{user_id:id}/remove": "tests/web/test_organizations.py has two members",
    "/names/{fqdn}/health": "without checks of health there is none; tests/web/test_name.py sends it",
    "/names/{fqdn}/retry": "tests/web/test_retry_in_a_browser.py has a name that failed",
}
"""The pages with forms that no page of this test has, each with the reason."""
GONE = {
    "/sessions/end-others",
    "/transfers/{id:id}/decline",
    "/transfers/{id:id}/withdraw",
    "/organizations/invitations/{invitation_id:id}/decline",
}
"""Forms that others take away: the end of a session may leave none to end, and an offer or an invitation ends
once.
"""
# On a page without records, a website at a host name excludes what the next forms add. A search for an
# invalid name is refused.
PATHS = (
    *(each.path for each in PAGES if each.name not in ("no-records", "invalid-name")),
    "/account/email/code",
    f"/names/old.{DOMAIN}/restore",
    f"/names/garden.{DOMAIN}",  # which is offered
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("forms")
    settings = settings_of_pages(folder) | {"signup": "open", "rate_limits": False, "free_quota": 500}
    with running_service(registry_address(folder), **settings) as running:
        fill(running)
        running.operator("domain", "edit", DOMAIN, "--automatic-ds", "all")
        yield running


def variants(form: PageForm) -> Iterator[dict[str, str]]:
    """Yield the fields of a form as they are, with what a person types into empty ones, and with each other
    choice.
    """
    filled = form.fields | {
        name: TYPED[name] for name, value in form.fields.items() if not value.strip() and name in TYPED
    }
    filled |= {
        name: values[0]
        for name, values in form.choices.items()
        if filled.get(name) == "" and values and "" not in values
    }
    if "name" in filled:
        filled["name"] = filled["name"] or "Sample"
    yield form.fields
    yield filled
    for name, values in form.choices.items():
        for value in share(values[:1], whole=values):
            record = (
                {"name": f"new-{value.lower()}", "values": VALUES[value]}
                if name == "type" and value in VALUES
                else {}
            )
            yield filled | {name: value} | record


def forms_of(page: Shown) -> dict[tuple[str, str], PageForm]:
    """Return the forms of a page by action, and by the record that they are about and their place among such
    forms.
    """
    found: dict[tuple[str, str], PageForm] = {}
    for form in page.forms:
        about = "/".join(form.fields.get(name, "") for name in ("purpose", "old_name", "type"))
        place = sum(key[0] == form.action and key[1].startswith(f"{about}#") for key in found)
        found[form.action, f"{about}#{place}"] = form
    return found


def send(browser: ConsoleClient, path: str, form: PageForm, number: int) -> tuple[Shown, str]:
    """Send one variant of a form of a page.

    Return the answer, and the text of a refusal that no input explains.
    """
    action = urljoin(path, form.action)
    fields = [*variants(form)][number]
    if form.method == "GET":
        answer = browser.get(f"{action.partition('?')[0]}?{urlencode(fields)}")
    else:
        if form.fields.get("confirm") == "" and number:
            slug = re.search(r"valley-museum-\w+", browser.get(path).text)
            fields = fields | {"confirm": slug[0] if slug else ADA}
        answer = browser.post(action, fields)
    needs_code = action.startswith(NEEDS_A_CODE) or action.endswith("/code")
    # The first variant has empty fields that a person must fill in.
    is_refused = number > 0 and answer.status in (400, 422) and not needs_code
    return answer, answer.text[:600] if is_refused or answer.status >= 500 else ""


class Twins:
    """A new name for each form that changes records or nameservers, like the page's name, so that no form
    takes another's away.
    """

    def __init__(self, service: RunningService) -> None:
        self.service = service
        self.token = service.issue_token(ADA)
        self.count = 0

    def path(self, path: str) -> str:
        """Return the path of the same page about a new name. Other paths stay as they are."""
        found = re.fullmatch(rf"(.*[/=])(shop|blog|music|site)(\.{DOMAIN}(|/records|/nameservers))", path)
        if found is None or (found[4] == "" and found[2] != "shop"):
            return path
        self.count += 1
        label = f"{found[2]}{self.count}"
        hosts = ["ns1.provider.example", "ns2.provider.example"]
        members: dict[str, Any] = {"blog": {"nameservers": hosts}, "site": {"records": RECORDS}}
        if found[2] != "shop":  # which the form registers
            self.service.register(self.token, f"{label}.{DOMAIN}", **members.get(found[2], {}))
        return f"{found[1]}{label}{found[3]}"


def outline(form: PageForm) -> tuple[str, frozenset[str], frozenset[str]]:
    """Return what distinguishes a form from others with the same action: its fields and its choices."""
    return form.action.rpartition(f".{DOMAIN}")[2], frozenset(form.fields), frozenset(form.choices)


def follow(browser: ConsoleClient, answer: Shown, seen: set[Any]) -> Iterator[tuple[str, str]]:
    """Send each new form of an answer that is a page of its own, such as a price to confirm, in each variant.

    Yield as `send_all`.
    """
    if answer.status != 200 or answer.response.request.method != "POST":
        return
    for form in answer.forms:
        if form.action in NOT_SENT or outline(form) in seen:
            continue
        seen.add(outline(form))
        for number in range(1, len([*variants(form)])):
            if "idempotency_key" in form.fields:
                form.fields["idempotency_key"] = uuid4().hex
            next_answer, refusal = send(browser, answer.path, form, number)
            yield form.action, refusal
            yield from follow(browser, next_answer, seen)


def send_all(
    browser: ConsoleClient, path: str, place: tuple[str, str], number: int, seen: set[Any]
) -> Iterator[tuple[str, str]]:
    """Send one variant of a form of a page, then the forms of the answer whose outlines aren't `seen`.

    Yield the action of each with the text of a refusal that no input explains, or "". Yield nothing if the
    page no longer has the form.
    """
    shown = forms_of(browser.get(path))
    if place not in shown or len([*variants(shown[place])]) <= number:
        assert place[0].endswith(ENDS), f"{path} has lost the form {place}"
        return
    answer, refusal = send(browser, path, shown[place], number)
    yield place[0], refusal
    if number:
        yield from follow(browser, answer, seen)


def test_no_default_and_no_option_is_refused_as_invalid(service: RunningService) -> None:
    open_paths = {each.path for each in PAGES if each.is_open}
    signed_in, stranger, twins = console(service, ADA), console(service), Twins(service)
    waiting, seen = [], set[Any]()
    for path in PATHS:
        page = (stranger if path in open_paths else signed_in).get(path)
        seen |= {outline(form) for form in page.forms}
        for (action, place), form in forms_of(page).items():
            order = (action == "/account/delete", action == "/o/3/delete", action.endswith(ENDS))
            if action not in NOT_SENT:
                waiting += [(order, action, path, place, number) for number in range(len([*variants(form)]))]
    sent, failures = set(), []
    for _, action, path, place, number in sorted(waiting):
        browser = stranger if path in open_paths else signed_in
        about = twins.path(path) if number else path
        name, twin = (each.partition(f".{DOMAIN}")[0].rpartition("/")[2] for each in (path, about))
        own_action = action if name == path else action.replace(f"/{name}.", f"/{twin}.")
        for sent_action, refusal in send_all(browser, about, (own_action, place), number, seen):
            sent.add(urljoin(path, sent_action).partition("?")[0])
            if refusal:
                failures.append((path, action, number, refusal))
    assert failures == [], "\n".join(map(str, failures))
    patterns = {each.path: _pattern(each.path) for each in routes.PAGES if each.post}
    missing = {path for path, pattern in patterns.items() if not any(map(pattern.fullmatch, sent))}
    assert missing - GONE == NOT_SENT.keys(), missing


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path))
