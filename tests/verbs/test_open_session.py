"""Signing in by a mailed code or link, and using the session.

Over HTTP: tests/contract/test_choices_sign_in.py.
"""

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from sublet.accounts.authenticate import authenticate_session
from sublet.accounts.session_store import sessions, touch_sessions
from sublet.accounts.store import Use
from sublet.accounts.users import UserEdit, edit_user
from sublet.audit import ActivityFilter
from sublet.doctor.running import check_sweep
from sublet.errors import (
    Conflict,
    NotFound,
    RateLimited,
    SessionInvalid,
    SessionNotFound,
    ValidationFailed,
)
from sublet.registry.delete_user import delete_user
from sublet.registry.erasure_store import find_mentions
from sublet.sign_in.codes import make_sign_in_link, request_code
from sublet.sign_in.model import Browser, SignedIn
from sublet.sign_in.sessions import end_all_sessions, end_other_sessions, end_session
from sublet.sign_in.store import list_sessions
from sublet.subdomains.activity import list_activity
from support.registry import OPERATOR, Registry
from support.shared_names import share
from support.signing_in import (
    URL,
    again,
    enter,
    newest_code,
    newest_link,
    session_actor,
    sign_in,
    texts_to,
    wrong,
)

ANN = "ann@example.org"
IDLE = timedelta(hours=24)


def ask(registry: Registry, email: str = ANN, network: str = "") -> None:
    registry.write(request_code, email, network, URL)


def authenticated(registry: Registry, done: SignedIn) -> int:
    found = registry.run(authenticate_session(registry.db, done.secret, IDLE))
    assert found.session is not None
    return int(found.user.id)


def ended(registry: Registry, done: SignedIn) -> bool:
    try:
        authenticated(registry, done)
    except SessionInvalid:
        return True
    return False


def test_a_code_signs_a_browser_in_once(registry: Registry) -> None:
    ask(registry, " Ann@Example.org ")
    code = newest_code(registry, ANN)
    browser = Browser("192.0.2.7", "192.0.2.0/24", "Firefox\n")
    done = enter(registry, email="ANN@example.org", code=f"{code[:3]}-{code[3:]}", browser=browser)
    assert done is not None
    assert (done.session.user_id, done.session.how) == (registry.users["ann"], "mail")
    assert (done.session.last_used_from, done.session.user_agent) == ("192.0.2.7", "Firefox")
    assert authenticated(registry, done) == registry.users["ann"]
    assert enter(registry, email=ANN, code=code) is None
    ask(registry, "eve@example.org")
    assert "You have no account with this address" in texts_to(registry, "eve@example.org")[0]
    assert enter(registry, email="eve@example.org", code="000000") is None
    with pytest.raises(ValidationFailed):
        ask(registry, "eve")


def test_the_link_signs_in_too_even_after_wrong_codes(registry: Registry) -> None:
    ask(registry)
    code, link = newest_code(registry, ANN), newest_link(registry, ANN)
    for _ in range(5):
        assert enter(registry, email=ANN, code=wrong(code)) is None
    assert enter(registry, email=ANN, code=code) is None, "five wrong codes make it void"
    assert enter(registry, link_token=link + "x") is None
    assert enter(registry, link_token=link) is not None
    assert enter(registry, link_token=link) is None


def test_codes_end_and_the_newest_counts(registry: Registry) -> None:
    ask(registry)
    first = newest_code(registry, ANN)
    registry.advance(minutes=2)
    ask(registry)
    second = newest_code(registry, ANN)
    assert first == second or enter(registry, email=ANN, code=first) is None
    registry.advance(minutes=15)
    assert enter(registry, email=ANN, code=second) is None


def test_a_stranger_cannot_use_up_the_codes_of_a_person(registry: Registry) -> None:
    for _ in range(8):
        ask(registry, network="192.0.2.0/24")
        registry.advance(minutes=1)
    assert len(texts_to(registry, ANN)) == 5
    ask(registry, network="198.51.100.0/24")
    assert len(texts_to(registry, ANN)) == 6, "the person is in another network"
    ask(registry, network="198.51.100.0/24")
    assert len(texts_to(registry, ANN)) == 6, "a minute has not passed"


def test_a_network_asks_for_thirty_codes_an_hour(registry: Registry) -> None:
    for number in range(30):
        ask(registry, f"a{number}@example.org", "192.0.2.0/24")
    with pytest.raises(RateLimited):
        ask(registry, network="192.0.2.0/24")
    ask(registry, network="198.51.100.0/24")
    registry.advance(hours=1, seconds=1)
    ask(registry, network="192.0.2.0/24")


