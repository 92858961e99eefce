"""dyndns2 with the clients that routers and computers run, unmodified (docs/changing-addresses.md)."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sublet.db import Tx
from sublet.subdomains import store
from support.error_triggers import new_name, new_user, unused_name
from support.open_registry import opened
from support.programs import find_program
from support.repetitions import share
from support.running_service import Registrant, RunningService

FIRST, SECOND, IPV6 = "8.8.4.4", "8.8.8.8", "2001:4860:4860::8844"
LIMIT = 20
"""The requests a minute of the service that refuses more. So few arrive within a minute on a busy machine
too.
"""
PAGE = Path(__file__).parents[2] / "docs" / "changing-addresses.md"
ROUTER = {"system": "dyndns", "wildcard": "NOCHG", "mx": "NOCHG", "backmx": "NOCHG", "offline": "NO"}
"""Parameters of old routers."""
TIMES = share(10, whole=10_000)
"""The number of unchanged updates."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with limited(tmp_path_factory.mktemp("dyndns"), TIMES + 1000) as service:
        yield service


@contextmanager
def limited(folder: Path, requests_per_minute: int) -> Iterator[RunningService]:
    """Run a service with this limit of address updates."""
    with opened(
        folder,
        free_quota=200,
        trusted_proxies="127.0.0.1",
        rate_limits=True,
        rate_limit_dyndns_per_minute=requests_per_minute,
        rate_limit_failed_auth_per_minute=1000,
    ) as service:
        yield service


@pytest.fixture
def user(shop: RunningService) -> Registrant:
    return new_user(shop)


def robot(shop: RunningService, user: Registrant, **members: Any) -> str:
    body = {"name": "router", "scopes": ["records:write"], **members}
    answer = shop.call(user, "POST", "/tokens", body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["secret"])


def update(
    shop: RunningService,
    token: str,
    *,
    user_name: str = "",
    method: str = "GET",
    headers: dict[str, str] | None = None,
    **query: str,
) -> tuple[int, list[str]]:
    """Send a request; return the status and the lines of the answer."""
    credentials = base64.b64encode(f"{user_name}:{token}".encode()).decode()
    answer = shop.client.request(
        method,
        shop.origin + "/nic/update",
        params=query,
        headers={"authorization": f"Basic {credentials}", **(headers or {})},
    )
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.status_code, answer.text.splitlines()


def lines(shop: RunningService, token: str, **sent: Any) -> list[str]:
    status, found = update(shop, token, **sent)
    assert status == 200, found
    return found


def served(shop: RunningService, name: str, rdtype: str = "A") -> list[str]:
    return shop.dig(name, rdtype, "+short").splitlines()


def generation(shop: RunningService, fqdn: str) -> tuple[int, int]:
    """Return the name's generation, and the number of audit events of the whole registry."""

    def read(tx: Tx) -> int:
        found = store.find_unreleased(tx, fqdn)
        assert found is not None
        return found.generation

    return shop.read(read), len(shop.operator("audit", "list", "--limit", "500"))


def test_a_change_is_good_and_its_repetition_writes_nothing(shop: RunningService, user: Registrant) -> None:
    fqdn, token = new_name(shop, user), robot(shop, user)
    assert lines(shop, token, hostname=fqdn, myip=FIRST, **ROUTER) == [f"good {FIRST}"]
    assert served(shop, fqdn) == [FIRST]
    before = generation(shop, fqdn)
    for _ in range(TIMES):
        assert lines(shop, token, hostname=fqdn, myip=FIRST) == [f"nochg {FIRST}"]
    assert generation(shop, fqdn) == before
    assert lines(shop, token, hostname=fqdn.upper() + ".", myip=SECOND, method="POST") == [f"good {SECOND}"]
    assert served(shop, fqdn) == [SECOND]


