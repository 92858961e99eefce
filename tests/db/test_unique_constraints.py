"""PostgreSQL: many clients insert one unique value at the same time.

Each gets a right answer, and no request fails with a fault.

docs/locks.md lists the constraints, and which test reaches each. In these tests PostgreSQL refuses values
only by the constraints for which the page says so, and by each of these at least once: `beside_holder` lets
several requests arrive at the constraint before any of them passes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import altcha
import httpx
import psycopg
import pytest
from sqlalchemy import func, select

from sublet.accounts.store import users
from sublet.mail.store import mails
from sublet.operations.client import COOKIE
from sublet.sign_up.proof_of_work import new_challenge
from sublet.sign_up.store import find_signing_key
from support.at_once import Request, send_at_once
from support.authenticator import Authenticator
from support.browsers import Browser, signed_in
from support.postgresql import fresh_database
from support.running_service import Registrant, RunningService, initialised_postgresql, running_service
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.uncovered]
N = 8
PAGE = (Path(__file__).parents[2] / "docs" / "locks.md").read_text(encoding="utf-8")
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture(scope="module")
def service(postgresql_server: str) -> Iterator[RunningService]:
    with (
        fresh_database(postgresql_server, like=initialised_postgresql()) as url,
        running_service(url, signup="open", organizations_per_user=100) as found,
    ):
        found.environment["SUBLET_PUBLIC_URL"] = "https://names.example.net"
        found.add_domain()
        yield found
        assert found.doctor() == []


@pytest.fixture(autouse=True)
def refusing(postgresql_server: str) -> Iterator[Callable[[], set[str]]]:
    """Return the constraints by which PostgreSQL has refused a value in this test, from the log of the
    server.
    """
    with psycopg.connect(postgresql_server) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    log = Path(row[0]).parent / "log"
    begin = log.stat().st_size

    def find_refusing() -> set[str]:
        written = log.read_bytes()[begin:].decode()
        return set(re.findall(r'violates unique constraint "(\w+)"', written))

    yield find_refusing
    rows = PAGE.partition("may refuse the later")[2].partition("`ON CONFLICT` inserts")[0]
    assert find_refusing() <= set(re.findall(r"`((?:uq|pk)_\w+)`", rows))


@pytest.fixture(autouse=True)
def no_fault(service: RunningService, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """The service runs in this process and logs errors to its output."""
    yield
    written = capfd.readouterr()
    assert "fault" not in written.out + written.err


def at_once(service: RunningService, requests: list[Request]) -> Counter[int]:
    return count_answers(send_at_once(service, requests))


def count_answers(answers: list[httpx.Response]) -> Counter[int]:
    assert all(each.status_code < 500 for each in answers), [each.text for each in answers]
    return Counter(each.status_code for each in answers)


def beside_holder(
    service: RunningService, hold: str, *sends: Callable[[], list[httpx.Response]]
) -> Counter[int]:
    """Send requests while a transaction holds their unique value.

    Roll it back when two requests wait for the value at the constraint.

    `hold` is the SQL that gives the value to another row.
    """
    with (
        ThreadPoolExecutor(len(sends)) as threads,
        psycopg.connect(service.settings.database_url) as holder,
        psycopg.connect(service.settings.database_url, autocommit=True) as observer,
    ):
        assert holder.execute(hold).rowcount == 1
        sent = [threads.submit(each) for each in sends]
        wait_until(lambda: int(observer.execute(WAITING).fetchone()[0]) >= 2)  # type: ignore[index]
        holder.rollback()
        return count_answers([each for found in sent for each in found.result()])


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
    answer = service.client.post(service.origin + "/auth/signup", json={"email": email, "name": "Eve"})
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


def take_address(service: RunningService, email: str) -> str:
    """Return SQL that gives an address to a new user who has nothing to do with the requests."""
    other = service.add_user(f"before-{email}")
    return f"UPDATE users SET email = '{email}' WHERE email = '{other.email}'"  # noqa: S608 - a test's own value


def test_several_links_of_one_sign_up_open_one_account(
    service: RunningService, refusing: Callable[[], set[str]]
) -> None:
    email = "links@example.org"
    for _ in range(4):
        sign_up(service, email)
        service.clock.advance(minutes=1, seconds=1)
    links = links_to(service, email)
    assert len(links) == 4
    requests = [Request("POST", "/auth/signup/confirm", {"token": each}) for each in links * 2]
    assert beside_holder(service, take_address(service, email), lambda: send_at_once(service, requests)) == {
        201: 1,
        422: 7,
    }
    assert count_users(service, email) == 1
    assert "uq_users_email" in refusing()


def test_one_new_address_is_confirmed_by_one_of_several_users(
    service: RunningService, refusing: Callable[[], set[str]]
) -> None:
    requests = []
    for number in range(4):
        who = service.add_user(f"former{number}@example.org")
        browser = signed_in(service, who.email)
        changed = browser.call("PATCH", "/me", {"email": "wanted@example.org"})
        assert changed.status_code == 200, changed.text
        code = codes_to(service, "wanted@example.org")[-1]
        requests.append(with_session(service, browser, "POST", "/me/email", {"code": code}))
    hold = take_address(service, "wanted@example.org")
    assert beside_holder(service, hold, lambda: send_at_once(service, requests)) == {200: 1, 422: 3}
    assert count_users(service, "wanted@example.org") == 1
    assert "uq_users_email" in refusing()


def with_session(service: RunningService, browser: Browser, method: str, path: str, body: object) -> Request:
    origin = service.origin
    return Request(method, path, body, None, {"cookie": f"{COOKIE}={browser.secret}", "origin": origin})


def test_several_invitations_to_one_unknown_address_open_one_account(service: RunningService) -> None:
    codes = []
    for number in range(4):
        who = service.add_user(f"inviter{number}@example.org")
        codes.append(invite(service, who, add_organization(service, who, "Same name"), "guest@example.org"))
    requests = [Request("POST", f"/auth/invitations/{each}/accept", {"name": "Guest"}) for each in codes]
    hold = take_address(service, "guest@example.org")
    assert beside_holder(service, hold, lambda: send_at_once(service, requests)) == {201: 4}
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


def test_a_name_is_registered_once(service: RunningService, refusing: Callable[[], set[str]]) -> None:
    people = [service.add_user(f"holder{each}@example.org") for each in range(N)]
    service.register(service.add_user("before@example.org"), "before.example.test")
    requests = [Request("POST", "/subdomains", {"fqdn": "wanted.example.test"}, each) for each in people]
    hold = "UPDATE subdomains SET fqdn = 'wanted.example.test' WHERE fqdn = 'before.example.test'"
    assert beside_holder(service, hold, lambda: send_at_once(service, requests)) == {201: 1, 409: N - 1}
    assert "uq_subdomains_fqdn_unreleased" in refusing()


def test_a_key_that_another_process_stores_runs_once(
    service: RunningService, refusing: Callable[[], set[str]]
) -> None:
    """In one process, requests with one key wait for each other in memory."""
    ada, other = service.add_user("keyed@example.org"), service.add_user("before-keyed@example.org")
    ticket = {"subject": "Help", "message": "Please", "type": "support"}
    keyed = [Request("POST", "/support/tickets", ticket, ada, {"idempotency-key": "one"})] * N
    before = Request("POST", "/support/tickets", ticket, other, {"idempotency-key": "one"})
    assert at_once(service, [before]) == {201: 1}
    user_id = "(SELECT id FROM users WHERE email = '{}')"
    hold = (
        f"UPDATE idempotency_keys SET user_id = {user_id.format(ada.email)} "  # noqa: S608
        f"WHERE user_id = {user_id.format(other.email)}"
    )
    with running_service(service.settings.database_url) as second:
        sends = (lambda: send_at_once(service, keyed), lambda: send_at_once(second, keyed))
        assert set(beside_holder(service, hold, *sends)) <= {201, 409}
    assert len(service.list_all(ada, "/support/tickets", "tickets")) == 1
    assert "pk_idempotency_keys" in refusing()


def test_offers_renewals_and_settings_of_a_name_run_one_after_the_other(service: RunningService) -> None:
    ada = service.add_user("offers@example.org", credit_count=100)
    service.register(ada, "shop.example.test", nameservers=["ns1.example.org", "ns2.example.org"])
    pushes = [Request("POST", "/subdomains/shop.example.test/transfer", {"to": "x@example.org"}, ada)] * N
    assert at_once(service, pushes) == {201: 1, 409: N - 1}
    automatic = [Request("PUT", "/subdomains/shop.example.test/automatic-ds", {"enabled": True}, ada)] * N
    assert set(at_once(service, automatic)) <= {200, 409}
    same = [
        Request("PUT", "/subdomains/shop.example.test/nameservers", {"nameservers": ["ns3.example.org"]}, ada)
    ] * N
    assert set(at_once(service, same)) <= {200, 409, 412}
    paid = {"fqdn": "paid.example.test", "registration_mode": "plus", "confirm": True}
    assert service.call(ada, "POST", "/subdomains", paid).status_code == 201
    renewals = [Request("POST", "/subdomains/paid.example.test/renew", {"confirm": True}, ada)] * N
    assert set(at_once(service, renewals)) <= {200, 201, 402, 409}


def test_charges_rotations_and_recoveries_of_a_user_run_one_after_the_other(service: RunningService) -> None:
    ada = service.add_user("charged@example.org", credit_count=100)
    paid = {"registration_mode": "plus", "confirm": True}
    orders = [
        Request("POST", "/subdomains", {"fqdn": f"paid{each}.example.test", **paid}, ada) for each in range(N)
    ]
    assert at_once(service, orders) == {201: N}
    made = service.call(ada, "POST", "/tokens", {"name": "ci", "scopes": ["account:read"]})
    assert made.status_code == 201, made.text
    path = f"/tokens/{made.json()['token']['id']}/rotate"
    assert set(at_once(service, [Request("POST", path, {}, ada)] * N)) <= {200, 201, 409}
    browser = signed_in(service, ada.email)
    authenticator = Authenticator(service.origin)
    options = browser.call("POST", "/passkeys/challenge", {}).json()["public_key"]
    body = {"name": "phone", "credential": authenticator.create(options)}
    assert browser.call("POST", "/passkeys", body).status_code == 201
    starts = [with_session(service, browser, "POST", "/passkeys/recovery", {})] * N
    assert at_once(service, starts) == {200: 1, 409: N - 1}


def test_one_authenticator_is_stored_for_one_user(
    service: RunningService, refusing: Callable[[], set[str]]
) -> None:
    """One authenticator answers four users. Then it signs in several times at once."""
    origin = service.origin
    authenticator, additions, browsers = Authenticator(origin), [], []
    for number in range(4):
        browser = signed_in(service, service.add_user(f"key{number}@example.org").email)
        browsers.append(browser)
        options = browser.call("POST", "/passkeys/challenge", {}).json()["public_key"]
        credential = authenticator.create(options)
        body = {"name": "phone", "credential": credential}
        additions += [with_session(service, browser, "POST", "/passkeys", body)] * 2
    other = signed_in(service, service.add_user("before-key@example.org").email)
    options = other.call("POST", "/passkeys/challenge", {}).json()["public_key"]
    added = other.call(
        "POST", "/passkeys", {"name": "phone", "credential": Authenticator(origin).create(options)}
    )
    assert added.status_code == 201, added.text
    hold = (
        f"UPDATE passkeys SET credential_id = '{credential['id']}' WHERE id = {added.json()['passkey']['id']}"  # noqa: S608
    )
    answers: list[httpx.Response] = []

    def send() -> list[httpx.Response]:
        answers.extend(send_at_once(service, additions))
        return answers

    assert beside_holder(service, hold, send) == {201: 1, 422: 7}
    assert "uq_passkeys_credential_id" in refusing()
    owner = next(number for number, each in enumerate(answers) if each.status_code == 201) // 2
    options = browsers[owner].call("POST", "/passkeys/challenge", {}).json()["public_key"]
    authenticator.create(options)  # it answers for the owner from now on
    uses = []
    for _ in range(4):
        challenge = service.client.post(f"{origin}/auth/passkeys/challenge", json={}).json()
        body = {"credential": authenticator.get(challenge["public_key"])}
        uses.append(Request("POST", "/auth/passkeys/confirm", body))
    signed = at_once(service, uses * 2)
    assert 1 <= signed[201] <= 4
