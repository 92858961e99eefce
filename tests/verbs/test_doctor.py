"""The doctor finds each invariant that a test breaks, bypassing verbs and constraints,
and reports no others.
"""

# ruff: noqa: S608 - the SQL consists of texts of these tests

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete as delete_rows
from sqlalchemy import func, insert, select, text, update

from sublet import audit
from sublet.accounts.session_store import passkeys, recoveries, sessions
from sublet.accounts.store import find_user, memberships, tokens, users
from sublet.accounts.tokens.issue import digest, issue_token, revoke_token
from sublet.accounts.users import UserEdit, edit_user, suspend_user
from sublet.audit import SYSTEM, audit_events
from sublet.credits.entries import ExternalPayment, record_payment, refund_charge
from sublet.credits.model import Outcome, Payable
from sublet.credits.packages import add_package, retire_package
from sublet.credits.store import coupon_uses, coupons, ledger_accounts, ledger_entries, packages
from sublet.db import Tx
from sublet.health.due_checks import record_check
from sublet.health.model import BROKEN, HEALTHY, UNKNOWN, Report
from sublet.health.store import delegation_health, health_changes, update_health
from sublet.mail.letter import Message
from sublet.mail.outbox import enqueue
from sublet.mail.store import mails
from sublet.operations.idempotency_store import claim_key, idempotency_keys, store_outcome
from sublet.organizations.organization import create_organization
from sublet.platform_domains.offers import withdraw_offer
from sublet.platform_domains.store import platform_domains
from sublet.sign_in.passkeys import start_recovery
from sublet.sign_up.store import mailed_codes
from sublet.structs import replace
from sublet.subdomains import store
from sublet.subdomains.child_state_store import (
    AutomaticDs,
    CsyncState,
    automatic_ds,
    csync_states,
    save_state,
)
from sublet.subdomains.delete import delete
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.purge import mark_purged, mark_released, purge
from sublet.subdomains.renew import renew
from sublet.subdomains.restore import operator_restore, restore
from sublet.subdomains.retry import retry
from sublet.subdomains.store import subdomains, terms
from sublet.subdomains.suspend import suspend, unsuspend
from sublet.subdomains.sweep import store as sweep_store
from sublet.subdomains.sweep.store import milestones
from sublet.subdomains.update_nameservers import update_nameservers
from sublet.tickets.model import TicketRequest
from sublet.tickets.open_ticket import open_ticket
from sublet.tickets.reply import reply
from sublet.tickets.staff import close, staff_reply
from sublet.tickets.store import messages, tickets
from support.corrupt_registry import (
    Spoil,
    both,
    change,
    found_after,
    found_after_each,
    number_was_given,
    sql,
    without_unique,
)
from support.registry import OPERATOR, START, Registry
from support.repetitions import WHOLE
from support.signing_in import URL, new_passkey, session_actor, sign_in

SHOP = "shop.example.test"
PAID = "paid.example.test"
FULL = "full.example.test"
HELD = "held.example.test"
OLD = "old.example.test"
LOST = "lost.example.test"
DAY = timedelta(days=1)
NS = ("ns1.example.org",)


@pytest.fixture
def busy(registry: Registry) -> Registry:
    """Return a registry without violations in which every kind of change was made."""
    registry.move()
    registry.add_coupon()
    registry.register(SHOP, nameservers=NS)
    registry.register(PAID, registration_mode="plus", payable=Payable(confirm=True, coupon_code="SPRING"))
    registry.register(FULL, registration_mode="plus")
    registry.register(HELD, registration_mode="plus", nameservers=NS)
    registry.register(OLD, nameservers=NS)
    registry.publish(error="refused")
    registry.write(retry, registry.actor(), SHOP)
    registry.write(update_nameservers, registry.actor(), SHOP, UpdateNameservers(("ns2.example.org",)))
    registry.write(delete, registry.actor(), OLD)
    registry.publish()
    registry.write(purge, OPERATOR, OLD)
    registry.publish()
    registry.write(purge, OPERATOR, OLD, release=True)
    registry.register(OLD, "ben")
    registry.register(LOST, "ben", nameservers=NS)
    for verb in (suspend, unsuspend, suspend):
        registry.write(verb, OPERATOR, HELD)
    _other_nouns(registry)
    registry.advance(days=350)
    for name in (SHOP, PAID):
        registry.write(renew, registry.actor(), name, Payable(confirm=True))
    for name in (FULL, SHOP):
        registry.write(delete, registry.actor(), name)
    registry.write(operator_restore, OPERATOR, SHOP)
    registry.advance(days=20)
    registry.write(restore, registry.actor(), FULL, Payable(confirm=True), free_quota=2)
    registry.advance(days=30)
    registry.write(_time_takes, LOST)
    registry.publish()
    assert registry.doctor() == []
    return registry


