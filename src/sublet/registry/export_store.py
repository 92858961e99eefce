"""All SQL of the export of a user's data.

The export reads parts of `ROWS_AT_ONCE` rows, so that neither transactions nor memory grow with the data.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, FromClause, Table, select, tuple_

from sublet.accounts.model import User
from sublet.accounts.session_store import passkeys, recoveries, sessions
from sublet.accounts.store import memberships, organizations, tokens
from sublet.credits.store import coupon_uses, coupons, ledger_entries
from sublet.db import Tx
from sublet.registry.declared_texts import ERASED
from sublet.subdomains.store import subdomains, terms
from sublet.subdomains.transfers.store import is_of_user, name_transfers
from sublet.tickets.store import messages, tickets

ROWS_AT_ONCE = 500
SortKey = Sequence[Any]
"""The values by which rows are sorted. The next part of a list begins after the key of the last row."""


class Section(Struct, frozen=True):
    """A list of the export.

    `columns` has the column of each member, `source` the tables, `order` the columns of the sort key.
    """

    columns: Mapping[str, ColumnElement[Any]]
    source: FromClause
    order: tuple[ColumnElement[Any], ...]
    owner: ColumnElement[Any] | None = None
    """The column with the user's id; None for transfers, which have a sender and a recipient."""


def _columns(table: Table, *names: str, **others: ColumnElement[Any]) -> dict[str, ColumnElement[Any]]:
    return {**{name: table.c[name] for name in names}, **others}


def _user_section(table: Table, *names: str) -> Section:
    """Return the section of a table with these columns, and its other texts that are erased with a user."""
    texts = (each for each in ERASED.get(table.name, "").split() if each not in names)
    return Section(_columns(table, *names, *texts), table, (table.c.created_at, table.c.id), table.c.user_id)


SECTIONS: dict[str, Section] = {
    "subdomains": _user_section(
        subdomains,
        *("id", "fqdn", "registration_type", "registration_source", "nameservers", "glue", "ds_records"),
        *("records", "provision_error", "registered_at", "expires_at", "last_renewed_at", "period_days"),
        *(
            "auto_renew_max_credits",
            "suspended_at",
            "suspended_reason",
            "trashed_at",
            "purged_at",
            "released_at",
        ),
        *("created_at", "updated_at"),
    ),
    "terms": Section(
        _columns(terms, "id", "subdomain_id", "action", "starts_at", "ends_at"),
        terms.join(subdomains),
        (terms.c.id,),
        subdomains.c.user_id,
    ),
    # By id: `balance_after` follows the ids, but not always the instants.
    "payments": Section(
        _columns(
            ledger_entries,
            *("id", "reference", "kind", "credits", "balance_after", "amount", "currency", "description"),
            *("subdomain", "token_id", "created_at"),
        ),
        ledger_entries,
        (ledger_entries.c.id,),
        ledger_entries.c.user_id,
    ),
    "coupons": Section(
        _columns(coupon_uses, "id", "subdomain_id", "discount_credits", "created_at", code=coupons.c.code),
        coupon_uses.join(coupons),
        (coupon_uses.c.id,),
        coupon_uses.c.user_id,
    ),
    "tokens": _user_section(
        tokens,
        *(
            "id",
            "name",
            "scopes",
            "names",
            "domains",
            "networks",
            "record_names",
            "daily_credits",
            "created_at",
            "expires_at",
        ),
        *("last_used_at", "last_used_from", "revoked_at"),
    ),
    "sessions": _user_section(
        sessions,
        *("id", "how", "created_at", "signed_in_at", "expires_at", "last_used_at", "last_used_from"),
        *("network", "user_agent"),
    ),
    "passkeys": _user_section(passkeys, "id", "name", "created_at", "last_used_at"),
    "recoveries": Section(
        _columns(recoveries, "asked_at", "ready_at", "ends_at"),
        recoveries,
        (recoveries.c.user_id,),
        recoveries.c.user_id,
    ),
    "memberships": Section(
        _columns(
            memberships,
            "organization_id",
            "role",
            "created_at",
            name=organizations.c.name,
            slug=organizations.c.slug,
        ),
        memberships.join(organizations),
        (memberships.c.organization_id,),
        memberships.c.user_id,
    ),
    "transfers": Section(
        _columns(
            name_transfers,
            *("id", "state", "created_at", "expires_at", "ended_at"),
            subdomain=subdomains.c.fqdn,
            to=name_transfers.c.recipient_email,
        ),
        name_transfers.join(subdomains, subdomains.c.id == name_transfers.c.subdomain_id),
        (name_transfers.c.created_at, name_transfers.c.id),
    ),
    "tickets": _user_section(
        tickets,
        *("id", "type", "status", "priority", "subject", "requester_email", "subdomain_id"),
        *("created_at", "last_message_at"),
    ),
    "messages": Section(
        _columns(
            messages,
            *("id", "ticket_id", "author_type", "author_name", "message", "message_format", "created_at"),
        ),
        messages.join(tickets),
        (messages.c.ticket_id, messages.c.id),
        tickets.c.user_id,
    ),
}
"""The lists of the export, without the activity, by the names of their members."""

NOT_EXPORTED = {
    "mailed_codes": "codes are secrets, and are deleted a day after they expire",
    "device_requests": "codes are secrets, and are deleted an hour after they "
    "expire; the activity has the decisions",
    "users": "the member `account` has the user",
    "ledger_accounts": "the member `account` has the balance",
    "audit_events": "the list `activity` has the user's events",
    "idempotency_keys": "ids of objects that are exported; deleted after a day",
    "mails": "the mails are in the user's mailbox, and the API doesn't read the outbox",
    "operator_notices": "the tickets that they quote are exported",
    "erasures": "the table has rows only during the deletion of a user",
}
"""The other tables with a user's data, each with the reason why it isn't exported."""
COLUMNS_NOT_EXPORTED = {
    "passkeys": "credential_id public_key transports",
    "sessions": "digest",
}
"""The texts of exported tables that are not exported, because only the service and the authenticator use
them.
"""


def next_part(
    tx: Tx, section: Section, user: User, after: SortKey | None
) -> tuple[list[dict[str, Any]], SortKey | None]:
    """Return the rows after a sort key, and the sort key of the last one.

    The key is None if no rows follow.
    """
    names = list(section.columns)
    query = select(*section.columns.values(), *section.order).select_from(section.source)
    query = query.where(is_of_user(user) if section.owner is None else section.owner == user.id)
    if after is not None:
        query = query.where(tuple_(*section.order) > tuple(after))
    rows = tx.connection.execute(query.order_by(*section.order).limit(ROWS_AT_ONCE)).all()
    found = [dict(zip(names, row, strict=False)) for row in rows]
    return found, rows[-1][len(names) :] if len(rows) == ROWS_AT_ONCE else None
