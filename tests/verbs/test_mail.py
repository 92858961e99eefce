"""The verbs of mail on both databases: claim, record, retry, what goes into the outbox, what the doctor finds."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from sublet.accounts.edit_user import UserEdit, edit_user
from sublet.accounts.set_reminders import set_reminders
from sublet.accounts.store import find_user
from sublet.accounts.suspend_user import suspend_user
from sublet.audit import Actor, audit_events
from sublet.db import Tx
from sublet.errors import AccountSuspended, Conflict, NotFound, ValidationFailed
from sublet.mail import store
from sublet.mail.attempts import BACK_OFF_MAX, LEASE
from sublet.mail.check_mail import check_mail
from sublet.mail.claim import claim
from sublet.mail.model import Failure, Mail
from sublet.mail.outbox import enqueue
from sublet.mail.record_delivery import record_delivery
from sublet.mail.retry import retry
from sublet.tickets.close import close
from sublet.tickets.model import OpenTicket
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.staff_reply import staff_reply
from support.registry import OPERATOR, START, Registry

REFUSED = Failure("550 no such user", permanent=True)
AWAY = Failure("connection refused")


def put(registry: Registry, reference: str = "test:1", name: str = "ann") -> int:
    def verb(tx: Tx) -> int:
        user = find_user(tx, registry.users[name])
        assert user is not None
        return enqueue(tx, user, reference=reference, subject="S", text="T")

    return registry.write(verb)


def mail(registry: Registry, mail_id: int) -> Mail:
    found = registry.read(store.find_mail, mail_id)
    assert found is not None
    return found


def claimed(registry: Registry) -> Mail:
    found = registry.write(claim)
    assert found is not None
    return found


def mails(registry: Registry, **filters: Any) -> list[Mail]:
    return registry.read(store.list_mails, **{"waiting": False, "user_id": None, "limit": 100, **filters})


def actions(registry: Registry) -> list[tuple[str, Any, Any]]:
    def read(tx: Tx) -> list[tuple[str, Any, Any]]:
        query = select(audit_events.c.action, audit_events.c.before, audit_events.c.after)
        return [tuple(row) for row in tx.connection.execute(query.order_by(audit_events.c.id))]

    return registry.read(read)


def test_a_claim_is_nobody_elses_until_it_runs_out(registry: Registry) -> None:
    mail_id = put(registry)
    assert mail(registry, mail_id).state == "waiting"
    first = claimed(registry)
    assert (first.id, first.attempts, first.next_attempt_at) == (mail_id, 1, START + LEASE)
    assert mail(registry, mail_id) == first
    assert registry.write(claim) is None
    registry.now += LEASE - timedelta(microseconds=1)
    assert registry.write(claim) is None
    registry.advance(seconds=1)
    assert claimed(registry).attempts == 2


def test_the_longest_due_comes_first_and_poison_stands_back(registry: Registry) -> None:
    first, second = put(registry, "a"), put(registry, "b")
    assert claimed(registry).id == first
    assert registry.write(record_delivery, replace(mail(registry, first)), REFUSED) == "failed"
    assert claimed(registry).id == second
    registry.advance(hours=1)
    third = put(registry, "c")
    order = [claimed(registry).id for _ in range(3)]
    assert order == [first, second, third]  # the first was due before the second's claim ran out


def test_what_was_sent_is_not_sent_again(registry: Registry) -> None:
    put(registry)
    assert registry.write(record_delivery, claimed(registry), None) == "sent"
    (sent,) = mails(registry)
    assert (sent.state, sent.sent_at, sent.error, sent.next_attempt_at) == ("sent", START, None, None)
    registry.advance(days=1)
    assert registry.write(claim) is None
    assert not registry.read(store.is_any_due)


def test_failures_are_tried_again_for_ever_with_longer_pauses(registry: Registry) -> None:
    mail_id = put(registry)
    pauses = []
    for _ in range(10):
        assert registry.write(record_delivery, claimed(registry), AWAY) == "failed"
        found = mail(registry, mail_id)
        assert found.error == "connection refused"
        assert found.next_attempt_at is not None
        pauses.append(found.next_attempt_at - registry.now)
        registry.now = found.next_attempt_at
    for number, pause in enumerate(pauses):
        whole = min(timedelta(hours=1), timedelta(minutes=2**number))
        assert whole / 2 <= pause <= whole
    registry.advance(days=1000)
    assert registry.write(record_delivery, claimed(registry), AWAY) == "failed"
    assert registry.write(claim) is None


def test_a_refusal_for_good_is_given_up_after_three_days_and_can_be_retried(registry: Registry) -> None:
    mail_id = put(registry)
    assert registry.write(record_delivery, claimed(registry), REFUSED) == "failed"
    registry.advance(days=3)
    assert registry.write(record_delivery, claimed(registry), REFUSED) == "given_up"
    found = mail(registry, mail_id)
    assert (found.state, found.given_up_at, found.error) == ("given up", registry.now, REFUSED.sentence)
    assert registry.write(claim) is None
    assert mails(registry, waiting=True) == []
    assert registry.write(retry, OPERATOR, mail_id).state == "waiting"
    assert actions(registry)[-1] == ("mail.retry", {"attempts": 2, "given_up": True}, None)
    assert registry.write(record_delivery, claimed(registry), None) == "sent"
    with registry.refuses(Conflict):
        registry.write(retry, OPERATOR, mail_id)
    with registry.refuses(NotFound):
        registry.write(retry, OPERATOR, mail_id + 1)


def test_a_late_failure_of_an_old_claim_does_not_count_a_late_success_does(registry: Registry) -> None:
    mail_id = put(registry)
    old = claimed(registry)
    registry.now += LEASE
    newer = claimed(registry)
    registry.write(record_delivery, old, AWAY)
    assert mail(registry, mail_id) == newer
    registry.write(record_delivery, old, None)
    assert mail(registry, mail_id).state == "sent"
    registry.write(record_delivery, newer, REFUSED)
    registry.write(record_delivery, newer, None)
    assert mail(registry, mail_id).sent_at == registry.now
    assert mail(registry, mail_id).error is None


def test_what_was_only_logged_was_not_sent_and_can_be(registry: Registry) -> None:
    mail_id = put(registry)
    assert registry.write(record_delivery, claimed(registry), None, delivers=False) == "logged"
    found = mail(registry, mail_id)
    assert (found.state, found.logged_at, found.sent_at) == ("logged", START, None)
    registry.advance(days=2)
    assert registry.write(claim) is None
    assert registry.read(check_mail) == []
    assert registry.write(retry, OPERATOR, mail_id).state == "waiting"
    assert registry.write(record_delivery, claimed(registry), None) == "sent"
    assert mail(registry, mail_id).state == "sent"


@pytest.mark.parametrize("failure", [AWAY, REFUSED])
def test_a_failure_undoes_no_retry_that_was_asked_for_meanwhile(registry: Registry, failure: Failure) -> None:
    mail_id = put(registry)
    registry.advance(days=3)
    attempt = claimed(registry)
    registry.advance(seconds=1)
    registry.write(retry, OPERATOR, mail_id)
    registry.write(record_delivery, attempt, failure)
    assert mail(registry, mail_id).next_attempt_at == registry.now
    assert claimed(registry).attempts == 2


def test_mail_that_a_clock_ahead_put_off_is_due(registry: Registry) -> None:
    """An hour is the longest pause; what waits for longer was written by a clock that was ahead, and the doctor says so."""
    registry.advance(days=100)
    put(registry, "put in")
    put(registry, "tried")
    for _ in range(2):
        registry.write(record_delivery, claimed(registry), AWAY)
    registry.advance(days=-100)
    assert registry.read(store.is_any_due)
    assert {claimed(registry).reference, claimed(registry).reference} == {"put in", "tried"}
    assert registry.write(claim) is None
    assert not registry.read(store.is_any_due)
    found = registry.read(check_mail)
    assert [each.invariant for each in found] == ["mail_is_past"] * 2
    assert "which is to come" in found[0].message


def test_the_longest_pause_is_waited_out(registry: Registry) -> None:
    mail_id = put(registry)
    attempt = claimed(registry)
    registry.write(store.record_failure, attempt, "no", registry.now + BACK_OFF_MAX)
    assert registry.write(claim) is None
    registry.now += BACK_OFF_MAX
    assert claimed(registry).id == mail_id


def test_the_same_cannot_be_told_twice(registry: Registry) -> None:
    put(registry, "once")
    with pytest.raises(IntegrityError):
        put(registry, "once")


def test_what_waits_is_counted_and_listed(registry: Registry) -> None:
    assert registry.read(store.count_waiting).waiting == 0
    assert registry.read(store.count_waiting).oldest_at is None
    first = put(registry, "a")
    registry.advance(hours=1)
    second = put(registry, "b", "ben")
    outbox = registry.read(store.count_waiting)
    assert (outbox.waiting, outbox.oldest_at) == (2, START)
    assert [each.id for each in mails(registry)] == [second, first]
    assert [each.id for each in mails(registry, user_id=registry.users["ben"])] == [second]
    assert [each.id for each in mails(registry, limit=1)] == [second]
    registry.write(record_delivery, claimed(registry), None)
    assert [each.id for each in mails(registry, waiting=True)] == [second]


def test_the_doctor_names_what_waits_for_more_than_a_day(registry: Registry) -> None:
    waiting, _sent = put(registry, "a"), put(registry, "b")
    registry.write(record_delivery, claimed(registry), AWAY)
    registry.write(record_delivery, claimed(registry), None)
    registry.advance(days=1)
    assert registry.read(check_mail) == []
    registry.advance(seconds=1)
    (violation,) = registry.read(check_mail)
    assert (violation.invariant, violation.object_type, violation.object_id) == (
        "no_mail_waits",
        "mail",
        waiting,
    )
    assert "connection refused" in violation.message


def opened(registry: Registry, name: str = "ann") -> int:
    command = OpenTicket(subject="Wo ist er?", message="Weg.")
    return registry.write(open_ticket, registry.actor(name), command).id


def test_an_answer_to_a_ticket_is_mailed_to_who_opened_it(registry: Registry) -> None:
    ticket_id = opened(registry)
    registry.write(set_reminders, registry.actor(), False)  # which is about names
    registry.write(edit_user, OPERATOR, "ann@example.org", UserEdit(email="new@example.org"))
    registry.write(suspend_user, OPERATOR, "new@example.org")
    registry.write(staff_reply, OPERATOR, str(ticket_id), "Dort drüben.", "Olga")
    (told,) = mails(registry)
    assert told.reference.startswith(f"ticket:{ticket_id}:message:")
    assert (told.recipient, told.user_id) == ("ann@example.org", registry.users["ann"])
    assert told.subject == f"Re: [T-{ticket_id:06d}] Wo ist er?"
    assert "Olga wrote" in told.text
    assert "\nDort drüben.\n" in told.text
    registry.write(close, OPERATOR, str(ticket_id))
    closing, _ = mails(registry)
    assert closing.subject == f"Closed: [T-{ticket_id:06d}] Wo ist er?"
    assert "/reply" not in closing.text
    assert "This ticket was closed." in closing.text


def test_a_refused_answer_mails_nothing(registry: Registry) -> None:
    ticket_id = opened(registry)
    with registry.refuses(ValidationFailed):
        registry.write(staff_reply, OPERATOR, str(ticket_id), " ", "Olga")
    assert mails(registry) == []


def test_reminders_are_turned_off_and_on(registry: Registry) -> None:
    assert registry.write(set_reminders, registry.actor(), True).user.reminders
    assert "user.set_reminders" not in {action for action, _, _ in actions(registry)}
    for enabled in (False, False, True):
        assert registry.write(set_reminders, registry.actor(), enabled).user.reminders is enabled
    assert [each for each in actions(registry) if each[0] == "user.set_reminders"] == [
        ("user.set_reminders", {"reminders": True}, {"reminders": False}),
        ("user.set_reminders", {"reminders": False}, {"reminders": True}),
    ]


def test_reminders_refusals(registry: Registry) -> None:
    with registry.refuses(ValidationFailed) as caught:
        registry.write(set_reminders, registry.actor(), None)
    assert [(each.field, each.code) for each in caught[0].errors] == [("enabled", "required")]
    with registry.refuses(NotFound):
        registry.write(set_reminders, Actor("operator"), True)
    registry.write(suspend_user, OPERATOR, "ann@example.org")
    with registry.refuses(AccountSuspended):
        registry.write(set_reminders, registry.actor(), None)


def test_the_operator_turns_reminders_off(registry: Registry) -> None:
    edited = registry.write(edit_user, OPERATOR, "ann@example.org", UserEdit(reminders=False))
    assert edited.user.reminders is False
    assert actions(registry)[-1] == ("user.edit", {"reminders": True}, {"reminders": False})
