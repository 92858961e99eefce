"""Check the audit: each change has an event, no event has a secret, events can't be changed, and ids are not
reused.
"""

from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    Column,
    ColumnElement,
    Text,
    cast,
    func,
    literal,
    or_,
    select,
    text,
    true,
    union_all,
)

from sublet.accounts.session_store import sessions
from sublet.accounts.store import organizations, tokens, users
from sublet.accounts.tokens.issue import digest, find_secrets
from sublet.audit import audit_events, erasures
from sublet.audit_members import is_chosen_by_client
from sublet.credits.store import coupons, ledger_entries, packages
from sublet.db import Tx
from sublet.doctor.model import Violation, yield_violations
from sublet.platform_domains.store import offers, platform_domains
from sublet.schema import APPEND_ONLY, STREAMED, find_last_id, list_numbered
from sublet.subdomains.transfers.store import name_transfers
from sublet.tickets.store import messages, tickets

MESSAGES = ("ticket.open", "ticket.reply", "ticket.staff_reply", "ticket.close")
"""The actions that add a message."""


class Audited(Struct, frozen=True):
    """A column with the time of an audit event.

    Each row in which it isn't null, and for which `condition` is true, must have the event.

    With `once` the row has exactly one such event. Without it, the column has the time of the last such
    event.
    """

    object_type: str
    ids: Column[int]
    at: Column[Any]
    actions: tuple[str, ...]
    once: bool = True
    condition: ColumnElement[bool] | None = None


_ENTRIES = ("payment.record", "credits.grant", "credits.adjust", "credits.refund")
# A charge has no event of its own: the event of its term covers it (`name_history.py`).
_NO_CHARGE = ledger_entries.c.kind != "charge"
AUDITED = (
    Audited("organization", organizations.c.id, organizations.c.created_at, ("organization.add",)),
    Audited("user", users.c.id, users.c.created_at, ("user.add",)),
    Audited("user", users.c.id, users.c.suspended_at, ("user.suspend",), once=False),
    Audited("token", tokens.c.id, tokens.c.created_at, ("token.issue",)),
    Audited("token", tokens.c.id, tokens.c.revoked_at, ("token.revoke",)),
    Audited("transfer", ledger_entries.c.id, ledger_entries.c.created_at, _ENTRIES, condition=_NO_CHARGE),
    Audited("coupon", coupons.c.id, coupons.c.created_at, ("coupon.add",)),
    Audited("coupon", coupons.c.id, coupons.c.retired_at, ("coupon.retire",)),
    Audited("package", packages.c.id, packages.c.created_at, ("package.add",)),
    Audited("package", packages.c.id, packages.c.retired_at, ("package.retire",)),
    Audited(
        "platform_domain", platform_domains.c.id, platform_domains.c.created_at, ("platform_domain.add",)
    ),
    Audited(
        "platform_domain",
        offers.c.platform_domain_id,
        offers.c.withdrawn_at,
        ("platform_domain.withdraw_offer",),
        once=False,
    ),
    Audited("ticket", tickets.c.id, tickets.c.created_at, ("ticket.open",)),
    Audited("name_transfer", name_transfers.c.id, name_transfers.c.created_at, ("name_transfer.push",)),
    Audited(
        "name_transfer",
        name_transfers.c.id,
        name_transfers.c.ended_at,
        tuple(f"name_transfer.{each}" for each in ("accept", "decline", "withdraw", "expire")),
    ),
)

_SQLITE_TRIGGERS = "SELECT lower(sql) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table"
_POSTGRESQL_TRIGGERS = (
    "SELECT lower(pg_get_triggerdef(t.oid)) FROM pg_trigger t WHERE t.tgrelid = to_regclass(:table) "
    "AND t.tgenabled IN ('O', 'A')"
)


def check_audit(tx: Tx) -> Iterator[Violation]:
    """Yield the broken invariants of the audit, of the append-only tables, and of ids."""
    yield from _find_missing_triggers(tx)
    yield from _find_reused_ids(tx)
    yield from _find_events_with_secrets(tx)
    for each in AUDITED:
        yield from _find_unaudited_rows(tx, each)
    for object_type, ids in {each.object_type: each.ids for each in AUDITED if each.ids.name == "id"}.items():
        yield from _find_missing_rows(tx, object_type, ids)
    yield from _find_unaudited_messages(tx)


def _find_missing_triggers(tx: Tx) -> Iterator[Violation]:
    if tx.connection.execute(select(erasures.c.user_id)).first() is not None:
        sentence = "it has a row, so texts of audit events and transfers can be changed"
        yield Violation("append_only", "table", erasures.name, sentence)
    sqlite = tx.connection.dialect.name == "sqlite"
    query, refusing = (
        (_SQLITE_TRIGGERS, "raise(abort")
        if sqlite
        else (_POSTGRESQL_TRIGGERS, "execute function refuse_change()")
    )
    for name in APPEND_ONLY:
        found = tx.connection.execute(text(query), {"table": name}).scalars().all()
        for verb in ("update", "delete"):
            if not any(f" before {verb} on " in each and refusing in each for each in found):
                sentence = f"no trigger refuses {verb.upper()}: its rows may have been changed"
                yield Violation("append_only", "table", name, sentence)


