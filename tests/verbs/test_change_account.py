"""Changing the user's own name, reminders and address; on both databases."""

import re

from sublet.accounts.store import find_user, find_user_by_email
from sublet.audit import Actor
from sublet.errors import RateLimited, ValidationFailed
from sublet.sign_in.change_account import AccountChange, change_account, confirm_email, count_attempt
from sublet.sign_in.store import list_sessions
from support.registry import Registry
from support.signing_in import URL, newest_code, session_actor, sign_in, texts_to, wrong

ANN, NEW = "ann@example.org", "anna@example.org"


def change(registry: Registry, actor: Actor, **values: object) -> None:
    registry.write(change_account, actor, AccountChange(**values), URL)  # type: ignore[arg-type]


def confirm(registry: Registry, actor: Actor, code: str) -> None:
    registry.write(count_attempt, actor)
    registry.write(confirm_email, actor, code, URL)


def test_name_and_reminders_change_at_once(registry: Registry) -> None:
    actor = session_actor(sign_in(registry))
    registry.advance(hours=1)
    change(registry, actor, name=" Anna ", reminders=False)
    user = registry.read(find_user, registry.users["ann"])
    assert user is not None
    assert (user.name, user.reminders, user.email) == ("Anna", False, ANN)
    before = registry.dump()
    change(registry, actor, name="Anna", email=ANN)
    assert registry.dump() == before


def test_a_new_address_changes_after_its_code(registry: Registry) -> None:
    actor = session_actor(sign_in(registry))
    change(registry, actor, email="Anna@Example.org")
    assert f"address is to change to {NEW}" in texts_to(registry, ANN)[-1]
    assert "Ann" not in texts_to(registry, NEW)[-1], "it may be a stranger's address"
    code = newest_code(registry, NEW)
    assert registry.read(find_user_by_email, NEW) is None
    confirm(registry, actor, code)
    user = registry.read(find_user_by_email, NEW)
    assert user is not None
    assert user.id == registry.users["ann"]
    assert f"is {NEW} now" in texts_to(registry, ANN)[-1]
    registry.refused(ValidationFailed, confirm_email, actor, code, URL)


def test_wrong_codes_and_old_ones_are_refused(registry: Registry) -> None:
    actor = session_actor(sign_in(registry))
    registry.refused(ValidationFailed, confirm_email, actor, "000000", URL)
    change(registry, actor, email=NEW)
    code = newest_code(registry, NEW)
    for _ in range(5):
        registry.write(count_attempt, actor)
        registry.refused(ValidationFailed, confirm_email, actor, wrong(code), URL)
    registry.write(count_attempt, actor)
    registry.refused(ValidationFailed, confirm_email, actor, code, URL)
    change(registry, actor, email=NEW)
    registry.advance(minutes=15)
    registry.refused(ValidationFailed, confirm_email, actor, newest_code(registry, NEW), URL)
    bens = session_actor(sign_in(registry, "ben"))
    registry.refused(ValidationFailed, confirm_email, bens, newest_code(registry, NEW), URL)


def test_an_address_of_another_user_is_answered_alike(registry: Registry) -> None:
    actor = session_actor(sign_in(registry))
    change(registry, actor, email="ben@example.org")
    text = texts_to(registry, "ben@example.org")[-1]
    assert "have an account with this address already" in text
    assert not re.search(r"\d{6}", text)
    registry.refused(ValidationFailed, confirm_email, actor, "000000", URL)


def test_refusals(registry: Registry) -> None:
    actor = session_actor(sign_in(registry))
    for values, fields in (
        ({}, ["name"]),
        ({"name": " "}, ["name"]),
        ({"name": "a\x00", "email": "x"}, ["name", "email"]),
        ({"email": "eve@mailinator.com"}, ["email"]),
    ):
        with registry.refuses(ValidationFailed) as refused:
            change(registry, actor, **values)
        assert [each.field for each in refused[0].errors] == fields
    for number in range(5):
        change(registry, actor, email=f"a{number}@example.org")
    with registry.refuses(RateLimited):
        change(registry, actor, email=NEW)


def test_a_new_address_ends_the_other_sessions(registry: Registry) -> None:
    other, own = sign_in(registry), sign_in(registry)
    actor = session_actor(own)
    change(registry, actor, email=NEW)
    confirm(registry, actor, newest_code(registry, NEW))
    assert [each.id for each in registry.read(lambda tx: list(list_sessions(tx, own.member.user.id)))] == [
        own.session.id
    ]
    assert other.session.id != own.session.id
    assert registry.doctor() == []


def test_many_wrong_codes_in_a_day_are_refused_and_mailed(registry: Registry) -> None:
    for _ in range(4):
        actor = session_actor(sign_in(registry))
        change(registry, actor, email=NEW)
        code = newest_code(registry, NEW)
        for _ in range(6):
            registry.write(count_attempt, actor)
        registry.advance(minutes=20)
    assert sum("many wrong codes" in each for each in texts_to(registry, ANN)) == 1
    actor = session_actor(sign_in(registry))
    with registry.refuses(RateLimited):
        change(registry, actor, email=NEW)
    registry.refused(ValidationFailed, confirm_email, actor, code, URL)