def _other_nouns(registry: Registry) -> None:
    registry.write(add_package, OPERATOR, "Small", 5, "9.90", "EUR")
    registry.write(
        retire_package, OPERATOR, registry.write(add_package, OPERATOR, "Old", 5, "5.00", "EUR").id
    )
    registry.write(record_payment, OPERATOR, "ben@example.org", ExternalPayment("INV-1", package_id=1))
    charge = registry.read(
        lambda tx: tx.connection.execute(
            select(ledger_entries.c.id).where(ledger_entries.c.subdomain == FULL)
        ).scalar_one()
    )
    registry.write(refund_charge, OPERATOR, charge, 4, "sorry")
    for name in ("one", "two"):
        token = registry.write(issue_token, OPERATOR, "ann@example.org", name).token
    registry.write(revoke_token, OPERATOR, token.id)
    registry.add_user("carl")
    registry.write(suspend_user, OPERATOR, "carl@example.org")
    registry.add_domain("example.net")
    registry.write(withdraw_offer, OPERATOR, "example.net", "special")
    opened = registry.write(open_ticket, registry.actor(), TicketRequest("Help", "Please.", fqdn=SHOP))
    registry.write(staff_reply, OPERATOR, str(opened.id), "How?", "Olga")
    registry.write(reply, registry.actor(), str(opened.id), "So.")
    registry.write(open_ticket, registry.actor("ben"), TicketRequest("Help", "Me too."))
    registry.write(close, OPERATOR, str(opened.id))
    registry.write(_told, opened.id)


def _told(tx: Tx, ticket_id: int) -> None:
    """Add a mail about a ticket, a reminder, and a stored idempotent request."""
    shop = store.find_unreleased(tx, SHOP)
    assert shop is not None
    user = find_user(tx, shop.user_id)
    assert user is not None
    enqueue(tx, user, Message("Reply", "How?"), reference=f"ticket:{ticket_id}:1")
    mail_id = enqueue(tx, user, Message("Expired", "It did."), reference=f"expired:{shop.id}")
    sweep_store.insert_milestone(tx, shop.id, "expired", shop.expires_at, mail_id=mail_id)
    claim_key(tx, user.id, "k-1", "f" * 64, 201)
    store_outcome(tx, user.id, "k-1", Outcome(shop.id))


def _time_takes(tx: Tx, name: str) -> None:
    """Take all steps of the sweep for a name at once."""
    found = store.find_unreleased(tx, name)
    assert found is not None
    store.update_subdomain(tx, found.id, trashed_at=tx.now, **store.next_generation_if_in_dns(found))
    audit.record(tx, SYSTEM, "subdomain.trash", found.id)
    mark_purged(tx, SYSTEM, found)
    mark_released(tx, SYSTEM, found)
    for kind in ("trashed", "trash_ends", "purged", "released"):
        sweep_store.insert_milestone(tx, found.id, kind, tx.now)


def _id(name: str) -> str:
    return f"(SELECT max(id) FROM subdomains WHERE fqdn = '{name}')"


def _of(name: str) -> str:
    return f"subdomain_id = {_id(name)}"


def _entry(where: str, **values: Any) -> Spoil:
    return change(ledger_entries, where, **values)


def _user(**values: Any) -> Spoil:
    return change(users, "id = 1", **values)


def _untold(action: str) -> Spoil:
    return sql(f"DELETE FROM audit_events WHERE action = '{action}'")


def _set(of: str, **values: Any) -> Spoil:
    return change(subdomains, f"id = {_id(of)}", **values)


def _charge_of(name: str) -> str:
    return f"kind = 'charge' AND reference LIKE 'register:%' AND subdomain = '{name}'"


def _event(action: str, name: str, **values: Any) -> Spoil:
    told = f"action = 'subdomain.{action}' AND object_id = {_id(name)}"
    return change(audit_events, f"id = (SELECT min(id) FROM audit_events WHERE {told})", **values)


def _record(action: str, name: str, **after: Any) -> Spoil:
    """Add an event without a change."""

    def run(tx: Tx) -> None:
        subdomain_id = tx.connection.execute(text(f"SELECT {_id(name)}")).scalar_one()
        audit.record(tx, OPERATOR, f"subdomain.{action}", subdomain_id, after=after)

    return run


