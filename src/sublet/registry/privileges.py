"""The privileges of each part of the service in PostgreSQL, the fewest that its code needs, as SQL for `psql`.

The roles are groups without login; the operator creates logins that are members of them. The owner of the tables, who ran
`sublet init`, has all privileges and is only for `init`, `migrate` and `copy`. SELECT … FOR UPDATE needs UPDATE on some column:
a role that only locks rows has it on the least harmful one. `tests/db/test_privileges.py` runs the service with these roles.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PREFIX = "sublet_"
WHOLE = ()
"""The privilege is on the whole table, not on columns."""

Grants = Mapping[str, Mapping[str, tuple[str, ...]]]
"""The columns by table and privilege."""


@dataclass(frozen=True, slots=True)
class Role:
    """A group role: its name without the prefix, its purpose, its grants, the roles that it is a member of."""

    name: str
    purpose: str
    grants: Grants
    member_of: tuple[str, ...] = ()


_Privileges = dict[str, tuple[str, ...]]
_READ: _Privileges = {"SELECT": WHOLE}
_ADD: _Privileges = _READ | {"INSERT": WHOLE}
_DELETE: _Privileges = {"DELETE": WHOLE}


def _update(*columns: str) -> _Privileges:
    """Return UPDATE of these columns, or of the whole table if there are none."""
    return {"UPDATE": columns}


_ALL = _ADD | _update() | _DELETE
_EXPIRED: _Privileges = {"SELECT": ("expires_at",), "DELETE": WHOLE}

# The columns of a name that may change: not its user, its name and its start.
_OF_A_NAME = (
    "nameservers", "glue", "ds_records", "nameserver_count", "ds_record_count", "generation",
    "generation_at", "published_generation", "provision_error", "attempts", "next_attempt_at",
    "published_at", "published_serial", "expires_at", "last_renewed_at", "period_days",
    "auto_renew_max_credits", "auto_renew_tried_at", "unsuspended_at", "due_at", "loss_at", "trashed_at",
    "purged_at", "released_at", "updated_at",
)  # fmt: skip
# The columns of a token that may change: not its user, and what created it.
_OF_A_TOKEN = (
    "name", "scopes", "names", "domains", "networks", "daily_credits", "expires_at", "digest", "former_digest",
    "former_until", "revoked_at", "last_used_at", "last_used_from",
)  # fmt: skip
# The columns of a session that a new sign-in and its use change: not its user.
_OF_A_SESSION = (
    "digest", "how", "signed_in_at", "expires_at", "last_used_at", "last_used_from", "network", "user_agent",
)  # fmt: skip
# What the built-in name server reads of a name: not whose it is.
_OF_A_DELEGATION = (
    "id", "platform_domain_id", "fqdn", "nameservers", "nameserver_count", "glue", "ds_records", "generation_at",
    "suspended_at", "trashed_at", "purged_at", "released_at",
)  # fmt: skip
# The tables in which each process registers itself and the marks of its commits.
_OF_A_PROCESS: Grants = {
    "alembic_version": _READ,
    "schema_compatible_with": _READ,
    "processes": _ALL,
    # UPDATE after a lost answer to COMMIT, and to lock old marks before they are deleted.
    "commit_marks": _ADD | _DELETE | _update("made_at"),
}
# To erase a deleted user. The triggers of append-only tables allow it only with a row in `erasures`.
_TO_ERASE: Grants = {
    "erasures": _ADD | _DELETE,
    "audit_events": _ADD | _update("reason", "before", "after", "address"),
    "transfers": _ADD | _update("description"),
}
_OF_THE_LEDGER: Grants = {
    "transfers": _ADD,
    "audit_events": _ADD,
    "terms": _ADD,
    "milestones": _ADD,
    "ledger_accounts": _ADD | _update("balance"),
    "subdomains": _ADD | _update(*_OF_A_NAME),
    "nameserver_hosts": _ALL,
    "automatic_ds": _ADD | _update(),
    "csync_states": _ADD | _update(),
}

API = Role(
    "api",
    "the HTTP API",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        **_TO_ERASE,
        "users": _ADD | _update("reminders", "email", "name", "suspended_reason", "deleted_at"),
        "organizations": _ADD | _update("name", "slug"),
        "memberships": _ADD | _DELETE | _update("role"),
        "sessions": _ADD | _DELETE | _update(*_OF_A_SESSION),
        "passkeys": _ADD | _DELETE | _update("sign_count", "last_used_at"),
        "recoveries": _ADD | _DELETE,
        "subdomains": _ADD | _update(*_OF_A_NAME, "user_id", "suspended_reason"),
        "name_transfers": _ADD | _update("state", "to_user_id", "ended_at", "recipient_email"),
        "tokens": _ADD | _update(*_OF_A_TOKEN),
        "mailed_codes": _ADD | _DELETE | _update("tries", "used_at"),
        "solved_challenges": _ADD | _DELETE,
        # UPDATE to lock it.
        "signing_keys": _READ | _update("name"),
        # Codes are mailed; the texts in the outbox stay unread.
        "mails": {
            "INSERT": WHOLE,
            "SELECT": ("id", "user_id", "recipient", "reference", "next_attempt_at"),
            "UPDATE": ("recipient", "subject", "text", "error", "next_attempt_at", "given_up_at"),
        },
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
        # A retry ends the pause of a zone.
        "zone_states": _READ | _update("next_attempt_at"),
        "clockwork": _READ,
        "tickets": _ADD | _update("status", "last_message_at", "updated_at", "subject", "requester_email"),
        "messages": _ADD | _update("author_name", "message"),
        "idempotency_keys": _ADD | _DELETE | _update("outcome"),
        "rate_windows": _ALL,
        "delegation_health": _ADD | _update(),
        "health_changes": _ADD | _DELETE,
        "health_targets": _ADD | _update(),
    },
)
WORKER = Role(
    "worker",
    "the publisher, the zone keeper, the sweep and the mailer",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        "leases": _ALL,
        "rate_windows": _READ | _DELETE,
        "audit_events": _ADD | _update("address"),
        "name_transfers": _READ | _update("state", "to_user_id", "ended_at"),
        # The sweep deletes what has expired.
        "mailed_codes": _EXPIRED,
        "solved_challenges": _EXPIRED,
        "sessions": _EXPIRED,
        "recoveries": {"SELECT": ("ends_at",), "DELETE": WHOLE},
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
        # The recipient, to erase that of a notice to a deleted user.
        "mails": _ADD
        | _update("attempts", "next_attempt_at", "error", "sent_at", "logged_at", "given_up_at", "recipient"),
        "published_owners": _ALL,
        "zone_records": _ADD | _DELETE,
        "zone_states": _ALL,
        "zone_updates": _ADD | _DELETE,
        "delegation_health": _ALL,
        "health_changes": _ADD | _DELETE,
        "health_targets": _ALL,
    },
)
DNS = Role(
    "dns",
    "the built-in name server",
    {
        **_OF_A_PROCESS,
        "platform_domains": _READ,
        "subdomains": {"SELECT": _OF_A_DELEGATION},
        "zone_records": _READ,
        # A NOTIFY message makes a look due.
        "delegation_health": {"SELECT": ("subdomain_id", "checked_at", "due_at"), "INSERT": WHOLE}
        | _update("due_at"),
    },
)
OPERATOR = Role(
    "operator",
    "the operator's commands, but init, migrate and copy",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        "mailed_codes": _ADD | _update("used_at") | _DELETE,
        "solved_challenges": _READ,
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
        | _update(*_OF_A_NAME, "user_id", "suspended_at", "suspended_reason", "held_with_user"),
        **_TO_ERASE,
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
        | _update("attempts", "next_attempt_at", "given_up_at", "recipient", "subject", "text", "error"),
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
    },
)
SERVE = Role("serve", "`sublet serve`, which is all of these in one process", {}, ("api", "worker", "dns"))
ROLES = (API, WORKER, DNS, OPERATOR, SERVE)


def grant_statements(tables: Iterable[str], numbered: Iterable[str], prefix: str = PREFIX) -> list[str]:
    """Return the SQL that creates the roles with exactly these privileges. It may be run again.

    `tables` are all tables of the schema; `numbered` have a sequence for their `id`. The names of the roles start with
    `prefix`.
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
        if role is OPERATOR:  # the doctor reads the last ids
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
