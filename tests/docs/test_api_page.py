"""Each request in docs/api.md, sent in the page's order, gets the printed answer."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from sublet.accounts.store import organizations
from sublet.config import PrimarySettings
from sublet.db import Tx
from sublet.mail.store import mails
from sublet.subdomains import store
from support.name_servers import NameServerProcess, primary
from support.running_service import RunningService, registry_address, running_service
from support.service_on_primary import primary_settings, settings_file
from support.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
_EXAMPLE = re.compile(
    r"^```sh\n(curl .*?)^```\n\n```http\nHTTP (\d+)\n((?:[a-z-]+: [^\n]*\n)*)\n(\{.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def examples() -> Iterator[tuple[str, int, str, Any]]:
    """Yield each printed command with its printed status, headers and body."""
    for command, status, headers, body in _EXAMPLE.findall(PAGE):
        yield command.replace("\\\n", " "), int(status), headers, json.loads(body)


COMPARED = ("error", "code", "field", "status", "kind", "action", "registration_mode", "reason", "price")
"""Members whose values must be equal; of others only the type, since ids and instants
differ from run to run.
"""


def agrees(answer: Any, printed: Any) -> bool:
    """True if an answer has the members and types that are printed; a printed `"…"` stands for any further
    members.
    """
    if isinstance(printed, dict):
        named = printed.keys() - {"…"}
        if not isinstance(answer, dict) or not (
            named <= answer.keys() if "…" in printed else named == answer.keys()
        ):
            return False
        return all(
            answer[each] == printed[each] if each in COMPARED else agrees(answer[each], printed[each])
            for each in named
        )
    if isinstance(printed, list):
        return isinstance(answer, list) and len(answer) == len(printed) and all(map(agrees, answer, printed))
    return type(answer) is type(printed)


def without_plans(answer: Any) -> Any:
    """Return an answer without the time of the next check, which the worker may have set already."""
    if "next_check_at" in answer.get("health", {}):
        answer["health"]["next_check_at"] = None
    return answer


RECORDS = [
    {"name": "@", "type": "A", "values": ["8.8.4.4"]},
    {"name": "www", "type": "CNAME", "values": ["example.github.io."]},
]


def prepare(service: RunningService, server: NameServerProcess, token: str, command: str, body: Any) -> None:
    """Make the state that an example needs."""
    wiki = "/subdomains/wiki.example.test"
    if any(each in command for each in ("/tokens/", "/transfers", "/update-keys", '"$BASE/me"')):
        return
    if "/records" in command:
        if "-X" not in command:
            service.operator("domain", "edit", "example.test", "--records", "on")
            service.register(token, "site.example.test", records=RECORDS, confirm=True)
        return
    if "/organizations" in command or "/auth/invitations/" in command:
        prepare_organization(service, token, command)
        return
    if body.get("error") == "idempotency_key_reused":
        service.call(token, "POST", "/subdomains", {"fqdn": "first.example.test"}, idempotency_key="5f1c2a")
        assert service.call(token, "DELETE", "/subdomains/first.example.test").status_code == 200
    elif "limit=1" in command:
        service.register(token, "one.example.test")
        service.register(token, "two.example.test")
    elif "If-Match" in command:
        service.register(token, "mine.example.test")
    elif "DELETE" in command:
        service.register(token, "wiki.example.test")
    elif f'PUT "$BASE{wiki}' in command:
        assert service.call(token, "POST", f"{wiki}/restore").status_code == 200
        # Only on a primary can a publication fail.
        service.operator("domain", "edit", "example.test", "--primary", "main")
        server.nsupdate(["add wiki.example.test. 300 TXT hand"])
    elif f"{wiki}/retry" in command:
        wait_until(lambda: service.read(_has_failed_often))  # so that its own next attempt is seconds away
        server.nsupdate(["delete wiki.example.test. TXT"])
    elif f"{wiki}/restore" in command:
        service.operator("domain", "edit", "example.test", "--primary", "built-in")
        assert service.call(token, "DELETE", wiki).status_code == 200
    elif '/reply" ' in command and body["ok"]:
        service.operator("ticket", "reply", "T-000001", "--message", "We are looking into it.")


def prepare_organization(service: RunningService, token: str, command: str) -> None:
    """Make the member, the invitation or the organization that an example needs."""
    if "/members/" in command and '"role"' in command:
        service.add_user("bob@example.org")
        service.operator("organization", "set-role", "3", "--user", "bob@example.org", "--role", "member")
    elif "old-guild" in command:
        made = service.call(token, "POST", "/organizations", {"name": "Old Guild"}).json()["organization"]
        # The end of its slug is random.
        of_page = (
            update(organizations).where(organizations.c.id == made["id"]).values(slug="old-guild-4m8dqx")
        )
        service.write(lambda tx: tx.connection.execute(of_page).rowcount)
    elif "$CODE" in command:
        body = {"email": "bob@example.org", "role": "member"}
        answer = service.call(token, "POST", "/organizations/3/invitations", body)
        assert answer.status_code == 201, answer.text


def _has_failed_often(tx: Tx) -> bool:
    wiki = store.find_unreleased(tx, "wiki.example.test")
    return wiki is not None and wiki.attempts >= 3


CODE = "123456"
"""The code in the example of a confirmation."""
DEVICE_CODE = "GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS2A"
"""The code of a program in its example."""


def newest_code(service: RunningService) -> str:
    """Return the code in the newest mail, or the printed one."""
    texts = service.read(
        lambda tx: tx.connection.execute(select(mails.c.text).order_by(mails.c.id.desc())).scalars().all()
    )
    found = [
        code
        for text in texts[:1]
        for code in re.findall(r"your code is (\d{6})|signup/confirm\?token=(\S+)", text)
    ]
    found = ["".join(each) for each in found]
    return found[0] if found else CODE


def newest_key(service: RunningService, token: str) -> str:
    """Return the id of the newest update key of the page's name."""
    found = service.call(token, "GET", "/subdomains/site.example.test/update-keys").json()["update_keys"]
    return str(found[0]["id"])


