"""Records of names, over the real service and its name server (docs/api.md, "Records")."""

from typing import Any

import pytest

from support.at_once import Request, send_at_once
from support.error_triggers import new_name, new_user, unused_name
from support.running_service import Registrant, RunningService, running_service

SITE = {"name": "@", "type": "A", "ttl": 300, "values": ["8.8.4.4"]}
WWW = {"name": "www", "type": "CNAME", "ttl": 300, "values": ["example.github.io."]}
TEXT = {"name": "_acme-challenge", "type": "TXT", "ttl": 60, "values": ['"one"', '"two"']}
NS = ["ns1.provider.example", "ns2.provider.example"]


SETTINGS = {"free_quota": 200}


@pytest.fixture(scope="module")
def user(shop: RunningService) -> Registrant:
    return new_user(shop)


def answers(shop: RunningService, name: str, rdtype: str) -> list[str]:
    return sorted(shop.dig(name, rdtype, "+short").splitlines())


def refusal(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def test_a_name_works_with_records_from_its_registration(shop: RunningService, user: Registrant) -> None:
    fqdn = unused_name("records.test")
    added = shop.register(user, fqdn, records=[WWW, SITE])
    assert added["subdomain"]["status"] == "active"
    assert added["subdomain"]["nameservers"] == []
    assert added["provisioning"]["status"] == "published"
    assert answers(shop, fqdn, "A") == ["8.8.4.4"]
    assert answers(shop, f"www.{fqdn}", "CNAME") == ["example.github.io."]
    found = shop.call(user, "GET", f"/subdomains/{fqdn}/records")
    assert found.json()["records"] == [SITE, WWW]
    assert found.json()["provisioning"]["generation"] == 1


def test_records_are_replaced_changed_and_removed(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user)
    path = f"/subdomains/{fqdn}/records"
    assert shop.call(user, "GET", path).json()["records"] == []
    put = shop.call(user, "PUT", path, {"records": [{**WWW, "name": f"WWW.{fqdn}."}, SITE]})
    assert put.json()["records"] == [SITE, WWW]
    assert put.json()["provisioning"]["status"] == "published"
    patch = {"records": [{"name": "www", "type": "cname", "values": []}, {**TEXT, "values": ["one", "two"]}]}
    assert shop.call(user, "PATCH", path, patch).json()["records"] == [SITE, TEXT]
    assert answers(shop, f"_acme-challenge.{fqdn}", "TXT") == ['"one"', '"two"']
    assert "NXDOMAIN" in shop.dig(f"www.{fqdn}", "CNAME")
    one = shop.call(user, "PUT", f"{path}/*/TXT", {"values": ["any"]})
    assert one.json()["records"][0] == {"name": "*", "type": "TXT", "ttl": 300, "values": ['"any"']}
    assert answers(shop, f"else.{fqdn}", "TXT") == ['"any"']
    for _ in range(2):
        gone = shop.call(user, "DELETE", f"{path}/%2A/txt")
        assert gone.json()["records"] == [SITE, TEXT]
    assert shop.call(user, "GET", f"{path}?name=@").json()["records"] == [SITE]
    assert shop.call(user, "GET", f"{path}?name={fqdn.upper()}.").json()["records"] == [SITE]
    assert shop.call(user, "GET", f"{path}?name=-.-").json()["records"] == []
    for rdtype in ("txt", "TYPE16"):
        assert shop.call(user, "GET", f"{path}?type={rdtype}").json()["records"] == [TEXT]
    cleared = shop.call(user, "PUT", path, {"records": []})
    assert cleared.json()["records"] == []
    assert cleared.json()["provisioning"]["status"] == "none"
    assert shop.call(user, "GET", f"/subdomains/{fqdn}").json()["subdomain"]["status"] == "inactive"
    assert "NXDOMAIN" in shop.dig(fqdn, "A")


def test_a_name_has_nameservers_or_records(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user, SITE)
    path = f"/subdomains/{fqdn}"
    refused = shop.call(user, "PUT", f"{path}/nameservers", {"nameservers": NS})
    assert refusal(refused) == (409, "records_exist")
    shop.call(user, "PUT", f"{path}/records", {"records": []})
    assert shop.call(user, "PUT", f"{path}/nameservers", {"nameservers": NS}).status_code == 200
    refused = shop.call(user, "PUT", f"{path}/records", {"records": [SITE]})
    assert refusal(refused) == (409, "delegation_exists")
    both = {"fqdn": unused_name("records.test"), "nameservers": NS, "records": [SITE]}
    assert refusal(shop.call(user, "POST", "/subdomains", both)) == (422, "validation_failed")


def test_a_platform_domain_without_records_refuses_them(shop: RunningService, user: Registrant) -> None:
    fqdn = unused_name()
    refused = shop.call(user, "POST", "/subdomains", {"fqdn": fqdn, "records": [SITE]})
    assert refusal(refused) == (403, "records_not_allowed")
    shop.register(user, fqdn)
    refused = shop.call(user, "PUT", f"/subdomains/{fqdn}/records", {"records": [SITE]})
    assert refusal(refused) == (403, "records_not_allowed")
    assert shop.call(user, "PUT", f"/subdomains/{fqdn}/records", {"records": []}).status_code == 200


def test_if_match_compares_the_records(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user, SITE)
    path = f"/subdomains/{fqdn}/records"
    tag = shop.call(user, "GET", path).headers["etag"]
    changed = shop.call(user, "PATCH", path, {"records": [WWW]}, If_Match=tag)
    assert changed.status_code == 200
    assert refusal(shop.call(user, "PATCH", path, {"records": [TEXT]}, If_Match=tag)) == (
        412,
        "precondition_failed",
    )
    unchanged = shop.call(user, "GET", path, If_None_Match=shop.call(user, "GET", path).headers["etag"])
    assert unchanged.status_code == 304


def test_a_token_for_certificates_changes_nothing_else(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user, SITE)
    path = f"/subdomains/{fqdn}/records"
    members = {
        "name": "robot",
        "scopes": ["records:write"],
        "record_names": ["_acme-challenge", "_acme-challenge.*"],
    }
    token = shop.call(user, "POST", "/tokens", members).json()["secret"]
    assert shop.call(token, "PATCH", path, {"records": [TEXT]}).status_code == 200
    below = {**TEXT, "name": "_acme-challenge.www"}
    assert shop.call(token, "PATCH", path, {"records": [below]}).status_code == 200
    assert shop.call(token, "PUT", path, {"records": [SITE, below]}).status_code == 200
    for body in ([{**SITE, "values": ["8.8.8.8"]}], [], [SITE, WWW, below]):
        refused = shop.call(token, "PUT", path, {"records": body})
        assert refusal(refused) == (403, "token_restricted"), body
    assert refusal(shop.call(token, "GET", path)) == (403, "insufficient_scope")
    assert shop.call(user, "GET", path).json()["records"] == [SITE, below]
    wide = {**members, "scopes": ["records:write", "subdomains:write"]}
    assert refusal(shop.call(user, "POST", "/tokens", wide)) == (422, "validation_failed")


def test_records_follow_the_life_of_their_name(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user, SITE, WWW)
    shop.call(user, "DELETE", f"/subdomains/{fqdn}")
    assert "NXDOMAIN" in shop.dig(fqdn, "A")
    assert "NXDOMAIN" in shop.dig(f"www.{fqdn}", "CNAME")
    restored = shop.call(user, "POST", f"/subdomains/{fqdn}/restore", {})
    assert restored.json()["subdomain"]["status"] == "active"
    assert answers(shop, fqdn, "A") == ["8.8.4.4"]
    shop.operator("subdomain", "suspend", fqdn, "--reason", "abuse")
    assert "NXDOMAIN" in shop.dig(fqdn, "A")
    refused = shop.call(user, "PUT", f"/subdomains/{fqdn}/records", {"records": []})
    assert refusal(refused) == (409, "subdomain_suspended")
    shop.operator("subdomain", "unsuspend", fqdn)
    assert answers(shop, fqdn, "A") == ["8.8.4.4"]
    seen = shop.call(user, "GET", f"/subdomains/{fqdn}/delegation").json()["delegation"]
    assert seen["in_agreement"]
    assert seen["stored"]["records"] == seen["servers"][0]["records"] == [SITE, WWW]


def test_records_move_as_a_zone_file(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user, SITE)
    path = f"/subdomains/{fqdn}/zonefile"
    file = shop.call(user, "GET", path)
    assert file.headers["content-type"] == "text/dns; charset=utf-8"
    assert file.text == f"$ORIGIN {fqdn}.\n$TTL 300\n@   300 IN A     8.8.4.4\n"
    as_json = shop.call(user, "GET", path, Accept="text/html, application/json;q=0.5")
    assert as_json.json() == {"ok": True, "zone_file": file.text}
    assert as_json.headers["vary"] == file.headers["vary"] == "Accept"
    assert shop.call(user, "GET", path, If_None_Match=file.headers["etag"]).status_code == 304
    assert refusal(shop.call(user, "GET", "/subdomains/none.records.test/zonefile")) == (
        404,
        "subdomain_not_found",
    )

    text = f"$ORIGIN {fqdn}.\n@ 3600 NS ns1.provider.example.\nwww CNAME example.github.io.\n"
    stored = send_zone_file(shop, user, path, text, If_Match=file.headers["etag"])
    assert stored.json()["records"] == [{**WWW, "ttl": 3600}]
    assert stored.json()["notes"] == [f"Line 2: `{fqdn}` is no zone of its own, so the NS record is ignored."]
    assert answers(shop, f"www.{fqdn}", "CNAME") == ["example.github.io."]
    stale = send_zone_file(shop, user, path, file.text, If_Match=file.headers["etag"])
    assert refusal(stale) == (412, "precondition_failed")
    back = shop.call(user, "PUT", path, {"zone_file": file.text})
    assert back.json()["records"] == [SITE]
    assert send_zone_file(shop, user, path, shop.call(user, "GET", path).text).json()["records"] == [SITE]


def test_a_zone_file_with_errors_changes_nothing(shop: RunningService, user: Registrant) -> None:
    fqdn = new_name(shop, user, SITE)
    path = f"/subdomains/{fqdn}/zonefile"
    wrong = "@ A 8.8.8.8\n@ A 10.0.0.1\n- TXT x\n\nwww CNAME a.example.\nwww A 8.8.8.8\n"
    refused = send_zone_file(shop, user, path, wrong)
    assert refusal(refused) == (422, "validation_failed")
    lines = [each["message"].partition(":")[0] for each in refused.json()["errors"]]
    assert {each["field"] for each in refused.json()["errors"]} == {"zone_file"}
    assert sorted(lines) == ["Line 2", "Line 5"]
    unread = send_zone_file(shop, user, path, "@ A 8.8.8.8\n$INCLUDE x\n(")
    assert [each["message"].partition(":")[0] for each in unread.json()["errors"]] == ["Line 2", "Line 3"]
    for nothing in ("; a comment\n", "other.example. A 8.8.8.8\n", "", b"\xff", "@ TXT \0\n"):
        refused = send_zone_file(shop, user, path, nothing)
        assert refused.status_code in (400, 422), nothing
    as_form = send_zone_file(
        shop, user, path, "@ A 8.8.8.8", Content_Type="application/x-www-form-urlencoded"
    )
    assert refusal(as_form) == (415, "unsupported_media_type")
    assert "`Content-Type: text/dns`" in as_form.json()["message"]
    elsewhere = send_zone_file(shop, user, path.replace("zonefile", "records"), "{}")
    assert refusal(elsewhere) == (415, "unsupported_media_type")
    assert shop.call(user, "GET", f"/subdomains/{fqdn}/records").json()["records"] == [SITE]


def send_zone_file(
    shop: RunningService, user: Registrant, path: str, text: str | bytes, **headers: str
) -> Any:
    """Send a zone file as `text/dns`, as `curl --data-binary` does."""
    sent = {"content-type": "text/dns", "authorization": f"Bearer {user.token}"}
    sent |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return shop.client.put(shop.base_url + path, content=text, headers=sent)


WRITERS = 10


def test_ten_writers_race_on_one_name(registry_url: str) -> None:
    """No update is lost, and of ten changes of what was seen one wins."""
    with running_service(registry_url) as service:
        service.add_domain("records.test", "--records", "on")
        user = service.add_user()
        service.register(user, "race.records.test")
        path = "/subdomains/race.records.test/records"
        texts = [{"name": f"n{number}", "type": "TXT", "values": [str(number)]} for number in range(WRITERS)]
        added = send_at_once(service, [Request("PATCH", path, {"records": [each]}, user) for each in texts])
        assert [each.status_code for each in added] == [200] * WRITERS
        seen = service.call(user, "GET", path)
        assert {each["name"] for each in seen.json()["records"]} == {each["name"] for each in texts}
        assert seen.json()["provisioning"]["generation"] == WRITERS
        seen_tag = {"if-match": seen.headers["etag"]}
        sets = [[{**SITE, "ttl": 60 + number}] for number in range(WRITERS)]
        replaced = send_at_once(
            service, [Request("PUT", path, {"records": each}, user, seen_tag) for each in sets]
        )
        assert sorted(each.status_code for each in replaced) == [200, *[412] * (WRITERS - 1)]
        assert service.doctor() == []
