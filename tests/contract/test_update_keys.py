"""Update keys over the real service (docs/certificates.md)."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.error_triggers import new_name, new_user
from support.open_registry import opened
from support.running_service import Registrant, RunningService, registry_address, running_service

SECRET = "0123456789abcdef0123456789abcdef"


def key_file(folder: Path) -> str:
    path = folder / "update-key"
    path.write_text(SECRET + "\n")
    return str(path)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("keys")
    with opened(
        folder, free_quota=200, update_key_file=key_file(folder), update_address="203.0.113.53:53"
    ) as service:
        yield service


@pytest.fixture
def user(shop: RunningService) -> Registrant:
    return new_user(shop)


def test_a_key_is_created_listed_and_revoked(shop: RunningService, user: Registrant) -> None:
    path = f"/subdomains/{new_name(shop, user)}/update-keys"
    body = {"name": "certbot", "record_names": ["_acme-challenge"]}
    created = shop.call(user, "POST", path, body, Idempotency_Key="once")
    assert created.status_code == 201, created.text
    key, secret = created.json()["update_key"], created.json()["secret"]
    assert (len(base64.b64decode(secret)), created.json()["server"]) == (32, "203.0.113.53:53")
    assert (key["key_name"], key["algorithm"]) == (f"key{key['id']}.{path.split('/')[2]}", "hmac-sha256")
    assert (key["name"], key["record_names"]) == ("certbot", ["_acme-challenge"])
    again = shop.call(user, "POST", path, body, Idempotency_Key="once").json()
    assert (again["update_key"], again["secret"]) == (key, secret)
    other = shop.call(user, "POST", path, {}).json()
    assert other["secret"] != secret
    assert other["update_key"]["record_names"] is None
    listed = shop.call(user, "GET", path)
    assert [each["id"] for each in listed.json()["update_keys"]] == [other["update_key"]["id"], key["id"]]
    assert secret not in listed.text
    for _ in range(2):
        gone = shop.call(user, "DELETE", f"{path}/{key['id']}")
        assert gone.json()["update_key"]["revoked_at"] is not None
    assert len(shop.call(user, "GET", path).json()["update_keys"]) == 1


def test_a_key_is_no_more_than_its_creator(shop: RunningService, user: Registrant) -> None:
    fqdn, other = new_name(shop, user), new_name(shop, user)
    members = {
        "name": "robot",
        "scopes": ["tokens:write", "records:write"],
        "record_names": ["_acme-challenge"],
        "names": [fqdn],
    }
    token = shop.call(user, "POST", "/tokens", members).json()["secret"]
    copied = shop.call(token, "POST", f"/subdomains/{fqdn}/update-keys", {}).json()["update_key"]
    assert copied["record_names"] == ["_acme-challenge"]
    wide = shop.call(token, "POST", f"/subdomains/{fqdn}/update-keys", {"record_names": ["www"]})
    assert wide.json()["errors"][0]["code"] == "exceeds_token"
    elsewhere = shop.call(token, "POST", f"/subdomains/{other}/update-keys", {})
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (404, "subdomain_not_found")
    without = shop.issue_token(user.email, "tokens:write")
    refused = shop.call(without, "POST", f"/subdomains/{fqdn}/update-keys", {})
    assert refused.json()["errors"][0]["code"] == "exceeds_token"
    stranger = new_user(shop)
    assert shop.call(stranger, "GET", f"/subdomains/{fqdn}/update-keys").status_code == 404
    assert shop.call(stranger, "DELETE", f"/subdomains/{fqdn}/update-keys/{copied['id']}").status_code == 404
    token_id = shop.call(user, "GET", "/me").json()["token"]["id"]
    for wrong in (
        f"/subdomains/{other}/update-keys/{copied['id']}",
        f"/subdomains/{fqdn}/update-keys/{token_id}",
    ):
        assert shop.call(user, "DELETE", wrong).json()["error"] == "token_not_found", wrong
    rotated = shop.call(user, "POST", f"/tokens/{copied['id']}/rotate", {})
    assert (rotated.status_code, rotated.json()["error"]) == (409, "conflict")


def test_a_name_with_nameservers_gets_no_key(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user)
    shop.call(user, "PUT", f"/subdomains/{fqdn}/nameservers", {"nameservers": ["ns1.example.org"]})
    refused = shop.call(user, "POST", f"/subdomains/{fqdn}/update-keys", {})
    assert (refused.status_code, refused.json()["error"]) == (409, "delegation_exists")


def test_a_dump_of_the_database_has_no_secret(shop: RunningService, user: Registrant) -> None:
    created = shop.call(user, "POST", f"/subdomains/{new_name(shop, user)}/update-keys", {})
    secret = created.json()["secret"]
    stored = shop.operator("audit", "list", "--limit", "500")
    assert secret not in str(stored)
    if shop.settings.database_url.startswith("sqlite"):
        files = Path(shop.settings.database_url.removeprefix("sqlite:///")).parent.glob("registry.db*")
        for octets in [each.read_bytes() for each in files]:
            assert secret.encode() not in octets
            assert base64.b64decode(secret) not in octets
            assert SECRET.encode() not in octets


def test_a_service_without_a_secret_creates_no_keys(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path)) as service:
        service.add_domain("example.test", "--records", "on")
        user = service.add_user()
        service.register(user, "blog.example.test")
        refused = service.call(user, "POST", "/subdomains/blog.example.test/update-keys", {})
        assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
        assert (
            service.call(user, "GET", "/subdomains/blog.example.test/update-keys").json()["update_keys"] == []
        )
