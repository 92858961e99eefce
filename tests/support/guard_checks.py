"""A check for each guard of the service.

The service passes them; a copy of the service without a guard must fail its check.
"""

from typing import Any

from sublet.doctor.checks import check_running
from support.crash_checks import HOST, NAME, WITH_GLUE, standing, zone_is_right
from support.running_service import RunningService
from support.serve_process import wait_until

NOT_PUBLIC = {
    "ipv4": ["10.0.0.1", "127.0.0.1", "224.0.0.1", "239.255.255.250", "192.88.99.1", "255.255.255.255"],
    "ipv6": ["::1", "fe80::1", "ff02::1", "2002:a00:1::1", "64:ff9b::a00:1", "2001:db8::1", "fec0::1"],
}


def check_delete_leaves_nothing(service: RunningService) -> None:
    """Check that the built-in name server has no record of a deleted name, also no glue."""
    ada = service.add_user()
    service.register(ada, NAME, **{key: value for key, value in WITH_GLUE.items() if key != "fqdn"})
    assert {rdtype for _, rdtype, _ in standing(service)} == {"NS", "DS", "A", "AAAA"}
    assert "8.8.4.4" in service.dig(NAME)
    assert service.call(ada, "DELETE", f"/subdomains/{NAME}").status_code == 200
    assert standing(service) == set()
    for name, rdtype in ((HOST, "A"), (HOST, "AAAA"), (NAME, "NS"), (NAME, "DS")):
        assert "status: NXDOMAIN" in service.dig(name, rdtype)


def check_former_glue_leaves(service: RunningService) -> None:
    """Check that the glue of a removed nameserver isn't served, although the name is still delegated."""
    ada = service.add_user()
    service.register(ada, NAME, **{key: value for key, value in WITH_GLUE.items() if key != "fqdn"})
    assert "8.8.4.4" in service.dig(NAME)
    body = {"nameservers": ["ns1.provider.example"], "ds_records": []}
    assert service.call(ada, "PUT", f"/subdomains/{NAME}/nameservers", body).status_code == 200
    assert standing(service) == {(NAME, "NS", "ns1.provider.example.")}
    assert "8.8.4.4" not in service.dig(NAME)


def check_others_names_are_hidden(service: RunningService) -> None:
    """Check that requests for another user's name, by name or id, get the same answer
    as for a missing name.
    """
    ada, bob = (service.add_user(f"{name}@example.org", credit_count=100) for name in ("ada", "bob"))
    subdomain = service.register(ada, NAME, nameservers=["ns1.provider.example"])["subdomain"]
    requests: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("PUT", "/nameservers", {"nameservers": ["ns1.evil.example"]}),
        ("POST", "/retry", {}),
        ("POST", "/renew", {"confirm": True}),
        ("POST", "/restore", {}),
        ("DELETE", "", None),
    ]
    for identifier in (NAME, str(subdomain["id"])):
        for method, path, body in requests:
            theirs = service.call(bob, method, f"/subdomains/{identifier}{path}", body)
            missing = service.call(bob, method, f"/subdomains/none.example.test{path}", body)
            assert theirs.status_code == missing.status_code == 404, (method, path, theirs.text)
            assert _without_request_id(theirs.json()) == _without_request_id(missing.json())
    assert service.call(ada, "GET", f"/subdomains/{NAME}").json()["subdomain"] == subdomain
    assert service.call(bob, "GET", "/credits").json()["credit_balance"] == 100


def _without_request_id(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "request_id"}


def check_glue_is_public(service: RunningService) -> None:
    """Check that glue with a private address is refused, and nothing is stored."""
    ada = service.add_user()
    for family, addresses in NOT_PUBLIC.items():
        for address in addresses:
            body = {"fqdn": NAME, "nameservers": [HOST], "glue": [{"host": HOST, family: address}]}
            answer = service.call(ada, "POST", "/subdomains", body)
            assert answer.status_code == 422, (address, answer.text)
            assert [each["code"] for each in answer.json()["errors"]] == ["glue_not_public"], address
    assert standing(service) == set()


WRONG_CLOCK_NAMES = 30
"""The number of the user's names. None may be lost."""


def check_wrong_clock_loses_nothing(service: RunningService) -> None:
    """Check that a clock that is wrong by a year deletes no names: the sweep stops until the operator
    confirms the clock.

    Publishing continues.
    """
    names = [f"n{number}.example.test" for number in range(WRONG_CLOCK_NAMES)]
    ada = service.add_user(free_quota="100")
    for name in names:
        service.register(ada, name, nameservers=["ns1.provider.example"])
    wait_until(lambda: service.operator("sweep", "status")["seen_at"] is not None)
    service.clock.advance(days=400)
    wait_until(lambda: bool(_gone(service) or service.operator("sweep", "status")["stopped"]))
    assert _gone(service) == 0
    refused = service.call(ada, "POST", "/subdomains", {"fqdn": NAME})
    assert (refused.status_code, refused.json().get("error")) == (503, "clock_implausible")
    service.call(ada, "PUT", f"/subdomains/{names[1]}/nameservers", {"nameservers": ["ns2.provider.example"]})
    wait_until(lambda: service.delegation(names[1]) == {"ns2.provider.example"})
    assert _gone(service) == 0
    assert service.delegation(names[0]) == {"ns1.provider.example"}
    assert "400 days" in service.operator("sweep", "status")["stopped_reason"]
    assert [each.invariant for each in service.read(check_running)] == ["sweep_runs"]
    # The operator confirms the clock, then the sweep of 30 names, which are more than the dates forecast.
    service.operator("sweep", "resume")
    wait_until(lambda: "Of 30 names, 30 would" in str(service.operator("sweep", "status")["stopped_reason"]))
    assert _gone(service) == 0
    service.register(ada, NAME, nameservers=["ns1.provider.example"])
    service.operator("sweep", "resume")
    wait_until(lambda: _gone(service) == len(names))
    wait_until(lambda: zone_is_right(service))
    assert service.delegation(names[0]) == set()
    assert not service.operator("sweep", "status")["stopped"]


def _gone(service: RunningService) -> int:
    """Return the number of names in the trash."""
    return len(service.operator("subdomain", "list", "--status", "trashed"))
