"""RDAP: each object and state, what looks alike, errors, conditional requests, hostile requests, and no
personal data (docs/rdap.md).
"""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import JSON, update
from sqlalchemy.exc import DatabaseError

from sublet.db import Tx
from sublet.http.head import URI_MAX_BYTES
from sublet.registry import declared_texts
from sublet.schema import metadata
from sublet.subdomains.store import subdomains
from support.console_pages import fill
from support.rdap_schemas import check_answer
from support.rdap_world import LISTED, SETTINGS, RdapWorld, build_world, draw_request
from support.repetitions import share
from support.running_service import DS, registry_address, running_service


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RdapWorld]:
    with running_service(registry_address(tmp_path_factory.mktemp("rdap")), **SETTINGS) as service:
        yield build_world(service)


def test_an_active_name(world: RdapWorld) -> None:
    answer = world.get("domain/active.example.test")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/rdap+json"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "set-cookie" not in answer.headers
    found = answer.json()
    check_answer("domain", found)
    events = {each["eventAction"]: each["eventDate"] for each in found["events"]}
    shown = world.service.call(world.ada, "GET", "/subdomains/active.example.test").json()["subdomain"]
    assert (events["registration"], events["expiration"]) == (shown["registered_at"], shown["expires_at"])
    assert events["last changed"] == shown["registered_at"]
    assert events["last update of RDAP database"] > shown["registered_at"]
    own = f"{world.root}/rdap/nameserver/ns1.active.example.test"
    assert found["nameservers"] == [
        {
            "objectClassName": "nameserver",
            "handle": "ns1.active.example.test",
            "ldhName": "ns1.active.example.test",
            "ipAddresses": {"v4": ["8.8.4.4", "8.8.8.8"], "v6": ["2001:4860:4860::8844"]},
            "links": [{"value": own, "rel": "self", "href": own, "type": "application/rdap+json"}],
        },
        {
            "objectClassName": "nameserver",
            "handle": "ns2.provider.example",
            "ldhName": "ns2.provider.example",
        },
    ]
    tag, algorithm, digest_type, digest = DS.split()
    assert found["secureDNS"] == {
        "delegationSigned": True,
        "dsData": [
            {
                "keyTag": int(tag),
                "algorithm": int(algorithm),
                "digest": digest,
                "digestType": int(digest_type),
            }
        ],
    }
    (operator,) = found["entities"]
    assert (operator["handle"], operator["roles"]) == ("operator", ["registrar"])
    (abuse,) = operator["entities"]
    assert ["email", {}, "text", "abuse@example.net"] in abuse["vcardArray"][1]
    assert [each["name"] for each in found["redacted"]] == [{"description": "Registrant"}]
    titles = {each["title"]: each for each in found["notices"]}
    assert titles["Terms of Use"]["links"][0]["href"] == "https://example.net/terms"
    assert "abuse@example.net" in titles["Report Abuse"]["description"][0]
    assert "Privacy" in titles


@pytest.mark.parametrize(("name", "status"), LISTED.items())
def test_the_status_of_a_name(world: RdapWorld, name: str, status: str) -> None:
    found = world.get(f"domain/{name}").json()
    check_answer("domain", found)
    assert found["status"] == [status]
    actions = [each["eventAction"] for each in found["events"]]
    assert actions == ["registration", "expiration", "last changed", "last update of RDAP database"]


def test_an_answer_has_the_delegation_that_the_dns_has(world: RdapWorld) -> None:
    """A pending change is left out: the DNS has what was before it, which the registry doesn't store."""
    for name in (*LISTED, *world.unlisted, *world.alike):
        answer = world.get(f"domain/{name}")
        hosts = {each["ldhName"] for each in answer.json().get("nameservers", ())}
        assert hosts == (set() if name == "example.test" else world.service.delegation(name)), name


def test_of_a_name_that_not_everyone_sees_only_the_delegation_is_published(world: RdapWorld) -> None:
    """The DNS has it, but no dates."""
    for name in world.unlisted:
        found = world.get(f"domain/{name}").json()
        check_answer("domain", found)
        assert found["status"] == ["active"]
        assert [each["eventAction"] for each in found["events"]] == ["last update of RDAP database"]
        assert "ns1.provider.example" in {each["ldhName"] for each in found["nameservers"]}


