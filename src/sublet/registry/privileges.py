"""What each part of the service may do in PostgreSQL: the least that its code needs, as SQL to be given to `psql`.

Groups that nobody logs in as; the operator makes logins that are members of them. Who owns the tables (who ran `sublet init`) may do
everything and is nobody's login but that of `init`, `migrate` and `copy`. SELECT … FOR UPDATE needs UPDATE on some column: where a
role only locks rows, it is the one that harms least. `tests/db/test_privileges.py` runs the service so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PREFIX = "sublet_"
WHOLE = ()
"""No columns: the privilege is on the whole table."""

Grants = Mapping[str, Mapping[str, tuple[str, ...]]]
"""By table and privilege the columns, `WHOLE` for all of the table."""


@dataclass(frozen=True, slots=True)
class Role:
    """A group role: its name without the prefix, what it is for, what it is granted, the roles that it is a member of."""

    name: str
    what: str
    grants: Grants
    member_of: tuple[str, ...] = ()


_READ = {"SELECT": WHOLE}
_ADD = {"SELECT": WHOLE, "INSERT": WHOLE}
_OWN = {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": WHOLE, "DELETE": WHOLE}

# What a name's row may be changed in; who holds it, what it is called and when it began stay as they were added.
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
# What a process tells of itself, and the marks of its commits.
_OF_A_PROCESS: Grants = {
    "alembic_version": _READ,
    "schema_compatible_with": _READ,
    "processes": _OWN,
    # Touched where a COMMIT's answer was lost; and the old ones are locked before they are deleted.
    "commit_marks": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("made_at",), "DELETE": WHOLE},
}
_OF_THE_LEDGER: Grants = {
    "transfers": _ADD,
    "audit_events": _ADD,
    "terms": _ADD,
    "milestones": _ADD,
    "ledger_accounts": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": ("balance",)},
    "subdomains": {"SELECT": WHOLE, "INSERT": WHOLE, "UPDATE": _OF_A_NAME},
    "nameserver_hosts": _OWN,
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
        # A retry has a zone that rests tried at once.
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
        "rate_windows": _OWN,
    },
)
WORKER = Role(
    "worker",
    "the publisher, the zone keeper, the clockwork and the mailer",
    {
        **_OF_A_PROCESS,
        **_OF_THE_LEDGER,
        "leases": _OWN,
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
        "published_owners": _OWN,
        "zone_records": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "zone_states": _OWN,
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
        "offers": _OWN,
        "labels": _OWN,
        "label_grants": _OWN,
        "label_patterns": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "platform_domain_grants": _OWN,
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
        "zone_states": _OWN,
        "zone_updates": {"SELECT": WHOLE, "INSERT": WHOLE, "DELETE": WHOLE},
        "idempotency_keys": _READ,
        "leases": _READ,
        "rate_windows": _READ,
    },
)
SERVE = Role("serve", "`sublet serve`, which is all of these in one process", {}, ("api", "worker", "dns"))
ROLES = (API, WORKER, DNS, OPERATOR, SERVE)


def grant_statements(tables: Iterable[str], numbered: Iterable[str], prefix: str = PREFIX) -> list[str]:
    """Return the SQL that makes the roles and gives them exactly this, whatever they had; it may be run again.

    `tables` are those of the schema, of which one that no role is granted stays the owner's; `numbered` have a sequence for
    their `id`. The names of the roles begin with `prefix`.
    """
    known, sequences = set(tables), set(numbered)
    lines = ["BEGIN;", "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"]
    for role in ROLES:
        name = f"{prefix}{role.name}"
        lines += [
            f"-- {name}: {role.what}",
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
        if role is OPERATOR:  # the doctor looks at the last numbers
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
