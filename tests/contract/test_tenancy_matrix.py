"""Spec, part 1, rule 5: what is another user's answers as if it did not exist, byte for byte, on every route
that takes an id.

The matrix comes from the route table, so a new route is in it by itself.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, insert

from sublet.accounts.session_store import passkeys
from sublet.operations.operation import Operation
from sublet.surfaces import API_OPERATIONS
from support.browsers import signed_in
from support.running_service import Registrant, RunningService, registry_address, running_service

REQUEST_ID = "the-same-for-all"
OTHERS = ("live", "expired", "suspended", "deleted", "purged", "released", "hidden", "revoked")
"""What another user has or had: one name of each kind."""
NOT_COMPARED = frozenset({"date", "ratelimit", "ratelimit-policy"})


@dataclass(frozen=True, slots=True)
class World:
    """Bob has one name and ticket of each kind; Ada asks for them. `paths` has each by kind and form."""

    service: RunningService
    ada: Registrant
    bob: Registrant
    subdomains: dict[str, str]
    tickets: dict[str, str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    url = registry_address(tmp_path_factory.mktemp("tenancy"))
    with running_service(url) as service:
        ada, bob = (
            service.add_user(f"{name}@example.org", credit_count=100, free_quota="50")
            for name in ("ada", "bob")
        )
        for domain in ("example.test", "expired.test", "hidden.test", "revoked.test"):
            service.add_domain(domain)
        service.operator("domain", "offer", "expired.test", "--mode", "free", "--period-days", "1")
        service.operator("domain", "edit", "revoked.test", "--restricted")
        service.operator("domain", "grant", "revoked.test", "--organization", bob.organization["slug"])
        subdomains = _names(service, bob)
        tickets = _tickets(service, bob)
        service.operator("domain", "edit", "hidden.test", "--hidden")
        service.clock.advance(days=2)
        service.operator("domain", "revoke", "revoked.test", "--organization", bob.organization["slug"])
        yield World(service, ada, bob, subdomains, tickets)
        assert service.doctor() == []


def _names(service: RunningService, bob: Registrant) -> dict[str, str]:
    """Bob's names; each by fqdn and by id, and some that are nobody's."""
    paths: dict[str, str] = {}
    ids = {}
    for kind in OTHERS:
        domain = f"{kind}.test" if kind in ("expired", "hidden", "revoked") else "example.test"
        fqdn = f"bob-{kind}.{domain}"
        kept = kind in ("live", "expired", "suspended", "deleted", "hidden", "revoked")
        nameservers = ["ns1.provider.example"] if kept else []
        ids[kind] = service.register(bob, fqdn, nameservers=nameservers)["subdomain"]["id"]
        paths |= {f"{kind} by fqdn": fqdn, f"{kind} by id": str(ids[kind])}
    paths["live by FQDN."] = "BOB-LIVE.EXAMPLE.TEST."
    service.operator("subdomain", "suspend", "bob-suspended.example.test", "--reason", "a secret reason")
    for kind in ("deleted", "purged", "released"):
        assert service.call(bob, "DELETE", f"/subdomains/{ids[kind]}").status_code == 200
    service.operator("subdomain", "purge", "bob-purged.example.test")
    service.operator("subdomain", "purge", "bob-released.example.test", "--release")
    missing = (
        "nobody.example.test",
        "nobody.missing.test",
        "example.test",
        "a_b",
        "0",
        "777777",
        "9" * 30,
        "%ff",
    )
    paths |= {f"missing: {text}": text for text in missing}
    return paths


def _tickets(service: RunningService, bob: Registrant) -> dict[str, str]:
    paths: dict[str, str] = {}
    for kind in ("open", "closed"):
        body = {"subject": kind, "message": "A secret message", "fqdn": "bob-live.example.test"}
        ticket = service.call(bob, "POST", "/support/tickets", body).json()["ticket"]
        paths |= {f"{kind} by id": str(ticket["id"]), f"{kind} by number": ticket["ticket_number"]}
        paths[f"{kind} by NUMBER"] = ticket["ticket_number"].lower()
        if kind == "closed":
            service.operator("ticket", "close", ticket["ticket_number"])
    return paths | {
        f"missing: {text}": text for text in ("T-777777", "777777", "T-1", "0", "T-000000", "9" * 30, "x")
    }


def with_parameter(name: str, under: str = "/") -> list[Operation]:
    return [each for each in API_OPERATIONS if f"{{{name}}}" in each.path and each.path.startswith(under)]


def test_the_matrix_knows_every_parameter() -> None:
    """A route with a parameter of another name needs a matrix of its own."""
    assert {name for operation in API_OPERATIONS for name in re.findall(r"{(\w+)}", operation.path)} == {
        "fqdn",
        "name",  # with `type` an RRset of a name
        "type",
        "id",
        "user_id",
        "invitation_id",
        "user_code",  # a secret, which is all that a person needs
    }
    for name, under in (("fqdn", "/"), ("id", "/tokens/"), ("id", "/transfers/"), ("id", "/organizations/")):
        assert len(with_parameter(name, under)) >= 4
    assert len(with_parameter("id", "/support/")) >= 2
    for noun in ("sessions", "passkeys"):
        assert [each.method for each in with_parameter("id", f"/{noun}/")] == ["DELETE"]


def seen(answer: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return all of an answer that its reader sees, but for the time and the rate."""
    headers = [(name, value) for name, value in answer.headers.items() if name not in NOT_COMPARED]
    return answer.status_code, sorted(headers), answer.content