def test_addresses_of_both_types(shop: RunningService, user: Registrant) -> None:
    fqdn, token = new_name(shop, user), robot(shop, user)
    both = f"{FIRST},{IPV6}"
    assert lines(shop, token, hostname=f"home.{fqdn}", myip=both) == [f"good {both}"]
    assert served(shop, f"home.{fqdn}", "AAAA") == [IPV6]
    assert lines(shop, token, hostname=f"home.{fqdn}", myip=FIRST, myipv6=IPV6) == [f"nochg {both}"]
    # Routers leave a placeholder empty.
    assert lines(shop, token, hostname=f"home.{fqdn}", myip=f"{SECOND},") == [f"good {SECOND}"]
    assert served(shop, f"home.{fqdn}", "AAAA") == [IPV6]
    here = {"x-forwarded-for": IPV6}
    assert lines(shop, token, hostname=f"here.{fqdn}", headers=here) == [f"good {IPV6}"]
    assert lines(shop, token, hostname=f"here.{fqdn}", myip="", headers=here) == [f"nochg {IPV6}"]
    assert lines(shop, token, hostname=f"here.{fqdn}", myip=f"::ffff:{FIRST}") == [f"good {FIRST}"]


def test_an_rrset_keeps_its_ttl_and_its_neighbours(shop: RunningService, user: Registrant) -> None:
    site = {"name": "@", "type": "A", "ttl": 900, "values": [FIRST, SECOND]}
    text = {"name": "www", "type": "TXT", "ttl": 300, "values": ['"x"']}
    fqdn, token = new_name(shop, user, site, text), robot(shop, user)
    assert lines(shop, token, hostname=f"{fqdn},www.{fqdn}", myip=FIRST) == [f"good {FIRST}"] * 2
    found = shop.call(user, "GET", f"/subdomains/{fqdn}/records").json()["records"]
    www = {"name": "www", "type": "A", "ttl": 60, "values": [FIRST]}
    assert found == [{**site, "values": [FIRST]}, www, text]


def test_each_wrong_request_has_its_word(shop: RunningService, user: Registrant) -> None:
    fqdn, token = (
        new_name(shop, user, {"name": "www", "type": "CNAME", "values": ["x.example."]}),
        robot(shop, user),
    )
    delegated = unused_name("records.test")
    shop.register(user, delegated, nameservers=["ns1.provider.example", "ns2.provider.example"])
    others = new_name(shop, new_user(shop))
    trashed = new_name(shop, user)
    shop.call(user, "DELETE", f"/subdomains/{trashed}")
    suspended = new_name(shop, user)
    shop.operator("subdomain", "suspend", suspended, "--reason", "abuse")
    before = generation(shop, fqdn)
    for query, word in (
        ({}, "notfqdn"),
        ({"hostname": "", **{f"field_{number}": "1" for number in range(100)}}, "notfqdn"),
        ({"hostname": ",".join([fqdn] * 21)}, "numhost"),
        ({"hostname": others}, "nohost"),
        ({"hostname": trashed}, "nohost"),
        ({"hostname": "home.example.org"}, "nohost"),
        ({"hostname": delegated}, "nohost"),
        ({"hostname": suspended}, "abuse"),
        ({"hostname": f"www.{fqdn}"}, "dnserr"),
        ({"hostname": fqdn, "myip": "10.0.0.1"}, "dnserr"),
        ({"hostname": f"_home.{fqdn}"}, "dnserr"),
    ):
        assert lines(shop, token, **{"myip": FIRST, **query}) == [word], query
    assert lines(shop, token, hostname=fqdn) == ["dnserr"], "loopback is not public"
    assert generation(shop, fqdn) == before
    mixed = lines(shop, token, hostname=f"{fqdn},{others},www.{fqdn}", myip=FIRST)
    assert mixed == [f"good {FIRST}", "nohost", "dnserr"]


