"""Every form of every page, sent once with its defaults, and once with each option, checkbox and button: none is refused as invalid."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode, urljoin

import pytest

from support.console_client import ConsoleClient, PageForm, Shown, console
from support.console_pages import ADA, DOMAIN, PAGES, fill
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
NEEDS_A_CODE = ("/signin/confirm", "/device")
"""Forms whose text comes from a mail or from a program: a wrong one is refused."""
# On a page without records, a website at a host name excludes what the next forms add. A search for an invalid name is refused.
PATHS = (
    *(each.path for each in PAGES if each.name not in ("no-records", "invalid-name")),
    "/account/email/code",
    "/o/3/delete",
    f"/names/old.{DOMAIN}/restore",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    address = registry_address(tmp_path_factory.mktemp("forms"))
    with running_service(address, signup="open", rate_limits=False, free_quota=500) as running:
        fill(running)
        yield running


def variants(form: PageForm) -> Iterator[dict[str, str]]:
    """Yield the fields of a form as they are, with what a person types into empty ones, and with each other choice."""
    filled = form.fields | {
        name: TYPED[name] for name, value in form.fields.items() if not value.strip() and name in TYPED
    }
    if "name" in filled:
        filled["name"] = filled["name"] or "Sample"
    yield form.fields
    yield filled
    for name, values in form.choices.items():
        for value in values:
            record = (
                {"name": f"new-{value.lower()}", "values": VALUES[value]}
                if name == "type" and value in VALUES
                else {}
            )
            yield filled | {name: value} | record


def forms_of(page: Shown) -> dict[tuple[str, str], PageForm]:
    """Return the forms of a page by action, and by the record that they are about and their place among such forms."""
    found: dict[tuple[str, str], PageForm] = {}
    for form in page.forms:
        about = "/".join(form.fields.get(name, "") for name in ("purpose", "old_name", "type"))
        place = sum(key[0] == form.action and key[1].startswith(f"{about}#") for key in found)
        found[form.action, f"{about}#{place}"] = form
    return found


def send(browser: ConsoleClient, path: str, form: PageForm, number: int) -> tuple[int, str]:
    """Send one variant of a form of a page. Return the status, and the text of a refusal that no input explains."""
    action = urljoin(path, form.action)
    fields = [*variants(form)][number]
    if form.method == "GET":
        answer = browser.get(f"{action.partition('?')[0]}?{urlencode(fields)}")
    else:
        if "confirm" in form.fields and number:
            slug = re.search(r"valley-museum-\w+", browser.get(path).text)
            fields = fields | {"confirm": slug[0] if slug else ADA}
        answer = browser.post(action, fields)
    needs_code = action.startswith(NEEDS_A_CODE) or action.endswith("/code")
    # The first variant has empty fields that a person must fill in.
    is_refused = number > 0 and answer.status in (400, 422) and not needs_code
    return answer.status, answer.text[:600] if is_refused or answer.status >= 500 else ""


def test_no_default_and_no_option_is_refused_as_invalid(service: RunningService) -> None:
    open_paths = {each.path for each in PAGES if each.is_open}
    signed_in, stranger = console(service, ADA), console(service)
    waiting = []
    for path in PATHS:
        page = (stranger if path in open_paths else signed_in).get(path)
        for (action, place), form in forms_of(page).items():
            if action == "/signout":  # on every page; tests/web/test_account.py sends it
                continue
            order = (action == "/account/delete", action == "/o/3/delete", action.endswith(ENDS))
            waiting += [(order, action, path, place, number) for number in range(len([*variants(form)]))]
    sent: set[str] = set()
    failures = []
    for _, action, path, place, number in sorted(waiting):
        browser = stranger if path in open_paths else signed_in
        # A name can be registered once.
        shown = forms_of(browser.get(path.replace("=shop.", f"=shop{number}.")))
        if (action, place) not in shown or len([*variants(shown[action, place])]) <= number:
            assert action.endswith(ENDS), f"{path} has lost the form {action}"
            continue
        status, refusal = send(browser, path, shown[action, place], number)
        sent.add(action)
        if refusal:
            failures.append((path, action, number, status, refusal))
    assert failures == [], "\n".join(map(str, failures))
    # Accepting an offer ends it, and ending other sessions leaves none to end.
    assert {action for _, action, *_ in waiting} - sent <= {"/transfers/2/decline", "/sessions/end-others"}
    assert {"/tokens/new", "/tokens/1/rotate", "/register", "/tickets/new", "/account/delete"} <= sent