def _forget(name: str, action: str) -> Spoil:
    told = f"action = '{action}' AND object_id = {_id(name)}"
    return sql(f"DELETE FROM audit_events WHERE {told}")


def _balance(kind: str, by: int) -> Spoil:
    first = f"id = (SELECT min(id) FROM ledger_accounts WHERE kind = '{kind}')"
    return change(ledger_accounts, first, balance=ledger_accounts.c.balance + by)


def _moved(of: str, **values: Any) -> Spoil:
    """Copy a transfer with other values and the present time, and update the balances and the audit."""

    def run(tx: Tx) -> None:
        copied = tx.connection.execute(select(ledger_entries).where(text(of))).mappings().one()
        last = tx.connection.execute(select(func.max(ledger_entries.c.id))).scalar_one()
        row: dict[str, Any] = {**copied, "id": last + 1, "created_at": tx.now, **values}
        after = {}
        for side, sign in (("debit", -1), ("credit", 1)):
            account = ledger_accounts.c.id == row[f"{side}_account_id"]
            added = ledger_accounts.c.balance + sign * row["credits"]
            tx.connection.execute(update(ledger_accounts).where(account).values(balance=added))
            found = tx.connection.execute(select(ledger_accounts).where(account)).mappings().one()
            after[found["user_id"]] = found["balance"]
        row["balance_after"] = after[row["user_id"]]
        tx.connection.execute(insert(ledger_entries).values(**row))
        number_was_given(tx, "transfers", row["id"])
        if row["kind"] != "charge":
            audit.record(tx, OPERATOR, "credits.grant", row["id"], object_type="transfer")

    return run


def _again(table: Any, where: str = "true", **values: Any) -> Spoil:
    """Copy the first row with other values."""

    def run(tx: Tx) -> None:
        copied = select(table).where(text(where)).order_by(table.c.id).limit(1)
        row = dict(tx.connection.execute(copied).mappings().one())
        last = tx.connection.execute(select(func.max(table.c.id))).scalar_one()
        tx.connection.execute(insert(table).values(**{**row, "id": last + 1, **values}))
        number_was_given(tx, table.name, last + 1)

    return run


def _unique(table: str) -> Spoil:
    return lambda tx: without_unique(tx, table)


def _term(starts: timedelta, ends: timedelta) -> Spoil:
    """Add a free term to SHOP, which was renewed once."""

    def run(tx: Tx) -> None:
        last = select(terms).join(subdomains).where(subdomains.c.fqdn == SHOP).order_by(terms.c.id.desc())
        term = dict(tx.connection.execute(last.limit(1)).mappings().one())
        del term["id"]
        expiry = term["ends_at"]
        term |= {"starts_at": expiry + starts, "ends_at": expiry + ends, "created_at": tx.now}
        tx.connection.execute(insert(terms).values(**term))
        tx.connection.execute(
            update(subdomains)
            .where(subdomains.c.id == term["subdomain_id"])
            .values(expires_at=expiry + ends, last_renewed_at=tx.now)
        )
        audit.record(
            tx,
            audit.Actor("user"),
            "subdomain.renew",
            term["subdomain_id"],
            before={"expires_at": expiry.isoformat()},
            after={"expires_at": (expiry + ends).isoformat(), "charged_credits": 0},
        )

    return run


def _drop_guard(tx: Tx) -> None:
    on = " ON terms" if tx.connection.dialect.name == "postgresql" else ""
    tx.connection.execute(text(f"DROP TRIGGER terms_no_update{on}"))


def _write_secret(tx: Tx) -> None:
    """Write a new token that exists into a reason."""
    secret = issue_token(tx, OPERATOR, "1", "laptop").secret.reveal()
    audit.record(tx, replace(OPERATOR, reason=f"see {secret}"), "user.edit", 1)


def _write_digest(tx: Tx) -> None:
    valid = tokens.c.revoked_at.is_(None) & tokens.c.expires_at.is_(None)
    digest = tx.connection.execute(select(tokens.c.digest).where(valid).limit(1)).scalar_one()
    audit.record(tx, OPERATOR, "user.edit", 1, before={"digest": digest})


def _remove(table: Any, where: str) -> Spoil:
    def run(tx: Tx) -> None:
        assert tx.connection.execute(delete_rows(table).where(text(where))).rowcount == 1

    return run


