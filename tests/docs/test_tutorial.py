"""docs/tutorial.md: its commands print what it says, its refusals are those of the service, and its buttons
are on the pages.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from reference_tables import DOCS

from support.console_client import ConsoleClient, Shown, console
from support.running_service import Registrant, RunningService, registry_address, running_service

PAGE = (DOCS / "tutorial.md").read_text(encoding="utf-8")
DOMAIN, FQDN = "example.net", "annas-cafe.example.net"
RECORDS = [
    {"name": "@", "type": "MX", "values": ["10 mx1.provider.example", "20 mx2.provider.example"]},
    {"name": "@", "type": "TXT", "values": ["v=spf1 include:provider.example -all"]},
    {"name": "www", "type": "CNAME", "values": ["annas-cafe.netlify.app"]},
]
NAMESERVERS = ["anna.ns.provider.example", "bert.ns.provider.example"]


@dataclass(frozen=True, slots=True)
class World:
    """A registry with Anna, who has a name with the records of the first way."""

    service: RunningService
    anna: Registrant
    browser: ConsoleClient

    def send_form(self, path: str, fields: dict[str, str]) -> Shown:
        """Send a form of a page with these fields, and return the page after it."""
        form = next(each for each in self.browser.get(path).forms if each.action == path)
        return self.browser.post(path, form.fields | fields)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_service(registry_address(tmp_path_factory.mktemp("tutorial")), signup="open") as service:
        service.add_domain(DOMAIN, "--records", "on")
        anna = service.add_user("anna@example.org")
        service.register(anna, FQDN, records=RECORDS)
        service.register(anna, "annas-empty.example.net")
        yield World(service, anna, console(service, anna.email))


def section(heading: str) -> str:
    """Return the part of the page from a heading of the second level to the next one."""
    return re.split(r"^## ", PAGE.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table about refusals in a section."""
    lines = text.split("\n### If it is refused\n")[1].strip().splitlines()[2:]
    return [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("|")
    ]


def shows(page: Shown, message: str) -> bool:
    """True if a page shows a message. The blanks are left out, because elements begin and end within it."""
    return "".join(message.replace("`", "").split()) in "".join(page.text.split())


def run(world: World, command: str, token: str) -> str:
    """Run a block of commands at this service, and return what it prints, with single blanks."""
    host, port = world.service.dns
    script = (
        command.replace("https://names.example.net/api/v1", world.service.base_url)
        .replace("sublet_…", token)
        .replace("@ns1.example.net", f"@{host} -p {port}")
    )
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/nonexistent"}
    ran = subprocess.run(
        ["bash", "-e", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return re.sub(r"[ \t]+", " ", ran.stdout).strip()


def blocks(text: str) -> list[tuple[str, str]]:
    """Return each block of commands of a section, with the block of its output after it, or an empty text."""
    return re.findall(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.MULTILINE | re.DOTALL)


def test_the_first_way(world: World) -> None:
    text = section("First way: records")
    for command, printed in blocks(text):
        assert sorted(run(world, command, "").splitlines()) == sorted(printed.splitlines())
    for entered, message in rows(text):
        owner, kind, value = re.findall(r"`([^`]+)`", entered)[0].split(" ", 2)
        sent = {"purpose": "new", "name": owner, "type": kind, "values": value}
        assert shows(world.send_form(f"/names/{FQDN}/records", sent), message), entered


def test_the_second_way(world: World) -> None:
    text, fqdn = section("Second way: nameservers of a DNS provider"), "annas-shop.example.net"
    world.service.register(world.anna, fqdn, nameservers=NAMESERVERS)
    for command, printed in blocks(text):
        found = run(world, command.replace(FQDN, fqdn), "").splitlines()
        assert sorted(found) == printed.replace(FQDN, fqdn).splitlines()
    for entered, message in rows(text):
        member = "ds_records" if " " in entered else "nameservers"
        value = entered.strip("`").replace(FQDN, fqdn)
        path = f"/names/{fqdn}/nameservers"
        page = world.send_form(path, {member: value})
        if "This changes" in page.text:
            page = world.browser.submit(page, path, confirm="yes")
        assert shows(page, message.replace(FQDN, fqdn)), entered


def test_the_third_way(world: World) -> None:
    text = section("Third way: a script or an agent")
    user = world.service.add_user("script@example.org", credit_count=10)
    token = world.service.issue_token(user.email, "subdomains:write", "subdomains:read", "records:write")
    (first, _), *others = blocks(text)
    export = first.partition("\n")[0]
    printed = [
        run(world, command, token) for command in (first, *(f"{export}\n{each}" for each, _ in others))
    ]
    for answer, address in zip(printed, ("8.8.4.4", "9.9.9.9"), strict=False):
        assert '"ok":true' in answer
        assert answer.endswith(address)
    assert '"status":"active"' in printed[0]
    assert "www CNAME 300 annas-lab.example.net." in printed[2]

    def refused(who: str, **members: object) -> dict[str, str]:
        return dict(world.service.call(who, "POST", "/subdomains", {"fqdn": FQDN, **members}).json())

    refusals = {
        "token_invalid": refused(token[:-1]),
        "insufficient_scope": refused(
            world.service.issue_token(user.email, "subdomains:write"), fqdn="x.example.net", records=RECORDS
        ),
        "payment_confirmation_required": refused(token, fqdn="x.example.net", registration_mode="plus"),
        "subdomain_unavailable": refused(token),
    }
    for code, message, _cause in rows(text):
        found = refusals[code.strip("`")]
        assert (found["error"], found["message"]) == (code.strip("`"), message)


PLACES: dict[str, tuple[tuple[str, dict[str, str]], ...]] = {
    "Register the name": (
        ("/?q=annas-bar", {}),
        ("/register?fqdn=annas-bar.example.net", {}),
        ("/names/annas-empty.example.net/records", {}),
    ),
    "First way: records": (
        (f"/names/{FQDN}/records", {}),
        (f"/names/{FQDN}/records", {"purpose": "text", "text": "x", "text_at": "_check"}),
    ),
    "Second way: nameservers of a DNS provider": (
        (f"/names/{FQDN}", {}),
        (f"/names/{FQDN}/records", {}),
        (f"/names/{FQDN}/nameservers", {}),
        (f"/names/{FQDN}/nameservers", {"nameservers": "\n".join(NAMESERVERS)}),
    ),
    "Third way: a script or an agent": (("/tokens", {}), ("/tokens/new", {})),
    "Go on": ((f"/names/{FQDN}", {}),),
}
"""The pages that the reader of a section sees, each with the fields of the form that is sent from it, if
there is one.
"""


@pytest.mark.parametrize("heading", PLACES)
def test_the_buttons_are_on_the_pages(world: World, heading: str) -> None:
    stranger = console(world.service)
    seen = stranger.get("/").text + stranger.get("/signin").text
    for path, fields in PLACES[heading]:
        seen += (world.send_form(path, fields) if fields else world.browser.get(path)).text
    text = re.sub(r"^```.*?^```$|^\|.*?$", "", section(heading), flags=re.MULTILINE | re.DOTALL)
    labels = [each.replace(FQDN, "annas-bar.example.net") for each in re.findall(r"\*\*([^*]+)\*\*", text)]
    labels += re.findall(r'"([A-Z][^"]+)"', text)
    assert labels
    assert [each for each in labels if each not in seen] == []
