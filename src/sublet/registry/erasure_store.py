"""All SQL that erases a user's personal data, counts the remaining rows, and finds texts that still mention
the user.
"""

from collections.abc import Collection
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Select,
    String,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from sublet import audit_members
from sublet.accounts.fields import normalise_email
from sublet.accounts.organizations import erased_slug
from sublet.accounts.store import organizations, tokens, users
from sublet.audit import audit_events, erasures
from sublet.credits.store import ledger_entries
from sublet.db import Prepared, Tx
from sublet.mail.operator_notices import ERASED
from sublet.mail.store import ERASED_WITH_USER, mails, operator_notices
from sublet.operations.idempotency_store import idempotency_keys
from sublet.registry import declared_texts
from sublet.schema import metadata
from sublet.sign_in.store import delete_of_user
from sublet.sign_up.store import mailed_codes
from sublet.subdomains.model import Subdomain
from sublet.subdomains.store import NOT_PURGED, read_subdomains, select_subdomains, subdomains
from sublet.subdomains.transfers.store import name_transfers
from sublet.tickets.store import messages, tickets

TEXT = "deleted"
"""The replacement of an erased text that must not be empty."""
_DECODED = Text().with_variant(JSONB(), "postgresql")
"""The type of JSON whose text has no escapes of letters."""
_ERASED_DESCRIPTIONS = {"grant": "Grant", "adjustment": "Adjustment", "refund": "Refund"}
"""The kinds of ledger entries whose description the operator wrote, each with the description that replaces
it.
"""


def list_held(tx: Tx, user_id: int, *, unended: bool = False, limit: int | None = None) -> list[Subdomain]:
    """Return up to `limit` of a user's names, live and in the trash, in order of id. With `unended`, only
    those that are live or suspended.
    """
    columns = subdomains.c
    query = select_subdomains().where((columns.user_id == user_id) & NOT_PURGED)
    if unended:
        query = query.where(columns.trashed_at.is_(None) | columns.suspended_at.is_not(None))
    return read_subdomains(Subdomain, tx.connection.execute(query.order_by(columns.id).limit(limit)))


class Held(Struct, frozen=True):
    """The numbers of a user's names. Suspended names are live or in the trash."""

    live: int
    trashed: int
    suspended: int


def count_held(tx: Tx, user_id: int) -> Held:
    """Return the numbers of a user's names."""
    is_live, is_suspended = subdomains.c.trashed_at.is_(None), subdomains.c.suspended_at.is_not(None)
    numbers = [func.count().filter(each) for each in (is_live, ~is_live, is_suspended)]
    query = select(*numbers).where((subdomains.c.user_id == user_id) & NOT_PURGED)
    row = tx.connection.execute(query).one()
    return Held(live=row[0], trashed=row[1], suspended=row[2])


def list_identities(tx: Tx, user_id: int) -> set[str]:
    """Return all present and former e-mail addresses and names of a user, in lower case, and the addresses'
    canonical forms too.
    """
    return _spellings(_list_members(tx, user_id, "email", "name"))


def list_own_addresses(tx: Tx, user_id: int) -> set[str]:
    """Return the present and former e-mail addresses of a user, spelt as by `list_identities`, except those
    that another user has now.

    Rows are found by these, and not by the user's name: a user may take any name, also another user's
    address.
    """
    found = _spellings(_list_members(tx, user_id, "email"))
    taken = select(users.c.email).where(users.c.email.in_(found) & (users.c.id != user_id))
    of_others = set(tx.connection.execute(taken).scalars())
    return {each for each in found if normalise_email(each) not in of_others}


def list_named_after(tx: Tx, addresses: Collection[str]) -> list[int]:
    """Return the ids of the organizations that were added with their user, and are named after one of these
    addresses.
    """
    of = func.lower(organizations.c.name).in_(addresses) & organizations.c.created_by_user_id.is_(None)
    return list(tx.connection.execute(select(organizations.c.id).where(of)).scalars())


def _list_members(tx: Tx, user_id: int, *names: str) -> set[str]:
    """Return the present and former values of these columns of a user."""
    row = tx.connection.execute(select(*(users.c[name] for name in names)).where(users.c.id == user_id)).one()
    found = {str(each) for each in row}
    query = select(audit_events.c.before, audit_events.c.after).where(_events_of("user", [user_id]))
    for before, after in tx.connection.execute(query):
        found.update(
            str(values[name]) for values in (before, after) if values for name in names if name in values
        )
    return found


