"""Every route with a token that is restricted in each way, suspended, expired and rotated, and with such a
session: nothing is done or leaks.

The matrix comes from the route table, so it has every new route.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest

from sublet.operations.operation import Operation
from sublet.restrictions import SCOPES
from sublet.surfaces import API_OPERATIONS
from support.browsers import Browser, signed_in
from support.error_triggers import new_user
from support.open_registry import opened
from support.running_service import Registrant, RunningService, running_service
from support.waiting import wait_until

HIDDEN = "concealed"
"""In every name, ticket and token that the restricted token must not learn of."""
SEEN = "mine.example.test"
OUTSIDE = f"{HIDDEN}.example.test"
OTHER = f"{HIDDEN}2.strict.test"
NOT_COMPARED = frozenset({"date", "ratelimit", "ratelimit-policy"})
BY_TOKEN = [each for each in API_OPERATIONS if not each.needs_session]
every_endpoint = pytest.mark.parametrize("operation", API_OPERATIONS, ids=lambda operation: operation.name)
each_operation = pytest.mark.parametrize("operation", BY_TOKEN, ids=lambda operation: operation.name)
BODIES: dict[str, dict[str, Any]] = {"reply": {"message": "mine?"}, "set_auto_renew": {"enabled": False}}
LOAD = 90
ALLOWED_TO_SUSPENDED = {"open_ticket", "end_session", "end_other_sessions", "stop_recovery", "refuse_device"}


@dataclass(frozen=True, slots=True)
class World:
    """Ada holds a name that the restricted tokens are for, and others; `paths` has what they must not see,
    and missing things.
    """

    service: RunningService
    ada: Registrant
    paths: dict[str, list[str]]
    tokens: dict[str, str]
    browsers: dict[str, Browser]


def issue(service: RunningService, who: Registrant, *words: str) -> dict[str, Any]:
    return dict(service.operator("token", "issue", who.email, "--name", "restricted", *words))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(tmp_path_factory.mktemp("matrix"), trusted_proxies="127.0.0.1") as service:
        ada = new_user(service, credit_count=1000, free_quota="50")
        service.add_domain(f"{HIDDEN}.test")
        service.operator("domain", "edit", "example.test", "--renewal-window-days", "365")
        ids = []
        for name in (OUTSIDE, OTHER, SEEN):
            members = {"nameservers": ["ns1.a.net", "ns2.b.net"]}
            registered = service.register(ada, name, registration_mode="plus", confirm=True, **members)
            ids.append(str(registered["subdomain"]["id"]))
        tickets = []
        for fqdn, subject in ((OUTSIDE, HIDDEN), (OTHER, HIDDEN), (None, HIDDEN), (SEEN, "mine")):
            about: dict[str, Any] = {"subject": subject, "message": subject, "fqdn": fqdn}
            tickets.append(service.call(ada, "POST", "/support/tickets", about).json()["ticket"])
        path = f"/subdomains/{OUTSIDE}/transfer"
        offered = service.call(ada, "POST", path, {"to": "ben@example.org"}).json()["transfer"]
        broad = service.operator("token", "issue", ada.email, "--name", HIDDEN)
        paths = {
            "subdomains": [OUTSIDE, OUTSIDE.upper() + ".", OTHER, *ids[:2], "missing.example.test", "777777"],
            "tickets": [*(each["ticket_number"] for each in tickets[:3]), str(tickets[0]["id"]), "T-777777"],
            "tokens": [str(broad["id"]), "777777"],
            "transfers": [str(offered["id"]), "777777"],
        }
        made = service.call(ada, "POST", "/organizations", {"name": HIDDEN}).json()["organization"]
        paths["organizations"] = [str(made["id"]), str(ada.organization["id"]), "777777"]
        paths["me"] = [_invite(service, ada.email), "777777"]
        other = service.call(ada, "POST", "/organizations", {"name": "Other"}).json()["organization"]
        tokens = {
            "organization": service.token_for(ada, other["id"]),
            "name": issue(service, ada, "--only-name", SEEN)["token"],
            "domain": issue(service, ada, "--only-name", SEEN, "--only-domain", "example.test")["token"],
            "network": issue(service, ada, "--only-network", "192.0.2.0/24")["token"],
            "ceiling": issue(service, ada, "--daily-credits", "9")["token"],
        }
        for scope in ("account:read", "tickets:read"):
            tokens[scope] = service.issue_token(ada.email, scope)
        revoked, rotated = issue(service, ada), issue(service, ada)
        service.operator("token", "revoke", str(revoked["id"]))
        path = f"/tokens/{rotated['id']}/rotate"
        answer = service.call(rotated["token"], "POST", path, {"overlap_seconds": 0})
        assert service.call(answer.json()["secret"], "GET", "/me").status_code == 200
        tokens |= {"revoked": revoked["token"], "rotated": rotated["token"]}
        suspended = new_user(service)
        service.operator("user", "suspend", suspended.email)
        tokens["suspended"] = suspended.token
        soon = (service.clock() + timedelta(minutes=4)).isoformat()
        body = {"name": "short", "scopes": list(SCOPES), "expires_at": soon}
        tokens["expired"] = service.call(ada, "POST", "/tokens", body).json()["secret"]
        service.clock.advance(minutes=5)
        assert service.call(tokens["expired"], "GET", "/me").status_code == 401
        yield World(service, ada, paths, tokens, _browsers(service, suspended))


def _invite(service: RunningService, email: str) -> str:
    """Return the id of an invitation to an address."""
    ben = new_user(service)
    made = service.call(ben, "POST", "/organizations", {"name": HIDDEN}).json()["organization"]
    path, body = f"/organizations/{made['id']}/invitations", {"email": email, "role": "member"}
    return str(service.call(ben, "POST", path, body).json()["invitation"]["id"])


def _browsers(service: RunningService, suspended: Registrant) -> dict[str, Browser]:
    """Return a browser with an ended session, one with the secret before a second sign-in, and that of a
    suspended user.
    """
    ann = new_user(service)
    ended, signed_in_twice = signed_in(service, ann.email), signed_in(service, ann.email)
    signed_in(service, ann.email, signed_in_twice)
    assert ended.call("DELETE", "/sessions/current", {}).status_code == 200
    return {"ended": ended, "rotated": signed_in_twice, "suspended": signed_in(service, suspended.email)}


def body_of(operation: Operation) -> Mapping[str, Any] | None:
    """Return an empty body, or the one of the example if a member has no default."""
    if operation.body is None or operation.name in BODIES:
        return BODIES.get(operation.name, {} if operation.takes_body else None)
    is_example = any(each.required for each in msgspec.structs.fields(operation.body))
    return operation.example_body if is_example else {}


def send(world: World, operation: Operation, who: str | Browser, **headers: str) -> httpx.Response:
    """Send a request about a missing name, ticket, token or organization."""
    path = re.sub(r"{\w+}", "777777", operation.path.replace("{fqdn}", "absent.example.test"))
    query = f"?fqdn=new.{SEEN.partition('.')[2]}" if operation.path == "/availability" else ""
    body = body_of(operation)
    if isinstance(who, Browser):
        return who.call(operation.method, path + query, body, **headers)
    return world.service.call(who, operation.method, path + query, body, **headers)


def refused(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text


@every_endpoint
def test_network(world: World, operation: Operation) -> None:
    token = world.tokens["network"]
    for address in ("", "198.51.100.7", "192.0.3.1", "2001:db8::1", "nonsense"):
        answer = send(world, operation, token, **({"x_forwarded_for": address} if address else {}))
        refused(answer, 403, "token_restricted")
        assert answer.json()["details"] == {"restriction": "networks"}
    inside = send(world, operation, token, x_forwarded_for="198.51.100.7, 192.0.2.9")
    assert "token_restricted" not in inside.text


@pytest.mark.parametrize(
    ("ended", "code"),
    [("expired", "token_expired"), ("revoked", "token_revoked"), ("rotated", "token_invalid")],
)
@every_endpoint
def test_ended_secrets(world: World, operation: Operation, ended: str, code: str) -> None:
    refused(send(world, operation, world.tokens[ended]), 401, code)


@every_endpoint
def test_ended_sessions(world: World, operation: Operation) -> None:
    """Signed out, and the secret from before a second sign-in."""
    for ended in ("ended", "rotated"):
        refused(send(world, operation, world.browsers[ended]), 401, "session_invalid")


@pytest.mark.parametrize("kind", ["name", "domain", "organization"])
@each_operation
def test_names_domains_and_other_organizations(world: World, operation: Operation, kind: str) -> None:
    """What the token is not for answers as what doesn't exist, byte for byte, and no list has it."""
    token = world.tokens[kind]
    if "{" not in operation.path:
        answer = send(world, operation, token)
        # A token for an organization is for all platform domains.
        assert HIDDEN not in answer.text or (kind, operation.name) == ("organization", "platform_domains")
        return
    noun = operation.path.removeprefix("/support").split("/")[1]
    parameter = {"subdomains": "{fqdn}", "me": "{invitation_id}"}.get(noun, "{id}")
    # Invitations to the user are of the person, and refused before they are looked for.
    status = 403 if noun == "me" else 404
    answers = set()
    for identifier in world.paths[noun]:
        path = operation.path.replace(parameter, identifier).replace("{user_id}", str(world.ada.id))
        path = path.replace("{invitation_id}", "1")
        body = body_of(operation)
        answer = world.service.call(token, operation.method, path, body, x_request_id="same")
        assert answer.status_code == status, (identifier, answer.text)
        headers = sorted((name, value) for name, value in answer.headers.items() if name not in NOT_COMPARED)
        answers.add((tuple(headers), answer.content))
    assert len(answers) == 1


