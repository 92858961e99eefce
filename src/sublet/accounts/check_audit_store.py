"""All SQL of the audit's invariants: its guards, its secrets, its instants, and the numbers that are never given twice."""

from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import Integer, Text, cast, column, func, literal, or_, select, table, text

from sublet.accounts.store import tokens
from sublet.accounts.tokens import find_secrets
from sublet.audit import audit_events
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.schema import APPEND_ONLY, STREAMED

NUMBERED = {
    "audit_events": None,
    "coupon_uses": None,
    "coupons": "coupon",
    "label_patterns": "label_pattern",
    "ledger_accounts": None,
    "mails": None,
    "messages": None,
    "milestones": None,
    "organizations": "organization",
    "packages": "package",
    "platform_domains": "platform_domain",
    "subdomains": "subdomain",
    "terms": None,
    "tickets": "ticket",
    "tokens": "token",
    "transfers": "transfer",
    "users": "user",
}
"""The tables whose rows are numbered by the database, each with what the audit calls its rows, where it tells of them."""

_SQLITE_GUARDS = "SELECT lower(sql) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table"
_POSTGRESQL_GUARDS = (
    "SELECT lower(pg_get_triggerdef(t.oid)) FROM pg_trigger t WHERE t.tgrelid = to_regclass(:table) "
    "AND t.tgenabled IN ('O', 'A')"
)
_SQLITE_LAST = "SELECT seq FROM sqlite_sequence WHERE name = :table"
_POSTGRESQL_LAST = "SELECT pg_sequence_last_value(to_regclass(pg_get_serial_sequence(:table, 'id')))"


def list_missing_guards(tx: Tx) -> Iterator[Violation]:
    """Which tables that are only ever added to does the database not guard against a change?"""
    sqlite = tx.connection.dialect.name == "sqlite"
    query, refusing = (
        (_SQLITE_GUARDS, "raise(abort")
        if sqlite
        else (_POSTGRESQL_GUARDS, "execute function refuse_change()")
    )
    for name in APPEND_ONLY:
        found = tx.connection.execute(text(query), {"table": name}).scalars().all()
        for verb in ("update", "delete"):
            if not any(f" before {verb} on " in each and refusing in each for each in found):
                sentence = f"no trigger refuses {verb.upper()}: its rows may have been changed"
                yield Violation("append_only", "table", name, sentence)


def list_numbers_given_again(tx: Tx) -> Iterator[Violation]:
    """Which tables' next number may be one that was given before, by their rows or by what the audit tells?"""
    sqlite = tx.connection.dialect.name == "sqlite"
    last_query = text(_SQLITE_LAST if sqlite else _POSTGRESQL_LAST)
    events = audit_events.c
    audited = {
        str(object_type): int(greatest)
        for object_type, greatest in tx.connection.execute(
            select(events.object_type, func.max(events.object_id)).group_by(events.object_type)
        )
    }
    for name, object_type in NUMBERED.items():
        last = int(tx.connection.execute(last_query, {"table": name}).scalar_one_or_none() or 0)
        greatest_row = select(func.max(column("id", Integer))).select_from(table(name))
        rows = tx.connection.execute(greatest_row).scalar_one()
        greatest = max(int(rows or 0), audited.get(object_type, 0) if object_type is not None else 0)
        if greatest > last:
            sentence = f"the last number given is {last}, and {greatest} was given: one would be given twice"
            yield Violation("ids_are_new", "table", name, sentence)


def list_events_to_come(tx: Tx, clocks_apart: timedelta) -> Iterator[Violation]:
    """Which events are of the future, by more than the clocks of two machines may differ?"""
    query = select(audit_events.c.id, audit_events.c.at).where(audit_events.c.at > tx.now + clocks_apart)
    for event_id, at in tx.connection.execute(query):
        yield Violation(
            "audit_is_past", "audit_event", event_id, f"it is of {at:%Y-%m-%d %H:%M} UTC, which is to come"
        )


def list_audited_secrets(tx: Tx) -> Iterator[Violation]:
    """Which events hold a token, or what is stored of one?"""
    events = audit_events.c
    written = func.coalesce(cast(events.before, Text), "").concat(
        func.coalesce(cast(events.after, Text), "").concat(
            literal(" ").concat(func.coalesce(events.reason, ""))
        )
    )
    # A cheap look first; of what it finds most are DS records, whose digests look the same as those of tokens.
    query = select(events.id, written).where(
        or_(written.like("%sublet!_%", escape="!"), written.regexp_match("[0-9a-f]{64}"))
    )
    for rows in tx.connection.execute(query.execution_options(**STREAMED)).partitions(500):
        found = {event_id: find_secrets(words) for event_id, words in rows}
        digests = {each for secrets in found.values() for each in secrets.digests}
        stored = (
            set(tx.connection.execute(select(tokens.c.digest).where(tokens.c.digest.in_(digests))).scalars())
            if digests
            else set()
        )
        for event_id, secrets in found.items():
            if secrets.tokens or stored & secrets.digests:
                what = "a token" if secrets.tokens else "the digest of a token"
                yield Violation(
                    "audit_has_no_secret", "audit_event", event_id, f"it holds {what}: revoke that one"
                )