def test_a_code_ends_with_its_address_and_its_user(registry: Registry) -> None:
    ask(registry)
    code = newest_code(registry, ANN)
    registry.write(edit_user, OPERATOR, ANN, UserEdit(email="anna@example.org"))
    assert enter(registry, email=ANN, code=code) is None
    ask(registry, "ben@example.org")
    link = newest_link(registry, "ben@example.org")
    done = sign_in(registry, "ben")
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    assert enter(registry, link_token=link) is None
    assert ended(registry, done)
    assert registry.read(find_mentions, ["ben@example.org"]) == {}
    assert registry.doctor() == []


def test_a_session_ends_when_idle_and_after_its_maximum_age(registry: Registry) -> None:
    idle, used = sign_in(registry), sign_in(registry)
    registry.advance(hours=20)
    registry.write(touch_sessions, {used.session.id: Use(registry.now, "192.0.2.1")})
    registry.advance(hours=4)
    assert ended(registry, idle)
    assert not ended(registry, used)
    for _ in range(14):
        registry.write(touch_sessions, {used.session.id: Use(registry.now, None)})
        registry.advance(hours=23)
    registry.write(touch_sessions, {used.session.id: Use(registry.now, None)})
    registry.advance(hours=15)
    assert ended(registry, used), "14 days have passed"


def test_signing_in_again_changes_the_secret_of_the_session(registry: Registry) -> None:
    first = sign_in(registry)
    registry.advance(hours=1)
    second = sign_in(registry, browser=again(first))
    assert second.session.id == first.session.id
    assert second.session.signed_in_at > first.session.signed_in_at
    assert ended(registry, first)
    assert not ended(registry, second)
    other = sign_in(registry, "ben", again(second))
    assert other.session.id != second.session.id
    assert ended(registry, second), "a browser has one session"
    assert registry.doctor() == []


def test_sessions_are_ended_by_their_user_alone(registry: Registry) -> None:
    first, second, bens = sign_in(registry), sign_in(registry), sign_in(registry, "ben")
    for identifier in (str(bens.session.id), "0", "x", "99"):
        registry.refused(SessionNotFound, end_session, session_actor(first), identifier)
    registry.write(end_session, session_actor(first), str(second.session.id))
    assert ended(registry, second)
    listed = registry.read(lambda tx: list(list_sessions(tx, registry.users["ann"])))
    assert [each.id for each in listed] == [first.session.id]
    registry.refused(SessionInvalid, end_session, session_actor(second), "current")


def test_all_other_sessions_end_at_once(registry: Registry) -> None:
    done, other, bens = sign_in(registry), sign_in(registry), sign_in(registry, "ben")
    assert registry.write(end_other_sessions, session_actor(done)) == 1
    assert [ended(registry, each) for each in (done, other, bens)] == [False, True, False]


def test_the_operator_ends_all_sessions_of_a_user(registry: Registry) -> None:
    signed_in, bens = [sign_in(registry), sign_in(registry)], sign_in(registry, "ben")
    assert registry.write(end_all_sessions, OPERATOR, ANN)[1] == 2
    assert all(ended(registry, each) for each in signed_in)
    assert not ended(registry, bens)
    shown = registry.read(list_activity, registry.users["ann"], ActivityFilter("session.end"), 9, None)
    assert [each.by for each in shown] == ["operator", "operator"]
    registry.refused(NotFound, end_all_sessions, OPERATOR, "eve@example.org")


def test_the_operator_creates_a_link(registry: Registry) -> None:
    made = registry.write(make_sign_in_link, OPERATOR, ANN, URL)
    token = made.link.reveal().partition("?token=")[2]
    assert made.link.reveal().startswith(f"{URL}/signin/confirm?token=")
    done = enter(registry, link_token=token)
    assert done is not None
    assert done.session.how == "operator"
    assert "a link that the operator made" in texts_to(registry, ANN)[-1]
    assert enter(registry, link_token=token) is None
    late = registry.write(make_sign_in_link, OPERATOR, ANN, URL)
    registry.advance(minutes=15)
    assert enter(registry, link_token=late.link.reveal().partition("?token=")[2]) is None
    registry.refused(NotFound, make_sign_in_link, OPERATOR, "eve@example.org", URL)
    registry.refused(Conflict, make_sign_in_link, OPERATOR, f"organization:{share(registry)}", URL)


def test_the_sweep_deletes_sessions_that_have_expired(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublet.subdomains.sweep.sweep.EXPIRED_MAX", 1)
    for _ in range(3):
        sign_in(registry)
    registry.sweep()
    registry.advance(days=3)
    late = [(each.invariant, each.object_id) for each in registry.read(check_sweep)]
    assert late == [("expired_is_deleted", "mailed_codes")]
    registry.live(days=15, step_days=3)
    count = select(func.count()).select_from(sessions)
    assert registry.read(lambda tx: tx.connection.execute(count).scalar_one()) == 0