Faults = dict[str, tuple[Spoil, str]]
CHARGE, GRANT, REFUND = _charge_of(FULL), "kind = 'grant' AND reference = 'grant:1:1'", "kind = 'refund'"
PAID_TERM = f"action = 'register' AND {_of(PAID)}"
WRONG_USE = "coupon_use_has_its_term coupon_use"


REMINDER, NO_FACT = "reference LIKE 'expired:%'", "milestones_are_facts milestone"


def _milestone(of: str, **values: Any) -> Spoil:
    return change(milestones, f"kind = '{of}'", **values)


NO_TERM = "charge_has_its_term term, charge_has_its_term transfer, coupon_use_has_its_term coupon_use"
NO_SUCH_CHARGE = "transfer_fits_its_kind transfer, reference_fits transfer, charge_has_its_term transfer"
REFUND_TOO_HIGH = "refund_names_its_charge transfer, balance_is_sum ledger_account, history_is_whole transfer"
LEDGER: Faults = {
    "a balance": (_balance("user", 1), "balance_is_sum ledger_account, ledger_sums_to_zero ledger"),
    "below zero": (
        both(_balance("revenue", 1000), _balance("user", -1000)),
        "balance_not_negative ledger_account, balance_is_sum ledger_account",
    ),
    "history": (_entry(GRANT, balance_after=99), "history_is_whole transfer"),
    "charge of nothing": (
        _moved(CHARGE, reference="renew:3:20270101T000000.000000Z"),
        "charge_has_its_term transfer",
    ),
    "another start": (
        _entry(CHARGE, reference="register:3:20270101T000000.000000Z"),
        "charge_has_its_term transfer",
    ),
    "another instant": (_entry(CHARGE, created_at=START + DAY), "charge_has_its_term transfer"),
    "term unpaid": (change(terms, PAID_TERM, transfer_id=None), NO_TERM),
    "term paid by a grant": (change(terms, PAID_TERM, transfer_id=1), NO_TERM),
    "charge of two terms": (
        both(_unique("terms"), change(terms, f"action = 'renew' AND {_of(SHOP)}", transfer_id=2)),
        "charge_has_its_term transfer",
    ),
    "no kind": (_entry(GRANT, kind="gift"), "transfer_fits_its_kind transfer, reference_fits transfer"),
    "no name": (_entry(CHARGE, subdomain_id=None), f"{NO_SUCH_CHARGE}, rows_belong_together transfer"),
    "reference of another kind": (_entry(GRANT, reference="payment:1"), "reference_fits transfer"),
    "reference of another user": (_entry(GRANT, reference="grant:2:1"), "reference_fits transfer"),
    "reference of another charge": (_entry(REFUND, reference="refund:1"), "reference_fits transfer"),
    "reference of another name": (
        _entry(CHARGE, reference="register:1:20270101T000000.000000Z"),
        "reference_fits transfer, charge_has_its_term transfer",
    ),
    "reference used again": (both(_unique("transfers"), _moved(GRANT)), "references_are_unique transfer"),
    "refund of too much": (
        _entry(REFUND, refunded_transfer_id=2, reference="refund:2", credits=8),
        REFUND_TOO_HIGH,
    ),
    "refund of another user": (
        _moved(
            "kind = 'purchase'",
            kind="refund",
            debit_account_id=4,
            amount=None,
            currency=None,
            reference="refund:4",
            refunded_transfer_id=4,
        ),
        "refund_names_its_charge transfer",
    ),
    "refund of nothing": (
        _entry(REFUND, refunded_transfer_id=None, reference="refund:None"),
        "refund_names_its_charge transfer",
    ),
    "payment without money": (_entry("kind = 'purchase'", amount=None), "money_is_plain transfer"),
    "money of no purchase": (_entry(GRANT, amount="1.00", currency="EUR"), "money_is_plain transfer"),
    "package of no price": (change(packages, "id = 1", price="much"), "money_is_plain package"),
    "package of nothing": (change(packages, "id = 1", credits=0), "money_is_plain package"),
    "coupon's count": (change(coupons, "id = 1", uses=2), "coupon_uses coupon"),
    "coupon's limit": (change(coupons, "id = 1", max_uses=0), "coupon_uses coupon"),
    "coupon's limit of a user": (change(coupons, "id = 1", max_uses_per_user=0), "coupon_uses coupon"),
    "other discount": (change(coupon_uses, "id = 1", discount_credits=1), "discount_fits coupon_use"),
    "use without a term": (change(coupon_uses, "id = 1", created_at=START + DAY), WRONG_USE),
    "coupon for another mode": (change(coupons, "id = 1", registration_mode="premium"), WRONG_USE),
    "coupon for another operation": (change(coupons, "id = 1", action="renew"), WRONG_USE),
    "coupon for another domain": (change(coupons, "id = 1", platform_domain_id=2), WRONG_USE),
}
"""Each fault with the reports of the doctor: the invariant and the type of the object."""

