"""Deleting a user: no row keeps the user's address or name, and rows that refer to the user stay consistent;
on both databases.
"""

from typing import Any

import pytest
from sqlalchemy import JSON, String, insert, literal_column, select, text, update
from sqlalchemy import delete as delete_rows
from sqlalchemy.exc import DatabaseError, IntegrityError

from sublet import audit_members
from sublet.accounts.authenticate import authenticate
from sublet.accounts.find import find_user
from sublet.accounts.membership_store import find_account
from sublet.accounts.tokens.issue import issue_token
from sublet.accounts.users import UserEdit, add_user, edit_user, unsuspend_user
from sublet.audit import audit_events, erasures
from sublet.credits.entries import (
    ExternalPayment,
    adjust_credits,
    grant_credits,
    record_payment,
    refund_charge,
)
from sublet.credits.store import ledger_entries, list_entries
from sublet.db import Tx
from sublet.errors import Conflict, NotFound, TicketClosed, TokenRevoked, ValidationFailed
from sublet.mail.model import ENVELOPE_KEPT_FOR
from sublet.mail.store import ERASED_WITH_USER, erase_old, list_mails
from sublet.operations.idempotency_store import claim_key, store_outcome
from sublet.organizations.invitations import invite_member
from sublet.organizations.organization import create_organization
from sublet.platform_domains.platform_domain import grant_platform_domain
from sublet.registry import declared_texts
from sublet.registry.delete_user import DeletedUser, delete_user, trash_some_names
from sublet.registry.erasure_store import count_remaining, find_mentions
from sublet.schema import Instant, metadata
from sublet.sign_in.codes import request_code
from sublet.sign_in.devices.device import allow_device, start_device
from sublet.structs import replace
from sublet.subdomains.delete import delete
from sublet.subdomains.edit_zone_settings import edit_zone_settings
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.suspend import suspend, suspend_with_names, unsuspend
from sublet.subdomains.transfers.move import transfer
from sublet.subdomains.transfers.push import push
from sublet.subdomains.transfers.store import name_transfers
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.staff import staff_open, staff_reply
from support.registry import OPERATOR, Registry
from support.shared_names import share, working_for
from support.signing_in import URL, new_passkey, session_actor, sign_in

EMAIL, SHOP = "zerlina@example.org", "shop.example.test"
OLD = "old@example.org"
ADDRESSED = (
    "mailed_codes",
    "mails",
    "messages",
    "name_transfers",
    "operator_notices",
    "organizations",
    "tickets",
)


@pytest.fixture
def known(registry: Registry) -> Registry:
    """Return a registry that has Zerlina's personal data in all kinds of rows."""
    registry.add_user("zerlina", credit_count=100)
    own = registry.actor("zerlina")
    registry.write(issue_token, OPERATOR, EMAIL, "Zerlina's laptop", networks=["198.51.100.7"])
    registry.write(edit_user, OPERATOR, EMAIL, UserEdit(email="z@example.org", name="Z."))
    registry.write(edit_user, OPERATOR, "z@example.org", UserEdit(email=EMAIL, name="Zerlina Q."))
    because = replace(OPERATOR, reason="Zerlina asked for it")
    registry.write(grant_credits, because, EMAIL, 5, "for Zerlina")
    registry.write(adjust_credits, because, EMAIL, -1, "Zerlina was given too much")
    registry.write(
        record_payment, because, EMAIL, ExternalPayment("inv-17", credits=10, amount="5.00", currency="EUR")
    )
    paid = registry.register("paid.example.test", "zerlina", registration_mode="plus")
    registry.register(SHOP, "zerlina", nameservers=("ns1.example.org",))
    charge = next(
        each for each in registry.read(list_entries, registry.users["zerlina"], 50) if each.kind == "charge"
    )
    registry.write(refund_charge, because, charge.id, 1, "Zerlina complained")
    asked = TicketRequest(subject="Zerlina's name", message="I am Zerlina.", subdomain=SHOP)
    ticket = registry.write(open_ticket, own, asked)
    registry.write(staff_reply, because, str(ticket.id), "Dear Zerlina", "Staff")
    registry.write(suspend, because, str(paid.id), "Zerlina does not answer")
    registry.write(suspend_with_names, because, EMAIL, "Zerlina again")

    def remember(tx: Tx) -> None:
        claim_key(tx, registry.users["zerlina"], "zerlina-1", "0" * 64, 201)
        store_outcome(tx, registry.users["zerlina"], "zerlina-1", ticket)

    registry.write(remember)
    return registry


def remove(registry: Registry, **options: Any) -> DeletedUser:
    return registry.write(delete_user, OPERATOR, EMAIL, **{"trash_names": True, "confirmed": True, **options})


