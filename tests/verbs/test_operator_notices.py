"""Notices to the operator: stored with their event, mailed together, and erased with their user; on both
databases.
"""

import pytest
from sqlalchemy import select

from sublet.mail.letter import Message
from sublet.mail.model import ATTEMPTS_BEFORE_NOTICE, GIVEN_UP_AFTER, Failure, Mail
from sublet.mail.operator_notices import (
    ERASED,
    EVERY,
    NOTICES_MAX,
    is_operator_mail_due,
    mail_notices,
    notify_operator,
)
from sublet.mail.outbox import claim, enqueue_to, record_delivery
from sublet.mail.store import operator_notices
from sublet.primaries.publisher_transactions import record_zone_fault
from sublet.registry.delete_user import delete_user
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from support.registry import OPERATOR, Registry

ADDRESS = "operator@example.net"
HOSTILE = "URGENT: confirm at https://evil.example/x or mail ada@evil.example\r\nwww.evil.example"


def ask(registry: Registry, subject: str = "A question", message: str = HOSTILE, name: str = "ann") -> int:
    return registry.write(
        open_ticket, registry.actor(name), TicketRequest(subject=subject, message=message)
    ).id


def mail_if_due(registry: Registry) -> Mail | None:
    """Do the mailer's step, and return the new mail."""
    if not registry.read(is_operator_mail_due):
        return None
    mail_id = registry.write(mail_notices, ADDRESS, "Names")
    return None if mail_id is None else next(each for each in registry.mails() if each.id == mail_id)


def _texts(registry: Registry) -> list[str]:
    query = select(operator_notices.c.text).order_by(operator_notices.c.id)
    return registry.read(lambda tx: list(tx.connection.execute(query).scalars()))


def test_a_new_ticket_is_mailed_at_once_with_the_users_text_quoted_and_without_links(
    registry: Registry,
) -> None:
    ticket_id = ask(registry, subject="https://evil.example now")
    mail = mail_if_due(registry)
    assert mail is not None
    assert (mail.recipient, mail.user_id, mail.subject) == (ADDRESS, None, "[Names] 1 new ticket")
    assert f"T-{ticket_id:06}" in mail.text
    assert "> https[:]//evil[.]example now" in mail.text
    assert "> URGENT: confirm at https[:]//evil[.]example/x or mail ada[at]evil[.]example" in mail.text
    assert "://" not in mail.text
    assert "evil.example" not in mail.text


def test_a_reply_is_mailed_and_an_answer_of_staff_is_not(registry: Registry) -> None:
    ticket_id = ask(registry)
    assert mail_if_due(registry) is not None
    registry.write(reply, registry.actor(), str(ticket_id), "It works now.")
    registry.advance(seconds=EVERY.total_seconds())
    mail = mail_if_due(registry)
    assert mail is not None
    assert mail.subject == "[Names] 1 reply to a ticket"
    assert "> It works now." in mail.text


def test_a_flood_of_tickets_is_one_mail_in_which_problems_come_first(registry: Registry) -> None:
    ask(registry)
    assert mail_if_due(registry) is not None
    for number in range(NOTICES_MAX + 5):
        ask(registry, f"Flood {number}")
    registry.write(notify_operator, "zone", "The zone example.test has a problem.", reference="zone:1")
    registry.advance(seconds=EVERY.total_seconds() - 1)
    assert mail_if_due(registry) is None
    registry.advance(seconds=1)
    mail = mail_if_due(registry)
    assert mail is not None
    assert mail.subject == "[Names] 1 zone problem, 25 new tickets"
    assert mail.text.startswith("The zone example.test has a problem.\n")
    assert "And 6 new tickets: `sublet ticket list`" in mail.text
    assert mail_if_due(registry) is None
    assert len(registry.mails()) == 2


def test_without_an_address_notices_are_deleted(registry: Registry) -> None:
    ask(registry)
    assert registry.write(mail_notices, "", "Names") is None
    assert (_texts(registry), registry.mails()) == ([], [])
    assert registry.read(is_operator_mail_due) is False


def test_a_lasting_zone_problem_notifies_once_a_day(registry: Registry) -> None:
    domain_id = registry.domains["example.test"]
    registry.move()

    def fail() -> None:
        registry.write(
            record_zone_fault, domain_id, [], "unreachable", "no answer from 192.0.2.1", "Waiting."
        )

    fail()
    fail()
    assert _texts(registry) == []
    fail()
    fail()
    (text,) = _texts(registry)
    assert (
        text == "The zone example.test has a problem: no answer from 192.0.2.1. See `sublet zone status "
        "example.test`."
    )


BUSY, REFUSED = Failure("450 busy"), Failure("550 no such user ada@example.org", permanent=True)


@pytest.mark.parametrize(
    ("failures", "ages_days", "expected"),
    [
        ([REFUSED, REFUSED], 0, ["refused mail"]),
        ([BUSY] * (ATTEMPTS_BEFORE_NOTICE - 1), 0, []),
        ([BUSY] * (ATTEMPTS_BEFORE_NOTICE + 1), 0, ["could not be sent"]),
        ([BUSY, REFUSED, REFUSED], 0, ["refused mail"]),
        ([REFUSED, REFUSED], GIVEN_UP_AFTER.days, ["refused mail", "was given up"]),
    ],
)
def test_a_failed_mail_notifies(
    registry: Registry, failures: list[Failure], ages_days: int, expected: list[str]
) -> None:
    registry.write(enqueue_to, "ada@example.org", Message("S", "T"), reference="test:1")
    _fail(registry, failures, ages_days)
    texts = _texts(registry)
    assert len(texts) == len(expected)
    assert all(words in text for words, text in zip(expected, texts, strict=True))
    assert "ada@example.org" not in "".join(texts)


def _fail(registry: Registry, failures: list[Failure], ages_days: int) -> None:
    for number, failure in enumerate(failures):
        mail = registry.write(claim)
        assert mail is not None
        registry.write(record_delivery, mail, failure)
        registry.advance(hours=2, days=ages_days if number == 0 else 0)


def test_a_failed_mail_to_the_operator_causes_no_notice(registry: Registry) -> None:
    ask(registry)
    assert mail_if_due(registry) is not None
    _fail(registry, [REFUSED, REFUSED], GIVEN_UP_AFTER.days)
    assert _texts(registry) == [""]


def test_deleting_a_user_erases_the_users_text_in_notices_and_mails(registry: Registry) -> None:
    ask(registry, "Canary one", name="ben")
    mail = mail_if_due(registry)
    ask(registry, "Canary two", name="ben")
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    assert mail is not None
    assert {each.reference: each.text for each in registry.mails()}[mail.reference] == ERASED
    assert "Canary" not in repr(registry.dump())
    registry.advance(seconds=EVERY.total_seconds())
    assert registry.read(is_operator_mail_due) is False
