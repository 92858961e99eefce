"""Decisions, "Transfers of names": over HTTP, from the offer to the new holder, and what its answers don't
tell.
"""

import httpx
import pytest

from sublet.limits import TRANSFERS_OF_USER
from sublet.mail.store import list_mails
from support.answer_times import compare_times
from support.error_triggers import new_user, unused_name
from support.repetitions import share
from support.running_service import Registrant, RunningService

MEMBERS = ["id", "direction", "subdomain", "sender", "to", "state", "created_at", "expires_at", "ended_at"]


@pytest.fixture
def bob(shop: RunningService) -> Registrant:
    return new_user(shop)


def push(shop: RunningService, who: Registrant, to: str, fqdn: str = "", **headers: str) -> httpx.Response:
    fqdn = fqdn or shop.register(who, unused_name())["subdomain"]["fqdn"]
    return shop.call(who, "POST", f"/subdomains/{fqdn}/transfer", {"to": to}, **headers)


def test_a_name_goes_from_one_user_to_another(shop: RunningService, ada: Registrant, bob: Registrant) -> None:
    fqdn = shop.register(ada, unused_name(), nameservers=["ns1.provider.example"])["subdomain"]["fqdn"]
    answer = push(shop, ada, bob.email, fqdn)
    assert answer.status_code == 201, answer.text
    offered = answer.json()["transfer"]
    assert list(offered) == MEMBERS
    assert (offered["direction"], offered["state"]) == ("sent", "pending")
    path = f"/transfers/{offered['id']}"
    seen = shop.call(bob, "GET", path).json()["transfer"]
    assert seen == {**offered, "direction": "received"}
    assert shop.call(bob, "GET", "/transfers?state=pending&direction=received").json()["transfers"] == [seen]
    assert shop.call(bob, "GET", "/transfers?direction=sent").json()["transfers"] == []
    assert shop.call(bob, "GET", f"/subdomains/{fqdn}").status_code == 404
    taken = shop.call(bob, "POST", f"{path}/accept").json()["transfer"]
    assert (taken["state"], taken["direction"]) == ("accepted", "received")
    assert shop.call(bob, "GET", f"/subdomains/{fqdn}").json()["subdomain"]["status"] == "active"
    assert shop.call(ada, "GET", f"/subdomains/{fqdn}").status_code == 404
    assert shop.call(ada, "GET", path).json()["transfer"]["state"] == "accepted"


def test_the_mail_says_how_to_accept(shop: RunningService, ada: Registrant, bob: Registrant) -> None:
    offered = push(shop, ada, bob.email).json()["transfer"]
    mails = shop.read(lambda tx: list_mails(tx, waiting=False, user_id=None, limit=5))
    (mail,) = [each for each in mails if each.recipient == bob.email]
    origin = shop.origin
    assert f"\n{origin}/transfers/{offered['id']}\n" in mail.text
    assert shop.call(bob, "POST", f"/transfers/{offered['id']}/accept").status_code == 200


def test_repeated_requests_and_if_match(shop: RunningService, ada: Registrant, bob: Registrant) -> None:
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    first = push(shop, ada, bob.email, fqdn, idempotency_key="k")
    again = push(shop, ada, bob.email, fqdn, idempotency_key="k")
    assert (again.status_code, again.json()) == (201, first.json())
    path = f"/transfers/{first.json()['transfer']['id']}"
    tag = shop.call(bob, "GET", path).headers["etag"]
    refused = shop.call(bob, "POST", f"{path}/accept", if_match='"another"')
    assert refused.json()["error"] == "precondition_failed"
    for _ in range(2):
        answer = shop.call(bob, "POST", f"{path}/accept", if_match=tag, idempotency_key="a")
        assert answer.status_code == 200, answer.text
    assert shop.call(bob, "POST", f"{path}/decline", if_match=tag).json()["error"] == "precondition_failed"
    assert shop.call(bob, "POST", f"{path}/decline").json()["error"] == "conflict"


def test_pages_and_states(shop: RunningService, ada: Registrant) -> None:
    ids = [push(shop, ada, f"to{number}@example.org").json()["transfer"]["id"] for number in range(4)]
    assert shop.call(ada, "DELETE", f"/transfers/{ids[0]}").json()["transfer"]["state"] == "withdrawn"
    found = shop.call(ada, "GET", "/transfers?limit=3").json()
    assert [each["id"] for each in found["transfers"]] == ids[:0:-1]
    cursor = found["page"]["next_cursor"]
    rest = shop.call(ada, "GET", f"/transfers?limit=3&cursor={cursor}").json()
    assert ([each["id"] for each in rest["transfers"]], rest["page"]["has_more"]) == (ids[:1], False)
    pending = shop.call(ada, "GET", "/transfers?state=pending").json()["transfers"]
    assert [each["id"] for each in pending] == ids[:0:-1]
    assert shop.call(ada, "GET", "/transfers?state=lost").json()["error"] == "invalid_request"


