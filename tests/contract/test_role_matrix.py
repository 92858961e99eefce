"""Every route with a token or session for an organization, in each role of its user: what is allowed there,
and that nothing else is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sublet.accounts.model import ROLES, SCOPES_OF
from sublet.operations.operation import Operation
from sublet.surfaces import API_OPERATIONS
from support.browsers import Browser, signed_in
from support.error_triggers import new_user
from support.open_registry import opened
from support.running_service import Registrant, RunningService

DENIED = {
    role: {each.name for each in API_OPERATIONS if each.scope is not None and each.scope not in scopes}
    for role, scopes in SCOPES_OF.items()
}
"""The operations that each role can't use: everything else it can."""
MANAGING = [
    each
    for each in API_OPERATIONS
    if each.scope == "organization:write" and each.path.startswith("/organizations/")
]


@dataclass(frozen=True, slots=True)
class World:
    """An organization with a member of each role; `tokens` and `browsers` are theirs, and those tokens are
    for it.
    """

    service: RunningService
    organization_id: int
    members: dict[str, Registrant]
    tokens: dict[str, str]
    browsers: dict[str, Browser]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(tmp_path_factory.mktemp("roles")) as service:
        members = {role: new_user(service, credit_count=50) for role in ROLES}
        made = service.call(members["owner"], "POST", "/organizations", {"name": "Coop"}).json()
        organization_id = made["organization"]["id"]
        for role, member in members.items():
            if role != "owner":
                service.operator("organization", "set-role", "Coop", "--user", member.email, "--role", role)
        tokens = {role: service.token_for(member, organization_id) for role, member in members.items()}
        browsers = {role: signed_in(service, member.email) for role, member in members.items()}
        yield World(service, organization_id, members, tokens, browsers)


def send(
    world: World,
    operation: Operation,
    who: Registrant | str | Browser,
    organization: object = 777777,
    **headers: str,
) -> str:
    """Send a request about a missing thing; return the code of the refusal, or an empty text."""
    path = operation.path.replace("{fqdn}", "absent.example.test")
    if path.startswith("/organizations/"):
        path = path.replace("{id}", str(organization))
    path = re.sub(r"{\w+}", "777777", path)
    query = "?fqdn=new.example.test" if path == "/availability" else ""
    body: dict[str, str] | None = {} if operation.takes_body else None
    if isinstance(who, Browser):
        answer = who.call(operation.method, path + query, body, **headers)
    else:
        answer = world.service.call(who, operation.method, path + query, body, **headers)
    return str(answer.json().get("error", ""))


@pytest.mark.parametrize("operation", API_OPERATIONS, ids=lambda operation: operation.name)
def test_each_role_can_use_exactly_its_endpoints_with_a_token(world: World, operation: Operation) -> None:
    for role, token in world.tokens.items():
        code = send(world, operation, token, world.organization_id)
        assert (code == "insufficient_role") is (operation.name in DENIED[role]), (role, code)
        assert code not in ("insufficient_scope", "internal_error")


@pytest.mark.parametrize("operation", API_OPERATIONS, ids=lambda operation: operation.name)
def test_each_role_can_use_exactly_its_endpoints_in_a_session(world: World, operation: Operation) -> None:
    chosen = str(world.organization_id)
    for role, browser in world.browsers.items():
        code = send(world, operation, browser, world.organization_id, sublet_organization=chosen)
        assert (code == "insufficient_role") is (operation.name in DENIED[role]), (role, code)
        assert code not in ("insufficient_scope", "session_required", "internal_error")
    for unknown in ("777777", str(world.members["viewer"].organization["id"])):
        browser = world.browsers["owner"]
        assert send(world, operation, browser, sublet_organization=unknown) == "organization_not_found"
    assert send(world, operation, world.tokens["owner"], sublet_organization=chosen) == "invalid_request"


@pytest.mark.parametrize("operation", MANAGING, ids=lambda operation: operation.name)
def test_a_token_of_the_users_own_needs_the_role_too(world: World, operation: Operation) -> None:
    for role, member in world.members.items():
        code = send(world, operation, member, world.organization_id)
        # Leaving needs no role; here another member is named, who isn't there.
        assert (code == "insufficient_role") is (role != "owner"), (role, code)


def test_what_a_role_reads_and_changes(world: World) -> None:
    """The rows above are about missing things; here are things that exist."""
    service, tokens = world.service, world.tokens
    fqdn = "ours.example.test"
    service.operator(
        "credits", "grant", f"organization:{world.organization_id}", "--credits", "10", "--reason", "test"
    )
    body = {"fqdn": fqdn, "registration_mode": "plus", "confirm": True}
    for role in ("billing", "viewer"):
        assert service.call(tokens[role], "POST", "/subdomains", body).status_code == 403
    answer = service.call(tokens["member"], "POST", "/subdomains", body)
    assert (answer.status_code, answer.json()["charged_credits"]) == (201, 10)
    ticket = service.call(
        tokens["billing"], "POST", "/support/tickets", {"subject": "Bill", "message": "Please."}
    )
    number = ticket.json()["ticket"]["ticket_number"]
    for role, token in tokens.items():
        assert service.call(token, "GET", f"/subdomains/{fqdn}").status_code == 200
        assert service.call(token, "GET", f"/support/tickets/{number}").status_code == 200
        assert service.call(token, "GET", "/credits").json()["credit_balance"] == 0
        assert len(service.call(token, "GET", "/payments").json()["payments"]) == 2
        me = service.call(token, "GET", "/me").json()
        assert (me["user"]["email"], me["organization"]["id"]) == (
            world.members[role].email,
            world.organization_id,
        )
        own = world.members[role]
        assert service.call(own, "GET", f"/subdomains/{fqdn}").status_code == 404
        assert service.call(own, "GET", "/credits").json()["credit_balance"] == 50
        status = 200 if role in ("owner", "member") else 403
        path = f"/subdomains/{fqdn}/nameservers"
        assert service.call(token, "PUT", path, {"nameservers": ["ns1.a.net"]}).status_code == status
