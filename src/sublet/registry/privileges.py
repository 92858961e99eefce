"""The least privileges in PostgreSQL that each part of the service needs, as SQL for `psql`.

The roles are groups without login; the operator creates logins that are members of them. The owner of the
tables, who ran `sublet init`, has all privileges, and is only for `init`, `migrate` and `copy`. SELECT … FOR
UPDATE needs UPDATE on a column, so a role that only locks rows has UPDATE on the least harmful column.
`tests/db/test_privileges.py` runs the service with these roles.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

PREFIX = "sublet_"
WHOLE_TABLE = ()
"""A privilege on the whole table, not on columns."""

Grants = Mapping[str, Mapping[str, tuple[str, ...]]]
"""The columns of each privilege, by table and privilege."""


class Role(Struct, frozen=True):
    """A group role: its name without the prefix, its purpose, its grants, the roles
    that it is a member of.
    """

    name: str
    purpose: str
    grants: Grants
    member_of: tuple[str, ...] = ()


_Privileges = dict[str, tuple[str, ...]]
_READ: _Privileges = {"SELECT": WHOLE_TABLE}
_ADD: _Privileges = _READ | {"INSERT": WHOLE_TABLE}
_DELETE: _Privileges = {"DELETE": WHOLE_TABLE}


def _update(*columns: str) -> _Privileges:
    """Return the privilege UPDATE on these columns, or without columns on the whole table."""
    return {"UPDATE": columns}


_ALL = _ADD | _update() | _DELETE
_EXPIRED: _Privileges = {"SELECT": ("expires_at",), "DELETE": WHOLE_TABLE}

# The columns of a name that may change. Its user, FQDN and registration date may not.
_NAME_COLUMNS = (
    "nameservers", "glue", "ds_records", "nameserver_count", "ds_record_count", "records", "record_count",
    "generation", "generation_at", "published_generation", "provision_error", "attempts", "next_attempt_at",
    "published_at", "published_serial", "expires_at", "last_renewed_at", "period_days",
    "auto_renew_max_credits", "auto_renew_tried_at", "unsuspended_at", "due_at", "loss_at", "trashed_at",
    "purged_at", "released_at", "updated_at",
)  # fmt: skip
# The columns of a token that may change. Its user and creator may not.
_TOKEN_COLUMNS = (
    "name", "scopes", "names", "domains", "networks", "record_names", "daily_credits", "expires_at",
    "digest", "former_digest",
    "former_until", "revoked_at", "last_used_at", "last_used_from",
)  # fmt: skip
# The columns of a session that change with a sign-in or its use. Its user may not change.
_SESSION_COLUMNS = (
    "digest", "how", "signed_in_at", "expires_at", "last_used_at", "last_used_from", "network", "user_agent",
)  # fmt: skip
# The columns of a name that the built-in name server reads. It doesn't read the user.
_PUBLISHED_COLUMNS = (
    "id", "platform_domain_id", "fqdn", "nameservers", "nameserver_count", "glue", "ds_records", "records",
    "record_count",
    "generation_at", "suspended_at", "trashed_at", "purged_at", "released_at",
)  # fmt: skip
# Every process registers itself and marks its commits.
_PROCESS_GRANTS: Grants = {
    "alembic_version": _READ,
    "schema_compatible_with": _READ,
    "processes": _ALL,
    # UPDATE is for locking: after a lost answer to COMMIT, and before old marks are deleted.
    "commit_marks": _ADD | _DELETE | _update("made_at"),
}
# Erasing a deleted user. The triggers of append-only tables allow these updates only while `erasures` has a
# row.
_ERASURE_GRANTS: Grants = {
    "erasures": _ADD | _DELETE,
    "audit_events": _ADD | _update("reason", "before", "after", "address"),
    "transfers": _ADD | _update("description"),
}
_LEDGER_GRANTS: Grants = {
    "transfers": _ADD,
    "audit_events": _ADD,
    "terms": _ADD,
    "milestones": _ADD,
    "ledger_accounts": _ADD | _update("balance"),
    "subdomains": _ADD | _update(*_NAME_COLUMNS),
    "nameserver_hosts": _ALL,
    "automatic_ds": _ADD | _update(),
    "csync_states": _ADD | _update(),
}

API = Role(
    "api",
    "the HTTP API",
    {
        **_PROCESS_GRANTS,
        **_LEDGER_GRANTS,
        **_ERASURE_GRANTS,
        "users": _ADD | _update("reminders", "email", "name", "suspended_reason", "deleted_at"),
        "organizations": _ADD | _update("name", "slug"),
        "memberships": _ADD | _DELETE | _update("role"),
        "sessions": _ADD | _DELETE | _update(*_SESSION_COLUMNS),
        "passkeys": _ADD | _DELETE | _update("sign_count", "last_used_at"),
        "recoveries": _ADD | _DELETE,
        "subdomains": _ADD | _update(*_NAME_COLUMNS, "user_id", "suspended_reason"),
        "name_transfers": _ADD | _update("state", "to_user_id", "ended_at", "recipient_email"),
        "tokens": _ADD | _update(*_TOKEN_COLUMNS),
        "mailed_codes": _ADD | _DELETE | _update("tries", "used_at"),
        "solved_challenges": _ADD | _DELETE,
        "device_requests": _ADD | _DELETE | _update("state", "user_id", "may_spend", "polled_at"),
        "signing_keys": _READ,
        # The API adds mails, but may not read their texts.
        "mails": {
            "INSERT": WHOLE_TABLE,
            "SELECT": ("id", "user_id", "recipient", "reference", "next_attempt_at", "created_at"),
            "UPDATE": ("recipient", "subject", "text", "page", "error", "next_attempt_at", "given_up_at"),
        },
        "operator_notices": {"INSERT": WHOLE_TABLE, "SELECT": ("id", "user_id", "mail_id")} | _DELETE,
        "platform_domains": _READ | _update("updated_at"),
        "offers": _READ,
        "labels": _READ,
        "label_grants": _READ,
        "label_patterns": _READ,
        "platform_domain_grants": _READ,
        "packages": _READ,
        "coupons": _READ | _update("uses"),
        "coupon_uses": _ADD,
        "published_owners": _READ,
        "zone_records": _READ,
        # A retry ends the back-off of a zone.
        "zone_states": _READ | _update("next_attempt_at"),
        "clockwork": _READ,
        "tickets": _ADD | _update("status", "last_message_at", "updated_at", "subject", "requester_email"),
        "messages": _ADD | _update("author_name", "message"),
        "idempotency_keys": _ADD | _DELETE | _update("outcome"),
        "rate_windows": _ALL,
        "delegation_health": _ADD | _update(),
        "health_changes": _ADD | _DELETE,
        "health_targets": _ADD | _update(),
        "health_brake": _READ | _update(),
    },
)
WORKER = Role(
    "worker",
    "the publisher, the drift repair, the sweep and the mailer",
    {
        **_PROCESS_GRANTS,
        **_LEDGER_GRANTS,
        "leases": _ALL,
        "rate_windows": _READ | _DELETE,
        "audit_events": _ADD | _update("address"),
        "name_transfers": _READ | _update("state", "to_user_id", "ended_at"),
        # The sweep deletes expired rows.
        "mailed_codes": _EXPIRED,
        "solved_challenges": _EXPIRED,
        "device_requests": _EXPIRED,
        "sessions": _EXPIRED,
        "recoveries": {"SELECT": ("ends_at",), "DELETE": WHOLE_TABLE},
        "users": _READ | _update("reminders"),
        "organizations": _READ,
        "memberships": _READ,
        "platform_domains": _READ | _update("updated_at", "redate_after_id"),
        "offers": _READ,
        "labels": _READ,
        "label_grants": _READ,
        "platform_domain_grants": _READ,
        "coupons": _READ,
        "coupon_uses": _READ,
        "clockwork": _READ | _update(),
        "forecasts": _ADD | _DELETE,
        # Texts end with the mail, and the envelope after a time.
        "mails": _ADD
        | _DELETE
        | _update(
            *("attempts", "next_attempt_at", "error", "sent_at", "logged_at", "given_up_at"),
            *("recipient", "subject", "text", "page"),
        ),
        "operator_notices": _ALL,
        "published_owners": _ALL,
        "zone_records": _ADD | _DELETE,
        "zone_states": _ALL,
        "zone_updates": _ADD | _DELETE,
        "delegation_health": _ALL,
        "health_changes": _ADD | _DELETE,
        "health_targets": _ALL,
        "health_brake": _READ | _update(),
    },
)
DNS = Role(
    "dns",
    "the built-in name server",
    {
        **_PROCESS_GRANTS,
        "platform_domains": _READ,
        "subdomains": {"SELECT": _PUBLISHED_COLUMNS},
        "zone_records": _READ,
        # A NOTIFY message makes a check due.
        "delegation_health": {"SELECT": ("subdomain_id", "checked_at", "due_at"), "INSERT": WHOLE_TABLE}
        | _update("due_at"),
    },
)
OPERATOR = Role(
    "operator",
    "the operator's commands, except init, migrate and copy",
    {
        **_PROCESS_GRANTS,
        **_LEDGER_GRANTS,
        "mailed_codes": _ADD | _update("used_at") | _DELETE,
        "solved_challenges": _READ,
        "device_requests": _READ | _DELETE,
        "signing_keys": _READ,
        "sessions": _READ | _DELETE,
        "passkeys": _READ | _DELETE,
        "recoveries": _READ | _DELETE,
        "users": _ADD
        | _update(
            "email",
            "name",
            "organization_id",
            "free_quota",
            "reminders",
            "suspended_at",
            "suspended_reason",
            "deleted_at",
        ),
        "subdomains": _ADD
        | _update(*_NAME_COLUMNS, "user_id", "suspended_at", "suspended_reason", "held_with_user"),
        **_ERASURE_GRANTS,
        "name_transfers": _READ | _update("state", "to_user_id", "ended_at", "recipient_email"),
        "organizations": _ADD | _update("name", "slug"),
        "memberships": _ADD | _DELETE | _update("role"),
        "tokens": _ADD | _update("revoked_at", "name", "networks", "last_used_from"),
        "platform_domains": _ADD | _update(),
        "offers": _ALL,
        "labels": _ALL,
        "label_grants": _ALL,
        "label_patterns": _ADD | _DELETE,
        "platform_domain_grants": _ALL,
        "packages": _ADD | _update("retired_at"),
        "coupons": _ADD | _update("retired_at"),
        "coupon_uses": _READ,
        "tickets": _ADD
        | _update("status", "priority", "subject", "requester_email", "last_message_at", "updated_at"),
        "messages": _ADD | _update("author_name", "message"),
        "mails": _ADD
        | _update(
            "attempts", "next_attempt_at", "given_up_at", "recipient", "subject", "text", "page", "error"
        ),
        "operator_notices": _ADD | _DELETE,
        "clockwork": _READ | _update(),
        "forecasts": _ADD | _DELETE,
        "published_owners": _ALL,
        "zone_records": _ADD | _DELETE,
        "zone_states": _ALL,
        "zone_updates": _ADD | _DELETE,
        "idempotency_keys": _READ | _DELETE,
        "leases": _READ,
        "rate_windows": _READ,
        "automatic_ds": _ADD | _update(),
        "delegation_health": _READ,
        "health_changes": _READ,
        "health_targets": _ADD | _update(),
        "health_brake": _READ | _update(),
    },
)
SERVE = Role(
    "serve",
    "`sublet serve`, which runs the API, the worker and the name server",
    {},
    ("api", "worker", "dns"),
)
ROLES = (API, WORKER, DNS, OPERATOR, SERVE)


def grant_statements(tables: Iterable[str], numbered: Iterable[str], prefix: str = PREFIX) -> list[str]:
    """Return the SQL that creates the roles with exactly these privileges. It is idempotent.

    `tables` are all tables of the schema; `numbered` are the tables with a sequence for their `id`. The
    roles' names start with `prefix`.
    """
    known, sequences = set(tables), set(numbered)
    lines = ["BEGIN;", "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"]
    for role in ROLES:
        name = f"{prefix}{role.name}"
        lines += [
            f"-- {name}: {role.purpose}",
            f"DO $$ BEGIN CREATE ROLE {name} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;",
        ]
        if role.member_of:
            lines.append(f"GRANT {', '.join(prefix + each for each in role.member_of)} TO {name};")
            continue
        lines += [
            f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {name};",
            f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {name};",
            f"GRANT USAGE ON SCHEMA public TO {name};",
        ]
        if role is OPERATOR:  # The doctor reads the last ids.
            lines.append(f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {name};")
        for table, privileges in sorted(role.grants.items()):
            if table not in known:
                raise ValueError(f"unknown table {table}")
            words = [
                f"{verb} ({', '.join(columns)})" if columns else verb for verb, columns in privileges.items()
            ]
            lines.append(f"GRANT {', '.join(words)} ON {table} TO {name};")
            if "INSERT" in privileges and table in sequences:
                lines.append(f"GRANT USAGE ON SEQUENCE {table}_id_seq TO {name};")
    return [*lines, "COMMIT;"]