NOT_INDEXED = "nameservers_are_indexed subdomain, row_is_replayed subdomain"
NOT_COUNTED = f"{NOT_INDEXED}, counts_are_right subdomain"
REGISTRY: Faults = {
    "held twice": (
        sql(f"UPDATE subdomains SET released_at = NULL WHERE fqdn = '{OLD}'"),
        "one_row_a_name subdomain, row_is_replayed subdomain",
    ),
    "registered before the release": (
        change(audit_events, "action = 'subdomain.release' AND actor_kind = 'operator'", id=1_000_000),
        "one_row_a_name subdomain, ids_are_new table",
    ),
    "gap": (_term(DAY, 366 * DAY), "terms_are_whole subdomain"),
    "overlap": (_term(-DAY, 364 * DAY), "terms_are_whole subdomain"),
    "time moved back": (
        _term(timedelta(), -DAY),
        "term_is_audited subdomain, expiry_is_paid subdomain",
    ),
    "no term": (
        _remove(terms, _of(OLD)),
        "terms_are_whole subdomain, term_is_audited subdomain, row_is_replayed subdomain",
    ),
    "term of another price": (
        _event("renew", PAID, after={"expires_at": "2028-11-20T09:30:00.123456+00:00", "charged_credits": 1}),
        "term_is_audited subdomain",
    ),
    "given time": (
        _set(SHOP, expires_at=START + 900 * DAY),
        "expiry_is_paid subdomain, row_is_replayed subdomain",
    ),
    "quota": (_user(free_quota=0), "free_quota user, row_is_replayed user"),
    "wrong host": (_set(SHOP, nameservers=["-"]), f"{NOT_INDEXED}, delegation_is_valid subdomain"),
    "name in capitals": (
        _set(OLD, label="OLD", fqdn="OLD.example.test"),
        "fqdn subdomain, row_is_replayed subdomain",
    ),
    "other case": (
        _set(HELD, nameservers=["NS1.example.org"]),
        f"{NOT_INDEXED}, delegation_is_valid subdomain",
    ),
    "purged": (
        _set(LOST, nameservers=list(NS), nameserver_count=len(NS)),
        f"{NOT_INDEXED}, purged_is_empty subdomain",
    ),
    "other name": (_set(OLD, label="new"), "fqdn subdomain"),
    "left in the zone": (_set(SHOP, nameservers=[]), NOT_COUNTED),
    "left out of the zone": (_set(SHOP, nameserver_count=0), "counts_are_right subdomain"),
    "DS records not counted": (_set(SHOP, ds_record_count=9), "counts_are_right subdomain"),
    "records not counted": (_set(OLD, nameserver_count=0, record_count=1), "counts_are_right subdomain"),
    "waiting": (_set(SHOP, generation=99, generation_at=START), "nothing_waits subdomain"),
    "event without its fact": (_record("suspend", OLD), "row_is_replayed subdomain"),
    "no event of a fact": (_forget(FULL, "subdomain.delete"), "edges_only subdomain"),
    "no event of the registration": (_forget(OLD, "subdomain.register"), "audited subdomain"),
    "nameserver not indexed": (
        sql("DELETE FROM nameserver_hosts WHERE subdomain_id = 1"),
        "nameservers_are_indexed subdomain",
    ),
    "another's skeleton": (_set(SHOP, skeleton="rnodern"), "skeleton_is_current subdomain"),
    "held with a user that is not": (_set(HELD, held_with_user=True), "held_with_user subdomain"),
    "platform domain removed": (
        change(platform_domains, "domain = 'example.test'", removed_at=START),
        "domain_is_there subdomain",
    ),
    "row deleted": (
        both(_remove(terms, _of(OLD)), _remove(subdomains, f"id = {_id(OLD)}")),
        "rows_stay subdomain",
    ),
}

