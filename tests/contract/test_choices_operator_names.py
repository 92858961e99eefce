"""Decisions, "Names from the operator": what the API shows of names that the operator registers and
transfers; over the real service.
"""

from support.error_triggers import new_user, unused_name
from support.running_service import RunningService

NS1 = "ns1.provider.example"


def test_a_transferred_name_shows_its_former_user_nothing(shop: RunningService) -> None:
    """Neither a request that is repeated with its key nor a ticket shows what became of it."""
    former, receiver = new_user(shop), new_user(shop)
    fqdn, key = unused_name(), unused_name()
    sent = {"fqdn": fqdn, "ns1": NS1}
    assert shop.call(former, "POST", "/subdomains", sent, idempotency_key=key).status_code == 201
    ticket = shop.call(
        former, "POST", "/support/tickets", {"subject": "Slow", "message": "It is.", "fqdn": fqdn}
    ).json()["ticket"]
    shop.operator("subdomain", "transfer", fqdn, "--to", receiver.email)
    changed = shop.call(receiver, "PUT", f"/subdomains/{fqdn}/nameservers", {"ns1": "ns9.provider.example"})
    assert changed.status_code == 200
    again = shop.call(former, "POST", "/subdomains", sent, idempotency_key=key)
    assert (again.status_code, again.json()["error"]) == (404, "subdomain_not_found")
    for path in ("", "/timeline", "/delegation", "/auto-renew"):
        missing = shop.call(former, "GET", f"/subdomains/{fqdn}{path}")
        assert (missing.status_code, missing.json()["error"]) == (404, "subdomain_not_found")
    stays = shop.call(former, "GET", f"/support/tickets/{ticket['id']}").json()["ticket"]
    assert stays == ticket
    events = [
        each["event"]
        for each in shop.call(receiver, "GET", f"/subdomains/{fqdn}/timeline").json()["timeline"]
    ]
    assert events[:3] == ["registered", "transferred", "nameservers_updated"]
    assert shop.doctor() == []
