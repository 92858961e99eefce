"""The page of a name: what can be done now, and each of its forms, without a browser."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from sublet import web
from sublet.db import Tx
from sublet.health.due_checks import record_check
from sublet.health.model import BROKEN, Finding, Level, Report
from sublet.structs import replace
from sublet.subdomains.child_state_store import find_automatic_ds, save_state
from support import databases
from support.console_client import ConsoleClient, console
from support.running_service import Registrant, RunningService, registry_address, running_service
from support.statements import recorded_statements
from support.waiting import wait_until

FQDN = "own.example.test"
PATH = f"/names/{FQDN}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    path: Path = tmp_path_factory.mktemp("name")
    url = registry_address(path)
    # Nothing answers at this address, so each check ends at once.
    presets = "Provider X: ns1.x.example ns2.x.example"
    checks = {"nameserver_presets": presets, "health_checks": True, "health_root_hints": "127.0.0.99"}
    with running_service(url, rate_limits=False, free_quota=50, **checks) as running:
        running.add_domain("example.test", "--renewal-window-days", "365", "--automatic-ds", "all")
        yield running
        assert running.doctor() == []


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    found = service.add_user("ada@example.org", credit_count=25)
    service.register(
        found, FQDN, nameservers=["ns1.provider.example"], registration_mode="plus", confirm=True
    )
    service.clock.advance(days=2)
    return found


@pytest.fixture
def browser(service: RunningService, ada: Registrant) -> ConsoleClient:
    return console(service, ada.email)


@pytest.mark.operations("renew")
def test_a_renewal_is_quoted_and_confirmed(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    quoted = browser.submit(browser.get(PATH), f"{PATH}/renew")
    assert (quoted.status, "Renew own.example.test for 10 credits" in quoted.text) == (200, True)
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 15
    done = browser.submit(quoted, f"{PATH}/renew", confirm="yes")
    assert (done.path, f"{FQDN} is renewed." in done.text) == (PATH, True)
    assert service.call(ada, "GET", "/credits").json()["credit_balance"] == 5
    assert f'action="{PATH}/renew"' not in done.response.text, "only the allowed actions"


@pytest.mark.operations("get_auto_renew", "set_auto_renew")
def test_automatic_renewal_has_a_ceiling(browser: ConsoleClient) -> None:
    page = browser.get(PATH)
    past, _, planned = page.text.partition("Timeline")[2].rpartition("Today")
    assert ("Expires" in planned, "Registered" in planned, "Registered" in past) == (True, False, True)
    assert "Automatic renewal: off" in page.text
    wrong = browser.submit(page, f"{PATH}/auto-renew", enabled="yes", max_credits="")
    assert (wrong.status, "max_credits-error" in wrong.response.text) == (422, True)
    done = browser.submit(wrong, f"{PATH}/auto-renew", enabled="yes", max_credits="12")
    assert "Automatic renewal: on, up to 12 credits" in done.text
    done = browser.submit(done, f"{PATH}/auto-renew", max_credits="0")
    form = done.form(f"{PATH}/auto-renew").fields
    assert form["max_credits"] == "0", "the page must show the ceiling that is stored"
    del form["enabled"]
    assert "Automatic renewal: off" in browser.post(f"{PATH}/auto-renew", form).text


def test_warnings_stay_on_the_page_of_the_name(service: RunningService) -> None:
    service.add_user("warned@example.org")
    browser = console(service, "warned@example.org")
    page = browser.get("/register?fqdn=warned.example.test")
    ds = f"2371 13 2 {'ab' * 32}"
    done = browser.submit(page, "/register", nameservers="ns1.provider.example", ds_records=ds)
    assert (done.status, done.path) == (200, "/names/warned.example.test"), done.text
    for _ in range(2):
        assert "The zone example.test is not signed, so the DS records have no effect" in done.text
        assert ("parent_not_signed" in done.text, "Ask the operator" in done.text) == (False, True)
        done = browser.get(done.path)
    form = browser.submit(
        browser.get(f"{done.path}/nameservers"),
        f"{done.path}/nameservers",
        nameservers="ns2.provider.example",
    )
    changed = browser.submit(form, f"{done.path}/nameservers", confirm="yes")
    same = browser.submit(
        browser.get(f"{done.path}/nameservers"),
        f"{done.path}/nameservers",
        ds_records=f"warned.example.test. 3600 IN DS {ds.upper()}",
    )
    assert "You changed nothing." in same.text
    assert "such as 12345 13 2" in same.text
    assert changed.response.text.count("is not signed") == 1
    asked = browser.get(f"{done.path}/delegation")
    assert ("no action" in asked.text, "is not signed" in asked.text) == (False, True)


@pytest.mark.operations("delete", "restore")
def test_a_name_that_can_not_be_restored_shows_the_reason(service: RunningService) -> None:
    eva = service.add_user("eva@example.org", free_quota="1")
    browser = console(service, eva.email)
    service.register(eva, "eva1.example.test")
    page = browser.get("/names/eva1.example.test/delete")
    assert "you must delete a free name before you can restore this one" in page.text
    trashed = browser.submit(page, "/names/eva1.example.test/delete")
    assert "eva1.example.test is deleted." in trashed.text
    again = browser.submit(page, "/names/eva1.example.test/delete")
    assert "eva1.example.test is in the trash already." in again.text
    assert "is in the trash already." in browser.get("/names/EVA1.example.test/delete").text
    records = browser.get("/names/eva1.example.test/records")
    assert ("This name is in the trash" in records.text, "no such name" in records.text) == (True, False)
    back = browser.submit(browser.get("/names?status=trashed"), "/names/eva1.example.test/restore")
    assert "eva1.example.test is back from the trash." in back.text
    page = browser.get("/names/eva1.example.test/delete")
    trashed = browser.submit(page, "/names/eva1.example.test/delete")
    service.register(eva, "eva2.example.test")
    assert (
        "1 of your 1 free name is in use, so eva1.example.test can't come back yet."
        in browser.get(trashed.path).text
    )
    assert "Yours already" in browser.get("/register?fqdn=eva2.example.test").text
    assert "Reserved: choose another name" in browser.get("/register?fqdn=ns1.example.test").text


@pytest.mark.operations("get_automatic_ds", "set_automatic_ds")
def test_automatic_ds_is_turned_on(browser: ConsoleClient) -> None:
    page = browser.get(PATH)
    done = browser.submit(page, f"{PATH}/automatic-ds", enabled="yes", bootstrap="yes")
    assert "DS records that follow your zone: on" in done.text


def test_a_wait_for_ds_records_is_shown(service: RunningService) -> None:
    eve = service.add_user("eve2@example.org")
    service.operator("domain", "edit", "example.test", "--automatic-ds", "all", "--bootstrap-days", "7")
    name = service.register(eve, "wait.example.test", nameservers=["ns1.provider.example"])["subdomain"]

    def begin(tx: Tx) -> None:
        known = find_automatic_ds(tx, name["id"])
        waiting = replace(known, awaited_digest="ab" * 32, awaited_generation=1, awaited_since=tx.now)
        save_state(tx, known, replace(waiting, awaited_seen_at=tx.now))

    service.write(begin)
    text = console(service, eve.email).get("/names/wait.example.test").text
    assert "Your zone asks for its first DS records." in text


@pytest.mark.operations("get_health", "check_health")
def test_health_is_checked_on_request(browser: ConsoleClient) -> None:
    done = browser.submit(browser.get(PATH), f"{PATH}/health")
    assert (done.status, "Your nameservers were checked just now." in done.text) == (200, True)


def test_a_broken_name_shows_when_it_leaves_the_dns(service: RunningService) -> None:
    eve = service.add_user("eve@example.org")
    service.operator("domain", "edit", "example.test", "--broken-days", "30")
    name = service.register(eve, "broken.example.test", nameservers=["ns1.provider.example"])["subdomain"]
    lame = Finding("lame", Level.ERROR, "ns1.provider.example", "It is lame.", "Mend it.")

    service.write(lambda tx: record_check(tx, name["id"], 1, Report(BROKEN, (lame,), tx.now)))
    text = console(service, eve.email).get("/names/broken.example.test").text
    assert "Unless broken.example.test works again, it leaves the DNS at" in text
    assert "Names 1 broken" in text
    assert ("It is lame." in text, "Mend it." in text) == (True, True)


@pytest.mark.operations("check_delegation", "free_subdomains")
def test_nameservers_are_checked_before_a_registration(browser: ConsoleClient) -> None:
    page = browser.get("/register?fqdn=planned.example.test")
    assert "0 of your 50 free names are in use." in page.text
    checked = browser.submit(page, "/register", nameservers="ns1.provider.example", check="yes")
    assert (checked.status, "These nameservers" in checked.text) == (200, True), checked.text
    assert checked.form("/register").fields["nameservers"].strip() == "ns1.provider.example"
    change = browser.get(f"{PATH}/nameservers")
    checked = browser.submit(change, f"{PATH}/nameservers")
    assert (checked.status, "These nameservers" in checked.text) == (200, True), checked.text
    checked = browser.submit(change, f"{PATH}/nameservers", ds_records=f"{FQDN}. IN DS 1 13 2 ab")
    assert (checked.status, "hexadecimal digits" in checked.text) == (422, True)


def test_nameservers_are_filled_in_from_presets_and_other_names(browser: ConsoleClient) -> None:
    page = browser.get("/register?fqdn=preset.example.test")
    assert "Provider X: ns1.x.example, ns2.x.example" in page.text
    own = page.response.text.partition('">own.example.test:')[0].rpartition('value="')[2]
    filled = browser.submit(page, "/register", preset=own, apply="yes")
    assert filled.form("/register").fields["nameservers"].split() == own.split()
    change = browser.get(f"{PATH}/nameservers")
    assert "own.example.test:" not in change.text, "the name itself"
    filled = browser.submit(change, f"{PATH}/nameservers", preset="ns1.x.example ns2.x.example", apply="yes")
    assert filled.form(f"{PATH}/nameservers").fields["nameservers"].split() == [
        "ns1.x.example",
        "ns2.x.example",
    ]


def test_the_form_of_an_old_page_is_refused(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    page = browser.get(f"{PATH}/nameservers")
    changed = browser.submit(page, f"{PATH}/nameservers", nameservers="ns2.provider.example")
    body = {"nameservers": ["ns3.provider.example"]}
    assert service.call(ada, "PUT", f"/subdomains/{FQDN}/nameservers", body).status_code == 200
    refused = browser.submit(changed, f"{PATH}/nameservers", confirm="yes")
    assert (refused.status, "This has changed since you read it" in refused.text) == (412, True)
    assert service.delegation(FQDN) == {"ns3.provider.example"}
    compared = browser.submit(refused, f"{PATH}/nameservers")
    assert "removed: ns3.provider.example added: ns2.provider.example" in compared.text
    browser.submit(compared, f"{PATH}/nameservers", confirm="yes")
    assert service.delegation(FQDN) == {"ns2.provider.example"}


def test_the_page_of_a_name_takes_few_statements(service: RunningService) -> None:
    few = service.add_user("few@example.org")
    service.register(few, "few.example.test", nameservers=["ns1.provider.example"])
    ds = f"2371 13 2 {'ab' * 32}"
    service.register(few, "signed.example.test", nameservers=["ns1.provider.example"], ds_records=[ds])
    for label in ("bare", "trashed"):
        service.register(few, f"{label}.example.test")
    service.call(few, "DELETE", "/subdomains/trashed.example.test")
    browser = console(service, few.email)

    def takes(label: str, most: int) -> bool:
        with recorded_statements() as texts:
            assert browser.get(f"/names/{label}.example.test").status == 200
        # On SQLite the service remembers the session.
        return len(texts) <= most + databases.on_postgresql()

    for label, most in (("few", 10), ("signed", 11), ("bare", 10), ("trashed", 7)):
        wait_until(partial(takes, label, most))  # the worker may send some at the same time


def test_the_page_of_a_name_is_shown_throughout_its_life(tmp_path: Path) -> None:
    """Names that their holder can renew, that only the operator renews, and that go when their platform
    domain closes.
    """
    with running_service(registry_address(tmp_path)) as service:
        for domain in ("open.test", "closing.test"):
            service.add_domain(domain)
        ada = service.add_user("ada@example.org", credit_count=50)
        service.operator("subdomain", "register", "operators.open.test", "--user", ada.email)
        for name in ("plain.open.test", "renewed.closing.test", "plain.closing.test"):
            service.register(ada, name, registration_mode="plus", confirm=True)
        ceiling = {"enabled": True, "max_credits": 10}
        assert service.call(ada, "PUT", "/subdomains/renewed.closing.test/auto-renew", ceiling).is_success
        service.operator("domain", "edit", "closing.test", "--closed")
        until = f"{service.clock() + timedelta(days=380):%Y-%m-%d}"
        service.operator("domain", "remove", "closing.test", "--names-until", until)
        names = ("plain.open.test", "operators.open.test", "renewed.closing.test", "plain.closing.test")
        for days in (0, 345, 25, 35):
            service.pass_days(days)
            if days == 35:
                wait_until(lambda: len(_in_trash(service, ada)) == len(names))
            for name in names:
                page = console(service, ada.email).get(f"/names/{name}")
                assert page.status == 200, (name, days, page.text)
                renewal = service.call(ada, "POST", f"/subdomains/{name}/renew").status_code
                offered = f"/names/{name}/renew" in page.response.text
                assert offered is (renewal == 402), (name, days, renewal)
                assert offered or "unless you renew it" not in page.text
                is_in_trash = "is in the trash" in page.text
                is_operators = name == "operators.open.test" and not is_in_trash
                assert ("The operator renews it." in page.text) is is_operators
                assert ("Give away or move" in page.text) is not (is_in_trash or is_operators)


def test_no_page_loads_itself_again_under_an_open_form() -> None:
    """The element `meta` would also ask for the address of a form that was refused."""
    templates = list((Path(web.__file__).parent / "templates").iterdir())
    assert templates
    assert [each.name for each in templates if 'http-equiv="refresh"' in each.read_text("utf-8")] == []


def _in_trash(service: RunningService, who: Registrant) -> list[str]:
    found = service.list_all(who, "/subdomains?status=trashed", "subdomains")
    return [each["fqdn"] for each in found]


def test_a_name_without_a_trash_is_deleted_for_good(service: RunningService) -> None:
    service.add_domain("short.test", "--trash-days", "0")
    gus = service.add_user("gus@example.org")
    service.register(gus, "gus.short.test")
    browser = console(service, gus.email)
    page = browser.get("/names/gus.short.test/delete")
    assert ("It can't be restored." in page.text, "trash" in page.text) == (True, False)
    deleted = browser.submit(page, "/names/gus.short.test/delete")
    assert (deleted.path, "gus.short.test is deleted." in deleted.text) == ("/names", True)