OTHERS: Faults = {
    "secret": (_write_secret, "audit_has_no_secret audit_event"),
    "digest": (_write_digest, "audit_has_no_secret audit_event"),
    "event to come": (
        change(audit_events, "action = 'platform_domain.withdraw_offer'", at=START + 9000 * DAY),
        "audited platform_domain",
    ),
    "user untold": (
        sql("DELETE FROM audit_events WHERE action = 'user.add' AND object_id = 1"),
        "audited user",
    ),
    "token untold": (_untold("token.revoke"), "audited token"),
    "suspension untold": (change(users, "id = 3", suspended_at=START + DAY), "audited user"),
    "platform domain told twice": (
        lambda tx: audit.record(tx, OPERATOR, "platform_domain.add", 1),
        "audited platform_domain",
    ),
    "withdrawal untold": (_untold("platform_domain.withdraw_offer"), "audited platform_domain"),
    "coupon untold": (change(coupons, "id = 1", retired_at=START), "audited coupon"),
    "package untold": (change(packages, "id = 2", retired_at=START + DAY), "audited package"),
    "movement untold": (_untold("credits.refund"), "audited transfer"),
    "message untold": (_untold("ticket.staff_reply"), "audited ticket"),
    "message removed": (_remove(messages, "author_type = 'staff'"), "audited ticket"),
    "token removed": (_remove(tokens, "id = 1"), "rows_stay token"),
    "token of no user": (
        change(tokens, "id = 1", user_id=99),
        "rows_belong_together token, row_is_replayed token",
    ),
    "user of no organization": (
        _user(organization_id=99),
        "rows_belong_together user, row_is_replayed user, members_are_right user",
    ),
    "another spelling of the address": (
        _user(email="ann@example.org."),
        "row_is_replayed user, address_is_canonical user",
    ),
    "names and credits of a deleted user": (
        _user(deleted_at=START),
        "has_living_owner subdomain, has_living_owner user, members_are_right user",
    ),
    "account of an organization without an owner": (
        both(change(users, "id = 2", is_organization=True), _remove(memberships, "user_id = 2")),
        "has_living_owner user, members_are_right user",
    ),
    "organization without an owner": (
        change(memberships, "organization_id = 1", role="viewer"),
        "members_are_right organization",
    ),
    "token of others": (change(tokens, "id = 1", organization_id=2), "members_are_right token"),
    "account that is a member": (change(users, "id = 2", is_organization=True), "members_are_right user"),
    "longer life": (change(tokens, "id = 1", expires_at=START + 9000 * DAY), "row_is_replayed token"),
    "another's name": (change(tickets, "user_id = 2", subdomain_id=1), "rows_belong_together ticket"),
    "charge for another's name": (_entry(CHARGE, subdomain=SHOP), "rows_belong_together transfer"),
    "another's coupon": (change(coupon_uses, "id = 1", user_id=2), "rows_belong_together coupon_use"),
    "another's key": (change(idempotency_keys, "user_id = 1", user_id=2), "rows_belong_together user"),
    "reminder to another": (change(mails, REMINDER, user_id=2), "rows_belong_together milestone"),
    "reply told to another": (change(mails, "subject = 'Reply'", user_id=2), "rows_belong_together mail"),
    "milestone of no term": (_milestone("expired", about=START), NO_FACT),
    "milestone of no trash": (_milestone("trash_ends", about=START), NO_FACT),
    "trashed without one": (_remove(milestones, "kind = 'trashed'"), "milestones_are_facts subdomain"),
    "purged without a fact": (_milestone("purged", about=START), NO_FACT),
    "automatic renewal of no term": (_milestone("expired", kind="auto_renewed"), NO_FACT),
    "released without a fact": (
        _milestone("released", created_at=START),
        f"{NO_FACT}, milestones_are_facts subdomain",
    ),
    "mail of another instant": (
        change(mails, REMINDER, created_at=START - DAY),
        "mails_are_told_once milestone",
    ),
    "mail told twice": (
        both(_unique("mails"), _again(mails, "subject = 'Reply'")),
        "mails_are_told_once mail",
    ),
    "milestone told twice": (
        both(_unique("milestones"), _again(milestones, "kind = 'expired'", kind="expires_in_1_day")),
        "mails_are_told_once milestone",
    ),
}


