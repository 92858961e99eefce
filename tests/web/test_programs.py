"""The pages that give programs a credential: update keys for certificates, tokens for changing addresses."""

import html
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console_client import ConsoleClient, Shown, console
from support.free_ports import free_port
from support.programs import find_program
from support.running_service import Registrant, RunningService, registry_address, running_service

A = {"name": "@", "type": "A", "ttl": 300, "values": ["8.8.4.4"]}
FQDN = "blog.example.test"
PATH = f"/names/{FQDN}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "key").write_text("0123456789abcdef" * 2)
    listen = f"127.0.0.1:{free_port()}"
    with running_service(
        registry_address(folder), update_key_file=str(folder / "key"), update_listen=listen
    ) as running:
        running.add_domain("example.test", "--records", "on")
        yield running


@pytest.fixture(scope="module")
def ada(service: RunningService) -> Registrant:
    ada = service.add_user("ada@example.org")
    service.register(ada, FQDN, records=[A])
    service.register(ada, "music.example.test", nameservers=["ns1.provider.example"])
    return ada


@pytest.fixture
def browser(service: RunningService, ada: Registrant) -> ConsoleClient:
    return console(service, ada.email)


def configurations(page: Shown) -> dict[str, str]:
    """Return the configurations of a page, by the program."""
    found = re.findall(r'aria-label="Configuration of ([^"]+)">(.*?)</pre>', page.response.text, re.DOTALL)
    return {program: html.unescape(text) for program, text in found}


def owners(service: RunningService, ada: Registrant) -> set[tuple[str, str]]:
    found = service.call(ada, "GET", f"/subdomains/{FQDN}/records").json()["records"]
    return {(each["name"], each["type"]) for each in found}


@pytest.mark.operations("list_update_keys", "create_update_key", "revoke_update_key")
def test_a_key_for_certificates(
    service: RunningService, ada: Registrant, browser: ConsoleClient, tmp_path: Path
) -> None:
    assert f"{PATH}/certificate" in browser.get(f"{PATH}/records").response.text
    form = browser.get(f"{PATH}/certificate")
    fields = form.form(f"{PATH}/certificate").fields | {"name": "<b>home</b>"}
    made = browser.post(f"{PATH}/certificate", fields)
    texts = configurations(made)
    assert list(texts) == ["certbot", "lego", "Caddy", "acme.sh"]
    host, port = service.settings.update_listen.split(":")
    (key,) = service.call(ada, "GET", f"/subdomains/{FQDN}/update-keys").json()["update_keys"]
    assert key["record_names"] == ["_acme-challenge", "_acme-challenge.*"]
    for program, text in texts.items():
        assert all(each in text for each in (key["key_name"], FQDN, host, port)), program
    assert "<b>home" not in made.response.text

    (line,) = re.findall(r"key .*", texts["acme.sh"].partition("<<END\n")[2].partition("END")[0])
    (tmp_path / "key").write_text(line)
    for owner, is_done in (("_acme-challenge", True), ("_acme-challenge.www", True), ("www", False)):
        said = nsupdate(tmp_path / "key", host, port, f"update add {owner}.{FQDN} 60 TXT x")
        assert (said == "") == is_done, said
    assert owners(service, ada) == {("@", "A"), ("_acme-challenge", "TXT"), ("_acme-challenge.www", "TXT")}

    again = browser.post(f"{PATH}/certificate", fields)
    assert configurations(again) == texts, "the same form shows the same key"
    listed = browser.get(f"{PATH}/certificate")
    assert (key["key_name"] in listed.text, texts["lego"] in listed.text) == (True, False)
    revoked = browser.submit(listed, f"{PATH}/update-keys/{key['id']}/revoke")
    assert (revoked.path, key["key_name"] in revoked.text) == (f"{PATH}/certificate", False)
    assert "BADKEY" in nsupdate(tmp_path / "key", host, port, f"update delete _acme-challenge.{FQDN}")
    assert browser.submit(listed, f"{PATH}/update-keys/{key['id']}/revoke").status == 200


def nsupdate(key: Path, host: str, port: str, line: str) -> str:
    script = f"server {host} {port}\nzone {FQDN}\n{line}\nsend\n"
    done = subprocess.run(
        [find_program("nsupdate"), "-k", str(key)],
        input=script, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_a_token_for_a_changing_address(
    service: RunningService, ada: Registrant, browser: ConsoleClient
) -> None:
    page = browser.get(f"{PATH}/changing-address")
    wrong = browser.submit(page, f"{PATH}/changing-address", record_names="not a host")
    assert (wrong.status, 'id="record_names-error"' in wrong.response.text) == (422, True)
    made = browser.submit(wrong, f"{PATH}/changing-address", record_names=f"Home.{FQDN}")
    texts = configurations(made)
    assert list(texts) == ["a router", "ddclient", "inadyn", "curl"]
    assert texts["ddclient"].splitlines()[-1] == f"home.{FQDN}"
    (secret,) = set(re.findall(r"sublet_\w+", "".join(texts.values())))
    url = service.origin + "/nic/update"
    for host, word in ((f"home.{FQDN}", "good"), (FQDN, "nohost"), (f"www.home.{FQDN}", "nohost")):
        query = {"hostname": host, "myip": "8.8.8.8"}
        answer = service.client.get(url, params=query, auth=("none", secret)).text
        assert answer.split()[0] == word, host
    assert ("home", "A") in owners(service, ada)
    again = browser.post(
        f"{PATH}/changing-address",
        wrong.form(f"{PATH}/changing-address").fields | {"record_names": f"Home.{FQDN}"},
    )
    assert (secret in again.response.text, "was shown once" in again.text) == (False, True)


@pytest.mark.parametrize("page", ["certificate", "changing-address"])
def test_a_name_with_nameservers_has_no_programs(browser: ConsoleClient, page: str) -> None:
    path = f"/names/music.example.test/{page}"
    shown = browser.get(path)
    assert "they answer for it" in shown.text
    assert [each for each in shown.forms if each.action == path] == []
    opened_before = browser.get(f"{PATH}/{page}").form(f"{PATH}/{page}").fields
    assert "they answer for it" in browser.post(path, opened_before | {"name": "late"}).text
    tokens = browser.get("/tokens").text
    assert ("late" in tokens, "address of music" in tokens) == (False, False)


def test_a_service_without_dns_update_says_so(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path)) as service:
        service.add_domain("example.test", "--records", "on")
        user = service.add_user()
        service.register(user, FQDN, records=[A])
        browser = console(service, user.email)
        assert "/certificate" not in browser.get(f"{PATH}/records").response.text
        assert "accepts no DNS UPDATE" in browser.get(f"{PATH}/certificate").text