def _spellings(texts: Collection[str]) -> set[str]:
    # Events from before addresses were canonical have other spellings.
    return {each.lower() for each in texts} | {normalise_email(each) for each in texts}


def _null_texts(table: Table) -> dict[str, None]:
    """Return null for each declared text of a table that may be null."""
    return {name: None for name in declared_texts.ERASED[table.name].split() if table.c[name].nullable}


def erase_texts(
    tx: Tx, user_id: int, identities: Collection[str] = (), addresses: Collection[str] = ()
) -> None:
    """Erase the texts of a user's tokens, tickets, mails, names and suspensions; delete the sessions,
    passkeys, mailed codes and idempotency keys.

    `identities` come from `list_identities`. Mail can be older than the user, so it is found by `addresses`
    too, from `list_own_addresses`. Mail that isn't sent yet is cancelled.
    """
    run = tx.connection.execute
    run(update(tokens).where(tokens.c.user_id == user_id).values(name=TEXT, **_null_texts(tokens)))
    own_tickets = _ids(tickets, user_id)
    run(update(tickets).where(tickets.c.id.in_(own_tickets)).values(subject=TEXT, requester_email=TEXT))
    of_tickets = messages.c.ticket_id.in_(own_tickets)
    run(update(messages).where(of_tickets).values(message=TEXT))
    run(update(messages).where(of_tickets & (messages.c.author_type == "user")).values(author_name=TEXT))
    # In tickets of organizations, the user's messages stay, without the author.
    run(update(tickets).where(tickets.c.requester_email.in_(addresses)).values(requester_email=TEXT))
    by_user = (audit_events.c.user_id == user_id) & (audit_events.c.object_type == "ticket")
    written = messages.c.ticket_id.in_(select(audit_events.c.object_id).where(by_user))
    of_users = written & (messages.c.author_type == "user")
    # The databases change the case of some letters in other ways than Python, which has made `identities`.
    names = run(select(messages.c.author_name).where(of_users).distinct()).scalars()
    own = [each for each in names if each.lower() in identities]
    run(update(messages).where(of_users & messages.c.author_name.in_(own)).values(author_name=TEXT))
    delete_of_user(tx, user_id)
    own_mails = (mails.c.user_id == user_id) | mails.c.recipient.in_(addresses)
    _cancel(tx, own_mails)
    erased = {"recipient": ERASED_WITH_USER, "subject": TEXT, "text": "", "page": "", "error": None}
    run(update(mails).where(own_mails).values(**erased))
    # Mails to owners about members of their organization contain the members' addresses.
    about = mails.c.reference.like(f"organization:%:{user_id}:%")
    _cancel(tx, about)
    run(update(mails).where(about).values(text=""))
    notices = operator_notices.c
    mailed = mails.c.id.in_(
        select(notices.mail_id).where((notices.user_id == user_id) & notices.mail_id.is_not(None))
    )
    run(update(mails).where(mailed & mails.c.next_attempt_at.is_not(None)).values(text=ERASED))
    run(update(mails).where(mailed & mails.c.next_attempt_at.is_(None)).values(text=""))
    run(delete(operator_notices).where((notices.user_id == user_id) & notices.mail_id.is_(None)))
    run(
        update(subdomains)
        .where(subdomains.c.user_id == user_id)
        .values(records=[], record_count=0, **_null_texts(subdomains))
    )
    run(delete(idempotency_keys).where(idempotency_keys.c.user_id == user_id))
    is_own = (mailed_codes.c.user_id == user_id) | mailed_codes.c.email.in_(addresses)
    run(delete(mailed_codes).where(is_own))