def report(registry: Registry, faults: Faults) -> None:
    """Check that each fault breaks exactly its invariants.

    `make test` makes only two faults for each report, because the doctor takes a sixth of a second.
    """
    chosen: dict[str, tuple[Spoil, set[str]]] = {}
    reported: Counter[str] = Counter()
    for case, (spoil, reports) in faults.items():
        reported[reports] += 1
        if WHOLE or reported[reports] <= 2:
            chosen[case] = spoil, set(reports.split(", "))
    found = found_after_each(registry, {case: spoil for case, (spoil, _) in chosen.items()})
    assert all(each.message for violations in found.values() for each in violations)
    told = {case: {f"{each.invariant} {each.object_type}" for each in found[case]} for case in chosen}
    assert told == {case: wanted for case, (_, wanted) in chosen.items()}
    assert registry.doctor() == [], "each fault was taken back"


@pytest.mark.slow
@pytest.mark.whole_on_postgresql
def test_each_fault_breaks_exactly_its_invariants(busy: Registry) -> None:
    report(busy, {**LEDGER, **REGISTRY, **OTHERS})


SESSION, CODE, RECOVERY = (
    "session_is_possible session",
    "code_is_possible mailed_code",
    "recovery_is_possible user",
)
DELETED = change(users, "id = 2", deleted_at=START)
SIGN_INS: Faults = {
    "session of another": (change(sessions, "id = 1", user_id=2), "audited session"),
    "session of no user": (
        change(sessions, "id = 1", user_id=99),
        "audited session, rows_belong_together session",
    ),
    "session from before it began": (change(sessions, "id = 1", signed_in_at=START - DAY), SESSION),
    "session that was used before": (change(sessions, "id = 1", last_used_at=START - DAY), SESSION),
    "session of no kind": (change(sessions, "id = 1", how="password"), SESSION),
    "passkey of a deleted user": (
        both(change(passkeys, "id = 1", user_id=2), DELETED),
        "audited passkey, rows_belong_together passkey, members_are_right user",
    ),
    "code of another purpose": (change(mailed_codes, "id = 1", purpose="sign_up"), CODE),
    "code of no purpose": (change(mailed_codes, "id = 1", purpose="x"), CODE),
    "code for nobody": (change(mailed_codes, "id = 1", purpose="new_address", user_id=None), CODE),
    "code used too late": (change(mailed_codes, "id = 1", used_at=START + DAY), CODE),
    "recovery that counts at once": (change(recoveries, "user_id = 1", ready_at=START), RECOVERY),
    "recovery that counts for long": (change(recoveries, "user_id = 1", ends_at=START + 99 * DAY), RECOVERY),
    "recovery of a deleted user": (
        both(change(recoveries, "user_id = 1", user_id=2), DELETED),
        f"{RECOVERY}, members_are_right user",
    ),
    "secret of a session": (
        both(
            change(sessions, "id = 1", digest="a" * 64),
            lambda tx: audit.record(tx, replace(SYSTEM, reason="a" * 64), "user.edit", 1),
        ),
        "audit_has_no_secret audit_event",
    ),
}


@pytest.mark.whole_on_postgresql
def test_each_fault_of_sessions_passkeys_and_codes_is_found(registry: Registry) -> None:
    done = sign_in(registry)
    new_passkey(registry, done)
    registry.write(start_recovery, session_actor(done), URL)
    report(registry, SIGN_INS)


HEALTH: dict[str, tuple[Spoil, str]] = {
    "unknown state": (change(delegation_health, "true", state="ill"), "health_is_possible"),
    "half of a next state": (change(delegation_health, "true", next_state=HEALTHY), "health_is_possible"),
    "working, and mailed": (
        both(change(delegation_health, "true", state=HEALTHY), _remove(health_changes, "true")),
        "health_is_possible",
    ),
    "unknown, and told that it leaves": (
        change(delegation_health, "true", state=UNKNOWN, warned_at=START),
        "health_is_possible",
    ),
    "another state than in its history": (
        change(health_changes, "true", state=HEALTHY),
        "health_is_recorded",
    ),
    "half of a refusal": (change(automatic_ds, "true", message=None), "refusal_is_possible"),
    "refused while it is off": (change(automatic_ds, "true", enabled=False), "refusal_is_possible"),
    "unknown refusal": (change(automatic_ds, "true", refusal="no"), "refusal_is_possible"),
    "half of a wait": (change(automatic_ds, "true", awaited_digest="ab" * 32), "wait_is_possible"),
    "half of a refusal of CSYNC": (change(csync_states, "true", refused_since=None), "refusal_is_possible"),
}


