"""Check that stored values have the types of their columns, and that every row that another row refers to
exists and belongs to the same user.

Rows about a name from before its transfer belong to its former user.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
    type_coerce,
)

from sublet.accounts.store import organizations, tokens, users
from sublet.audit import audit_events
from sublet.credits.store import ledger_entries
from sublet.db import Tx
from sublet.doctor.model import Violation, was_transferred, yield_violations
from sublet.mail.store import mails
from sublet.operations.idempotency_store import idempotency_keys
from sublet.schema import STREAMED, Instant, metadata
from sublet.subdomains.store import subdomains
from sublet.subdomains.transfers.store import name_transfers
from sublet.tickets.store import tickets

_TICKET_REFERENCE = re.compile(r"ticket:(?:T-)?([0-9]+)(?::.*)?")

_DIGIT = "[0-9]"
_INSTANT = f"{_DIGIT * 4}-{_DIGIT * 2}-{_DIGIT * 2}T{_DIGIT * 2}:[0-5]{_DIGIT}:[0-5]{_DIGIT}.{_DIGIT * 6}Z"


def check_rows(tx: Tx) -> Iterator[Violation]:
    """Yield the rows with a value of a wrong type: text in a column of numbers, invalid JSON, a date that
    doesn't exist.

    PostgreSQL ensures this; SQLite stores any value in any column. Not checked: that text is valid UTF-8, and
    the content of JSON values.
    """
    if tx.connection.dialect.name != "sqlite":
        return
    for table in metadata.sorted_tables:
        yield from _find_malformed(tx, table)


def _find_malformed(tx: Tx, table: Table) -> Iterator[Violation]:
    for object_id, name in tx.connection.execute(_malformed_rows(table)):
        sentence = f"its {name} is not a valid {_type_name(table.c[name])}"
        yield Violation("rows_are_readable", table.name, object_id, sentence)


@cache
def _malformed_rows(table: Table) -> Select[Any]:
    """Return the query for the id and the first wrong column of each malformed row."""
    row_id = table.c.id if "id" in table.c else literal_column(f"{table.name}.rowid")
    wrong = {column.name: column.is_not(None) & _is_malformed(column) for column in table.c}
    first = case(*((condition, name) for name, condition in wrong.items()))
    query = select(type_coerce(row_id, String), first).where(or_(*wrong.values()))
    return query.execution_options(**STREAMED)


def _is_malformed(column: Column[Any]) -> ColumnElement[bool]:
    kind = func.typeof(column)
    if isinstance(column.type, Boolean):
        return type_coerce(column, Integer).not_in((0, 1))
    if isinstance(column.type, Integer):
        return kind != "integer"
    if isinstance(column.type, Instant):
        written = type_coerce(column, String)
        day = func.substr(written, 1, 10)
        # SQLite's date() turns 31 February into a day in March, so an impossible day doesn't equal the
        # result.
        is_day = func.coalesce(func.date(day, "+0 days"), "") == day
        is_hour = func.substr(written, 12, 2) < "24"
        is_whole = written.bool_op("GLOB")(_INSTANT) & is_day & is_hour & (written >= "0001")
        return (kind != "text") | ~is_whole
    if isinstance(column.type, JSON):
        return (kind != "text") | (func.json_valid(type_coerce(column, String)) == 0)
    return kind != "text"


def _type_name(column: Column[Any]) -> str:
    meanings = ((Boolean, "truth value"), (Integer, "integer"), (Instant, "instant"), (JSON, "JSON value"))
    return next((meaning for kind, meaning in meanings if isinstance(column.type, kind)), "text")


def check_belonging(tx: Tx) -> Iterator[Violation]:
    """Yield the rows that refer to a row of another user, or to a missing row."""
    query = select(tokens.c.id, tokens.c.user_id).where(tokens.c.user_id.not_in(select(users.c.id)))
    sentence = "its user {user_id} doesn't exist"
    yield from yield_violations(tx, "rows_belong_together", "token", query, sentence)
    query = select(users.c.id, users.c.organization_id).where(
        users.c.organization_id.not_in(select(organizations.c.id))
    )
    sentence = "the user's organization {organization_id} doesn't exist"
    yield from yield_violations(tx, "rows_belong_together", "user", query, sentence)
    yield from _find_foreign_entries(tx)
    yield from _find_foreign_tickets(tx)
    yield from _find_impossible_name_transfers(tx)
    yield from _find_misdirected_mails(tx)
    yield from _find_foreign_outcomes(tx)


def _find_foreign_entries(tx: Tx) -> Iterator[Violation]:
    """Yield the ledger entries for a name of another user or a missing name, or with another fqdn than the
    name's.
    """
    query = (
        select(ledger_entries.c.id, ledger_entries.c.subdomain_id)
        .select_from(ledger_entries.outerjoin(subdomains, subdomains.c.id == ledger_entries.c.subdomain_id))
        .where(
            (ledger_entries.c.subdomain_id.is_not(None) | ledger_entries.c.subdomain.is_not(None))
            & (
                subdomains.c.id.is_(None)
                | (
                    (subdomains.c.user_id != ledger_entries.c.user_id)
                    & ~was_transferred(ledger_entries.c.subdomain_id, ledger_entries.c.user_id)
                )
                | (subdomains.c.fqdn != func.coalesce(ledger_entries.c.subdomain, ""))
            )
        )
    )
    sentence = "its subdomain {subdomain_id} belongs to another user, or has another name"
    yield from yield_violations(tx, "rows_belong_together", "transfer", query, sentence)


def _find_foreign_tickets(tx: Tx) -> Iterator[Violation]:
    query = (
        select(tickets.c.id, tickets.c.subdomain_id)
        .select_from(tickets.outerjoin(subdomains, subdomains.c.id == tickets.c.subdomain_id))
        .where(
            tickets.c.subdomain_id.is_not(None)
            & (subdomains.c.id.is_(None) | (subdomains.c.user_id != tickets.c.user_id))
            & ~was_transferred(tickets.c.subdomain_id, tickets.c.user_id)
        )
    )
    sentence = "its subdomain {subdomain_id} doesn't belong to its user"
    yield from yield_violations(tx, "rows_belong_together", "ticket", query, sentence)


def _find_impossible_name_transfers(tx: Tx) -> Iterator[Violation]:
    """Yield pending name transfers whose sender can't give the name away, and accepted ones whose name never
    moved.
    """
    columns, names = name_transfers.c, subdomains.c
    of_name = select(columns.id, columns.subdomain_id, names.fqdn).join_from(
        name_transfers, subdomains, names.id == columns.subdomain_id
    )
    can_give = (
        (names.user_id == columns.from_user_id) & names.trashed_at.is_(None) & names.suspended_at.is_(None)
    )
    query = of_name.where((columns.state == "pending") & ~can_give)
    sentence = "it is pending, but {fqdn} is in the trash, suspended or another user's"
    yield from yield_violations(tx, "rows_belong_together", "name_transfer", query, sentence)
    was_moved = was_transferred(columns.subdomain_id, columns.from_user_id)
    query = of_name.where((columns.state == "accepted") & ~was_moved)
    sentence = "it is accepted, but {fqdn} was never moved from its sender"
    yield from yield_violations(tx, "rows_belong_together", "name_transfer", query, sentence)


def _find_misdirected_mails(tx: Tx) -> Iterator[Violation]:
    """Yield the mails about a ticket whose user isn't the ticket's.

    A mail's reference has the ticket's id.
    """
    query = (
        select(mails.c.id, mails.c.user_id, mails.c.reference)
        .where(mails.c.reference.like("ticket:%"))
        .order_by(mails.c.id)
        .execution_options(**STREAMED)
    )
    for rows in tx.connection.execute(query).partitions(500):
        ticket_ids = {
            mail_id: int(match[1]) if (match := _TICKET_REFERENCE.fullmatch(reference)) else 0
            for mail_id, _, reference in rows
        }
        tickets_of_mails = select(tickets.c.id, tickets.c.user_id).where(
            tickets.c.id.in_(set(ticket_ids.values()))
        )
        owners: dict[int, int] = {row[0]: row[1] for row in tx.connection.execute(tickets_of_mails)}
        for mail_id, user_id, reference in rows:
            if owners.get(ticket_ids[mail_id]) != user_id:
                sentence = f"{reference} goes to the user {user_id}, who has no such ticket"
                yield Violation("rows_belong_together", "mail", mail_id, sentence)


def _find_foreign_outcomes(tx: Tx) -> Iterator[Violation]:
    """Yield the users of an `Idempotency-Key` whose stored outcome doesn't belong to them.

    The key doesn't store the kind of the outcome, so all are tried: the user; something that the user has
    changed, by its event, which stays if the thing or a membership ends; a subdomain, ticket, token or
    transfer of the user; a subdomain, ticket or token of an organization that the user ever joined; an
    organization that the user created.
    """
    keys = idempotency_keys.c
    outcome_id = keys.outcome["id"].as_integer()
    events, accounts = audit_events.alias(), users.alias()

    def joined(organization_id: ColumnElement[int]) -> ColumnElement[bool]:
        return exists().where(
            (events.c.object_type == "organization")
            & (events.c.object_id == organization_id)
            & (events.c.action == "organization.join")
            & (events.c.after["user_id"].as_integer() == keys.user_id)
        )

    of_organization = [
        exists().where((table.c.id == outcome_id) & (table.c.user_id == accounts.c.id))
        for table in (subdomains, tickets)
    ]
    # A change that changes nothing has no event.
    shared = exists().where(
        accounts.c.is_organization
        & joined(accounts.c.organization_id)
        & or_(*of_organization, was_transferred(outcome_id, accounts.c.id))
    )
    shared_token = exists().where((tokens.c.id == outcome_id) & joined(tokens.c.organization_id))
    changed = exists().where(
        audit_events.c.object_type.in_(
            ("device", "mailed_code", "passkey", "session", "subdomain", "ticket", "token", "name_transfer")
        )
        & (audit_events.c.object_id == outcome_id)
        & (audit_events.c.user_id == keys.user_id)
    )
    subdomain, ticket, token = (
        exists().where((table.c.id == outcome_id) & (table.c.user_id == keys.user_id))
        for table in (subdomains, tickets, tokens)
    )
    transfer = exists().where(
        (name_transfers.c.id == outcome_id)
        & or_(name_transfers.c.from_user_id == keys.user_id, name_transfers.c.to_user_id == keys.user_id)
    )
    organization = exists().where(
        (organizations.c.id == outcome_id) & (organizations.c.created_by_user_id == keys.user_id)
    )
    has_user = exists().where(users.c.id == keys.user_id)
    own = or_(
        subdomain,
        ticket,
        token,
        transfer,
        organization,
        changed,
        outcome_id == keys.user_id,
        was_transferred(outcome_id, keys.user_id),
        shared_token,
        shared,
    )
    query = select(keys.user_id.label("id"), keys.key).where(keys.outcome.is_(None) | ~has_user | ~own)
    sentence = "the outcome stored for the key {key} doesn't belong to its user"
    yield from yield_violations(tx, "rows_belong_together", "user", query, sentence)