def _find_reused_ids(tx: Tx) -> Iterator[Violation]:
    """Yield the tables whose next id is already in use by a row or by an audit event."""
    events = audit_events.c
    query = select(events.object_type, func.max(events.object_id)).group_by(events.object_type)
    audited = {f"{object_type}s": int(greatest) for object_type, greatest in tx.connection.execute(query)}
    for each in list_numbered():
        last = find_last_id(tx.connection, each)
        greatest_row = tx.connection.execute(select(func.max(each.c.id))).scalar_one()
        greatest = max(int(greatest_row or 0), audited.get(each.name, 0))
        if greatest > last:
            sentence = (
                f"the database last assigned the id {last}, but {greatest} is in use, and would be "
                "assigned again"
            )
            yield Violation("ids_are_new", "table", each.name, sentence)


def _find_events_with_secrets(tx: Tx) -> Iterator[Violation]:
    """Yield the events with a valid token, or with the digest of a valid token or of a session.

    Only reasons and members whose values no client can choose are searched. Otherwise a user could put a
    secret of their own into a name, and so make each backup report a violation.
    """
    events = audit_events.c
    text_of_event = func.coalesce(cast(events.before, Text), "").concat(
        func.coalesce(cast(events.after, Text), "").concat(
            literal(" ").concat(func.coalesce(events.reason, ""))
        )
    )
    # Most rows of this query have DS records, whose digests look like digests of tokens.
    query = select(events.id, events.object_type, events.before, events.after, events.reason).where(
        or_(text_of_event.like("%sublet!_%", escape="!"), text_of_event.regexp_match("[0-9a-f]{64}"))
    )
    for rows in tx.connection.execute(query.execution_options(**STREAMED)).partitions(500):
        found = {event_id: find_secrets(_searched_text(*values)) for event_id, *values in rows}
        digests = {
            event_id: secrets.digests | {digest(each) for each in secrets.tokens}
            for event_id, secrets in found.items()
        }
        stored = _list_valid_digests(tx, {each for of_event in digests.values() for each in of_event})
        for event_id, of_event in digests.items():
            if stored & of_event:
                what = "the digest of a token" if stored & found[event_id].digests else "a token"
                yield Violation(
                    "audit_has_no_secret", "audit_event", event_id, f"it has {what}. Revoke that token"
                )


def _searched_text(
    object_type: str, before: dict[str, Any] | None, after: dict[str, Any] | None, reason: str | None
) -> str:
    values = [
        value
        for members in (before, after)
        for name, value in (members or {}).items()
        if not is_chosen_by_client(object_type, name)
    ]
    return f"{values} {reason or ''}"


def _list_valid_digests(tx: Tx, digests: Collection[str]) -> set[str]:
    """Return the digests that belong to a session, or to a token that is neither revoked nor expired."""
    if not digests:
        return set()
    is_valid = tokens.c.revoked_at.is_(None) & (
        tokens.c.expires_at.is_(None) | (tokens.c.expires_at > tx.now)
    )
    columns = (
        (tokens.c.digest, is_valid),
        (tokens.c.former_digest, is_valid & (tokens.c.former_until > tx.now)),
        (sessions.c.digest, true()),
    )
    return {
        each
        for column, condition in columns
        for each in tx.connection.execute(select(column).where(column.in_(digests) & condition)).scalars()
    }


def _find_unaudited_rows(tx: Tx, audited: Audited) -> Iterator[Violation]:
    """Yield the rows without an event at their time. With `once`, also yield the rows with several events."""
    events, at, once = audit_events.c, audited.at, audited.once
    found = (
        select(events.object_id, func.count().label("number"), func.max(events.at).label("at"))
        .where((events.object_type == audited.object_type) & events.action.in_(audited.actions))
        .group_by(events.object_id, *([] if once else [events.at]))
        .subquery()
    )
    same = (found.c.object_id == audited.ids) & (true() if once else found.c.at == at)
    wrong: ColumnElement[bool] = found.c.number.is_(None) | (found.c.at != at)
    if once:
        wrong |= found.c.number != 1
    query = (
        select(audited.ids.label("id"), at.label("at"), func.coalesce(found.c.number, 0).label("number"))
        .select_from(audited.ids.table.outerjoin(found, same))
        .where(at.is_not(None) & wrong & (true() if audited.condition is None else audited.condition))
    )
    sentence = f"it has {{number}} events {' or '.join(audited.actions)} for its {at.name} {{at}}"
    yield from yield_violations(tx, "audited", audited.object_type, query, sentence)


def _find_missing_rows(tx: Tx, object_type: str, ids: Column[int]) -> Iterator[Violation]:
    events = audit_events.c
    is_gone = (events.object_type == object_type) & events.object_id.not_in(select(ids))
    query = select(events.object_id.label("id")).distinct().where(is_gone)
    yield from yield_violations(
        tx, "rows_stay", object_type, query, "the audit has events of it, but its row is gone"
    )


def _find_unaudited_messages(tx: Tx) -> Iterator[Violation]:
    """Yield the tickets with other numbers of messages than of events at the same time."""
    events, one, zero = audit_events.c, literal(1), literal(0)
    is_message = (events.object_type == "ticket") & events.action.in_(MESSAGES)
    rows = union_all(
        select(events.object_id.label("id"), events.at, one.label("events"), zero.label("messages")).where(
            is_message
        ),
        select(messages.c.ticket_id, messages.c.created_at, zero, one),
    ).subquery()
    event_count, message_count = func.sum(rows.c.events), func.sum(rows.c.messages)
    query = (
        select(rows.c.id, rows.c.at, event_count.label("events"), message_count.label("messages"))
        .group_by(rows.c.id, rows.c.at)
        .having(event_count != message_count)
    )
    sentence = "at {at} it has {messages} messages, but {events} events"
    yield from yield_violations(tx, "audited", "ticket", query, sentence)