@pytest.mark.uncovered
@pytest.mark.whole_on_postgresql
def test_each_fault_of_health_and_refusals_is_found(registry: Registry) -> None:
    shop = registry.register(SHOP, nameservers=NS)

    def look(tx: Tx) -> None:
        health = record_check(tx, shop.id, 1, Report(BROKEN, (), tx.now))
        assert health is not None
        update_health(tx, replace(health, mailed_at=tx.now))
        refused: Any = {"refusal": "servers_silent", "message": "Wait.", "refused_since": tx.now}
        save_state(tx, AutomaticDs(shop.id), AutomaticDs(shop.id, **refused))
        save_state(tx, CsyncState(shop.id), CsyncState(shop.id, **refused))

    registry.write(look)
    assert registry.doctor() == []
    found = found_after_each(registry, {case: spoil for case, (spoil, _) in HEALTH.items()})
    for case, (_, expected) in HEALTH.items():
        assert expected in {each.invariant for each in found[case]}, (case, found[case])


MALFORMED = {
    "text in a column of numbers": ("users", "UPDATE users SET free_quota = 'many' WHERE id = 1"),
    "a number in a column of text": ("users", "UPDATE users SET name = x'00' WHERE id = 1"),
    "no truth value": ("subdomains", "UPDATE subdomains SET held_with_user = 'perhaps' WHERE id = 1"),
    "a day that doesn't exist": (
        "tokens",
        "UPDATE tokens SET created_at = '2026-02-30T00:00:00.000000Z' WHERE id = 1",
    ),
    "no JSON": ("tokens", "UPDATE tokens SET scopes = '[' WHERE id = 1"),
    "other JSON in the audit": ("check", "UPDATE audit_events SET after = '7' WHERE object_type = 'user'"),
}


@pytest.mark.whole_on_postgresql  # which stores no such values
def test_a_malformed_row_is_named_and_the_other_checks_go_on(busy: Registry) -> None:
    if busy.read(lambda tx: tx.connection.dialect.name) == "postgresql":
        pytest.skip("PostgreSQL stores no such values")
    more = change(users, "id = 2", email="eve@example.org")
    found = found_after_each(
        busy, {case: both(more, sql(statement)) for case, (_, statement) in MALFORMED.items()}
    )
    for case, (table, _) in MALFORMED.items():
        named = {each.object_type for each in found[case] if each.invariant == "rows_are_readable"}
        assert table in named, (case, found[case])
        assert len({each.invariant for each in found[case]}) > 1 or "audit" in case, (case, found[case])
    assert busy.doctor() == []


def test_dropped_triggers_and_ids_that_would_be_assigned_again_are_found(busy: Registry) -> None:
    before = busy.dump()
    found = found_after(busy, _drop_guard, guarded=True)
    assert [(each.invariant, each.object_id) for each in found] == [("append_only", "terms")]
    assert busy.dump() == before
    busy.write(_set(SHOP, generation=99, generation_at=busy.now - timedelta(minutes=5)))
    assert busy.doctor() == [], "five minutes are no delay"
    found = found_after(busy, lambda tx: number_was_given(tx, "tokens", 1))
    assert [(each.invariant, each.object_id) for each in found] == [("ids_are_new", "tokens")]


def test_secrets_that_users_write_into_their_texts_break_no_invariant(registry: Registry) -> None:
    secret = registry.write(issue_token, OPERATOR, "1", "laptop").secret.reveal()
    for secret_text in (f"sublet_{'a' * 38}", secret, digest(secret), f"x{secret}y"):
        registry.write(issue_token, OPERATOR, "1", secret_text)
        registry.write(edit_user, OPERATOR, "1", UserEdit(name=secret_text))
        registry.write(create_organization, registry.actor(), secret_text, created_max=99)
        registry.write(open_ticket, registry.actor(), TicketRequest(subject=secret_text, message=secret_text))
    ds = {"key_tag": 1, "algorithm": 13, "digest_type": 2, "digest": digest(secret)}
    registry.write(
        lambda tx: audit.record(
            tx, registry.actor(), "subdomain.update_nameservers", 1, after={"ds_records": [ds]}
        )
    )
    assert [each for each in registry.doctor() if each.invariant == "audit_has_no_secret"] == []


def test_a_revoked_token_in_a_reason_breaks_no_invariant(registry: Registry) -> None:
    issued = registry.write(issue_token, OPERATOR, "1", "laptop")
    because = replace(OPERATOR, reason=f"for {issued.secret.reveal()}")
    registry.write(edit_user, because, "1", UserEdit(name="Anna"))
    assert [each.invariant for each in registry.doctor()] == ["audit_has_no_secret"]
    registry.write(revoke_token, OPERATOR, issued.token.id)
    assert registry.doctor() == []
