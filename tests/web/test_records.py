"""The page of a name's records: forms by purpose, the table, a zone file, and the way between records and
nameservers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sublet.errors import Unavailable
from sublet.web.page import PageCall
from support.console_client import ConsoleClient, Shown, console
from support.running_service import Registrant, RunningService, registry_address, running_service

A = {"name": "@", "type": "A", "ttl": 300, "values": ["8.8.4.4"]}
WWW = {"name": "www", "type": "CNAME", "ttl": 300, "values": ["my-site.pages.example."]}
NS = ["ns1.provider.example", "ns2.provider.example"]
STORED = "Stored, and in the DNS now."


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    url = registry_address(tmp_path_factory.mktemp("records"))
    with running_service(url, rate_limits=False, free_quota=50) as running:
        running.add_domain("example.test", "--records", "on")
        running.add_domain("plain.test")
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    return service.add_user("ada@example.org")


@pytest.fixture
def browser(service: RunningService, ada: Registrant) -> ConsoleClient:
    return console(service, ada.email)


def new_name(service: RunningService, who: Registrant, fqdn: str, *records: dict[str, Any]) -> str:
    """Register a name with records, or with nameservers if there are none. Return the path of its page."""
    service.register(who, fqdn, **({"records": list(records)} if records else {"nameservers": NS}))
    return f"/names/{fqdn}"


def stored(service: RunningService, who: Registrant, path: str) -> list[dict[str, Any]]:
    answer = service.call(who, "GET", path.replace("/names/", "/subdomains/") + "/records").json()
    return list(answer["records"])


def send(browser: ConsoleClient, path: str, place: Mapping[str, str], **fields: str) -> Shown:
    """Fill in the form of the page that has these hidden fields, and send it."""
    page = browser.get(f"{path}/records")
    (form,) = [each for each in page.forms if place.items() <= each.fields.items()]
    assert fields.keys() <= {*form.fields, *form.choices}, form
    return browser.post(form.action, form.fields | fields)


def confirm(browser: ConsoleClient, page: Shown) -> Shown:
    (form,) = [each for each in page.forms if "confirm" in each.choices]
    return browser.post(form.action, form.fields | {"confirm": "yes"})


def lines(page: Shown, style: str) -> list[str]:
    """Return the removed or added lines of a page."""
    parts = page.response.text.split(f'class="{style}"')[1:]
    return [each.partition("<code>")[2].partition("</code>")[0].replace("&#34;", '"') for each in parts]


@pytest.mark.operations("get_records", "set_record", "change_records", "remove_record")
def test_records_are_added_changed_and_removed(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    page = browser.submit(browser.get("/register?fqdn=new.example.test"), "/register")
    assert (page.path, "new.example.test is registered." in page.text) == (
        "/names/new.example.test/records",
        True,
    )
    path = "/names/new.example.test"
    assert "Where is your DNS?" in browser.get(path).text
    done = send(browser, path, {"purpose": "host"}, host="https://my-site.pages.example/x", host_at="www")
    assert f"{STORED} Now enter www.new.example.test as the custom domain" in done.text
    done = send(browser, path, {"purpose": "addresses"}, addresses="8.8.4.4")
    assert (STORED in done.text, stored(service, ada, path)) == (True, [A, WWW])
    asked = send(browser, path, {"old_name": "www"}, name="blog", ttl="600")
    assert lines(asked, "removed") == ["www 300 CNAME my-site.pages.example."]
    assert lines(asked, "added") == ["blog 600 CNAME my-site.pages.example."]
    assert stored(service, ada, path) == [A, WWW], "nothing is stored before the confirmation"
    assert STORED in confirm(browser, asked).text
    removed = confirm(browser, send(browser, path, {"old_name": "@"}, remove="yes"))
    assert STORED in removed.text
    assert stored(service, ada, path) == [WWW | {"name": "blog", "ttl": 600}]
    same = send(browser, path, {"old_name": "blog"})
    assert (same.status, "You changed nothing" in same.text) == (200, True)
    shown = browser.get(path)
    assert "the servers of example.test answer with its 1 record." in shown.text
    assert "blog 600 CNAME my-site.pages.example." in shown.text


def test_a_refusal_is_at_its_field(service: RunningService, ada: Registrant, browser: ConsoleClient) -> None:
    path = new_name(service, ada, "refused.example.test", A)
    wrong = send(browser, path, {"purpose": "host"}, host="mysite")
    assert (wrong.status, 'id="host-error"' in wrong.response.text) == (422, True)
    row = send(browser, path, {"old_name": "@"}, ttl="5", values="8.8.4.4\n10.0.0.1")
    assert row.status == 422
    for field in ("row-1-ttl", "row-1-values"):
        assert f'aria-describedby="{field}"' in row.response.text
        assert f'id="{field}"' in row.response.text
    assert "10.0.0.1</textarea>" in row.response.text, "what was typed stays"
    assert (stored(service, ada, path), "request" in row.text.lower()) == ([A], False)


@pytest.mark.operations("replace_records")
def test_a_zone_file_shows_its_difference_first(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    path = new_name(service, ada, "moved.example.test", A)
    text = "$TTL 600\n@ IN SOA a b 1 2 3 4 5\n@ IN A 8.8.8.8\nwww IN CNAME my-site.pages.example."
    asked = send(browser, path, {"purpose": "zone_file"}, zone_file=text)
    assert lines(asked, "removed") == ["@ 300 A 8.8.4.4"]
    assert lines(asked, "added") == ["@ 600 A 8.8.8.8", "www 600 CNAME my-site.pages.example."]
    assert "Line 2: moved.example.test is no zone of its own" in asked.text
    done = confirm(browser, asked)
    assert STORED in done.text
    assert "www 600 IN CNAME my-site.pages.example." in " ".join(done.text.split()), "the zone file to copy"
    wrong = send(browser, path, {"purpose": "zone_file"}, zone_file="@ IN A 8.8.8.8\n@ IN AAAA x")
    assert (wrong.status, "Line 2: " in wrong.text) == (422, True)


@pytest.mark.operations("update_nameservers")
def test_records_and_nameservers_replace_each_other(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    path = new_name(service, ada, "switch.example.test", A)
    form = browser.get(f"{path}/nameservers")
    asked = browser.submit(form, f"{path}/nameservers", nameservers="\n".join(NS))
    assert (lines(asked, "removed"), lines(asked, "added")) == (["@ 300 A 8.8.4.4"], NS)
    done = browser.submit(asked, f"{path}/nameservers", confirm="yes")
    assert (done.path, service.delegation("switch.example.test")) == (path, set(NS))
    assert stored(service, ada, path) == []
    asked = send(browser, path, {"purpose": "github"}, github_user="octocat", github_user_at="www")
    assert (lines(asked, "removed"), lines(asked, "added")) == (NS, ["www 300 CNAME octocat.github.io."])
    assert service.delegation("switch.example.test") == set(NS)
    newer = {"nameservers": ["ns3.provider.example"]}
    service.call(ada, "PUT", "/subdomains/switch.example.test/nameservers", newer)
    refused = confirm(browser, asked)
    assert (refused.status, service.delegation("switch.example.test")) == (412, set(newer["nameservers"]))
    asked = send(browser, path, {"purpose": "github"}, github_user="octocat", github_user_at="www")
    assert STORED in confirm(browser, asked).text
    assert stored(service, ada, path) == [WWW | {"values": ["octocat.github.io."]}]
    served = browser.get(f"{path}/delegation")
    assert ("octocat.github.io." in served.text, "As stored" in served.text) == (True, True)


def test_a_switch_that_stops_in_the_middle_says_so(
    service: RunningService, ada: Registrant, browser: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fqdn = "half.example.test"
    path = new_name(service, ada, fqdn, A)
    form = browser.get(f"{path}/nameservers")
    asked = browser.submit(form, f"{path}/nameservers", nameservers="\n".join(NS))
    api = PageCall.api

    async def fail(call: PageCall, name: str, /, *values: Any, **more: Any) -> Any:
        if name == "update_nameservers":
            raise Unavailable("The registry can't do this now.", retry_after_seconds=1)
        return await api(call, name, *values, **more)

    with monkeypatch.context() as patched:
        patched.setattr(PageCall, "api", fail)
        stopped = confirm(browser, asked)
    assert stopped.status == 503
    assert "The records are removed, but the nameservers are not stored." in stopped.text
    assert (stored(service, ada, path), service.delegation(fqdn)) == ([], set())
    done = browser.submit(stopped, f"{path}/nameservers")  # the form is still filled in
    assert (done.status, service.delegation(fqdn)) == (200, set(NS))


def test_a_viewer_and_a_platform_domain_without_records_have_no_forms(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    new_name(service, ada, "plain.plain.test")
    page = browser.get("/names/plain.plain.test/records")
    assert "Names under plain.test can't have new records." in page.text
    assert f"{page.path}" not in browser.get("/names/plain.plain.test").response.text
    made = service.call(ada, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
    service.add_user("ben@example.org")
    service.operator("organization", "set-role", "Coop", "--user", "ben@example.org", "--role", "viewer")
    service.register(service.token_for(ada, made["id"]), "coop.example.test", records=[A])
    path = f"/o/{made['id']}/names/coop.example.test/records"
    seen = console(service, "ben@example.org").get(path)
    assert ("8.8.4.4" in seen.text, [each for each in seen.forms if each.action == path]) == (True, [])
    stolen = console(service, "ben@example.org").post(
        path,
        seen.form("/signout").fields | {"purpose": "addresses", "addresses": "8.8.8.8", "confirm": "yes"},
    )
    assert stolen.status == 403
    own = console(service, ada.email).get(path)
    assert [each for each in own.forms if each.action == path] != []