def test_nothing_can_be_done_with_or_for_a_deleted_user(known: Registry) -> None:
    token = known.write(issue_token, OPERATOR, EMAIL, "second").secret
    remove(known)
    user_id = str(known.users["zerlina"])
    with known.refuses(TokenRevoked):
        known.run(authenticate(known.db, token))
    with known.refuses(NotFound):
        known.read(find_user, EMAIL)
    assert known.read(find_user, user_id).deleted_at == known.now
    given: list[tuple[Any, tuple[Any, ...]]] = [
        (delete_user, (user_id,)),
        (issue_token, (user_id, "new")),
        (grant_credits, (user_id, 1, "again")),
        (edit_user, (user_id, UserEdit(name="new"))),
        (operator_restore, (SHOP,)),
    ]
    for verb, arguments in given:
        known.refused(NotFound, verb, OPERATOR, *arguments)
    known.refused(NotFound, staff_open, OPERATOR, SHOP, "About it", "Text", "Staff")
    # The user was deleted after the request was authenticated.
    known.refused(TokenRevoked, open_ticket, known.actor("zerlina"), TicketRequest(subject="x", message="y"))


def test_many_names_go_to_the_trash_in_parts_before_the_deletion(
    known: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sublet.registry.delete_user.NAMES_AT_ONCE", 1)
    known.refused(Conflict, trash_some_names, OPERATOR, EMAIL, trash_names=True)
    known.refused(Conflict, trash_some_names, OPERATOR, EMAIL, confirmed=True)
    sure = {"trash_names": True, "confirmed": True}
    first, second = (known.write(trash_some_names, OPERATOR, EMAIL, **sure) for _ in range(2))
    assert (first.names, first.more, second.more) == (("paid.example.test",), True, False)
    assert known.doctor() == []
    assert remove(known).trashed == (SHOP,)
    assert known.doctor() == []


def test_the_sweep_continues_without_mail_and_the_address_can_be_used_again(known: Registry) -> None:
    days = {"trash_days": 1, "cooling_off_days": 1}
    known.write(edit_zone_settings, OPERATOR, "example.test", days, force=True)
    remove(known)
    written = len(known.read(list_mails, waiting=False, user_id=None, limit=100))
    assert known.read(list_mails, waiting=True, user_id=known.users["zerlina"], limit=100) == []
    again = known.write(add_user, OPERATOR, EMAIL, "Zerlina")
    assert again.user.id != known.users["zerlina"]
    assert known.live(days=3, step_days=1)["released"] == 2
    assert len(known.read(list_mails, waiting=False, user_id=None, limit=100)) == written
    assert known.doctor() == []


def test_live_names_and_a_missing_confirmation_are_refused(registry: Registry) -> None:
    registry.add_user("zerlina", credit_count=3)
    registry.register(SHOP, "zerlina")
    with registry.refuses(Conflict) as caught:
        remove(registry, trash_names=False)
    assert f"holds 1 live name: {SHOP}. Delete them first, or give --trash-names." in caught[0].message
    with registry.refuses(Conflict) as caught:
        remove(registry, confirmed=False)
    assert "3 credits be forfeited. Give --yes to do it." in caught[0].message
    registry.write(delete, registry.actor("zerlina"), SHOP)
    assert remove(registry, trash_names=False).trashed == ()
    with registry.refuses(NotFound):
        remove(registry)


@pytest.mark.parametrize("reason", ["asked by Zerlina@Example.org", "Zerlina, by letter"])
def test_a_reason_that_names_the_user_is_refused(registry: Registry, reason: str) -> None:
    registry.add_user("zerlina")
    registry.refused(ValidationFailed, delete_user, replace(OPERATOR, reason=reason), EMAIL, confirmed=True)
    registry.write(delete_user, replace(OPERATOR, reason="Letter 17"), EMAIL, confirmed=True)


def test_a_user_with_more_transfers_than_a_statement_can_have_values_is_deleted(registry: Registry) -> None:
    sent = registry.register(SHOP)
    registry.add_user("zerlina")
    transfer = {
        "subdomain_id": sent.id,
        "from_user_id": registry.users["ann"],
        "recipient_email": EMAIL,
        "state": "expired",
        "is_mailed": True,
        **dict.fromkeys(("created_at", "expires_at", "ended_at"), registry.now),
    }
    registry.write(lambda tx: tx.connection.execute(insert(name_transfers), [transfer] * 22_000))
    remove(registry)
    query = select(name_transfers.c.recipient_email).distinct()
    assert registry.read(lambda tx: tx.connection.execute(query).scalars().all()) == ["deleted"]


def test_texts_of_others_that_mention_the_address_are_found(registry: Registry) -> None:
    registry.add_user("zerlina")
    registry.write(
        open_ticket, registry.actor(), TicketRequest(subject="Abuse", message=f"By {EMAIL.upper()}!")
    )
    deleted = remove(registry)
    assert registry.read(find_mentions, list(deleted.identities)) == {"messages": 1, "operator_notices": 1}


def test_texts_of_others_that_mention_an_address_with_other_letters_are_found(registry: Registry) -> None:
    registry.write(add_user, OPERATOR, "Åsa@example.org", "Å.", "Acme")
    because = replace(OPERATOR, reason="Åsa@example.org owed it")
    registry.write(grant_credits, because, "ann@example.org", 5, "from ÅSA@EXAMPLE.ORG")
    deleted = registry.write(delete_user, OPERATOR, "åsa@example.org", confirmed=True)
    found = registry.read(find_mentions, deleted.identities)
    assert set(found) == {"audit_events", "transfers"}


@pytest.mark.parametrize("registry", ["postgresql"], indirect=True)
def test_mentions_in_json_that_an_earlier_version_escaped_are_found(registry: Registry) -> None:
    event = {"at": registry.now, "actor_kind": "system", "action": "user.edit", "object_type": "user"}
    escaped: Any = literal_column(r"""'{"name": "\u00c5sa@Example.org"}'""")
    registry.write(
        lambda tx: tx.connection.execute(insert(audit_events).values(**event, object_id=1, after=escaped))
    )
    assert registry.read(find_mentions, ["åsa@example.org"]) == {"audit_events": 1}


def test_texts_of_names_are_erased_from_the_time_of_the_user(known: Registry) -> None:
    """A name that moved keeps the events of its former holders."""
    known.write(unsuspend_user, OPERATOR, EMAIL)
    for fqdn, holder, receiver in (
        ("given.example.test", "zerlina", "ann"),
        ("got.example.test", "ann", "zerlina"),
    ):
        known.register(fqdn, holder)
        known.write(suspend, OPERATOR, fqdn, f"{holder} asked")
        known.write(unsuspend, replace(OPERATOR, reason=f"{holder} answered"), fqdn)
        known.write(transfer, OPERATOR, fqdn, f"{receiver}@example.org")
    remove(known)
    texts = repr(known.dump()["audit_events"])
    assert "zerlina" not in texts
    assert "ann asked" in texts
    assert "ann answered" in texts


def test_texts_of_an_organization_without_other_members_are_erased(known: Registry) -> None:
    known.write(unsuspend_user, OPERATOR, EMAIL)
    organization = known.write(create_organization, known.actor("zerlina"), "Solo", created_max=1)
    account = known.read(find_account, organization.id)
    assert account is not None
    acting = replace(known.actor("zerlina"), account_id=account.id)
    asked = TicketRequest(subject="Our plan", message="A secret plan.", subdomain=None)
    ticket = known.write(open_ticket, acting, asked)
    known.write(
        staff_reply, replace(OPERATOR, reason="the plan"), str(ticket.id), "Your plan is nice.", "Staff"
    )
    remove(known)
    known.refused(TicketClosed, staff_reply, OPERATOR, str(ticket.id), "Hello?", "Staff")
    assert "plan" not in repr(known.dump()).lower()
    assert known.doctor() == []


def test_a_former_own_organization_that_is_named_after_the_address_is_erased(registry: Registry) -> None:
    registry.write(edit_user, OPERATOR, "ben@example.org", UserEdit(organization="Acme"))
    done = registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    assert registry.read(find_mentions, done.identities) == {}


def test_no_user_joins_a_deleted_organization(registry: Registry) -> None:
    own = str(registry.organizations["ben"])
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    for identifier in (own, f"deleted organization {own}", f"deleted-{own}"):
        registry.refused(NotFound, add_user, OPERATOR, "new@example.org", "New", identifier)
        registry.refused(NotFound, edit_user, OPERATOR, "ann@example.org", UserEdit(organization=identifier))
    registry.refused(NotFound, grant_platform_domain, OPERATOR, "example.test", own)


def test_the_owners_get_the_answer_to_a_deleted_members_question(registry: Registry) -> None:
    organization_id = share(registry, ben="member")
    asked = TicketRequest(subject="Help", message="Please.")
    ticket = registry.write(open_ticket, working_for(registry, organization_id, "ben"), asked)
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    registry.write(staff_reply, OPERATOR, str(ticket.id), "Done.", "Staff")
    assert registry.mails()[0].recipient == "ann@example.org"


def test_the_mails_of_a_deleted_user_are_deleted_like_others(known: Registry) -> None:
    remove(known)
    assert {each.recipient for each in known.mails()} == {ERASED_WITH_USER}
    known.advance(days=ENVELOPE_KEPT_FOR.days)
    known.write(erase_old)
    assert known.mails() == []


def test_a_name_in_the_tickets_of_an_organization_is_erased_in_any_script(registry: Registry) -> None:
    """The databases and Python lower some letters differently."""
    organization_id = share(registry, ben="member")
    names = ("Åsa", "ΝΙΚΟΣ", "İpek")
    for name in names:
        registry.write(edit_user, OPERATOR, "ben@example.org", UserEdit(name=name))
        asked = TicketRequest(subject="Help", message="Please.")
        registry.write(open_ticket, working_for(registry, organization_id, "ben"), asked)
    registry.write(delete_user, OPERATOR, "ben@example.org", confirmed=True)
    assert not [name for name in names if name in repr(registry.dump()["messages"])]


def test_append_only_rows_stay_guarded(known: Registry) -> None:
    """Append-only rows can't be changed, except texts in a transaction with an erasure."""
    reason, description = (
        update(audit_events).values(reason="x"),
        update(ledger_entries).values(description="x"),
    )
    action, credit_count = update(audit_events).values(action="x"), update(ledger_entries).values(credits=1)
    for statement, erasing in ((reason, False), (description, False), (action, True), (credit_count, True)):

        def change(tx: Tx, statement: Any = statement, *, erasing: bool = erasing) -> None:
            if erasing:
                tx.connection.execute(insert(erasures).values(user_id=1))
            tx.connection.execute(statement)

        before = known.dump()
        with pytest.raises((DatabaseError, IntegrityError), match="is append-only"):
            known.write(change)
        assert known.dump() == before
    remove(known)
    assert (
        known.read(lambda tx: tx.connection.execute(select(text("count(*)")).select_from(erasures)).scalar())
        == 0
    )


CANARY = "canary-of-a-person"
OWN_ROWS = {
    "device_requests": "user_id = :id",
    "mailed_codes": "user_id = :id",
    "mails": "user_id = :id",
    "messages": "ticket_id IN (SELECT id FROM tickets WHERE user_id = :id)",
    "name_transfers": "from_user_id = :id",
    "operator_notices": "user_id = :id",
    "passkeys": "user_id = :id",
    "sessions": "user_id = :id",
    "subdomains": "user_id = :id",
    "tickets": "user_id = :id",
    "tokens": "user_id = :id",
    "transfers": "user_id = :id AND kind IN ('grant', 'adjustment', 'refund')",
    "users": "id = :id",
}
"""The rows whose declared columns the test overwrites. The other tables' texts are written by the verbs."""
SELECTS_ROWS = {("users", "email"), ("mailed_codes", "email"), ("messages", "author_type")}
"""Columns that must keep their values, because the erasure selects rows by them."""


def is_text(column: Any) -> bool:
    return isinstance(column.type, String | JSON) and not isinstance(column.type, Instant)


def test_each_text_column_is_declared_once() -> None:
    declared = [
        (table, name)
        for each in (declared_texts.ERASED, declared_texts.DELETED, declared_texts.KEPT)
        for table, names in each.items()
        for name in names.split()
    ]
    assert len(declared) == len(set(declared))
    texts = {(table.name, each.name) for table in metadata.sorted_tables for each in table.c if is_text(each)}
    assert set(declared) == texts, "declare each text column in src/sublet/registry/declared_texts.py"


@pytest.fixture
def lived(known: Registry) -> Registry:
    """Return `known` with a session, a passkey, a program, an invitation and an offered name of Zerlina's."""
    known.write(unsuspend_user, OPERATOR, EMAIL)
    signed_in = sign_in(known, "zerlina")
    new_passkey(known, signed_in)
    started = known.write(start_device, "zerlina's program", "198.51.100.7", "198.51.100.0/24")
    actor = session_actor(signed_in)
    known.write(allow_device, actor, started.user_code.reveal(), may_spend=False, public_url=URL)
    organization = known.write(create_organization, known.actor("ann"), "Coop", created_max=1)
    known.write(invite_member, known.actor("ann"), str(organization.id), EMAIL, "viewer", URL)
    known.register("offered.example.test", "zerlina")
    known.write(push, actor, "offered.example.test", "bob@example.org", URL)
    return known


def overwrite(tx: Tx, user_id: int) -> set[str]:
    """Write canaries into all declared texts of a user, and return what was written."""
    tx.connection.execute(insert(erasures).values(user_id=user_id))
    written = set()
    for table_name, names in {**declared_texts.ERASED, **declared_texts.DELETED}.items():
        table = metadata.tables[table_name]
        for name in names.split():
            if table_name not in OWN_ROWS or (table_name, name) in SELECTS_ROWS:
                continue
            size = getattr(table.c[name].type, "length", None) or 60
            canary = f"{CANARY} {table_name}.{name}"[:size] if size > 30 else "canary"
            value: Any = [canary] if isinstance(table.c[name].type, JSON) else canary
            if (table_name, name) == ("subdomains", "records"):
                value = [{"name": "@", "type": "TXT", "ttl": 300, "values": [canary]}]
            where = text(OWN_ROWS[table_name]).bindparams(id=user_id)
            if name == "author_name":
                where = where & (table.c.author_type == "user")
            try:
                with tx.savepoint():
                    changed = tx.connection.execute(update(table).where(where).values({name: value}))
            except IntegrityError:  # a unique column with several rows, or one of few values
                continue
            if changed.rowcount:
                written.add(f"{table_name}.{name}")
    events = audit_events.c
    for event_id, object_type, after in tx.connection.execute(
        select(events.id, events.object_type, events.after)
    ).all():
        personal = {
            name: CANARY for name in audit_members.ERASED.get(object_type, ()) if name in (after or {})
        }
        if personal and object_type in {"device", "token", "user", "subdomain", "transfer"}:
            of_user = (events.id == event_id) & ((events.user_id == user_id) | (events.owner_id == user_id))
            changes = update(audit_events).where(of_user).values(after=after | personal, reason=CANARY)
            if tx.connection.execute(changes).rowcount:
                written.update(f"{object_type}.{name}" for name in personal)
    tx.connection.execute(update(audit_events).where(events.user_id == user_id).values(address=CANARY))
    tx.connection.execute(delete_rows(erasures))
    return written


def test_each_declared_text_is_erased(lived: Registry) -> None:
    written = lived.write(overwrite, lived.users["zerlina"])
    assert {"users.name", "tokens.networks", "tickets.subject", "messages.message", "device.name"} <= written
    assert {"mails.text", "mails.page", "passkeys.name", "sessions.user_agent", "token.networks"} <= written
    assert {"operator_notices.text", "operator_notices.quoted", "tickets.requester_email"} <= written
    balance, events = lived.balance("zerlina"), len(lived.dump()["audit_events"])
    assert lived.read(find_mentions, [EMAIL])["audit_events"]
    deleted = remove(lived)
    assert deleted.forfeited_credits == balance
    assert lived.balance("zerlina") == 0
    assert set(deleted.trashed) == {SHOP, "paid.example.test", "offered.example.test"}
    assert lived.read(find_mentions, list(deleted.identities)) == {}
    remains = lived.read(count_remaining, lived.users["zerlina"])
    assert (remains["names"], remains["tickets"], remains["transfers"]) == (3, 1, 7)
    assert len(lived.dump()["audit_events"]) > events, "no event is gone"
    dump = {table: [row for row in rows if "canary" in repr(row)] for table, rows in lived.dump().items()}
    assert {table: rows for table, rows in dump.items() if rows} == {}
    for text_of_hers in ("zerlina", "z@example.org", "198.51.100.7"):
        assert text_of_hers not in repr(lived.dump()).lower()
    assert lived.doctor() == []


def test_a_name_or_former_address_that_another_user_has_as_address_erases_nothing_of_theirs(
    registry: Registry,
) -> None:
    registry.add_user("old")
    registry.write(edit_user, OPERATOR, OLD, UserEdit(email=EMAIL))
    registry.write(add_user, OPERATOR, OLD, "Carl", "Coop")
    registry.users["carl"] = registry.read(find_user, OLD).id
    organization = registry.write(create_organization, registry.actor("ann"), "Club", created_max=1)
    registry.write(invite_member, registry.actor("ann"), str(organization.id), OLD, "viewer", URL)
    registry.register(SHOP, "ann")
    registry.write(push, registry.actor("ann"), SHOP, OLD, URL)
    registry.write(open_ticket, registry.actor("carl"), TicketRequest(subject="Hello", message="It is me."))
    registry.write(request_code, OLD, "", URL)
    registry.write(edit_user, OPERATOR, EMAIL, UserEdit(name="Coop", organization="Coop"))
    registry.write(edit_user, OPERATOR, EMAIL, UserEdit(name=OLD))
    before = {name: registry.dump()[name] for name in ADDRESSED}
    remove(registry)
    assert {name: registry.dump()[name] for name in ADDRESSED} == before