def test_names_that_the_dns_does_not_have_look_alike(world: RdapWorld) -> None:
    """In the trash, cooling off, reserved, blocked, unregistered, not delegated below a hidden or restricted
    domain, a platform domain.
    """
    answers = {name: world.get(f"domain/{name}") for name in world.alike}
    assert {each.status_code for each in answers.values()} == {404}
    check_answer("error", answers["free.example.test"].json())
    assert {each.content for each in answers.values()} == {answers["free.example.test"].content}
    changing = {"x-request-id", "date"}
    headers = [
        sorted(set(each.headers.items()) - {(name, each.headers[name]) for name in changing})
        for each in answers.values()
    ]
    assert all(each == headers[0] for each in headers)


def test_offers_and_settings_of_a_registrant_change_nothing(world: RdapWorld) -> None:
    def shown() -> dict[str, Any]:
        found: dict[str, Any] = world.get("domain/offered.example.test").json()
        found["events"] = found["events"][:-1]
        return found

    before, service, path = shown(), world.service, "/subdomains/offered.example.test"
    renewed = service.call(world.ada, "PUT", f"{path}/auto-renew", {"enabled": True, "max_credits": 5})
    assert (renewed.status_code, shown()) == (200, before)
    bob = service.add_user("bob@example.org")
    offered = service.call(world.ada, "POST", f"{path}/transfer", {"to": bob.email})
    assert (offered.status_code, shown()) == (201, before)
    accepted = service.call(bob, "POST", f"/transfers/{offered.json()['transfer']['id']}/accept")
    assert (accepted.status_code, shown()) == (200, before)


def test_a_nameserver_with_glue(world: RdapWorld) -> None:
    answer = world.get("nameserver/NS1.active.example.test.")
    assert answer.status_code == 200
    check_answer("nameserver", answer.json())
    assert answer.json()["ipAddresses"] == {"v4": ["8.8.4.4", "8.8.8.8"], "v6": ["2001:4860:4860::8844"]}
    hidden = world.get("nameserver/ns1.glue.hidden.test").json()
    assert hidden["ipAddresses"] == {"v4": ["8.8.8.8"]}
    unknown = world.get("nameserver/ns1.free.example.test")
    assert unknown.status_code == 404
    for host in ("ns2.provider.example", "ns1.trashed.example.test", "ns1.suspended.example.test"):
        assert world.get(f"nameserver/{host}").content == unknown.content, host


def test_the_entities_and_the_help(world: RdapWorld) -> None:
    for handle, role, contact in (
        ("operator", "registrar", ["contact-uri", {}, "uri", "https://example.net/contact"]),
        ("abuse", "abuse", ["email", {}, "text", "abuse@example.net"]),
    ):
        found = world.get(f"entity/{handle}").json()
        check_answer("entity", {**found, "events": found["events"]})
        assert (found["handle"], found["roles"]) == (handle, [role])
        assert contact in found["vcardArray"][1]
        assert world.get(f"entity/{handle.upper()}").json()["handle"] == handle, "whoisit sends it so"
    assert world.get(f"entity/{world.ada.id}").status_code == 404
    assert world.get("entity/ada@example.org").status_code == 404
    answer = world.get("help").json()
    check_answer("help", answer)
    assert answer["rdapConformance"] == ["rdap_level_0", "redacted"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("domain/a_b.example.test", 400),
        ("domain/-a.example.test", 400),
        ("domain/192.0.2.1", 400),
        ("domain/test", 400),
        ("domain/%00.example.test", 400),
        ("domain/xn--0.example.test", 400),
        ("domain/" + "a." * 200 + "test", 400),
        ("nameserver/ns1..test", 400),
        ("nameserver/192.0.2.1", 400),
        ("entity/registrant", 404),
        ("domains", 501),
        ("domains?name=a*.example.test", 501),
        ("nameservers?ip=8.8.4.4", 501),
        ("entities?fn=Ada*", 501),
        ("ip/192.0.2.0/24", 501),
        ("autnum/64496", 501),
        ("", 404),
        ("domain", 404),
        ("domain/", 404),
        ("domain/a.example.test/b", 404),
        ("Domain/active.example.test", 404),
        ("domain//active.example.test", 400),
        ("domain/" + "a" * URI_MAX_BYTES, 414),
    ],
)
def test_errors_are_rdap_objects(world: RdapWorld, path: str, status: int) -> None:
    answer = world.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/rdap+json"
    assert answer.headers["access-control-allow-origin"] == "*"
    check_answer("error", answer.json())
    assert answer.json()["errorCode"] == status