def test_the_rows_above_can_fail(world: World) -> None:
    """The unrestricted token sees all that, and the restricted one the name that it is for."""
    service, ada = world.service, world.ada
    for path in (
        "/subdomains",
        "/support/tickets",
        "/payments",
        "/platform-domains",
        "/tokens",
        "/transfers",
        "/organizations",
        "/me/invitations",
    ):
        assert HIDDEN in service.call(ada, "GET", path).text, path
        if path not in ("/tokens", "/transfers", "/organizations", "/me/invitations"):
            assert "mine" in service.call(world.tokens["name"], "GET", path).text or "domains" in path
    assert service.call(ada, "GET", f"/subdomains/{OUTSIDE}").status_code == 200
    assert service.call(world.tokens["name"], "GET", f"/subdomains/{SEEN}").status_code == 200
    assert service.call(world.tokens["name"], "PUT", f"/subdomains/{SEEN}/nameservers", {}).status_code == 200


@pytest.mark.parametrize("kind", ["name", "domain"])
def test_other_names_are_neither_registered_nor_asked_about(world: World, kind: str) -> None:
    """The answer is the same for a free name, a held one and a reserved one; another platform domain is not
    there.
    """
    service, token = world.service, world.tokens[kind]
    answers = set()
    for label in ("free", HIDDEN, "www"):
        fqdn = f"{label}.example.test"
        for answer in (
            service.call(token, "POST", "/subdomains", {"fqdn": fqdn, "confirm": True}, x_request_id="same"),
            service.call(token, "GET", f"/availability?fqdn={fqdn}", x_request_id="same"),
        ):
            refused(answer, 403, "token_restricted")
            answers.add(answer.text.replace(fqdn, "NAME"))
    assert len(answers) == 1
    for domain in ("strict.test", f"{HIDDEN}.test", "missing.test"):
        answer = service.call(token, "POST", "/subdomains", {"label": "abcd", "domain": domain})
        refused(answer, 404, "platform_domain_not_found")
        assert "Did you mean" not in answer.text
    body = {"subject": "s", "message": "m", "fqdn": OUTSIDE}
    assert (
        service.call(token, "POST", "/support/tickets", body).json()["errors"][0]["code"]
        == "ticket_subdomain_invalid"
    )


