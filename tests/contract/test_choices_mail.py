"""Decisions, "Mail": reminders are turned off and on, answers to tickets are mailed in any case."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.error_triggers import new_user
from support.open_registry import opened
from support.running_service import RunningService

PATH = "/me/reminders"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with opened(tmp_path_factory.mktemp("mail")) as service:
        yield service


def test_reminders_are_on_until_they_are_turned_off(shop: RunningService) -> None:
    user = new_user(shop)
    before = shop.call(user, "GET", "/me").json()
    assert before["user"]["reminders"] is True
    for enabled in (False, False, True):
        answer = shop.call(user, "PUT", PATH, {"enabled": enabled})
        expected = {**before, "user": {**before["user"], "reminders": enabled}}
        assert (answer.status_code, answer.json()) == (200, expected)
        assert shop.call(user, "GET", "/me").json() == expected
        assert shop.operator("user", "show", user.email)["reminders"] is enabled
    edited = shop.operator("user", "edit", user.email, "--no-reminders")
    assert edited["reminders"] is False
    assert shop.call(user, "GET", "/me").json()["user"]["reminders"] is False


@pytest.mark.parametrize(
    ("body", "status", "error", "code"),
    [
        ({}, 422, "validation_failed", "required"),
        ({"enabled": None}, 422, "validation_failed", "required"),
        ({"enabled": "true"}, 400, "invalid_request", "wrong_type"),
        ({"enabled": 1}, 400, "invalid_request", "wrong_type"),
        ({"enable": True}, 400, "invalid_request", "unknown_field"),
    ],
)
def test_a_body_without_a_boolean_is_refused(
    shop: RunningService, body: dict[str, Any], status: int, error: str, code: str
) -> None:
    user = new_user(shop)
    answer = shop.call(user, "PUT", PATH, body)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert [each["code"] for each in answer.json()["errors"]] == [code]
    assert shop.call(user, "GET", "/me").json()["user"]["reminders"] is True


def test_a_suspended_user_can_not_change_reminders_but_gets_answers_by_mail(shop: RunningService) -> None:
    user = new_user(shop)
    shop.call(user, "PUT", PATH, {"enabled": False})
    shop.operator("user", "suspend", user.email, "--reason", "test")
    refused = shop.call(user, "PUT", PATH, {"enabled": True})
    assert (refused.status_code, refused.json()["error"]) == (403, "account_suspended")
    asked = {"subject": "Why?", "message": "Why?"}
    ticket = shop.call(user, "POST", "/support/tickets", asked).json()["ticket"]
    assert shop.operator("mail", "list", "--user", user.email) == []
    shop.operator("ticket", "reply", str(ticket["id"]), "--message", "Because.")
    (mail,) = shop.operator("mail", "list", "--user", user.email)
    assert mail["subject"] == f"Re: [{ticket['ticket_number']}] Why?"
    assert mail["recipient"] == user.email
    shop.operator("mail", "retry", str(10**18), expect=1)