def _erase_transfers(tx: Tx, user_id: int, addresses: Collection[str]) -> None:
    """Erase the addresses in transfers of names that a user sent or received, and in the other side's mails
    about them.
    """
    columns, run = name_transfers.c, tx.connection.execute
    is_received = columns.recipient_email.in_(addresses) | (columns.to_user_id == user_id)
    is_sent = columns.from_user_id == user_id
    of_other_side = {"sent": is_received, "declined": is_received, "expired": is_received, "offer": is_sent}
    # Subqueries, because the databases limit the number of values in a statement.
    for about, of in of_other_side.items():
        reference = literal("name_transfer:") + cast(columns.id, String) + literal(f":{about}")
        mailed = mails.c.reference.in_(select(reference).where(of))
        _cancel(tx, mailed)
        run(update(mails).where(mailed).values(subject=TEXT, text=""))
    _erase_events(tx, "name_transfer", select(columns.id).where(is_received | is_sent))
    run(update(name_transfers).where(is_received | is_sent).values(recipient_email=TEXT))


def erase_append_only(
    tx: Tx, user_id: int, organization_ids: Collection[int] = (), addresses: Collection[str] = ()
) -> None:
    """Erase the personal texts in append-only rows: audit events about a user and the user's objects, and
    descriptions of transfers.

    The addresses of transfers of names are erased too, because their events repeat them. `organization_ids`
    are the organizations that are erased with the user. Ids, instants, actors and actions stay.
    """
    tx.connection.execute(insert(erasures).values(user_id=user_id))
    _erase_transfers(tx, user_id, addresses)
    for own in (audit_events.c.user_id == user_id, audit_events.c.owner_id == user_id):
        by_person = own & (audit_events.c.user_id.is_(None) | (audit_events.c.user_id == user_id))
        with_address = by_person & audit_events.c.address.is_not(None)
        tx.connection.execute(update(audit_events).where(with_address).values(address=None))
    _erase_events(tx, "user", [user_id])
    _erase_events(tx, "token", _ids(tokens, user_id))
    _erase_events(tx, "ticket", _ids(tickets, user_id))
    _erase_events(tx, "transfer", _ids(ledger_entries, user_id))
    _erase_events_of_names(tx, user_id)
    _erase_events(tx, "mail", _ids(mails, user_id))
    _erase_events(tx, "device", _list_devices(tx, user_id))
    _erase_events(tx, "mailed_code", _list_invitations(tx, addresses))
    _erase_events(tx, "organization", organization_ids)
    of_organizations = users.c.is_organization & users.c.organization_id.in_(organization_ids)
    _erase_events(tx, "user", select(users.c.id).where(of_organizations))
    for kind, text in _ERASED_DESCRIPTIONS.items():
        of_kind = (ledger_entries.c.user_id == user_id) & (ledger_entries.c.kind == kind)
        tx.connection.execute(update(ledger_entries).where(of_kind).values(description=text))
    tx.connection.execute(delete(erasures))


def _cancel(tx: Tx, of: ColumnElement[bool]) -> None:
    """Give up the waiting mails with a condition, because their texts are erased."""
    waiting = update(mails).where(of & mails.c.next_attempt_at.is_not(None))
    tx.connection.execute(waiting.values(next_attempt_at=None, given_up_at=tx.now))


def _list_devices(tx: Tx, user_id: int) -> list[int]:
    """Return the ids of the programs' requests that a user decided.

    The requests themselves may be deleted.
    """
    events = audit_events.c
    query = select(events.object_id).where((events.user_id == user_id) & (events.object_type == "device"))
    return list(tx.connection.execute(query).scalars())


def _list_invitations(tx: Tx, addresses: Collection[str]) -> list[int]:
    """Return the ids of the invitations to these addresses.

    It reads all events about invitations, because codes may be deleted.
    """
    query = select(audit_events.c.object_id, audit_events.c.after)
    rows = tx.connection.execute(query.where(audit_events.c.object_type == "mailed_code"))
    return [object_id for object_id, after in rows if after.get("email") in addresses]


def erase_organization(tx: Tx, organization_id: int, *, has_members: bool) -> None:
    """Erase the name of an organization and of its account.

    Without members, also mark the account as deleted, so that it gets no mail, and revoke the invitations.
    """
    values = {"name": f"deleted organization {organization_id}", "slug": erased_slug(organization_id)}
    tx.connection.execute(update(organizations).where(organizations.c.id == organization_id).values(**values))
    account = update(users).where(users.c.is_organization & (users.c.organization_id == organization_id))
    gone = {} if has_members else {"reminders": False, "deleted_at": tx.now}
    tx.connection.execute(account.values(name=values["name"], **gone))
    if not has_members:
        is_open = (mailed_codes.c.organization_id == organization_id) & mailed_codes.c.used_at.is_(None)
        tx.connection.execute(update(mailed_codes).where(is_open).values(used_at=tx.now))