@each_operation
def test_ceiling(world: World, operation: Operation) -> None:
    """What costs more than the rest of the day is refused where it would be charged, or confirmed in advance;
    all else works.
    """
    service, token = world.service, world.tokens["ceiling"]
    bodies: dict[str, dict[str, Any]] = {
        "register": {"fqdn": "dear.example.test", "registration_mode": "plus", "confirm": True},
        "renew": {"confirm": True},
        "set_auto_renew": {"enabled": True, "max_credits": 1},
    }
    balance = service.call(world.ada, "GET", "/credits").json()["credit_balance"]
    if operation.name not in bodies:
        assert "token_restricted" not in send(world, operation, token).text
        return
    path = operation.path.replace("{fqdn}", SEEN)
    answer = service.call(token, operation.method, path, bodies[operation.name])
    refused(answer, 403, "token_restricted")
    assert answer.json()["details"]["restriction"] == "daily_credits"
    assert service.call(world.ada, "GET", "/credits").json()["credit_balance"] == balance


def test_a_repeated_request_of_another_token_is_not_shown_to_a_restricted_one(world: World) -> None:
    service, body = world.service, {"fqdn": f"{HIDDEN}3.example.test"}
    assert service.call(world.ada, "POST", "/subdomains", body, idempotency_key="k").status_code == 201
    answer = service.call(world.tokens["name"], "POST", "/subdomains", body, idempotency_key="k")
    refused(answer, 422, "idempotency_key_reused")


