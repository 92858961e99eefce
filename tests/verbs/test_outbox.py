"""The outbox: claiming mails, recording outcomes, retrying; on both databases."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from sublet.accounts.store import find_user
from sublet.db import Tx
from sublet.doctor.running import check_mail
from sublet.errors import Conflict, NotFound
from sublet.mail import store
from sublet.mail.letter import Message
from sublet.mail.model import (
    ENVELOPE_KEPT_FOR,
    EXPIRED,
    LEASE,
    UNSENT_TEXT_KEPT_FOR,
    Failure,
    Mail,
)
from sublet.mail.outbox import claim, enqueue, enqueue_to, record_delivery, retry
from sublet.sign_in.notices import notify
from sublet.structs import replace
from sublet.subdomains.sweep.store import insert_milestone
from support.registry import OPERATOR, START, Registry

REFUSED = Failure("550 no such user", permanent=True)


AWAY = Failure("connection refused")


def put(registry: Registry, reference: str = "test:1", name: str = "ann") -> int:
    def verb(tx: Tx) -> int:
        user = find_user(tx, registry.users[name])
        assert user is not None
        return enqueue(tx, user, Message("S", "T"), reference=reference)

    return registry.write(verb)


def mail(registry: Registry, mail_id: int) -> Mail:
    return next(each for each in registry.mails() if each.id == mail_id)


def claimed(registry: Registry) -> Mail:
    found = registry.write(claim)
    assert found is not None
    return found


def test_a_claimed_mail_can_t_be_claimed_until_the_claim_expires(registry: Registry) -> None:
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


def test_the_longest_due_mail_is_first_and_failures_back_off(registry: Registry) -> None:
    first, second = put(registry, "a"), put(registry, "b")
    assert claimed(registry).id == first
    assert registry.write(record_delivery, replace(mail(registry, first)), REFUSED) == "failed"
    assert claimed(registry).id == second
    registry.advance(hours=1)
    third = put(registry, "c")
    order = [claimed(registry).id for _ in range(3)]
    assert order == [first, second, third]  # The first mail was due before the second mail's claim expired.


def test_mails_with_codes_are_first_in_the_order_of_their_ends_and_not_sent_after_them(
    registry: Registry,
) -> None:
    put(registry, "a")
    registry.advance(hours=1)
    for reference, minutes in (("over", 1), ("late", 60), ("soon", 15)):
        ends_at = registry.now + timedelta(minutes=minutes)
        message = Message("S", "T")
        registry.write(enqueue_to, "eve@example.org", message, reference=reference, expires_at=ends_at)
    registry.advance(minutes=1)
    assert [claimed(registry).reference for _ in range(3)] == ["soon", "late", "a"]
    assert not registry.read(store.is_any_due)
    assert registry.write(claim) is None


def test_failures_are_retried_without_end_with_longer_pauses(registry: Registry) -> None:
    mail_id = put(registry)
    for number in (0, 1):
        assert registry.write(record_delivery, claimed(registry), AWAY) == "failed"
        found = mail(registry, mail_id)
        assert found.error == "connection refused"
        assert found.next_attempt_at is not None
        pause, longest = found.next_attempt_at - registry.now, timedelta(minutes=2**number)
        assert longest / 2 <= pause <= longest
        registry.now = found.next_attempt_at
    registry.advance(days=1000)
    assert registry.write(record_delivery, claimed(registry), AWAY) == "failed"
    assert registry.write(claim) is None


def test_a_permanent_refusal_is_given_up_after_three_days_and_can_be_retried(registry: Registry) -> None:
    mail_id = put(registry)
    assert registry.write(record_delivery, claimed(registry), REFUSED) == "failed"
    registry.advance(days=3)
    assert registry.write(record_delivery, claimed(registry), REFUSED) == "given_up"
    found = mail(registry, mail_id)
    assert (found.state, found.given_up_at, found.error) == ("given up", registry.now, REFUSED.sentence)
    assert registry.write(claim) is None
    assert registry.mails(waiting=True) == []
    assert registry.write(retry, OPERATOR, mail_id).state == "waiting"
    assert registry.changes("mail.retry") == [({"attempts": 2, "given_up": True}, None)]
    assert registry.write(record_delivery, claimed(registry), None) == "sent"
    registry.refused(Conflict, retry, OPERATOR, mail_id)
    registry.refused(NotFound, retry, OPERATOR, mail_id + 1)


def test_a_failure_under_an_old_claim_is_ignored_and_a_success_recorded(registry: Registry) -> None:
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


def test_a_logged_mail_can_be_sent_later(registry: Registry) -> None:
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


def test_a_mail_postponed_by_a_clock_ahead_is_due(registry: Registry) -> None:
    """A next attempt more than an hour from now was stored while the clock was ahead, because the maximum
    back-off is an hour.
    """
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
    assert "in the future" in found[0].message


def test_a_reference_can_be_mailed_once(registry: Registry) -> None:
    put(registry, "once")
    with pytest.raises(IntegrityError):
        put(registry, "once")


def test_waiting_mails_are_counted_and_listed(registry: Registry) -> None:
    assert registry.read(store.count_waiting).waiting == 0
    assert registry.read(store.count_waiting).oldest_at is None
    first = put(registry, "a")
    registry.advance(hours=1)
    second = put(registry, "b", "ben")
    outbox = registry.read(store.count_waiting)
    assert (outbox.waiting, outbox.oldest_at) == (2, START)
    assert [each.id for each in registry.mails()] == [second, first]
    assert [each.id for each in registry.mails(user_id=registry.users["ben"])] == [second]
    assert [each.id for each in registry.mails(limit=1)] == [second]
    registry.write(record_delivery, claimed(registry), None)
    assert [each.id for each in registry.mails(waiting=True)] == [second]


def test_the_doctor_reports_mails_that_wait_for_more_than_a_day(registry: Registry) -> None:
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


def test_texts_are_erased_when_they_are_sent_or_old_and_later_the_envelope(registry: Registry) -> None:
    mail_id = put(registry)
    registry.write(record_delivery, claimed(registry), None)
    sent = mail(registry, mail_id)
    assert (sent.text, sent.subject, sent.recipient) == ("", "S", "ann@example.org")
    assert (sent.state, sent.sent_at, sent.error, sent.next_attempt_at) == ("sent", START, None, None)
    unsent = put(registry, "test:2")
    registry.write(record_delivery, claimed(registry), None, delivers=False)
    registry.now += UNSENT_TEXT_KEPT_FOR - timedelta(seconds=1)
    waiting = put(registry, "test:3")
    registry.write(store.erase_old)
    assert mail(registry, unsent).text == "T"
    registry.now += timedelta(seconds=1)
    registry.write(store.erase_old)
    assert (mail(registry, unsent).text, mail(registry, waiting).text) == ("", "T")
    registry.now = START
    registry.now += ENVELOPE_KEPT_FOR - timedelta(seconds=1)
    registry.write(store.erase_old)
    assert len(registry.mails()) == 3
    registry.now += timedelta(seconds=1)
    registry.write(store.erase_old)
    assert [each.id for each in registry.mails()] == [waiting]


def test_old_mails_are_deleted_in_parts_also_beside_milestones_without_a_mail(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ERASED_MAX", 2)
    named = registry.register("blog.example.test")
    for number in range(4):
        put(registry, f"test:{number}")
        registry.write(record_delivery, claimed(registry), None)
    (*_, kept) = registry.mails()
    registry.write(insert_milestone, named.id, "renewal_opens", registry.now)
    registry.write(insert_milestone, named.id, "expired", registry.now, mail_id=kept.id)
    registry.now += ENVELOPE_KEPT_FOR
    assert registry.write(store.erase_old)
    assert len(registry.mails()) == 3
    assert registry.write(store.erase_old)
    assert [(each.id, each.recipient) for each in registry.mails()] == [(kept.id, store.ERASED)]
    assert not registry.write(store.erase_old)


def test_two_changes_at_the_same_instant_are_both_mailed(registry: Registry) -> None:
    def verb(tx: Tx) -> None:
        user = find_user(tx, registry.users["ann"])
        assert user is not None
        notify(tx, user, "token", 1, "The token 1 was changed.", "")

    registry.write(verb)
    registry.write(verb)
    assert len(registry.mails()) == 2


@pytest.mark.parametrize("state", ["waiting", "logged", "given up"])
def test_a_code_that_was_not_sent_is_erased_when_it_expires(registry: Registry, state: str) -> None:
    message, ends_at = Message("S", "your code is 123456"), START + timedelta(minutes=15)
    mail_id = registry.write(enqueue_to, "eve@example.org", message, reference="code:1", expires_at=ends_at)
    if state == "logged":
        registry.write(record_delivery, claimed(registry), None, delivers=False)
    elif state == "given up":
        old = replace(claimed(registry), created_at=START - timedelta(days=4))
        registry.write(record_delivery, old, REFUSED)
    assert mail(registry, mail_id).state == state
    registry.now = ends_at - timedelta(seconds=1)
    assert not registry.read(store.has_expired_code)
    registry.now = ends_at
    registry.write(store.erase_expired_codes)
    found = mail(registry, mail_id)
    assert (found.text, found.state) == ("", "given up" if state == "waiting" else state)
    assert (found.error == EXPIRED) == (state == "waiting")
    registry.refused(Conflict, retry, OPERATOR, mail_id)