def test_only_tokens_that_may_change_records_are_accepted(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user)
    wrong = robot(shop, user)[:-4] + "aaaa"
    reading = robot(shop, user, scopes=["subdomains:read", "subdomains:write"])
    elsewhere = robot(shop, user, networks=["192.0.2.0/24"])
    for token in ("", wrong, reading, elsewhere):
        assert update(shop, token, hostname=fqdn, myip=FIRST) == (401, ["badauth"])
    bare = shop.client.get(shop.origin + "/nic/update", params={"hostname": fqdn})
    assert (bare.status_code, bare.text) == (401, "badauth\n")
    assert bare.headers["www-authenticate"].startswith("Basic ")
    for header in (f"Bearer {user.token}", "Basic ?", "Basic /w==", "Basic"):
        status, found = update(shop, "", hostname=fqdn, myip=FIRST, headers={"authorization": header})
        assert (status, found) == (401, ["badauth"]), header
    assert update(shop, robot(shop, user), user_name="any", hostname=fqdn, myip=FIRST)[1] == [f"good {FIRST}"]
    head = shop.client.head(shop.origin + "/nic/update")
    assert head.status_code == 405


def test_a_page_of_another_site_changes_nothing(shop: RunningService, user: Registrant) -> None:
    fqdn, token = new_name(shop, user), robot(shop, user)
    for site, said in (("cross-site", "badauth"), ("same-site", "badauth"), ("none", f"good {FIRST}")):
        headers = {"sec-fetch-site": site}
        assert update(shop, token, hostname=fqdn, myip=FIRST, headers=headers)[1] == [said]


def test_restrictions_of_a_token_hold(shop: RunningService, user: Registrant) -> None:
    fqdn, other = new_name(shop, user), new_name(shop, user)
    token = robot(shop, user, names=[fqdn], record_names=["home"])
    hosts = ",".join((f"home.{fqdn}", fqdn, f"home.{other}"))
    for word in ("good", "nochg"):
        assert lines(shop, token, hostname=hosts, myip=FIRST) == [f"{word} {FIRST}", "nohost", "nohost"]
    assert served(shop, fqdn) == served(shop, f"home.{other}") == []


def test_a_client_that_comes_too_often_is_told(tmp_path: Path) -> None:
    with limited(tmp_path, LIMIT) as shop:
        user = new_user(shop)
        fqdn, token = new_name(shop, user, {"name": "@", "type": "A", "values": [FIRST]}), robot(shop, user)
        answers = [lines(shop, token, hostname=fqdn, myip=FIRST)[0] for _ in range(LIMIT + 1)]
        assert answers == [f"nochg {FIRST}"] * LIMIT + ["abuse"]
        assert lines(shop, robot(shop, user), hostname=fqdn, myip=FIRST) == [f"nochg {FIRST}"]


def test_the_token_of_the_page_may_change_the_hosts_of_its_examples(
    shop: RunningService, user: Registrant
) -> None:
    fqdn = new_name(shop, user)
    page = PAGE.read_text(encoding="utf-8").replace("blog.example.net", fqdn)
    (printed,) = re.findall(r"-d '(\{.*\})'", page)
    members = json.loads(printed)
    del members["expires_at"]  # It passes one day.
    token = robot(shop, user, **members)
    hosts = ",".join(sorted(set(re.findall(rf"(?:home\.)?{re.escape(fqdn)}", page))))
    assert lines(shop, token, hostname=hosts, myip=FIRST) == [f"good {FIRST}"] * 2


