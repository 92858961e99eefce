"""List the audit events that a user may see (GET /activity; docs/spec-choices.md, "Activity")."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from sublet import audit
from sublet.accounts.store import list_tokens
from sublet.audit import ActivityFilter, AuditEvent
from sublet.db import Tx
from sublet.subdomains.store import list_subdomains

BY = ("user", "other_user", "operator", "system")
VISIBLE_FIELDS: Mapping[str, frozenset[str]] = {
    "user": frozenset({"email", "name", "reminders", "free_quota", "suspended_at", "deleted_at"}),
    "token": frozenset(
        {
            *("name", "scopes", "names", "domains", "networks", "record_names", "daily_credits"),
            *("expires_at", "revoked_at", "former_until"),
        }
    ),
    "subdomain": frozenset(
        {
            *(
                "fqdn",
                "registration_type",
                "charged_credits",
                "nameservers",
                "records",
                "glue",
                "ds_records",
                "expires_at",
            ),
            *("trashed_at", "purged_at", "released_at", "suspended_at", "suspended_reason"),
            *("auto_renew_max_credits", "milestone", "detail"),
        }
    ),
    "ticket": frozenset({"subject", "status", "priority"}),
    "transfer": frozenset({"kind", "credits", "amount", "currency", "description"}),
    "name_transfer": frozenset({"subdomain", "to", "expires_at"}),
}
"""The members of `before` and `after` that a user sees, by `object_type`. Other members concern the operator
or other users.
"""


class Activity(Struct, frozen=True):
    """The part of an audit event that the account's user sees: without reasons, and without the identity of
    the operator or other users.

    `by` is one of `BY`. The token and the client's address are set for the user's own requests. The address
    is also set for sign-ins and sign-ups. It is deleted after 90 days.
    """

    id: int
    at: datetime
    action: str
    by: str
    token_id: int | None
    token_name: str | None
    address: str | None
    object_type: str
    object_id: int
    subdomain: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def list_activity(
    tx: Tx,
    user_id: int,
    wanted: ActivityFilter,
    limit: int,
    before_id: int | None,
    *,
    account_id: int | None = None,
) -> list[Activity]:
    """Return a user's actions, and other actors' actions on the user's account, names, tokens and tickets,
    newest first.

    With `account_id`, return all actors' actions on the names, credits and tickets of that organization.
    `before_id` is the id of the last event on the previous page.
    """
    events = audit.list_activity(tx, account_id or user_id, wanted, limit, before_id)
    tokens = {each.id: each.name for each in list_tokens(tx, user_id)}
    named = {each.object_id for each in events if each.object_type == "subdomain"}
    fqdns = {each.id: each.fqdn for each in list_subdomains(tx, named)} if named else {}
    return [_activity(user_id, each, tokens, fqdns) for each in events]


def _activity(
    user_id: int, event: AuditEvent, tokens: Mapping[int, str], fqdns: Mapping[int, str]
) -> Activity:
    is_own = event.user_id == user_id
    token_id = event.token_id if is_own else None
    subdomain = fqdns.get(event.object_id) if event.object_type == "subdomain" else None
    return Activity(
        id=event.id,
        at=event.at,
        action=event.action,
        by="other_user" if event.actor_kind == "user" and not is_own else event.actor_kind,
        token_id=token_id,
        token_name=tokens.get(token_id) if token_id is not None else None,
        address=event.address if is_own or event.actor_kind == "system" else None,
        object_type=event.object_type,
        object_id=event.object_id,
        subdomain=subdomain,
        before=_only_visible(event.object_type, event.before),
        after=_only_visible(event.object_type, event.after),
    )


def _only_visible(object_type: str, values: dict[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    visible = VISIBLE_FIELDS.get(object_type, frozenset())
    return {name: value for name, value in values.items() if name in visible}