TRIES = share(10, whole=200)


def test_known_and_unknown_addresses_get_equal_answers(shop: RunningService) -> None:
    """Byte for byte but for the ids, the instants and the address, which have the same
    lengths; and as fast.
    """
    known = [new_user(shop).email for _ in range(5)]
    addresses = {"known": known, "new": [each.replace("user", "nobd") for each in known]}
    senders = [new_user(shop) for _ in range(-(-2 * TRIES // TRANSFERS_OF_USER.most))]
    names = [shop.register(each, unused_name())["subdomain"]["fqdn"] for each in senders]

    def ask(kind: str, number: int) -> httpx.Response:
        turn = 2 * number // TRANSFERS_OF_USER.most
        return push(shop, senders[turn], addresses[kind][number % len(known)], names[turn])

    def withdraw(answer: httpx.Response) -> None:
        path = f"/transfers/{answer.json()['transfer']['id']}"
        sender = next(each for each in senders if each.email == answer.json()["transfer"]["sender"])
        assert shop.call(sender, "DELETE", path).json()["transfer"]["state"] == "withdrawn"

    forms = set()
    for answer in compare_times(ask, TRIES, withdraw):
        offered = answer.json()["transfer"]
        lengths = (len(answer.headers["content-length"]), sorted(answer.headers))
        forms.add((answer.status_code, tuple(offered), offered["state"], repr(lengths)))
    assert len(forms) == 1


def test_names_move_between_people_and_organizations(
    shop: RunningService, ada: Registrant, bob: Registrant
) -> None:
    coop = shop.call(ada, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
    of_coop = shop.token_for(ada, coop["id"])
    fqdn = shop.register(ada, unused_name())["subdomain"]["fqdn"]
    # To the own organization: offered to the own address, and accepted with a token for the organization.
    own = push(shop, ada, ada.email, fqdn).json()["transfer"]
    refused = shop.call(ada, "POST", f"/transfers/{own['id']}/accept")
    assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
    assert "hold this name already" in refused.json()["message"]
    taken = shop.call(of_coop, "POST", f"/transfers/{own['id']}/accept").json()["transfer"]
    assert taken["state"] == "accepted"
    assert shop.call(of_coop, "GET", f"/subdomains/{fqdn}").status_code == 200
    assert shop.call(ada, "GET", f"/subdomains/{fqdn}").status_code == 404
    assert shop.call(of_coop, "GET", "/usage/free-subdomains").json()["usage"]["used"] == 1
    # The organization's activity shows that it got the name.
    arrived = shop.call(of_coop, "GET", "/activity?limit=1").json()["activity"]
    assert [(each["action"], each["by"], each["subdomain"]) for each in arrived] == [
        ("subdomain.receive", "user", fqdn)
    ]
    # From the organization to another person, who sees its name and not the address of a member.
    offered = shop.call(of_coop, "POST", f"/subdomains/{fqdn}/transfer", {"to": bob.email}).json()["transfer"]
    assert (offered["direction"], offered["sender"]) == ("sent", "Coop")
    path = f"/transfers/{offered['id']}"
    assert shop.call(ada, "GET", path).status_code == 404
    assert shop.call(bob, "GET", path).json()["transfer"]["sender"] == "Coop"
    assert shop.call(ada, "DELETE", path).status_code == 404
    assert shop.call(bob, "POST", f"{path}/accept").status_code == 200
    assert shop.call(bob, "GET", f"/subdomains/{fqdn}").status_code == 200
    assert shop.call(of_coop, "GET", path).json()["transfer"]["state"] == "accepted"


def test_the_activity_of_an_organization_has_the_actions_of_all_members(
    shop: RunningService, ada: Registrant
) -> None:
    coop = shop.call(ada, "POST", "/organizations", {"name": "Coop"}).json()["organization"]
    of_coop = shop.token_for(ada, coop["id"])
    own, shared = unused_name(), unused_name()
    shop.register(ada, own)
    shop.register(of_coop, shared)
    activity = shop.call(of_coop, "GET", "/activity").json()["activity"]
    assert {each["subdomain"] for each in activity if each["subdomain"]} == {shared}
    (registered,) = [each for each in activity if each["action"] == "subdomain.register"]
    assert (registered["by"], registered["token_name"]) == ("user", "shared")
    for method, path in (("GET", "/me/export"), ("DELETE", "/me")):
        refused = shop.call(of_coop, method, path)
        assert (refused.status_code, refused.json()["details"]) == (403, {"restriction": "organization_id"})
