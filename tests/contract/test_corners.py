"""Corners where two rules meet: nameservers of the zone itself, coupons, new bounds of a platform domain."""

from support.running_service import RunningService


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
