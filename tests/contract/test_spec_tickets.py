"""Spec, part 4, "Support tickets", with what parts 2, 3 and 7 say of them; one test for each rule."""

import json
from typing import Any

import httpx
import pytest

from support.error_triggers import new_user, unused_name
from support.open_registry import instant
from support.running_service import Registrant, RunningService

TICKET_FIELDS = [
    "id", "ticket_number", "type", "status", "priority", "subject", "requester_email", "subdomain", "archived",  # noqa: E501
    "created_at", "last_message_at", "updated_at",
]  # fmt: skip
MESSAGE_FIELDS = ["id", "author_type", "author_name", "message", "message_format", "created_at"]
QUESTION = {"subject": "A question", "message": "How do I?"}


def post(shop: RunningService, who: Registrant, **body: Any) -> httpx.Response:
    return shop.call(who, "POST", "/support/tickets", body)


def opened_ticket(shop: RunningService, who: Registrant, **body: Any) -> dict[str, Any]:
    answer = post(shop, who, **{**QUESTION, **body})
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["ticket"])


def test_create_is_201_with_ticket_and_messages(shop: RunningService, ada: Registrant) -> None:
    """Part 4: HTTP 201 {ok, ticket} with ticket.messages[]; part 2: exactly the fields
    of ticket and message.
    """
    answer = post(shop, ada, **QUESTION)
    assert (answer.status_code, list(answer.json())) == (201, ["ok", "ticket"])
    ticket = answer.json()["ticket"]
    assert sorted(ticket) == sorted([*TICKET_FIELDS, "messages"])
    (message,) = ticket.pop("messages")
    assert list(message) == MESSAGE_FIELDS
    opened_at = instant(ticket["created_at"])
    assert instant(ticket["last_message_at"]) == instant(ticket["updated_at"]) == opened_at
    assert (ticket["type"], ticket["status"], ticket["priority"]) == ("support", "open", "normal")
    assert (ticket["subject"], ticket["requester_email"]) == (QUESTION["subject"], ada.email)
    assert (ticket["subdomain"], ticket["archived"]) == (None, False)
    assert ticket["ticket_number"] == f"T-{ticket['id']:06d}"
    assert (message["author_type"], message["author_name"]) == ("user", ada.email.partition("@")[0])
    assert (message["message"], message["message_format"]) == (QUESTION["message"], "text")
    assert instant(message["created_at"]) == opened_at


@pytest.mark.parametrize("missing", ["subject", "message"])
def test_subject_and_message_are_required(shop: RunningService, ada: Registrant, missing: str) -> None:
    """Part 4: subject yes, message yes; null and blank are no text."""
    for value in ({}, {missing: None}, {missing: ""}, {missing: " \n"}):
        body = {key: text for key, text in QUESTION.items() if key != missing} | value
        answer = post(shop, ada, **body)
        assert answer.status_code == 422
        assert (missing, "required") in [(each["field"], each["code"]) for each in answer.json()["errors"]]
    assert post(shop, ada, **{**QUESTION, missing: 1}).status_code == 400


def test_type_is_one_of_three_and_defaults_to_support(shop: RunningService, ada: Registrant) -> None:
    """Part 2 and part 4: contact, abuse or support; default support.

    `abuse` starts high (decisions, "Tickets").
    """
    for given, priority in (("contact", "normal"), ("abuse", "high"), ("support", "normal")):
        ticket = opened_ticket(shop, ada, type=given)
        assert (ticket["type"], ticket["priority"]) == (given, priority)
    assert opened_ticket(shop, ada, type=None)["type"] == "support"
    answer = post(shop, ada, **QUESTION, type="sales")
    assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [("type", "value_invalid")]


@pytest.mark.parametrize("field", ["subdomain_id", "subdomain", "fqdn"])
def test_a_ticket_can_relate_to_a_subdomain_of_the_user(shop: RunningService, field: str) -> None:
    """Part 4: subdomain_id, or subdomain, or fqdn; part 7, rule 5: not one of the user's own is rejected."""
    user = new_user(shop)
    own = shop.register(user, unused_name())["subdomain"]
    foreign = shop.register(new_user(shop), unused_name())["subdomain"]
    key = "id" if field == "subdomain_id" else "fqdn"
    assert opened_ticket(shop, user, **{field: own[key]})["subdomain"] == own["fqdn"]
    answer = post(shop, user, **QUESTION, **{field: foreign[key]})
    assert answer.status_code == 422
    assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [
        (field, "ticket_subdomain_invalid")
    ]


def test_list_is_most_recent_first_without_messages(shop: RunningService, ada: Registrant) -> None:
    """Part 4: {ok, tickets[]}, most recent first; part 2: the list has no messages.

    By the last message (decisions).
    """
    ids = [opened_ticket(shop, ada, subject=subject)["id"] for subject in ("one", "two", "three")]
    assert shop.call(ada, "POST", f"/support/tickets/{ids[0]}/reply", {"message": "more"}).status_code == 200
    tickets = shop.call(ada, "GET", "/support/tickets").json()["tickets"]
    assert [ticket["id"] for ticket in tickets] == [ids[0], ids[2], ids[1]]
    assert all(list(ticket) == TICKET_FIELDS for ticket in tickets)


