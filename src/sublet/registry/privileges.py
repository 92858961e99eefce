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


_READ = {"SELECT": WHOLE}
_ADD = {"SELECT": WHOLE, "INSERT": WHOLE}
_ALL = {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": WHOLE, "DELETE": WHOLE}

# The columns of a name that may change: not its user, its name and its start.
_OF_A_NAME = (
    "nameservers",
    "glue",
    "ds_records",
    "nameserver_count",
    "ds_record_count",
    "generation",
    "generation_at",
    "published_generation",
    "provision_error",
    "attempts",
    "next_attempt_at",
    "published_at",
    "published_serial",
    "expires_at",
    "last_renewed_at",
    "period_days",
    "auto_renew_max_credits",
    "auto_renew_tried_at",
    "unsuspended_at",
    "due_at",
    "loss_at",
    "trashed_at",
    "purged_at",
    "released_at",
    "updated_at",
)
# The tables in which each process registers itself and the marks of its commits.
_OF_A_PROCESS: Grants = {
    "alembic_version": _READ,
    "schema_compatible_with": _READ,
    "processes": _ALL,
    # UPDATE after a lost answer to COMMIT, and to lock old marks before they are deleted.
    "commit_marks": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("made_at",), "DELETE": WHOLE},
}
_OF_THE_LEDGER: Grants = {
    "transfers": _ADD,
    "audit_events": _ADD,
    "terms": _ADD,
    "milestones": _ADD,
    "ledger_accounts": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("balance",)},
    "subdomains": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": _OF_A_NAME},
    "nameserver_hosts": _ALL,
}

API = Role(
    "api",
    "the HTTP API",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        "users": {"SELECT": WHOLE, "UPDATE": ("reminders",)},
        "organizations": _READ,
        "tokens": {"SELECT": WHOLE, "UPDATE": ("last_used_at",)},
        "platform_domains": {"SELECT": WHOLE, "UPDATE": ("updated_at",)},
        "offers": _READ,
        "labels": _READ,
        "label_grants": _READ,
        "label_patterns": _READ,
        "platform_domain_grants": _READ,
        "packages": _READ,
        "coupons": {"SELECT": WHOLE, "UPDATE": ("uses",)},
        "coupon_uses": _ADD,
        "published_owners": _READ,
        "zone_records": _READ,
        # A retry ends the pause of a zone.
        "zone_states": {"SELECT": WHOLE, "UPDATE": ("next_attempt_at",)},
        "clockwork": _READ,
        "tickets": {
            "SELECT": WHOLE,
            "INSERT": WHOLE,
            "UPDATE": ("status", "last_message_at", "updated_at"),
        },
        "messages": _ADD,
        "idempotency_keys": {
            "SELECT": WHOLE,
            "INSERT": WHOLE,
            "UPDATE": ("outcome",),
            "DELETE": WHOLE,
        },
        "rate_windows": _ALL,
    },
)
WORKER = Role(
    "worker",
    "the publisher, the zone keeper, the clockwork and the mailer",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        "leases": _ALL,
        "rate_windows": {"SELECT": WHOLE, "DELETE": WHOLE},
        "users": {"SELECT": WHOLE, "UPDATE": ("reminders",)},
        "organizations": _READ,
        "platform_domains": {"SELECT": WHOLE, "UPDATE": ("serial", "updated_at", "redate_after_id")},
        "offers": _READ,
        "labels": _READ,
        "label_grants": _READ,
        "platform_domain_grants": _READ,
        "coupons": _READ,
        "coupon_uses": _READ,
        "clockwork": {"SELECT": WHOLE, "UPDATE": WHOLE},
        "forecasts": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "mails": {
            "SELECT": WHOLE,
            "INSERT": WHOLE,
            "UPDATE": ("attempts", "next_attempt_at", "error", "sent_at", "logged_at", "given_up_at"),
        },
        "published_owners": _ALL,
        "zone_records": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "zone_states": _ALL,
        "zone_updates": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
    },
)
DNS = Role(
    "dns",
    "the built-in name server",
    {**_OF_A_PROCESS, "platform_domains": _READ, "zone_records": _READ},
)
OPERATOR = Role(
    "operator",
    "the operator's commands, but init, migrate and copy",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        "users": {
            "SELECT": WHOLE,
            "INSERT": WHOLE,
            "UPDATE": (
                "email",
                "name",
                "organization_id",
                "free_quota",
                "reminders",
                "suspended_at",
                "suspended_reason",
            ),
        },
        "subdomains": {
            "SELECT": WHOLE,
            "INSERT": WHOLE,
            "UPDATE": (*_OF_A_NAME, "suspended_at", "suspended_reason", "held_with_user"),
        },
        "organizations": _ADD,
        "tokens": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("revoked_at",)},
        "platform_domains": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": WHOLE},
        "offers": _ALL,
        "labels": _ALL,
        "label_grants": _ALL,
        "label_patterns": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "platform_domain_grants": _ALL,
        "packages": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("retired_at",)},
        "coupons": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("retired_at",)},
        "coupon_uses": _READ,
        "tickets": {
            "SELECT": WHOLE,
            "INSERT": WHOLE,
            "UPDATE": ("status", "priority", "last_message_at", "updated_at"),
        },
        "messages": _ADD,
        "mails": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("attempts", "next_attempt_at", "given_up_at")},
        "clockwork": {"SELECT": WHOLE, "UPDATE": WHOLE},
        "forecasts": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "published_owners": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": WHOLE, "DELETE": WHOLE},
        "zone_records": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "zone_states": _ALL,
        "zone_updates": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "idempotency_keys": _READ,
        "leases": _READ,
        "rate_windows": _READ,
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
