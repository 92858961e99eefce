"""Opening an account: sign up, enter the code, accept an invitation.

Over HTTP: tests/contract/test_choices_sign_up.py.
"""

from datetime import timedelta

import altcha
import pytest

from sublet.accounts.model import Member
from sublet.accounts.store import find_user_by_email
from sublet.audit import Actor
from sublet.errors import Conflict, NotFound, RateLimited, ValidationFailed
from sublet.organizations.organization import create_organization
from sublet.registry.delete_user import delete_user
from sublet.registry.erasure_store import find_mentions
from sublet.sign_up import store
from sublet.sign_up.proof_of_work import SolvedChallenge, check_solution, new_challenge
from sublet.sign_up.sign_up import FIRST_SCOPES, SignUp, confirm_sign_up, invite, issue_first_token, sign_up
from support.registry import OPERATOR, Registry
from support.signing_in import URL, enter, newest_code, newest_link, texts_to, wrong

EMAIL = "eve@example.org"
STRANGER = Actor(kind="system", name="sign-up", request_id="r-1")


def wish(
    registry: Registry, email: str = EMAIL, *, network: str = "", solved: SolvedChallenge | None = None
) -> None:
    registry.write(sign_up, SignUp(email, "Eve", network, solved), URL)


def confirm(registry: Registry, code: str, email: str = EMAIL) -> Member | None:
    return registry.write(confirm_sign_up, STRANGER, email=email, code=code)


def solve(registry: Registry) -> SolvedChallenge:
    key = registry.read(store.find_signing_key)
    challenge = altcha.Challenge.from_dict(new_challenge(key, registry.now + timedelta(days=3650)))
    solution = altcha.solve_challenge(challenge)
    assert solution is not None
    solved = check_solution(key, altcha.Payload(challenge, solution).to_base64())
    assert solved is not None
    return solved


def test_the_code_opens_an_account_with_a_token_that_cannot_spend(registry: Registry) -> None:
    wish(registry, " Eve@Example.org ")
    code = newest_code(registry, EMAIL)
    done = confirm(registry, f"{code[:3]} {code[3:]}", "EVE@example.org")
    assert done is not None
    assert (done.user.email, done.user.name, done.organization.name) == (
        EMAIL,
        "Eve",
        EMAIL,
    )
    assert done.user.signed_up_at == registry.now
    token = registry.write(issue_first_token, STRANGER, done.user).token
    assert token.scopes == FIRST_SCOPES
    assert "credits:spend" not in FIRST_SCOPES
    assert token.expires_at == registry.now + timedelta(days=30)
    assert confirm(registry, code) is None, "a code is used once"
    assert registry.doctor() == []


def test_a_code_is_valid_for_15_minutes_and_the_newest_counts(registry: Registry) -> None:
    wish(registry)
    first = newest_code(registry, EMAIL)
    registry.advance(minutes=2)
    wish(registry)
    second = newest_code(registry, EMAIL)
    assert first == second or confirm(registry, first) is None
    registry.advance(minutes=15)
    assert confirm(registry, second) is None


def test_an_address_with_an_account_gets_a_code_to_sign_in(registry: Registry) -> None:
    registry.add_user("eve")
    wish(registry)
    (text,) = texts_to(registry, EMAIL)
    assert ("/signin/confirm?token=" in text, "Hello Eve" in text) == (True, True)
    code = newest_code(registry, EMAIL)
    assert confirm(registry, code) is None, "it opens no account"
    assert enter(registry, email=EMAIL, code=code) is not None
    for _ in range(8):
        wish(registry)
        registry.advance(minutes=2)
    assert len(texts_to(registry, EMAIL)) == 5, "five an hour at the request of one network"
    wish(registry, network="192.0.2.0/24")
    assert len(texts_to(registry, EMAIL)) == 6, "requests of strangers don't lock the user out"


def test_sign_ups_of_a_network_are_limited_alike_for_known_and_unknown_addresses(registry: Registry) -> None:
    registry.add_user("eve")
    for email in ("fay@example.org", "gus@example.org", EMAIL):
        wish(registry, email, network="192.0.2.0/24")
    for email in (EMAIL, "hal@example.org"):
        with pytest.raises(RateLimited):
            wish(registry, email, network="192.0.2.0/24")


def test_an_address_gets_one_code_a_minute_and_five_an_hour(registry: Registry) -> None:
    wish(registry)
    wish(registry)
    assert len(texts_to(registry, EMAIL)) == 1
    for _ in range(8):
        registry.advance(minutes=2)
        wish(registry)
    assert len(texts_to(registry, EMAIL)) == 5
    registry.advance(hours=1)
    wish(registry)
    assert len(texts_to(registry, EMAIL)) == 6