BODIES: dict[str, tuple[Any, ...]] = {
    "update_nameservers": ({"nameservers": ["ns1.provider.example"]}, {"nameservers": ["-"]}),
    "renew": ({"confirm": True}, {"coupon_code": "NOSUCH"}),
    "restore": ({"confirm": True},),
    "set_auto_renew": ({"enabled": False}, {"enabled": True, "max_credits": -1}),
    "replace_records": ({"records": []}, {"records": [{"name": "-", "type": "NS", "values": []}]}),
    "change_records": ({"records": []}, {"records": [{"name": "-", "type": "NS", "values": []}]}),
    "replace_zone_file": ({"zone_file": "@ A 8.8.8.8"}, {"zone_file": "("}),
    "set_record": ({"values": ["8.8.4.4"]}, {"values": ["-"], "ttl": 0}),
    "push": ({"to": "carl@example.org"}, {"to": "-"}),
    "change_token": ({"name": "mine"}, {"scopes": ["nothing"]}),
    "rotate_token": ({"overlap_seconds": 0}, {"overlap_seconds": -1}),
    "reply": ({"message": "Mine?"}, {"message": "x" * 20_001}),
    "change_organization": ({"name": "Mine"},),
    "delete_organization": ({"confirm": "secret"},),
    "change_member": ({"role": "viewer"},),
    "invite_member": ({"email": "ada@example.org", "role": "owner"},),
}
"""What is sent, good values and bad; without an entry the body of the example."""


@pytest.mark.parametrize("operation", with_parameter("fqdn"), ids=lambda operation: operation.name)
def test_subdomains_of_others_are_as_if_missing(world: World, operation: Operation) -> None:
    check_row(world, operation, "fqdn", world.subdomains, "subdomain_not_found")


@pytest.mark.parametrize("operation", with_parameter("id", "/tokens/"), ids=lambda operation: operation.name)
def test_tokens_of_others_are_as_if_missing(world: World, operation: Operation) -> None:
    paths = {f"missing: {text}": text for text in ("777777", "0", "01", "9" * 19, "9" * 30, "T-000001", "x")}
    for name, scope in (("laptop", "tokens:write"), ("revoked", "account:read")):
        issued = world.service.operator("token", "issue", world.bob.email, "--name", name, "--scope", scope)
        paths[name] = str(issued["id"])
    world.service.operator("token", "revoke", paths["revoked"])
    check_row(world, operation, "id", paths, "token_not_found")


