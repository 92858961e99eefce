"""PostgreSQL: many clients insert one unique value at the same time. Each gets a right answer, and no request fails with a fault.

docs/locks.md lists the constraints, and which test reaches each.
"""

import re
from collections import Counter
from collections.abc import Iterator

import altcha
import pytest
from sqlalchemy import func, select

from sublet.accounts.store import users
from sublet.http.session_cookie import COOKIE
from sublet.mail.store import mails
from sublet.sign_up.proof_of_work import new_challenge
from sublet.sign_up.store import find_signing_key
from support.at_once import Request, send_at_once
from support.authenticator import Authenticator
from support.browsers import Browser, signed_in
from support.postgresql import fresh_database
from support.running_service import Registrant, RunningService, running_service

pytestmark = pytest.mark.slow
N = 8


@pytest.fixture(scope="module")
def service(postgresql_server: str) -> Iterator[RunningService]:
    with (
        fresh_database(postgresql_server) as url,
        running_service(url, signup="open", organizations_per_user=100) as found,
    ):
        found.environment["SUBLET_PUBLIC_URL"] = "https://names.example.net"
        found.add_domain()
        yield found
        assert found.doctor() == []


@pytest.fixture(autouse=True)
def no_fault(service: RunningService, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The service runs in this process and logs errors to its output."""
    yield
    written = capfd.readouterr()
    assert "fault" not in written.out + written.err


def at_once(service: RunningService, requests: list[Request]) -> Counter[int]:
    answers = send_at_once(service, requests)
    assert all(each.status_code < 500 for each in answers), [each.text for each in answers]
    return Counter(each.status_code for each in answers)


def texts_to(service: RunningService, email: str) -> list[str]:
    query = select(mails.c.text).where(mails.c.recipient == email).order_by(mails.c.id)
    return service.read(lambda tx: list(tx.connection.execute(query).scalars()))


def codes_to(service: RunningService, email: str) -> list[str]:
    return [
        each
        for found in texts_to(service, email)
        for each in re.findall(r"your code is (\d{6})", found, re.IGNORECASE)
    ]


def links_to(service: RunningService, email: str) -> list[str]:
    return [each for found in texts_to(service, email) for each in re.findall(r"\?token=(\S+)", found)]


def count_users(service: RunningService, email: str) -> int:
    query = select(func.count()).where(users.c.email == email)
    return service.read(lambda tx: int(tx.connection.execute(query).scalar_one()))


def sign_up(service: RunningService, email: str) -> None:
    answer = service.client.post(
        service.base_url.removesuffix("/api/v1") + "/auth/signup", json={"email": email, "name": "Eve"}
    )
    assert answer.status_code == 202, answer.text


def add_organization(service: RunningService, who: Registrant, name: str) -> int:
    answer = service.call(who, "POST", "/organizations", {"name": name})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["organization"]["id"])


def invite(service: RunningService, who: Registrant, organization_id: int, email: str) -> str:
    answer = service.call(
        who, "POST", f"/organizations/{organization_id}/invitations", {"email": email, "role": "member"}
    )
    assert answer.status_code == 201, answer.text
    return links_to(service, email)[-1]


def test_several_links_of_one_sign_up_open_one_account(service: RunningService) -> None:
    email = "links@example.org"
    for _ in range(4):
        sign_up(service, email)
        service.clock.advance(minutes=1, seconds=1)
    links = links_to(service, email)
    assert len(links) == 4
    requests = [Request("POST", "/auth/signup/confirm", {"token": each}) for each in links * 2]
    assert at_once(service, requests) == {201: 1, 422: 7}
    assert count_users(service, email) == 1


def test_one_new_address_is_confirmed_by_one_of_several_users(service: RunningService) -> None:
    requests = []
    for number in range(4):
        who = service.add_user(f"former{number}@example.org")
        browser = signed_in(service, who.email)
        changed = browser.call("PATCH", "/me", {"email": "wanted@example.org"})
        assert changed.status_code == 200, changed.text
        code = codes_to(service, "wanted@example.org")[-1]
        requests.append(with_session(service, browser, "POST", "/me/email", {"code": code}))
    assert at_once(service, requests) == {200: 1, 422: 3}
    assert count_users(service, "wanted@example.org") == 1


def with_session(service: RunningService, browser: Browser, method: str, path: str, body: object) -> Request:
    origin = service.base_url.removesuffix("/api/v1")
    return Request(method, path, body, None, {"cookie": f"{COOKIE}={browser.secret}", "origin": origin})


def test_several_invitations_to_one_unknown_address_open_one_account(service: RunningService) -> None:
    codes = []
    for number in range(4):
        who = service.add_user(f"inviter{number}@example.org")
        codes.append(invite(service, who, add_organization(service, who, "Same name"), "guest@example.org"))
    requests = [Request("POST", f"/auth/invitations/{each}/accept", {"name": "Guest"}) for each in codes]
    assert at_once(service, requests) == {201: 4}
    assert count_users(service, "guest@example.org") == 1


def test_one_invitation_is_accepted_once(service: RunningService) -> None:
    who = service.add_user("host@example.org")
    code = invite(service, who, add_organization(service, who, "Host"), "joiner@example.org")
    requests = [Request("POST", f"/auth/invitations/{code}/accept", {"name": "Joiner"})] * N
    assert at_once(service, requests) == {201: 1, 422: N - 1}


def test_organizations_of_one_name_get_different_slugs(service: RunningService) -> None:
    founders = [service.add_user(f"founder{number}@example.org") for number in range(2)]
    requests = [
        Request("POST", "/organizations", {"name": "Guild"}, founders[each % 2]) for each in range(2 * N)
    ]
    assert at_once(service, requests) == {201: 2 * N}


def test_sign_ups_whose_addresses_have_one_slug_all_succeed(service: RunningService) -> None:
    emails = [f"j{mark}d@example.org" for mark in ".-_+"] + [
        f"j{mark}d@example-org.example" for mark in ".-_+"
    ]
    for each in emails:
        sign_up(service, each)
    requests = [
        Request("POST", "/auth/signup/confirm", {"email": each, "code": codes_to(service, each)[-1]})
        for each in emails
    ]
    assert at_once(service, requests) == {201: len(emails)}


def test_a_challenge_is_used_once(service: RunningService) -> None:
    key = service.read(find_signing_key)
    challenge = altcha.Challenge.from_dict(new_challenge(key, service.clock()))
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    payload = altcha.Payload(challenge, solution).to_base64()
    requests = [
        Request(
            "POST", "/auth/signup", {"email": f"solver{each}@example.org", "name": "S", "challenge": payload}
        )
        for each in range(N)
    ]
    assert at_once(service, requests) == {202: 1, 422: N - 1}


def test_a_name_an_offer_and_a_key_are_stored_once(service: RunningService) -> None:
    people = [service.add_user(f"holder{each}@example.org", credit_count=100) for each in range(N)]
    body = {"fqdn": "wanted.example.test"}
    assert at_once(service, [Request("POST", "/subdomains", body, each) for each in people]) == {
        201: 1,
        409: N - 1,
    }
    ada = people[0]
    service.register(ada, "shop.example.test")
    pushes = [Request("POST", "/subdomains/shop.example.test/transfer", {"to": "x@example.org"}, ada)] * N
    assert at_once(service, pushes) == {201: 1, 409: N - 1}
    ticket = {"subject": "Help", "message": "Please", "type": "support"}
    keyed = [Request("POST", "/support/tickets", ticket, ada, {"idempotency-key": "one"})] * N
    done = at_once(service, keyed)
    assert set(done) <= {201, 409}
    assert len(service.list_all(ada, "/support/tickets", "tickets")) == 1
    paid = {"registration_mode": "plus", "confirm": True}
    orders = [
        Request("POST", "/subdomains", {"fqdn": f"paid{each}.example.test", **paid}, ada) for each in range(N)
    ]
    assert at_once(service, orders) == {201: N}
    renewals = [Request("POST", "/subdomains/paid0.example.test/renew", {"confirm": True}, ada)] * N
    assert set(at_once(service, renewals)) <= {200, 201, 402, 409}


def test_settings_of_a_name_are_stored_once(service: RunningService) -> None:
    ada = service.add_user("settings@example.org")
    service.register(ada, "mine.example.test", nameservers=["ns1.example.org", "ns2.example.org"])
    automatic = [Request("PUT", "/subdomains/mine.example.test/automatic-ds", {"enabled": True}, ada)] * N
    assert set(at_once(service, automatic)) <= {200, 409}
    same = [
        Request("PUT", "/subdomains/mine.example.test/nameservers", {"nameservers": ["ns3.example.org"]}, ada)
    ] * N
    assert set(at_once(service, same)) <= {200, 409, 412}


def test_tokens_are_rotated_and_programs_start_at_once(service: RunningService) -> None:
    ada = service.add_user("rotating@example.org")
    made = service.call(ada, "POST", "/tokens", {"name": "ci", "scopes": ["account:read"]})
    assert made.status_code == 201, made.text
    path = f"/tokens/{made.json()['token']['id']}/rotate"
    assert set(at_once(service, [Request("POST", path, {}, ada)] * N)) <= {200, 201, 409}
    started = at_once(service, [Request("POST", "/auth/device", {"name": "ci"})] * N)
    assert set(started) <= {200, 201, 422}


def test_passkeys_challenges_and_recoveries_are_stored_once(service: RunningService) -> None:
    """One authenticator answers four users, then signs in several times at once, beside the start of recoveries."""
    authenticator = Authenticator(service.base_url.removesuffix("/api/v1"))
    additions, browsers = [], []
    for number in range(4):
        browser = signed_in(service, service.add_user(f"key{number}@example.org").email)
        browsers.append(browser)
        options = browser.call("POST", "/passkeys/challenge", {}).json()["public_key"]
        body = {"name": "phone", "credential": authenticator.create(options)}
        additions += [with_session(service, browser, "POST", "/passkeys", body)] * 2
    answers = send_at_once(service, additions)
    assert Counter(each.status_code for each in answers) == {201: 1, 422: 7}
    owner = next(number for number, each in enumerate(answers) if each.status_code == 201) // 2
    options = browsers[owner].call("POST", "/passkeys/challenge", {}).json()["public_key"]
    authenticator.create(options)  # it answers for the owner from now on
    uses = []
    for _ in range(4):
        challenge = service.client.post(f"{authenticator.origin}/auth/passkeys/challenge", json={}).json()
        uses.append(
            Request(
                "POST", "/auth/passkeys/confirm", {"credential": authenticator.get(challenge["public_key"])}
            )
        )
    done = at_once(service, uses * 2)
    assert 1 <= done[201] <= 4
    starts = [with_session(service, browsers[owner], "POST", "/passkeys/recovery", {})] * N
    assert set(at_once(service, [*starts, *uses])) <= {200, 201, 409, 422}
