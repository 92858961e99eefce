"""The verbs of tickets on a real SQLite database with a clock that stands still until it is moved."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, insert, select
from sqlalchemy.exc import IntegrityError

from sublet.accounts import store as account_store
from sublet.audit import Actor, audit_events
from sublet.credits import store as _credit_store  # noqa: F401 - its tables are referred to
from sublet.credits.model import Outcome
from sublet.db import Tx, sqlite_engine
from sublet.dns.types import Delegation
from sublet.errors import (
    AccountSuspended,
    Conflict,
    NotFound,
    Refusal,
    TicketClosed,
    TicketNotFound,
    ValidationFailed,
)
from sublet.ids import MAX_ID, Position, ticket_number
from sublet.platform_domains import store as platform_domain_store
from sublet.schema import metadata
from sublet.subdomains import store as subdomain_store
from sublet.tickets import store
from sublet.tickets.close import close
from sublet.tickets.find import find_for_staff, find_own, show_for_staff, show_own
from sublet.tickets.lifecycle import MESSAGES_MAX
from sublet.tickets.model import OpenTicket, Ticket, TicketFilter
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.staff_reply import staff_reply
from support.databases import driver_of

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
STAFF = Actor(kind="operator", name="olga", reason="a reason for the audit alone")
QUESTION = OpenTicket(subject="A question", message="Canary in the body: how?")

PLATFORM_DOMAIN: dict[str, Any] = {
    "domain": "example.net",
    "public_name": "Example",
    "description": "",
    "hidden": False,
    "restricted": False,
    "registration_open": True,
    "idn": True,
    "dnssec_signed": False,
    "nameservers_min": 1,
    "nameservers_max": 13,
    "label_length_min": 1,
    "premium_length_max": 0,
    "renewal_window_days": 60,
    "grace_days": 30,
    "trash_days": 30,
    "cooling_off_days": 7,
    "apex_nameservers": ["ns1.example.net"],
    "soa_mname": "ns1.example.net",
    "soa_rname": "hostmaster.example.net",
    "serial": 1,
    "refresh_seconds": 3600,
    "retry_seconds": 600,
    "expire_seconds": 1209600,
    "negative_ttl_seconds": 300,
    "apex_ttl_seconds": 3600,
    "delegation_ttl_seconds": 3600,
    "primary": "",
    "secondaries": [],
}


@dataclass
class House:
    """A registry with two users of one organization, and a hand-moved clock."""

    engine: Engine
    now: datetime = START
    users: dict[str, int] = field(default_factory=dict)
    platform_domain_id: int = 0

    def actor(self, name: str) -> Actor:
        return Actor(kind="user", user_id=self.users[name], token_id=7, request_id="r-1")

    @contextmanager
    def tx(self) -> Iterator[Tx]:
        with self.engine.begin() as connection:
            yield Tx(connection, self.now)

    def pass_time(self, **of: float) -> None:
        self.now += timedelta(**of)

    def open(self, name: str = "ann", command: OpenTicket = QUESTION) -> int:
        with self.tx() as tx:
            return open_ticket(tx, self.actor(name), command).id

    def ticket(self, ticket_id: int) -> Ticket:
        with self.tx() as tx:
            return show_for_staff(tx, str(ticket_id))

    def suspend(self, name: str) -> None:
        with self.tx() as tx:
            account_store.update_user(tx, self.users[name], suspended_at=tx.now, suspended_reason="abuse")

    def subdomain(self, name: str, label: str, **values: object) -> int:
        with self.tx() as tx:
            platform_domain = platform_domain_store.find_platform_domain(tx, self.platform_domain_id)
            assert platform_domain is not None
            added = subdomain_store.insert_subdomain(
                tx,
                platform_domain,
                Delegation((), (), ()),
                user_id=self.users[name],
                label=label,
                fqdn=f"{label}.example.net",
                registration_type="free",
                registration_source="api",
                generation=0,
                registered_at=tx.now,
                expires_at=tx.now + timedelta(days=365),
                period_days=365,
            )
            assert added is not None
            if values:
                subdomain_store.update_subdomain(tx, added.id, **values)
            return added.id

    def dump(self) -> dict[str, list[Any]]:
        with self.engine.connect() as connection:
            return {
                table.name: [tuple(row) for row in connection.execute(select(table))]
                for table in metadata.sorted_tables
            }

    def audit(self) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(audit_events).order_by(audit_events.c.id)))

    @contextmanager
    def refuses(self, refusal: type[Refusal]) -> Iterator[tuple[Tx, list[Refusal]]]:
        """Expect a refusal that leaves no trace, although what was written before it is committed here."""
        before = self.dump()
        caught: list[Refusal] = []
        with self.tx() as tx:
            try:
                yield tx, caught
            except Refusal as error:
                caught.append(error)
        assert [type(error) for error in caught] == [refusal]
        assert self.dump() == before


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    engine = sqlite_engine(f"sqlite:///{tmp_path / 'sublet.db'}")
    metadata.create_all(engine)
    house = House(engine)
    with house.tx() as tx:
        organization = account_store.insert_organization(tx, "Example", "example")
        for name in ("ann", "ben"):
            house.users[name] = account_store.insert_user(
                tx, f"{name}@example.org", name.title(), organization.id, None
            )
        house.platform_domain_id = platform_domain_store.insert_platform_domain(tx, **PLATFORM_DOMAIN)
    yield house
    engine.dispose()


def _field_codes(caught: list[Refusal]) -> list[tuple[str, str]]:
    return [(each.field, each.code) for each in caught[0].errors]


# Opening


def test_a_ticket_opens_with_its_first_message(house: House) -> None:
    ticket_id = house.open()
    ticket = house.ticket(ticket_id)
    assert replace(ticket, messages=()) == Ticket(
        id=ticket_id,
        user_id=house.users["ann"],
        type="support",
        status="open",
        priority="normal",
        subject="A question",
        requester_email="ann@example.org",
        subdomain=None,
        archived=False,
        created_at=START,
        last_message_at=START,
        updated_at=START,
    )
    (message,) = ticket.messages
    assert (message.author_type, message.author_name) == ("user", "Ann")
    assert (message.message, message.message_format) == ("Canary in the body: how?", "text")
    assert message.created_at == START


def test_opening_answers_the_ticket_s_id_and_charges_nothing(house: House) -> None:
    with house.tx() as tx:
        outcome = open_ticket(tx, house.actor("ben"), QUESTION)
    assert outcome == Outcome(house.ticket(outcome.id).id)


def test_what_was_sent_is_stored_as_sent(house: House) -> None:
    body = "  # Straße\r\n\t<b>🙂</b>  "
    ticket = house.ticket(
        house.open(
            command=OpenTicket(subject=" Abuse! ", message=body, type="abuse", message_format="markdown")
        )
    )
    assert (ticket.subject, ticket.type, ticket.priority) == (" Abuse! ", "abuse", "high")
    assert (ticket.messages[0].message, ticket.messages[0].message_format) == (body, "markdown")


def test_the_requester_s_address_is_the_one_of_opening(house: House) -> None:
    ticket_id = house.open()
    with house.tx() as tx:
        account_store.update_user(tx, house.users["ann"], email="new@example.org", name="Anna")
    ticket = house.ticket(ticket_id)
    assert ticket.requester_email == "ann@example.org"
    assert ticket.messages[0].author_name == "Ann"


def test_a_suspended_user_may_open_and_read_tickets(house: House) -> None:
    house.suspend("ann")
    ticket_id = house.open()
    with house.tx() as tx:
        assert find_own(tx, house.users["ann"], str(ticket_id)).status == "open"


def test_opening_is_for_users(house: House) -> None:
    with house.refuses(NotFound) as (tx, _):
        open_ticket(tx, STAFF, QUESTION)


def test_all_wrong_fields_are_told_at_once_and_leave_no_trace(house: House) -> None:
    command = OpenTicket(
        subject=" ", message="x" * 20_001, type="billing", message_format="html", subdomain_id=99
    )
    with house.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, house.actor("ann"), command)
    assert _field_codes(caught) == [
        ("subject", "required"),
        ("message", "too_long"),
        ("type", "value_invalid"),
        ("message_format", "value_invalid"),
        ("subdomain_id", "ticket_subdomain_invalid"),
    ]


def test_a_ticket_without_anything_lacks_subject_and_message(house: House) -> None:
    with house.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, house.actor("ann"), OpenTicket())
    assert _field_codes(caught) == [("subject", "required"), ("message", "required")]


# The subdomain it is about


@pytest.mark.parametrize(
    "fields",
    [
        {"subdomain_id": "ID"},
        {"subdomain": "ID"},
        {"subdomain": "demo.example.net"},
        {"fqdn": "DEMO.Example.net."},
        {"subdomain_id": "ID", "subdomain": "Demo.example.net", "fqdn": "demo.example.net"},
    ],
)
def test_a_ticket_may_be_about_an_own_subdomain(house: House, fields: dict[str, str]) -> None:
    subdomain_id = house.subdomain("ann", "demo")
    values: dict[str, Any] = {
        key: (subdomain_id if key == "subdomain_id" else str(subdomain_id)) if value == "ID" else value
        for key, value in fields.items()
    }
    ticket = house.ticket(house.open(command=replace(QUESTION, **values)))
    assert ticket.subdomain == "demo.example.net"


def test_a_ticket_may_be_about_a_name_in_the_own_trash(house: House) -> None:
    house.subdomain("ann", "demo", trashed_at=house.now)
    ticket = house.ticket(house.open(command=replace(QUESTION, fqdn="demo.example.net")))
    assert ticket.subdomain == "demo.example.net"


def _subdomain_refusal(house: House, **fields: Any) -> list[Any]:
    with house.refuses(ValidationFailed) as (tx, caught):
        open_ticket(tx, house.actor("ann"), replace(QUESTION, **fields))
    return [caught[0].message, caught[0].errors, caught[0].details]


def test_another_s_subdomain_and_a_missing_one_answer_the_same(house: House) -> None:
    foreign_id = house.subdomain("ben", "foreign")
    trashed_id = house.subdomain("ben", "trashed", trashed_at=house.now)
    missing = _subdomain_refusal(house, subdomain_id=9999)
    assert missing[1][0].code == "ticket_subdomain_invalid"
    assert _subdomain_refusal(house, subdomain_id=foreign_id) == missing
    assert _subdomain_refusal(house, subdomain_id=trashed_id) == missing
    for name in ("subdomain", "fqdn"):
        missing = _subdomain_refusal(house, **{name: "missing.example.net"})
        assert _subdomain_refusal(house, **{name: "foreign.example.net"}) == missing
        assert _subdomain_refusal(house, **{name: "trashed.example.net"}) == missing


def test_a_purged_subdomain_is_no_longer_the_user_s(house: House) -> None:
    house.subdomain("ann", "gone", trashed_at=house.now, purged_at=house.now)
    gone = _subdomain_refusal(house, fqdn="gone.example.net")
    assert gone == _subdomain_refusal(house, fqdn="missing.example.net")


@pytest.mark.parametrize(
    "fields",
    [
        {"subdomain_id": 0},
        {"subdomain_id": -1},
        {"subdomain_id": MAX_ID + 1},
        {"subdomain_id": 10**6000},
        {"subdomain": ""},
        {"subdomain": "not a name"},
        {"subdomain": "\0"},
        {"fqdn": ""},
        {"fqdn": "demo"},
        {"fqdn": "1"},
        {"fqdn": "example.net"},
    ],
)
def test_what_names_no_subdomain_is_refused(house: House, fields: dict[str, Any]) -> None:
    assert house.subdomain("ann", "demo") == 1
    (error,) = _subdomain_refusal(house, **fields)[1]
    assert (error.field, error.code) == (next(iter(fields)), "ticket_subdomain_invalid")


def test_the_three_fields_must_agree(house: House) -> None:
    one = house.subdomain("ann", "one")
    house.subdomain("ann", "two")
    errors = _subdomain_refusal(
        house, subdomain_id=one, subdomain="two.example.net", fqdn="three.example.net"
    )[1]
    assert [(each.field, each.code) for each in errors] == [
        ("subdomain", "ticket_subdomain_invalid"),
        ("fqdn", "ticket_subdomain_invalid"),
    ]
    assert "`subdomain_id`" in errors[0].message


# The conversation


def test_a_conversation_goes_open_answered_open_closed(house: House) -> None:
    ticket_id = house.open()
    house.pass_time(hours=1)
    with house.tx() as tx:
        assert staff_reply(tx, STAFF, str(ticket_id), "Like this.", "Olga") == Outcome(ticket_id)
    answered = house.ticket(ticket_id)
    assert (answered.status, answered.last_message_at, answered.updated_at) == (
        "answered",
        house.now,
        house.now,
    )
    assert answered.created_at == START
    house.pass_time(hours=1)
    with house.tx() as tx:
        assert reply(tx, house.actor("ann"), str(ticket_id), "*Thanks*", "markdown") == Outcome(ticket_id)
    assert (house.ticket(ticket_id).status, house.ticket(ticket_id).archived) == ("open", False)
    house.pass_time(hours=1)
    with house.tx() as tx:
        assert close(tx, STAFF, ticket_number(ticket_id)) == Outcome(ticket_id)
    closed = house.ticket(ticket_id)
    assert (closed.status, closed.archived) == ("closed", True)
    assert (closed.last_message_at, closed.updated_at) == (house.now, house.now)
    assert [
        (each.author_type, each.author_name, each.message_format, each.created_at) for each in closed.messages
    ] == [
        ("user", "Ann", "text", START),
        ("staff", "Olga", "text", START + timedelta(hours=1)),
        ("user", "Ann", "markdown", START + timedelta(hours=2)),
        ("system", "System", "text", START + timedelta(hours=3)),
    ]
    assert "a reason for the audit alone" not in repr(closed)


def test_messages_of_one_instant_keep_their_order(house: House) -> None:
    ticket_id = house.open()
    for text in ("b", "a", "c"):
        with house.tx() as tx:
            reply(tx, house.actor("ann"), str(ticket_id), text, None)
    assert [each.message for each in house.ticket(ticket_id).messages[1:]] == ["b", "a", "c"]


def test_a_suspended_user_may_not_reply(house: House) -> None:
    ticket_id = house.open()
    house.suspend("ann")
    with house.refuses(AccountSuspended) as (tx, _):
        reply(tx, house.actor("ann"), str(ticket_id), "But", None)
    with house.refuses(AccountSuspended) as (tx, _):  # before anything is looked up
        reply(tx, house.actor("ann"), "999", "But", None)
    with house.tx() as tx:
        staff_reply(tx, STAFF, str(ticket_id), "Here is why.", "Olga")
    assert house.ticket(ticket_id).status == "answered"


def test_another_s_ticket_and_a_missing_one_answer_the_same(house: House) -> None:
    ticket_id = house.open()
    answers = set()
    for identifier in (
        str(ticket_id),
        ticket_number(ticket_id),
        "999",
        "T-000999",
        "T-1",
        "0",
        "",
        "x",
        "-1",
    ):
        with house.refuses(TicketNotFound) as (tx, caught):
            reply(tx, house.actor("ben"), identifier, "", None)
        answers.add((caught[0].message, repr(caught[0].details), caught[0].errors))
        with house.refuses(TicketNotFound) as (tx, caught):
            show_own(tx, house.users["ben"], identifier)
        answers.add((caught[0].message, repr(caught[0].details), caught[0].errors))
    assert len(answers) == 1


def test_a_reply_to_a_closed_ticket_is_refused_before_its_fields_are_looked_at(house: House) -> None:
    ticket_id = house.open()
    with house.tx() as tx:
        close(tx, STAFF, str(ticket_id))
    with house.refuses(TicketClosed) as (tx, _):
        reply(tx, house.actor("ann"), str(ticket_id), "", "html")
    with house.refuses(TicketClosed) as (tx, _):
        staff_reply(tx, STAFF, str(ticket_id), "", "")


def test_a_full_ticket_takes_no_reply_of_its_user_but_staff_s_answer_and_its_end(house: House) -> None:
    ticket_id = house.open()
    for _ in range(MESSAGES_MAX - 2):
        with house.tx() as tx:
            reply(tx, house.actor("ann"), str(ticket_id), "And now?", None)
    with house.tx() as tx:
        reply(tx, house.actor("ann"), str(ticket_id), "The last one.", None)
    for text in ("One more.", ""):  # before its fields are looked at
        with house.refuses(Conflict) as (tx, caught):
            reply(tx, house.actor("ann"), str(ticket_id), text, None)
        assert f"has {MESSAGES_MAX} messages" in caught[0].message
    with house.tx() as tx:
        staff_reply(tx, STAFF, str(ticket_id), "Do open a new one.", "Olga")
        close(tx, STAFF, str(ticket_id))
    assert len(house.ticket(ticket_id).messages) == MESSAGES_MAX + 2
    with house.refuses(TicketClosed) as (tx, _):
        reply(tx, house.actor("ann"), str(ticket_id), "But", None)
    # Another ticket of the same user is not touched by it.
    other = house.open()
    with house.tx() as tx:
        reply(tx, house.actor("ann"), str(other), "As I said in the other one:", None)


def test_a_change_reads_none_of_a_ticket_s_messages(house: House) -> None:
    ticket_id = house.open()
    with house.tx() as tx:
        statements: list[str] = []
        driver_of(tx).set_trace_callback(statements.append)
        reply(tx, house.actor("ann"), str(ticket_id), "And now?", None)
        staff_reply(tx, STAFF, str(ticket_id), "Soon.", "Olga")
        close(tx, STAFF, str(ticket_id))
        driver_of(tx).set_trace_callback(None)
    assert any("FROM tickets" in each for each in statements)
    assert [each for each in statements if "messages.message" in each] == []


def test_a_reply_s_wrong_fields_are_told_at_once(house: House) -> None:
    ticket_id = house.open()
    with house.refuses(ValidationFailed) as (tx, caught):
        reply(tx, house.actor("ann"), str(ticket_id), None, "html")
    assert _field_codes(caught) == [("message", "required"), ("message_format", "value_invalid")]


def test_a_staff_reply_s_wrong_fields_are_told_at_once(house: House) -> None:
    ticket_id = house.open()
    with house.refuses(ValidationFailed) as (tx, caught):
        staff_reply(tx, STAFF, str(ticket_id), " ", " ", message_format="html")
    assert _field_codes(caught) == [
        ("author_name", "required"),
        ("message", "required"),
        ("message_format", "value_invalid"),
    ]


def test_staff_can_t_answer_or_close_what_is_not_there(house: House) -> None:
    with house.refuses(TicketNotFound) as (tx, _):
        staff_reply(tx, STAFF, "T-000001", "Hello", "Olga")
    with house.refuses(TicketNotFound) as (tx, _):
        close(tx, STAFF, "1")


def test_a_ticket_is_closed_once(house: House) -> None:
    ticket_id = house.open()
    with house.tx() as tx:
        close(tx, STAFF, str(ticket_id))
    with house.refuses(TicketClosed) as (tx, _):
        close(tx, STAFF, str(ticket_id))


# Finding and listing


@pytest.mark.parametrize("form", ["{0}", "T-{0:06d}", "t-{0:06d}", "T-{0:09d}"])
def test_a_ticket_is_found_by_id_and_number_in_any_case(house: House, form: str) -> None:
    ticket_id = house.open()
    with house.tx() as tx:
        assert find_own(tx, house.users["ann"], form.format(ticket_id)).id == ticket_id
        assert find_for_staff(tx, form.format(ticket_id)).id == ticket_id


def test_lists_run_from_the_last_spoken_in_and_have_no_messages(house: House) -> None:
    first, second, third = house.open(), house.open(), house.open()
    foreign = house.open("ben")
    house.pass_time(minutes=1)
    with house.tx() as tx:
        reply(tx, house.actor("ann"), str(first), "And?", None)
        own = store.list_own(tx, house.users["ann"], TicketFilter(), 100, None)
        everyone = store.list_tickets(tx, TicketFilter())
    assert [each.id for each in own] == [first, third, second]
    assert [each.id for each in everyone] == [first, foreign, third, second]
    assert {each.messages for each in everyone} == {()}


def test_pages_join_without_gap_or_repetition(house: House) -> None:
    for minutes in (0, 0, 0, 1, 1, 2, 3):
        house.pass_time(minutes=minutes)
        house.open()
    with house.tx() as tx:
        whole = store.list_own(tx, house.users["ann"], TicketFilter(), 100, None)
        for limit in (1, 2, 3):
            pages: list[Ticket] = []
            after: Position | None = None
            while page := store.list_own(tx, house.users["ann"], TicketFilter(), limit, after):
                assert len(page) <= limit
                pages += page
                assert len(pages) <= len(whole)  # a page that repeats would never end
                after = Position(page[-1].last_message_at, page[-1].id)
            assert pages == whole
        assert (
            store.list_tickets(tx, TicketFilter(), 2, Position(whole[1].last_message_at, whole[1].id))
            == (whole[2:4])
        )


def test_filters(house: House) -> None:
    support = house.open()
    abuse = house.open(command=replace(QUESTION, type="abuse"))
    closed = house.open()
    with house.tx() as tx:
        staff_reply(tx, STAFF, str(abuse), "We look at it.", "Olga")
        close(tx, STAFF, str(closed))
    table = [
        (TicketFilter(), {support, abuse, closed}),
        (TicketFilter(status="open"), {support}),
        (TicketFilter(status="answered"), {abuse}),
        (TicketFilter(status="closed"), {closed}),
        (TicketFilter(type="abuse"), {abuse}),
        (TicketFilter(type="contact"), set()),
        (TicketFilter(archived=True), {closed}),
        (TicketFilter(archived=False), {support, abuse}),
        (TicketFilter(type="support", archived=False), {support}),
        (TicketFilter(status="open", archived=True), set()),
    ]
    with house.tx() as tx:
        for wanted, expected in table:
            assert {each.id for each in store.list_tickets(tx, wanted)} == expected, wanted
            own = store.list_own(tx, house.users["ann"], wanted, 100, None)
            assert {each.id for each in own} == expected, wanted
            assert store.list_own(tx, house.users["ben"], wanted, 100, None) == []


# What is kept


def test_every_change_is_one_event_without_what_was_written(house: House) -> None:
    subdomain_id = house.subdomain("ann", "demo")
    ticket_id = house.open(command=replace(QUESTION, subdomain_id=subdomain_id))
    with house.tx() as tx:
        staff_reply(tx, STAFF, str(ticket_id), "Canary in the answer", "Olga")
        reply(tx, house.actor("ann"), str(ticket_id), "Canary in the reply", None)
        close(tx, STAFF, str(ticket_id))
    events = house.audit()
    assert [(each.action, each.actor_kind, each.object_type, each.object_id) for each in events] == [
        ("ticket.open", "user", "ticket", ticket_id),
        ("ticket.staff_reply", "operator", "ticket", ticket_id),
        ("ticket.reply", "user", "ticket", ticket_id),
        ("ticket.close", "operator", "ticket", ticket_id),
    ]
    assert [(each.before or {}).get("status") for each in events] == [None, "open", "answered", "open"]
    assert [each.after["status"] for each in events] == ["open", "answered", "open", "closed"]
    assert events[0].after["message_characters"] == len(QUESTION.message or "")
    assert events[0].after["subdomain_id"] == subdomain_id
    assert (events[2].user_id, events[2].token_id, events[2].request_id) == (house.users["ann"], 7, "r-1")
    written = repr(events)
    assert "Canary" not in written
    assert "A question" not in written


@pytest.mark.parametrize(
    "values",
    [{"status": "gone"}, {"type": "billing"}, {"priority": "none"}, {"user_id": 99}, {"subdomain_id": 99}],
)
def test_the_database_refuses_what_no_ticket_can_be(house: House, values: dict[str, Any]) -> None:
    row: dict[str, Any] = {
        "user_id": house.users["ann"],
        "subdomain_id": None,
        "type": "support",
        "status": "open",
        "priority": "normal",
        "subject": "s",
        "requester_email": "e",
    }
    with house.tx() as tx:
        store.insert_ticket(tx, **row)  # so it is the one value that is refused below
    with pytest.raises(IntegrityError), house.tx() as tx:
        store.insert_ticket(tx, **(row | values))


@pytest.mark.parametrize("values", [{"author_type": "robot"}, {"message_format": "html"}, {"ticket_id": 99}])
def test_the_database_refuses_what_no_message_can_be(house: House, values: dict[str, Any]) -> None:
    row: dict[str, Any] = {
        "ticket_id": house.open(),
        "author_type": "user",
        "author_name": "Ann",
        "message": "m",
        "message_format": "text",
        "created_at": house.now,
    }
    with house.tx() as tx:
        tx.connection.execute(insert(store.messages).values(row))
    with pytest.raises(IntegrityError), house.tx() as tx:
        tx.connection.execute(insert(store.messages).values(row | values))
    with house.tx() as tx:
        assert tx.connection.execute(select(func.count()).select_from(store.messages)).scalar_one() == 2