@pytest.mark.parametrize(
    "operation", with_parameter("id", "/transfers/"), ids=lambda operation: operation.name
)
def test_transfers_of_others_are_as_if_missing(world: World, operation: Operation) -> None:
    service, fqdn = world.service, f"bob-{operation.name.replace('_', '-')}.example.test"
    service.register(world.bob, fqdn)
    offered = service.call(world.bob, "POST", f"/subdomains/{fqdn}/transfer", {"to": "carl@example.org"})
    paths = {"pending": str(offered.json()["transfer"]["id"]), "missing: 777777": "777777", "missing: x": "x"}
    check_row(world, operation, "id", paths, "transfer_not_found")


@pytest.mark.parametrize("operation", with_parameter("id", "/support/"), ids=lambda operation: operation.name)
def test_tickets_of_others_are_as_if_missing(world: World, operation: Operation) -> None:
    check_row(world, operation, "id", world.tickets, "ticket_not_found")


@pytest.mark.parametrize("operation", with_parameter("id", "/organizations/"), ids=lambda each: each.name)
def test_organizations_of_others_are_as_if_missing(world: World, operation: Operation) -> None:
    """So is an own one to a token for another, and what another organization holds."""
    service, bob = world.service, world.bob
    made = service.call(bob, "POST", "/organizations", {"name": "Secret"}, idempotency_key="one").json()
    paths = {f"missing: {text}": text for text in ("777777", "0", "01", "9" * 19, "9" * 30, "x")}
    paths |= {"shared": str(made["organization"]["id"]), "own": str(bob.organization["id"])}
    check_row(world, operation, "id", paths, "organization_not_found")


@pytest.mark.parametrize("operation", with_parameter("invitation_id", "/me/"), ids=lambda each: each.name)
def test_invitations_to_others_are_as_if_missing(world: World, operation: Operation) -> None:
    service, bob = world.service, world.bob
    made = service.call(bob, "POST", "/organizations", {"name": "Secret"}, idempotency_key="two").json()
    path = f"/organizations/{made['organization']['id']}/invitations"
    body = {"email": f"{operation.name}@example.org", "role": "member"}
    invited = service.call(bob, "POST", path, body).json()["invitation"]["id"]
    paths = {f"missing: {text}": text for text in ("777777", "0", "01", "9" * 19, "9" * 30, "x")}
    check_row(world, operation, "invitation_id", paths | {"open": str(invited)}, "organization_not_found")


def test_sessions_and_passkeys_of_others_are_as_if_missing(world: World) -> None:
    """A session of the other user, and a passkey that only the database knows."""
    ada, bob = (signed_in(world.service, each.email) for each in (world.ada, world.bob))
    others = bob.call("GET", "/sessions").json()["sessions"][0]["id"]
    values = {"name": "x", "credential_id": "x", "public_key": "x", "sign_count": 0, "transports": []}
    row = insert(passkeys).values(user_id=world.bob.id, created_at=world.service.clock(), **values)
    passkey = world.service.write(lambda tx: tx.connection.execute(row.returning(passkeys.c.id)).scalar_one())
    for noun, other in (("session", others), ("passkey", passkey)):
        answers = set()
        for identifier in (other, 777777, 0, "01", "9" * 19, "9" * 30, "x"):
            path = f"/{noun}s/{identifier}"
            answer = ada.call("DELETE", path, x_request_id=REQUEST_ID)
            assert (answer.status_code, answer.json()["error"]) == (404, f"{noun}_not_found")
            answers.add(answer.content)
        assert len(answers) == 1
    assert bob.call("GET", "/passkeys").json()["passkeys"][0]["id"] == passkey
    assert ada.call("GET", "/passkeys").json()["passkeys"] == []
    world.service.write(lambda tx: tx.connection.execute(delete(passkeys)))