def test_conditional_requests_and_head(world: RdapWorld) -> None:
    for path in ("domain/active.example.test", "nameserver/ns1.active.example.test", "entity/abuse", "help"):
        first = world.get(path)
        tag = first.headers["etag"]
        assert re.fullmatch(r'W/"[0-9a-f]{16}"', tag)
        for sent in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            again = world.get(path, {"if-none-match": sent})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
            assert again.headers["access-control-allow-origin"] == "*"
        assert world.get(path, {"if-none-match": '"other"'}).status_code == 200
        head = world.service.client.head(f"{world.root}/rdap/{path}")
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
        assert head.headers["content-type"] == first.headers["content-type"]


def test_credentials_change_nothing(world: RdapWorld) -> None:
    plain = world.get("domain/free.example.test")
    for fields in (
        {"authorization": f"Bearer {world.ada.token}"},
        {"authorization": "Bearer wrong"},
        {"cookie": "__Host-sublet_session=wrong"},
        {"accept": "text/html"},
        {"accept": "application/problem+json"},
    ):
        answer = world.get("domain/free.example.test", fields)
        assert (answer.status_code, answer.content) == (404, plain.content), fields
        assert "set-cookie" not in answer.headers
    trashed = world.get("domain/trashed.example.test", {"authorization": f"Bearer {world.ada.token}"})
    assert trashed.content == plain.content


def test_random_requests(world: RdapWorld) -> None:
    """A small share of the long suite `rdap` (docs/long-runs.md)."""
    random_ = random.Random(51)  # noqa: S311 - requests, no secrets
    for _ in range(share(50, whole=200)):
        world.check_request(*draw_request(random_, world))


def test_limits_by_address_and_network(tmp_path: Path) -> None:
    settings = {
        "rate_limits": True,
        "rate_limit_address_per_minute": 4,
        "rate_limit_network_per_minute": 6,
        "trusted_proxies": "127.0.0.1",
    }
    with running_service(registry_address(tmp_path), **settings) as service:
        root = service.origin

        def ask(address: str) -> httpx.Response:
            fields = {"x-forwarded-for": address}
            return service.client.get(f"{root}/rdap/domain/free.example.test", headers=fields)

        assert [ask("198.51.100.1").status_code for _ in range(5)] == [404] * 4 + [429]
        assert [ask("198.51.100.2").status_code for _ in range(3)] == [404, 404, 429]
        refused = ask("198.51.100.3")
        check_answer("error", refused.json())
        assert int(refused.headers["retry-after"]) > 0
        assert ask("203.0.113.1").status_code == 404


CANARY = "canary-of-a-person"


def _overwrite(tx: Tx) -> set[str]:
    """Write canaries into all texts of all users, and return the columns."""
    written = set()
    for table_name, names in {**declared_texts.ERASED, **declared_texts.DELETED}.items():
        table = metadata.tables[table_name]
        for name in names.split():
            kind: Any = table.c[name].type
            canary = CANARY if (getattr(kind, "length", None) or 60) > len(CANARY) else "canary"
            value: Any = [canary] if isinstance(kind, JSON) else canary
            try:
                with tx.savepoint():
                    changed = tx.connection.execute(update(table).values({name: value}))
            except (
                DatabaseError
            ):  # a unique column with several rows, one of few values, or an append-only table
                continue
            if changed.rowcount:
                written.add(f"{table_name}.{name}")
    return written


@pytest.mark.uncovered
def test_no_answer_has_personal_data(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path), **SETTINGS) as service:
        fill(service)
        world = build_world(service, "canaries.test")
        written = service.write(_overwrite)
        assert {"users.name", "subdomains.suspended_reason", "tokens.name", "tickets.subject"} <= written
        assert {"messages.message", "organizations.name", "name_transfers.recipient_email"} <= written
        people = [*(service.read(_users)), "ada@example.org"]
        names = [*service.read(_names), "free.example.test", "example.test"]
        paths = [f"domain/{each}" for each in names] + [f"nameserver/ns1.{each}" for each in names]
        paths += ["entity/operator", "entity/abuse", "help", *(f"entity/{each}" for each in people)]
        statuses = set()
        for path in paths:
            answer = world.get(path)
            statuses.add(answer.status_code)
            whole = answer.text + repr(answer.headers)
            assert "canary" not in whole.lower().replace("canaries.test", ""), path
            assert not any(each in whole for each in people if "@" in each), path
        assert statuses == {200, 404}


def _users(tx: Tx) -> list[str]:
    users = metadata.tables["users"]
    return [
        str(each)
        for row in tx.connection.execute(users.select()).mappings()
        for each in (row["id"], row["email"])
    ]


def _names(tx: Tx) -> list[str]:
    return [row[0] for row in tx.connection.execute(subdomains.select().with_only_columns(subdomains.c.fqdn))]