def test_get_by_id_or_ticket_number(shop: RunningService, ada: Registrant) -> None:
    """Part 4: {id} of a ticket may be its id or its ticket_number."""
    ticket = opened_ticket(shop, ada)
    for identifier in (ticket["id"], ticket["ticket_number"], ticket["ticket_number"].lower()):
        answer = shop.call(ada, "GET", f"/support/tickets/{identifier}")
        assert answer.json() == {"ok": True, "ticket": ticket}
        replied = shop.call(ada, "POST", f"/support/tickets/{identifier}/reply", {"message": "x"}).json()
        ticket = replied["ticket"]


def test_reply_answers_the_ticket(shop: RunningService, ada: Registrant) -> None:
    """Part 4: {ok, ticket}; message is required. open, answered by staff, open again
    (decisions, "Tickets").
    """
    number = opened_ticket(shop, ada)["ticket_number"]
    shop.operator("ticket", "reply", number, "--message", "*So.*", "--author", "Olga", "--format", "markdown")
    assert shop.call(ada, "GET", f"/support/tickets/{number}").json()["ticket"]["status"] == "answered"
    answer = shop.call(ada, "POST", f"/support/tickets/{number}/reply", {"message": "Thanks"})
    assert (answer.status_code, list(answer.json())) == (200, ["ok", "ticket"])
    ticket = answer.json()["ticket"]
    assert (ticket["status"], ticket["archived"]) == ("open", False)
    said = [
        (each["author_type"], each["author_name"], each["message"], each["message_format"])
        for each in ticket["messages"]
    ]
    name = ada.email.partition("@")[0]
    assert said == [
        ("user", name, "How do I?", "text"),
        ("staff", "Olga", "*So.*", "markdown"),
        ("user", name, "Thanks", "text"),
    ]
    assert ticket["last_message_at"] == ticket["messages"][-1]["created_at"]
    for body in ({}, {"message": None}, {"message": "  "}):
        refused = shop.call(ada, "POST", f"/support/tickets/{number}/reply", body)
        assert [(each["field"], each["code"]) for each in refused.json()["errors"]] == [
            ("message", "required")
        ]


def test_a_closed_ticket_cannot_be_replied_to(shop: RunningService, ada: Registrant) -> None:
    """Part 3, rule 3 and part 7, rule 4; closed is final (decisions, "Tickets")."""
    number = opened_ticket(shop, ada)["ticket_number"]
    shop.operator("ticket", "close", number)
    answer = shop.call(ada, "POST", f"/support/tickets/{number}/reply", {"message": "But"})
    assert (answer.status_code, answer.json()["error"]) == (409, "ticket_closed")
    ticket = shop.call(ada, "GET", f"/support/tickets/{number}").json()["ticket"]
    assert (ticket["status"], ticket["archived"]) == ("closed", True)
    assert [message["author_type"] for message in ticket["messages"]] == ["user", "system"]


def test_filters_of_the_list(shop: RunningService, ada: Registrant) -> None:
    """Decisions, "Lists": tickets by status, type, archived."""
    tickets = {
        kind: opened_ticket(shop, ada, type=kind)["ticket_number"] for kind in ("contact", "abuse", "support")
    }
    shop.operator("ticket", "close", tickets["contact"])
    shop.operator("ticket", "reply", tickets["abuse"], "--message", "We look", "--author", "Olga")
    expected = {
        "status=open": ["support"],
        "status=answered": ["abuse"],
        "type=contact": ["contact"],
        "archived=true": ["contact"],
        "type=support&archived=false&status=open": ["support"],
        "type=support&status=closed": [],
    }
    for query, kinds in expected.items():
        found = shop.call(ada, "GET", f"/support/tickets?{query}").json()["tickets"]
        assert [ticket["type"] for ticket in found] == kinds, query
    for wrong in ("status=new", "archived=1", "priority=high"):
        assert shop.call(ada, "GET", f"/support/tickets?{wrong}").status_code == 400, wrong


def test_a_message_is_limited_in_characters_and_the_body_in_bytes(
    shop: RunningService, ada: Registrant
) -> None:
    """Decisions, "Tickets": 20,000 code points, and 64 KiB of the whole body, which characters of 4 bytes
    reach first.
    """

    def sent(message: str) -> httpx.Response:
        content = json.dumps({**QUESTION, "message": message}, ensure_ascii=False).encode()
        headers = {"authorization": f"Bearer {ada.token}", "content-type": "application/json"}
        return shop.client.post(shop.base_url + "/support/tickets", content=content, headers=headers)

    assert [sent("ü" * count).status_code for count in (20_000, 20_001)] == [201, 422]
    assert [sent("\U0001f600" * count).status_code for count in (16_000, 17_000)] == [201, 413]


def test_a_malformed_field_hides_the_invalid_ones(shop: RunningService, ada: Registrant) -> None:
    """Decisions, part 7: all malformed fields at once, then all invalid ones."""
    both = post(shop, ada, subject=7, message="x" * 20_001, type="none", sort="a")
    assert both.status_code == 400
    assert {each["field"] for each in both.json()["errors"]} == {"subject", "sort"}
    invalid = post(shop, ada, subject="a", message="x" * 20_001, type="none")
    assert {each["field"] for each in invalid.json()["errors"]} == {"message", "type"}