def check_row(world: World, operation: Operation, parameter: str, paths: dict[str, str], code: str) -> None:
    for body in BODIES.get(operation.name, (operation.example_body,)):
        answers = {}
        for kind, identifier in paths.items():
            path = operation.path.replace(f"{{{parameter}}}", identifier)
            path = path.replace("{user_id}", str(world.bob.id)).replace("{invitation_id}", "1")
            path = path.replace("{name}", "www").replace("{type}", "A")
            answer = world.service.call(world.ada, operation.method, path, body, x_request_id=REQUEST_ID)
            assert (answer.status_code, answer.json()["error"]) == (404, code), (kind, body, answer.text)
            assert answer.json()["details"] == {}, kind
            answers[kind] = seen(answer)
        different = {
            kind: answer for kind, answer in answers.items() if answer != next(iter(answers.values()))
        }
        assert not different, (body, different)


def test_the_objects_of_the_matrix_exist(world: World) -> None:
    """The rows above can fail: their owner gets other answers on the same paths."""
    for kind in ("live", "expired", "suspended", "hidden", "revoked"):
        for form in ("fqdn", "id"):
            path = world.subdomains[f"{kind} by {form}"]
            assert world.service.call(world.bob, "GET", f"/subdomains/{path}").status_code == 200, path
    deleted = world.service.call(world.bob, "GET", f"/subdomains/{world.subdomains['deleted by id']}").json()
    assert deleted["details"]["in_trash"] is True
    for kind, path in world.tickets.items():
        status = 404 if kind.startswith("missing") else 200
        assert world.service.call(world.bob, "GET", f"/support/tickets/{path}").status_code == status, kind


@pytest.mark.parametrize("field", ["subdomain_id", "subdomain", "fqdn"])
def test_a_ticket_about_a_name_of_another_user_is_refused_as_if_missing(world: World, field: str) -> None:
    """Spec, part 4, POST /support/tickets: one of the user's own; part 7, rule 5."""
    answers = set()
    for kind, identifier in world.subdomains.items():
        if "%" in identifier or (field == "subdomain_id") != (identifier.isdigit() and len(identifier) < 19):
            continue
        value = int(identifier) if field == "subdomain_id" else identifier
        body = {"subject": "Whose?", "message": "Whose?", field: value}
        answer = world.service.call(world.ada, "POST", "/support/tickets", body, x_request_id=REQUEST_ID)
        assert [error["code"] for error in answer.json()["errors"]] == ["ticket_subdomain_invalid"], kind
        answers.add(answer.content)
    assert len(answers) == 1


SELECTIONS: dict[str, Any] = {
    "platform_domain_id": lambda domain: {"platform_domain_id": domain["id"], "label": "a"},
    "domain": lambda domain: {"domain": domain["domain"], "label": "a"},
    "fqdn": lambda domain: {"fqdn": f"a.{domain['domain']}"},
    "fqdn with a bad label": lambda domain: {"fqdn": f"-a_b.{domain['domain']}"},
    "with bad nameservers": lambda domain: {"fqdn": f"a.{domain['domain']}", "nameservers": ["-"]},
}


@pytest.mark.parametrize("selection", SELECTIONS)
def test_hidden_restricted_and_missing_platform_domains_answer_the_same(world: World, selection: str) -> None:
    """Spec, part 1, rule 5: for a registration they are as if they did not exist.

    The message names what was sent.
    """
    domains = {
        each["domain"]: each
        for each in world.service.operator("domain", "list")
        if each["domain"] not in ("example.test", "expired.test")
    }
    domains["missing.test"] = {"id": 777777, "domain": "missing.test"}
    assert set(domains) == {"hidden.test", "revoked.test", "missing.test"}
    answers = set()
    for domain in domains.values():
        body = SELECTIONS[selection](domain)
        answer = world.service.call(world.ada, "POST", "/subdomains", body, x_request_id=REQUEST_ID)
        sent = str(body.get("fqdn") or body.get("domain") or body["platform_domain_id"]).encode()
        assert answer.content.count(sent) == 1
        answers.add(answer.content.replace(sent, b"SENT"))
    assert len(answers) == 1
    assert b'"platform_domain_not_found"' in answers.pop()