def send(service: RunningService, token: str, command: str) -> Any:
    """Send the request of a printed `curl` command."""
    origin = service.origin
    named = {
        "${BASE%/api/v1}": origin,
        "$BASE": service.base_url,
        "$TOKEN": token,
        "$KEY_ID": newest_key(service, token) if "$KEY_ID" in command else "",
        CODE: newest_code(service),
        "$CODE": newest_code(service),
    }
    if DEVICE_CODE in command:
        named[DEVICE_CODE] = service.client.post(f"{origin}/auth/device", json={}).json()["device_code"]
    for name, value in named.items():
        command = command.replace(name, value)
    words = shlex.split(command)
    headers: dict[str, str] = {}
    method, url, sent = "GET", "", None
    rest = iter(words[1:])
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            sent = next(rest)
        elif word != "-s":
            url = word
    method = "POST" if sent is not None and method == "GET" else method
    return service.client.request(method, url, headers=headers, content=sent)


def test_the_examples_get_the_printed_answers(tmp_path: Path) -> None:
    with primary_and_settings(tmp_path) as (server, section):
        # It waits up to 20 s for each publication, because the page shows published names.
        url = registry_address(tmp_path)
        with running_service(
            url,
            publish_wait_ms=20_000,
            signup="open",
            primaries=(section,),
            health_checks=True,
            **update_settings(tmp_path),
        ) as service:
            service.environment["SUBLET_CONFIG"] = str(settings_file(tmp_path, [section]))
            check_examples(service, server)
            wait_until(lambda: service.doctor() == [])


def update_settings(folder: Path) -> dict[str, str]:
    """Return the settings with which a service gives update keys, as if another
    process answered DNS UPDATE.
    """
    file = folder / "update-key"
    file.write_text("0123456789abcdef" * 2)
    return {"update_key_file": str(file), "update_address": "203.0.113.53:53"}


@contextmanager
def primary_and_settings(folder: Path) -> Iterator[tuple[NameServerProcess, PrimarySettings]]:
    """Run a Knot for example.test, of which an example needs that it has a foreign record."""
    with primary("knot", folder / "knot", "example.test") as server:
        yield server, primary_settings(folder, server)


def asks_as_another(service: RunningService, token: str, command: str) -> tuple[str, str]:
    """Return the token and the command of an example that another user sends: the receiver of a name, an
    invited user, and a user who leaves.
    """
    if "/me/invitations" in command:
        guest = service.add_user(f"guest-{len(command)}@example.org")
        body = {"email": guest.email, "role": "member"}
        made = service.call(token, "POST", "/organizations/3/invitations", body).json()["invitation"]
        return guest.token, command.replace("/2/", f"/{made['id']}/")
    if "/transfers/" in command and ("/accept" in command or "/decline" in command):
        name = f"{'given' if '/accept' in command else 'kept'}.example.test"
        service.register(token, name, confirm=True)
        bob = service.add_user(f"{name.partition('.')[0]}@example.org")
        assert service.call(token, "POST", f"/subdomains/{name}/transfer", {"to": bob.email}).is_success
        return bob.token, command
    if "confirm" in command and '"$BASE/me"' in command:
        return service.add_user("eve@example.org").token, command.replace("ada@", "eve@")
    return token, command


def check_examples(service: RunningService, server: NameServerProcess) -> None:
    """Run the examples of the page; `server` has the name "main" in the settings of the service."""
    service.add_domain("example.test", "--renewal-window-days", "365")
    ada = service.add_user(credit_count=100)
    service.operator("package", "add", "Starter", "--credits", "100", "--price", "9.00", "--currency", "EUR")
    service.operator("coupon", "add", "WELCOME", "--percent", "50")
    found = list(examples())
    assert len(found) == PAGE.count("```sh\ncurl")
    for command, status, headers, body in found:
        prepare(service, server, ada.token, command, body)
        answer = send(service, *asks_as_another(service, ada.token, command))
        assert answer.status_code == status, (command, answer.text)
        for line in headers.splitlines():
            assert line.partition(":")[0] in answer.headers or line.startswith("ratelimit"), command
        # Lists depend on earlier requests, and a timeline on whether the sweep has run.
        if body.keys() & {"subdomains", "payments", "tickets", "timeline"}:
            assert answer.json().keys() == body.keys(), command
        else:
            assert agrees(without_plans(answer.json()), body), (command, answer.text)