def count_remaining(tx: Tx, user_id: int) -> dict[str, int]:
    """Return the number of rows that refer to a user, by kind."""
    rows = {
        "transfers": ledger_entries.c.user_id == user_id,
        "names": subdomains.c.user_id == user_id,
        "tickets": tickets.c.user_id == user_id,
        "events": (audit_events.c.user_id == user_id) | _events_of("user", [user_id]),
    }
    return {
        name: int(tx.connection.execute(select(func.count()).where(condition)).scalar_one())
        for name, condition in rows.items()
    }


def find_mentions(tx: Tx, texts: Collection[str]) -> dict[str, int]:
    """Return the number of rows that contain one of these texts (in lower case), by table.

    This reads the whole database.
    """
    found = {}
    for table in metadata.sorted_tables:
        columns = [func.lower(_as_text(each)) for each in table.c if _has_text(each)]
        if not columns:
            continue
        mentions = or_(*(each.contains(text, autoescape=True) for each in columns for text in texts))
        number = tx.connection.execute(select(func.count()).select_from(table).where(mentions)).scalar_one()
        if number:
            found[table.name] = int(number)
    return found


def _has_text(column: Column[Any]) -> bool:
    return isinstance(column.type, String | JSON)


def _as_text(column: Column[Any]) -> ColumnElement[str]:
    """Return a column as text, without escapes of letters.

    PostgreSQL keeps JSON as it was written, and earlier versions escaped letters that aren't ASCII.
    """
    return cast(cast(column, _DECODED) if isinstance(column.type, JSON) else column, Text)


def _ids(table: Table, user_id: int) -> Select[tuple[int]]:
    return select(table.c.id).where(table.c.user_id == user_id)


def _events_of(object_type: str, ids: Collection[int] | Select[tuple[int]]) -> Any:
    return (audit_events.c.object_type == object_type) & audit_events.c.object_id.in_(ids)


def _erase_events(tx: Tx, object_type: str, ids: Collection[int] | Select[tuple[int]]) -> None:
    """Erase the reasons and personal members in all events of these objects."""
    _erase_in(tx, object_type, _events_of(object_type, ids))


def _erase_events_of_names(tx: Tx, user_id: int) -> None:
    """Erase the reasons and personal members in the events of names from the time when the user held them.

    Who held a name at an event is the event's owner, or else the user who acted. For an event without both,
    such as the publisher's, it is the name's present holder.
    """
    events = audit_events.c
    is_owner = events.owner_id == user_id
    acted = events.owner_id.is_(None) & (events.user_id == user_id)
    names_nobody = events.owner_id.is_(None) & events.user_id.is_(None)
    holds_now = names_nobody & events.object_id.in_(_ids(subdomains, user_id))
    # One by one, because each has an index, and all together would read the events of all names.
    for of_these in (is_owner, acted, holds_now):
        _erase_in(tx, "subdomain", (events.object_type == "subdomain") & of_these)


# Prepared, because a user may have thousands of events.
_MEMBERS_KEPT = Prepared(update(audit_events).where(audit_events.c.id == bindparam("of")))


def _erase_in(tx: Tx, object_type: str, of_these: ColumnElement[bool]) -> None:
    """Erase the reason, and the personal members of `before` and `after`, in these events of one type."""
    events, erased = audit_events.c, audit_members.ERASED.get(object_type, frozenset())
    with_reason = of_these & events.reason.is_not(None)
    tx.connection.execute(update(audit_events).where(with_reason).values(reason=None))
    if not erased:
        return
    rows = tx.connection.execute(select(events.id, events.before, events.after).where(of_these)).all()
    changed = [
        {"of": event_id, "before": _without(before, erased), "after": _without(after, erased)}
        for event_id, before, after in rows
        if not erased.isdisjoint({**(before or {}), **(after or {})})
    ]
    _MEMBERS_KEPT.run_many(tx, changed)


def _without(values: dict[str, Any] | None, erased: Collection[str]) -> dict[str, Any] | None:
    return {key: value for key, value in values.items() if key not in erased} if values else values