@pytest.mark.parametrize("form", ["{}", "a.{}"])
def test_suggestions_are_domains_that_the_user_sees(world: World, form: str) -> None:
    """A typing error in a hidden or restricted domain leads nowhere; one in a visible domain leads to it."""
    key = "fqdn" if form.startswith("a.") else "domain"

    def told(sent: str) -> str:
        body = {key: form.format(sent), "label": "a"}
        answer = world.service.call(world.ada, "POST", "/subdomains", body)
        assert (answer.status_code, answer.json()["error"]) == (404, "platform_domain_not_found")
        assert f"`{form.format(sent)}`" in answer.json()["message"]
        return str(answer.json()["message"])

    assert "Did you mean `example.test`?" in told("exmaple.test")
    assert "Did you mean `expired.test`?" in told("Expird.TEST")
    for sent, hidden in (("hiden.test", "hidden.test"), ("revokd.test", "revoked.test")):
        assert hidden not in told(sent)
        assert "Did you mean" not in told(sent)


def test_lists_have_only_objects_of_the_user(world: World) -> None:
    """Spec, part 1, rule 5, on every list; filters find nothing of others either."""
    own = world.service.register(world.ada, "ada.example.test")["subdomain"]["fqdn"]
    for query in (
        "",
        "?q=bob",
        "?status=trashed",
        "?domain=hidden.test",
        "?domain=missing.test",
        "?status=suspended",
    ):
        found = world.service.call(world.ada, "GET", f"/subdomains{query}").json()["subdomains"]
        assert [each["fqdn"] for each in found] == ([own] if query == "" else [])
    assert world.service.call(world.ada, "GET", "/support/tickets").json()["tickets"] == []
    payments = world.service.call(world.ada, "GET", "/payments").json()["payments"]
    assert [payment["kind"] for payment in payments] == ["grant"]
    assert world.service.call(world.ada, "GET", "/usage/free-subdomains").json()["usage"]["used"] == 1
    domains = world.service.call(world.ada, "GET", "/platform-domains").json()["platform_domains"]
    assert [each["domain"] for each in domains] == ["expired.test", "example.test"]


def test_me_shows_the_token_that_was_sent_and_no_other(world: World) -> None:
    """Spec, part 5, rule 3: not another user's token, nor another one of the same user."""
    service = world.service
    sent = {}
    for user in (world.ada, world.bob):
        for name in ("laptop", "script"):
            whose = f"{name}-of-{user.id}"
            sent[whose] = service.operator("token", "issue", user.email, "--name", whose)["token"]
    for whose, token in sent.items():
        answer = service.call(token, "GET", "/me")
        assert answer.json()["token"]["name"] == whose
        assert not any(other in answer.text for other in sent if other != whose)


def test_keys_and_cursors_of_others_reveal_nothing(world: World) -> None:
    """Decisions, "Values": `Idempotency-Key` is per user; a cursor carries no right to anybody's rows."""
    key = "bobs-and-adas"
    for user, name in ((world.bob, "bobs-key"), (world.ada, "adas-key")):
        answer = world.service.call(
            user, "POST", "/subdomains", {"fqdn": f"{name}.example.test"}, idempotency_key=key
        )
        assert answer.status_code == 201
        assert "idempotent-replayed" not in answer.headers
    cursor = world.service.call(world.bob, "GET", "/subdomains?limit=1").json()["page"]["next_cursor"]
    found = world.service.call(world.ada, "GET", f"/subdomains?cursor={cursor}").json()["subdomains"]
    assert all(each["fqdn"].startswith("ada") for each in found)