def ddclient(shop: RunningService, folder: Path, token: str, address: str, *hosts: str) -> str:
    """Run ddclient once; return what it says. Its cache is in the folder."""
    configuration = folder / "ddclient.conf"
    server = shop.base_url.removeprefix("http://").removesuffix("/api/v1")
    configuration.write_text(
        f"ssl=no\nuse=cmd, cmd='echo {address}'\nprotocol=dyndns2, server={server}, login=none, "
        f"password='{token}' \\\n{','.join(hosts)}\n"
    )
    configuration.chmod(0o600)
    words = ["-file", str(configuration), "-cache", str(folder / "ddclient.cache"), "-daemon=0", "-noquiet"]
    done = subprocess.run(
        [find_program("ddclient"), *words, "-verbose", "-pid", str(folder / "pid")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_ddclient(shop: RunningService, user: Registrant, tmp_path: Path) -> None:
    fqdn, token = new_name(shop, user), robot(shop, user)
    hosts = (fqdn, f"home.{fqdn}")
    said = ddclient(shop, tmp_path, token, FIRST, *hosts)
    assert [f"SUCCESS:  updating {each}: good: IP address set to {FIRST}" in said for each in hosts] == [
        True
    ] * 2, said
    assert [served(shop, each) for each in hosts] == [[FIRST]] * 2
    (tmp_path / "ddclient.cache").unlink()
    before = generation(shop, fqdn)
    said = ddclient(shop, tmp_path, token, FIRST, *hosts)
    assert [f"updating {each}: nochg" in said for each in hosts] == [True] * 2, said
    assert generation(shop, fqdn) == before
    (tmp_path / "ddclient.cache").unlink()  # in which ddclient finds that it has just updated them
    assert "SUCCESS" in ddclient(shop, tmp_path, token, SECOND, *hosts)
    assert [served(shop, each) for each in hosts] == [[SECOND]] * 2
    (tmp_path / "ddclient.cache").unlink()
    assert "SUCCESS" in ddclient(shop, tmp_path, token, IPV6, fqdn)
    assert (served(shop, fqdn), served(shop, fqdn, "AAAA")) == ([SECOND], [IPV6])
    (tmp_path / "ddclient.cache").unlink()
    assert "authorization failed" in (said := ddclient(shop, tmp_path, "wrong", FIRST, fqdn)), said
    assert served(shop, fqdn) == [SECOND]


def inadyn(shop: RunningService, folder: Path, token: str, address: str, *hosts: str) -> tuple[int, str]:
    """Run inadyn once; return its exit code and what it says. Its cache is in the folder."""
    configuration = folder / "inadyn.conf"
    server = shop.base_url.removeprefix("http://").removesuffix("/api/v1")
    names = ", ".join(f'"{each}"' for each in hosts)
    configuration.write_text(
        f"""allow-ipv6 = true
custom sublet {{
    username = none
    password = "{token}"
    ddns-server = "{server}"
    ddns-path = "/nic/update?hostname=%h&myip=%i"
    ssl = false
    checkip-command = "echo {address}"
    hostname = {{ {names} }}
}}
"""
    )
    configuration.chmod(0o600)
    words = ["-1", "-n", "-l", "debug", "-f", str(configuration), "--cache-dir", str(folder)]
    done = subprocess.run(
        [find_program("inadyn"), *words, "-P", str(folder / "inadyn.pid")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def forget(folder: Path) -> None:
    for each in folder.glob("*.cache"):
        each.unlink()


@pytest.mark.whole
def test_inadyn(shop: RunningService, user: Registrant, tmp_path: Path) -> None:
    fqdn, token = new_name(shop, user), robot(shop, user)
    hosts = (fqdn, f"home.{fqdn}")
    code, said = inadyn(shop, tmp_path, token, FIRST, *hosts)
    assert (code, [served(shop, each) for each in hosts]) == (0, [[FIRST]] * 2), said
    forget(tmp_path)
    before = generation(shop, fqdn)
    code, said = inadyn(shop, tmp_path, token, FIRST, *hosts)
    assert (code, said.count("nochg") >= 2) == (0, True), said
    assert generation(shop, fqdn) == before
    code, said = inadyn(shop, tmp_path, token, SECOND, *hosts)
    assert (code, [served(shop, each) for each in hosts]) == (0, [[SECOND]] * 2), said
    forget(tmp_path)
    code, said = inadyn(shop, tmp_path, token, IPV6, fqdn)
    assert (code, served(shop, fqdn), served(shop, fqdn, "AAAA")) == (0, [SECOND], [IPV6]), said
    forget(tmp_path)
    code, said = inadyn(shop, tmp_path, "wrong", FIRST, fqdn)
    assert code != 0, said
    assert served(shop, fqdn) == [SECOND]
