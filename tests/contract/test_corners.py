"""Corners where two rules meet: nameservers of the zone itself, nested zones, cycles through the trash, both
forms of a list.
"""

from support.running_service import RunningService


def _code(service: RunningService, who: str, method: str, path: str, body: object = None) -> tuple[int, str]:
    answer = service.call(who, method, path, body)
    return answer.status_code, str(answer.json().get("error", ""))


def test_the_name_of_the_zones_own_nameserver_can_not_be_registered(service: RunningService) -> None:
    service.add_domain(
        "example.test", "--apex-nameserver", "dns.example.test", "--apex-nameserver", "a.hosts.example.test"
    )
    service.operator("label", "set", "dns", "--domain", "example.test", "--class", "standard")
    ada = service.add_user().token
    for label in ("dns", "hosts"):
        refused = service.call(ada, "POST", "/subdomains", {"fqdn": f"{label}.example.test"})
        assert (refused.status_code, refused.json()["details"]["reason"]) == (409, "reserved")
    service.register(ada, "own.example.test", nameservers=["ns1.provider.example"])
    service.operator("domain", "edit", "example.test", "--apex-nameserver", "ns.own.example.test", expect=1)
    assert "ns.own.example.test" not in service.operator("domain", "show", "example.test")["apex_nameservers"]


def test_a_name_above_a_nested_zone_exists(service: RunningService) -> None:
    service.add_domain("example.test")
    service.operator("domain", "add", "deep.inner.example.test", "--public-name", "Deep")
    assert "status: NOERROR" in service.dig("inner.example.test", "A")
    assert "status: NXDOMAIN" in service.dig("other.example.test", "A")


def test_a_restore_that_closes_a_cycle_is_refused(service: RunningService) -> None:
    service.add_domain("example.test")
    ada = service.add_user().token
    service.register(ada, "one.example.test", nameservers=["ns1.provider.example"])
    service.register(ada, "two.example.test", nameservers=["ns.one.example.test"])
    assert service.call(ada, "DELETE", "/subdomains/two.example.test").status_code == 200
    refused = service.call(
        ada, "PUT", "/subdomains/one.example.test/nameservers", {"nameservers": ["ns.two.example.test"]}
    )
    assert refused.json()["errors"][0]["code"] == "nameserver_cycle"


def test_a_long_ring_is_a_cycle(service: RunningService) -> None:
    service.add_domain("example.test")
    ada = service.add_user(free_quota="20").token
    service.register(ada, "ring0.example.test", nameservers=["ns1.provider.example"])
    for number in range(1, 12):
        service.register(ada, f"ring{number}.example.test", nameservers=[f"ns.ring{number - 1}.example.test"])
    refused = service.call(
        ada, "PUT", "/subdomains/ring0.example.test/nameservers", {"nameservers": ["ns.ring11.example.test"]}
    )
    assert refused.json()["errors"][0]["code"] == "nameserver_cycle"


def test_ns1_to_ns4_replace_the_whole_list_in_a_put(service: RunningService) -> None:
    service.add_domain("example.test")
    ada = service.add_user().token
    service.register(ada, "shop.example.test", ns1="ns1.provider.example", ns2="ns2.provider.example")
    path = "/subdomains/shop.example.test/nameservers"
    one = service.call(ada, "PUT", path, {"ns1": "ns9.provider.example", "ns2": None})
    assert one.json()["subdomain"]["nameservers"] == ["ns9.provider.example"]
    assert service.call(ada, "PUT", path, {}).json()["subdomain"]["nameservers"] == ["ns9.provider.example"]
    assert service.call(ada, "PUT", path, {"ns1": None}).json()["subdomain"]["nameservers"] == []
    assert _code(service, ada, "PUT", path, {"ns1": "a.b.example", "nameservers": []}) == (
        422,
        "validation_failed",
    )


def test_a_wrong_coupon_or_bound_is_reported_before_the_name_and_the_mode(service: RunningService) -> None:
    service.add_domain("example.test")
    ada = service.add_user().token
    for fqdn, mode in (
        ("mail.example.test", None),
        ("a.example.test", "premium"),
        ("a.example.test", "admin"),
    ):
        body = {"fqdn": fqdn, "registration_mode": mode, "coupon_code": "NOPE", "max_credits": -1}
        refused = service.call(ada, "POST", "/subdomains", body).json()
        assert [error["code"] for error in refused["errors"]] == ["value_invalid", "coupon_invalid"]


def test_new_bounds_of_a_platform_domain_do_not_affect_stored_lists(service: RunningService) -> None:
    service.add_domain("example.test")
    ada = service.add_user().token
    service.register(ada, "shop.example.test", nameservers=["ns1.provider.example"])
    service.operator("domain", "edit", "example.test", "--nameservers-min", "2")
    path = "/subdomains/shop.example.test/nameservers"
    assert service.call(ada, "PUT", path, {"ds_records": []}).status_code == 200
    refused = service.call(ada, "PUT", path, {"nameservers": ["ns2.provider.example"]})
    assert refused.json()["errors"][0]["code"] == "too_few_nameservers"


def test_a_suspended_name_in_the_trash_does_not_offer_a_restore(service: RunningService) -> None:
    service.add_domain("example.test")
    ada = service.add_user().token
    service.register(ada, "shop.example.test")
    service.call(ada, "DELETE", "/subdomains/shop.example.test")
    service.operator("subdomain", "suspend", "shop.example.test")
    assert "restore" not in service.call(ada, "GET", "/subdomains/shop.example.test").json()["message"]
    assert (
        "restore"
        not in service.call(ada, "POST", "/subdomains", {"fqdn": "shop.example.test"}).json()["message"]
    )
    assert _code(service, ada, "POST", "/subdomains/shop.example.test/restore") == (
        409,
        "subdomain_suspended",
    )