def test_a_network_may_sign_up_more_with_solved_challenges(registry: Registry) -> None:
    for number in range(3):
        wish(registry, f"a{number}@example.org", network="192.0.2.0/24")
    with pytest.raises(RateLimited, match="Solve a challenge"):
        wish(registry, "a3@example.org", network="192.0.2.0/24")
    wish(registry, "a3@example.org", network="198.51.100.0/24")
    solved = solve(registry)
    wish(registry, "a4@example.org", network="192.0.2.0/24", solved=solved)
    with pytest.raises(ValidationFailed, match="used before"):
        wish(registry, "a5@example.org", network="192.0.2.0/24", solved=solved)
    for number in range(5, 31):
        one = SolvedChallenge(f"{number:064x}", registry.now + timedelta(minutes=20))
        wish(registry, f"a{number}@example.org", network="192.0.2.0/24", solved=one)
    with pytest.raises(RateLimited, match="Wait an hour"):
        wish(
            registry, "b@example.org", network="192.0.2.0/24", solved=SolvedChallenge("f" * 64, registry.now)
        )
    registry.advance(hours=1, seconds=1)
    wish(registry, "b@example.org", network="192.0.2.0/24")


def test_a_wrong_solution_is_refused() -> None:
    for payload in ("", "x", "e30=", "bnVsbA==", "W10=", "eyJjaGFsbGVuZ2UiOltdfQ=="):
        assert check_solution("key", payload) is None


def test_a_disposable_address_is_refused(registry: Registry) -> None:
    for email in ("eve@mailinator.com", "eve@a.mailinator.com"):
        with pytest.raises(ValidationFailed, match="disposable"):
            wish(registry, email)
    with pytest.raises(ValidationFailed) as refused:
        registry.write(sign_up, SignUp("eve", " "), URL)
    assert [each.field for each in refused.value.errors] == ["email", "name"]


def test_deleting_the_user_erases_codes_and_mails_too(registry: Registry) -> None:
    registry.write(invite, OPERATOR, EMAIL, "Eve", URL)
    registry.advance(minutes=2)
    wish(registry)
    assert confirm(registry, newest_code(registry, EMAIL)) is not None
    registry.write(delete_user, OPERATOR, EMAIL, confirmed=True)
    assert registry.read(find_mentions, [EMAIL]) == {}
    registry.write(invite, OPERATOR, EMAIL, "Eve", URL)
    assert registry.doctor() == []


def test_an_invitation_joins_an_organization(registry: Registry) -> None:
    number = str(registry.organizations["ann"])
    registry.write(invite, OPERATOR, EMAIL, "Eve", URL, organization=number)
    registry.write(create_organization, registry.actor("ben"), number, created_max=1)
    registry.advance(days=6)
    done = confirm(registry, newest_code(registry, EMAIL))
    assert done is not None
    assert done.organization.id == registry.organizations["ann"]
    with pytest.raises(Conflict):
        registry.write(invite, OPERATOR, EMAIL, "Eve", URL)
    with pytest.raises(NotFound):
        registry.write(invite, OPERATOR, "b@example.org", "B", URL, organization="missing")
    with pytest.raises(ValidationFailed):
        registry.write(invite, OPERATOR, "b", "", URL)


def test_an_invitation_to_a_deleted_organization_is_void(registry: Registry) -> None:
    registry.write(invite, OPERATOR, EMAIL, "Eve", URL, organization=str(registry.organizations["ann"]))
    registry.write(delete_user, OPERATOR, "ann@example.org", confirmed=True)
    assert confirm(registry, newest_code(registry, EMAIL)) is None


def test_after_twenty_wrong_codes_in_a_day_only_links_work_and_the_address_hears_of_it(
    registry: Registry,
) -> None:
    for _ in range(4):
        wish(registry)
        code = newest_code(registry, EMAIL)
        for _ in range(7):
            assert confirm(registry, wrong(code)) is None
        registry.advance(hours=1)
    told = [each for each in texts_to(registry, EMAIL) if "many wrong codes" in each]
    assert len(told) == 1
    wish(registry)
    assert "your code is" not in texts_to(registry, EMAIL)[-1]
    wish(registry, "other@example.org")
    assert confirm(registry, newest_code(registry, "other@example.org"), "other@example.org")
    registry.advance(hours=23)
    wish(registry)
    assert confirm(registry, newest_code(registry, EMAIL)) is not None


def test_a_code_that_reaches_the_limit_of_a_day_twice_is_mailed_twice(registry: Registry) -> None:
    wish(registry)
    code = newest_code(registry, EMAIL)
    confirm(registry, wrong(code))
    registry.advance(hours=23, minutes=56)
    for tries in (5, 5, 5, 4):
        wish(registry)
        code = newest_code(registry, EMAIL)
        for _ in range(tries):
            assert confirm(registry, wrong(code)) is None
        registry.advance(minutes=1, seconds=1)
    assert confirm(registry, wrong(code)) is None, "the attempt of a day ago doesn't count any more"
    assert len([each for each in texts_to(registry, EMAIL) if "many wrong codes" in each]) == 2


def test_the_mail_has_no_text_of_its_sender_and_its_link_opens_the_account(registry: Registry) -> None:
    registry.write(sign_up, SignUp(EMAIL, "URGENT: https://evil.example"), URL)
    (text,) = texts_to(registry, EMAIL)
    assert "URGENT" not in text, "it may be a stranger's address"
    assert registry.read(find_user_by_email, EMAIL) is None
    assert registry.write(confirm_sign_up, STRANGER, link_token=newest_link(registry, EMAIL)) is not None