@every_endpoint
def test_suspended(world: World, operation: Operation) -> None:
    """A suspended user may read, open tickets, end sessions and a recovery, and refuse programs, nothing
    else.
    """
    senders: list[str | Browser] = [world.browsers["suspended"]]
    if not operation.needs_session:
        senders.append(world.tokens["suspended"])
    for who in senders:
        answer = send(world, operation, who)
        if operation.method == "GET" or operation.name in ALLOWED_TO_SUSPENDED:
            assert answer.status_code in (200, 404, 409, 422), answer.text
        else:
            refused(answer, 403, "account_suspended")


def test_endpoints_that_need_a_session_refuse_tokens(world: World) -> None:
    for operation in API_OPERATIONS:
        if operation.needs_session:
            for token in (world.ada.token, world.tokens["account:read"], world.tokens["suspended"]):
                refused(send(world, operation, token), 403, "session_required")


@pytest.mark.whole_on_postgresql
def test_rotation_under_load_loses_no_request(registry_url: str) -> None:
    """Clients that take over the new secret within the overlap are never refused."""
    with running_service(registry_url) as service:
        _rotate_under_load(service, issue(service, service.add_user()))
        assert service.doctor() == []


def _rotate_under_load(service: RunningService, issued: dict[str, Any]) -> None:
    secret: list[str] = [issued["token"]]
    statuses: list[int] = []
    stop = threading.Event()

    def run(number: int) -> None:
        while not stop.is_set():
            body = {"subject": f"Load {number}", "message": "x"}
            answers = (
                service.call(secret[-1], "GET", "/me"),
                service.call(secret[-1], "POST", "/support/tickets", body),
            )
            statuses.extend(answer.status_code for answer in answers)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for round_number in range(1, 4):
            wait_until(lambda: len(statuses) >= round_number * LOAD / 3)  # noqa: B023 - called in this round
            answer = service.call(
                secret[-1], "POST", f"/tokens/{issued['id']}/rotate", {"overlap_seconds": 60}
            )
            assert answer.status_code == 200
            secret.append(answer.json()["secret"])
        wait_until(lambda: len(statuses) >= LOAD * 4 / 3)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert set(statuses) == {200, 201}
    assert service.call(secret[0], "GET", "/me").status_code == 401
    assert service.call(secret[-2], "GET", "/me").status_code == 200
