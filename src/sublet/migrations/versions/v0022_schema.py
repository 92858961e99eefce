"""Create the schema of the first release.

Revision ID: 0022
Revises:
"""

import secrets

import sqlalchemy as sa
from alembic import op

from sublet.schema import Instant

revision = "0022"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OWNER_KEY = sa.String().with_variant(sa.String(collation="C"), "postgresql")

APPEND_ONLY = ("transfers", "audit_events", "terms", "milestones")
REGISTRY_ACCOUNTS = ("sales", "grants", "adjustments", "revenue")


def upgrade() -> None:
    """Create the tables with their first rows, and the triggers of append-only tables."""
    _create_users()
    _create_tokens()
    _create_device_requests()
    _create_sessions()
    _create_mailed_codes()
    _create_platform_domains()
    _create_offers_and_grants()
    _create_labels()
    _create_subdomains()
    _create_indexes_of_subdomains()
    _create_nameservers()
    _create_name_transfers()
    _create_ledger()
    _create_terms()
    _create_packages_and_coupons()
    _create_mails()
    _create_sweep()
    _create_tickets()
    _create_zones()
    _create_health()
    _create_requests_of_child_zones()
    _create_processes()
    _create_requests()
    _create_audit()
    _insert_rows()
    _refuse_changes()


def _insert_rows() -> None:
    accounts = sa.table("ledger_accounts", sa.column("kind"), sa.column("balance"))
    op.bulk_insert(accounts, [{"kind": kind, "balance": 0} for kind in REGISTRY_ACCOUNTS])
    op.bulk_insert(sa.table("clockwork", sa.column("id")), [{"id": 1}])
    keys = sa.table("signing_keys", sa.column("name"), sa.column("secret"))
    op.bulk_insert(keys, [{"name": "challenges", "secret": secrets.token_hex(32)}])


def _refuse_changes() -> None:
    """Create the triggers that refuse UPDATE and DELETE of append-only rows.

    A transaction that erases a user has a row in `erasures`, and may change the texts of events and
    transfers. No other transaction sees this row, because it is deleted before the commit. Any transaction
    may delete an event's address.
    """
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    if is_postgresql:
        op.execute(REFUSE_CHANGE)
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            if is_postgresql:
                body = "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
            else:
                unless = (
                    f"WHEN NOT ({MAY_UPDATE[table]}) " if verb == "UPDATE" and table in MAY_UPDATE else ""
                )
                body = f"{unless}BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            op.execute(f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {body}")


# The address comes first, because the worker deletes old addresses and has no privilege to read `erasures`.
REFUSE_CHANGE = (
    "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF TG_OP = 'UPDATE' AND TG_TABLE_NAME = 'audit_events' "
    "AND to_jsonb(NEW) = to_jsonb(OLD) || '{\"address\": null}' THEN RETURN NEW; END IF; "
    "IF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ('audit_events', 'transfers') "
    "AND EXISTS (SELECT FROM erasures) "
    "AND to_jsonb(NEW) - ARRAY['address', 'after', 'before', 'description', 'reason'] "
    "= to_jsonb(OLD) - ARRAY['address', 'after', 'before', 'description', 'reason'] THEN RETURN NEW; END IF; "
    "RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
)


def _same(columns: str) -> str:
    """Return SQLite's condition that an UPDATE leaves these columns unchanged."""
    return " AND ".join(f'NEW."{each}" IS OLD."{each}"' for each in columns.split())


SAME_EVENT = _same(
    "id at actor_kind user_id token_id actor_name request_id action object_type object_id session_id owner_id"
)
SAME_TEXTS = _same("reason before after")
SAME_TRANSFER = _same(
    "id reference kind debit_account_id credit_account_id credits user_id balance_after amount currency "
    "subdomain_id subdomain refunded_transfer_id created_at token_id"
)
ERASES = "EXISTS (SELECT 1 FROM erasures)"
MAY_UPDATE = {
    "audit_events": f"{SAME_EVENT} AND ({ERASES} OR (NEW.address IS NULL AND {SAME_TEXTS}))",
    "transfers": f"{ERASES} AND {SAME_TRANSFER}",
}
"""The updates of append-only rows that SQLite's triggers allow. PostgreSQL's are in `REFUSE_CHANGE`."""


def _create_partial_index(
    name: str, table: str, columns: list[str], *, where: str, unique: bool = False
) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _create_users() -> None:
    op.create_table(
        "organizations",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(64), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("created_by_user_id", BIG_ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_organizations"),
        sa.UniqueConstraint("slug", name="uq_organizations_slug"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_organizations_created_by_user_id", "organizations", ["created_by_user_id"])
    op.create_table(
        "users",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("organization_id", BIG_ID, nullable=False),
        sa.Column("free_quota", sa.Integer(), nullable=True),
        sa.Column("suspended_at", Instant, nullable=True),
        sa.Column("suspended_reason", sa.String(), nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("reminders", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("deleted_at", Instant, nullable=True),
        sa.Column("signed_up_at", Instant, nullable=True),
        sa.Column("is_organization", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_users_organization_id"),
        sa.UniqueConstraint("email", name="uq_users_email"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_users_organization_id", "users", ["organization_id"])
    _create_partial_index(
        "uq_users_organization_id_account", "users", ["organization_id"], where="is_organization", unique=True
    )
    op.create_table(
        "memberships",
        sa.Column("user_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("organization_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "organization_id", name="pk_memberships"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_memberships_user_id"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_memberships_organization_id"
        ),
        sa.CheckConstraint(
            "role IN ('owner', 'member', 'billing', 'viewer')", name=op.f("ck_memberships_role")
        ),
    )
    op.create_index("ix_memberships_organization_id", "memberships", ["organization_id"])
    op.create_table(
        "erasures",
        sa.Column("user_id", BIG_ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_erasures"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_erasures_user_id"),
    )


def _create_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("expires_at", Instant, nullable=True),
        sa.Column("revoked_at", Instant, nullable=True),
        sa.Column("last_used_at", Instant, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("names", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("domains", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("networks", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("daily_credits", BIG_ID, nullable=True),
        sa.Column("last_used_from", sa.String(45), nullable=True),
        sa.Column("creator_token_id", BIG_ID, nullable=True),
        sa.Column("budget_token_id", BIG_ID, nullable=True),
        sa.Column("former_digest", sa.String(64), nullable=True),
        sa.Column("former_until", Instant, nullable=True),
        sa.Column("organization_id", BIG_ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"])
    op.create_index("uq_tokens_former_digest", "tokens", ["former_digest"], unique=True)
    op.create_index("ix_tokens_organization_id", "tokens", ["organization_id"])


def _create_device_requests() -> None:
    op.create_table(
        "device_requests",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("device_code_digest", sa.String(64), nullable=False),
        sa.Column("user_code_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("may_spend", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("polled_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_device_requests"),
        sa.UniqueConstraint("device_code_digest", name="uq_device_requests_device_code_digest"),
        sa.UniqueConstraint("user_code_digest", name="uq_device_requests_user_code_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_device_requests_user_id", "device_requests", ["user_id"])
    op.create_index("ix_device_requests_expires_at", "device_requests", ["expires_at"])
    op.create_index("ix_device_requests_network_created_at", "device_requests", ["network", "created_at"])


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("how", sa.String(16), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("signed_in_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("last_used_at", Instant, nullable=False),
        sa.Column("last_used_from", sa.String(45), nullable=True),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("user_agent", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sessions_user_id"),
        sa.UniqueConstraint("digest", name="uq_sessions_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "passkeys",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("credential_id", sa.String(1400), nullable=False),
        sa.Column("public_key", sa.String(), nullable=False),
        sa.Column("sign_count", BIG_ID, nullable=False),
        sa.Column("transports", sa.JSON(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("last_used_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_passkeys"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_passkeys_user_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_passkeys_user_id", "passkeys", ["user_id"])
    op.create_index("uq_passkeys_credential_id", "passkeys", ["credential_id"], unique=True)
    op.create_table(
        "recoveries",
        sa.Column("user_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("asked_at", Instant, nullable=False),
        sa.Column("ready_at", Instant, nullable=False),
        sa.Column("ends_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_recoveries"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_recoveries_user_id"),
    )
    op.create_index("ix_recoveries_ends_at", "recoveries", ["ends_at"])


def _create_mailed_codes() -> None:
    op.create_table(
        "mailed_codes",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("organization_id", BIG_ID, nullable=True),
        sa.Column("network", sa.String(64), nullable=False),
        sa.Column("is_proven", sa.Boolean(), nullable=False),
        sa.Column("code_digest", sa.String(64), nullable=False),
        sa.Column("link_digest", sa.String(64), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("used_at", Instant, nullable=True),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("role", sa.String(16), nullable=True),
        sa.Column("invited_by_user_id", BIG_ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_mailed_codes"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_mailed_codes_organization_id"
        ),
        sa.UniqueConstraint("link_digest", name="uq_mailed_codes_link_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_mailed_codes_expires_at", "mailed_codes", ["expires_at"])
    op.create_index("ix_mailed_codes_email_created_at", "mailed_codes", ["email", "created_at"])
    op.create_index("ix_mailed_codes_network_created_at", "mailed_codes", ["network", "created_at"])
    op.create_index("ix_mailed_codes_user_id", "mailed_codes", ["user_id"])
    op.create_index("ix_mailed_codes_organization_id", "mailed_codes", ["organization_id"])
    op.create_table(
        "solved_challenges",
        sa.Column("signature", sa.String(64), nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("signature", name="pk_solved_challenges"),
    )
    op.create_index("ix_solved_challenges_expires_at", "solved_challenges", ["expires_at"])
    op.create_table(
        "signing_keys",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_signing_keys"),
    )


def _create_platform_domains() -> None:
    op.create_table(
        "platform_domains",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("domain", sa.String(253), nullable=False),
        sa.Column("public_name", sa.String(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("restricted", sa.Boolean(), nullable=False),
        sa.Column("registration_open", sa.Boolean(), nullable=False),
        sa.Column("idn", sa.Boolean(), nullable=False),
        sa.Column("dnssec_signed", sa.Boolean(), nullable=False),
        sa.Column("nameservers_min", sa.Integer(), nullable=False),
        sa.Column("nameservers_max", sa.Integer(), nullable=False),
        sa.Column("label_length_min", sa.Integer(), nullable=False),
        sa.Column("premium_length_max", sa.Integer(), nullable=False),
        sa.Column("renewal_window_days", sa.Integer(), nullable=False),
        sa.Column("grace_days", sa.Integer(), nullable=False),
        sa.Column("trash_days", sa.Integer(), nullable=False),
        sa.Column("cooling_off_days", sa.Integer(), nullable=False),
        sa.Column("apex_nameservers", sa.JSON(), nullable=False),
        sa.Column("soa_mname", sa.String(253), nullable=False),
        sa.Column("soa_rname", sa.String(253), nullable=False),
        sa.Column("serial", BIG_ID, nullable=False),
        sa.Column("refresh_seconds", sa.Integer(), nullable=False),
        sa.Column("retry_seconds", sa.Integer(), nullable=False),
        sa.Column("expire_seconds", sa.Integer(), nullable=False),
        sa.Column("negative_ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("apex_ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("delegation_ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("primary", sa.String(63), nullable=False, server_default=""),
        sa.Column("secondaries", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("look_alike_check", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("owner_key", OWNER_KEY, nullable=False, server_default=""),
        sa.Column("redate_after_id", BIG_ID, nullable=True),
        sa.Column("names_until", Instant, nullable=True),
        sa.Column("removed_at", Instant, nullable=True),
        sa.Column("delegation_check", sa.String(), nullable=False, server_default="off"),
        sa.Column("automatic_ds", sa.String(), nullable=False, server_default="off"),
        sa.Column("csync", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("broken_days", sa.Integer(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_platform_domains"),
        sa.UniqueConstraint("domain", name="uq_platform_domains_domain"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_platform_domains_owner_key", "platform_domains", ["owner_key"])
    _create_partial_index(
        "ix_platform_domains_redate_after_id", "platform_domains", ["id"], where="redate_after_id IS NOT NULL"
    )


def _create_offers_and_grants() -> None:
    op.create_table(
        "offers",
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("price_credits", BIG_ID, nullable=False),
        sa.Column("renewal_price_credits", BIG_ID, nullable=False),
        sa.Column("period_days", sa.Integer(), nullable=False),
        sa.Column("withdrawn_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("platform_domain_id", "mode", name="pk_offers"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_offers_platform_domain_id"
        ),
        sa.CheckConstraint("period_days > 0", name=op.f("ck_offers_period")),
        sa.CheckConstraint(
            "price_credits >= 0 AND renewal_price_credits >= 0", name=op.f("ck_offers_prices")
        ),
    )
    op.create_table(
        "platform_domain_grants",
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("organization_id", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("platform_domain_id", "organization_id", name="pk_platform_domain_grants"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_platform_domain_grants_organization_id"
        ),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"],
            ["platform_domains.id"],
            name="fk_platform_domain_grants_platform_domain_id",
        ),
    )


def _create_labels() -> None:
    op.create_table(
        "labels",
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("label", sa.String(63), nullable=False),
        sa.Column("label_class", sa.String(16), nullable=False),
        sa.Column("price_credits", BIG_ID, nullable=True),
        sa.Column("renewal_price_credits", BIG_ID, nullable=True),
        sa.PrimaryKeyConstraint("platform_domain_id", "label", name="pk_labels"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_labels_platform_domain_id"
        ),
    )
    op.create_table(
        "label_grants",
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("label", sa.String(63), nullable=False),
        sa.Column("organization_id", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("platform_domain_id", "label", "organization_id", name="pk_label_grants"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_label_grants_organization_id"
        ),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_label_grants_platform_domain_id"
        ),
    )
    op.create_table(
        "label_patterns",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("platform_domain_id", BIG_ID, nullable=True),
        sa.Column("pattern", sa.String(100), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_label_patterns"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_label_patterns_platform_domain_id"
        ),
        sa.UniqueConstraint(
            "platform_domain_id", "pattern", name="uq_label_patterns_platform_domain_id_pattern"
        ),
        sqlite_autoincrement=True,
    )
    # A pattern for all platform domains has a null here, and the constraint doesn't treat two nulls as equal.
    _create_partial_index(
        "uq_label_patterns_everywhere",
        "label_patterns",
        ["pattern"],
        where="platform_domain_id IS NULL",
        unique=True,
    )


def _create_subdomains() -> None:
    op.create_table(
        "subdomains",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("label", sa.String(63), nullable=False),
        sa.Column("fqdn", sa.String(253), nullable=False),
        sa.Column("registration_type", sa.String(16), nullable=False),
        sa.Column("registration_source", sa.String(16), nullable=False),
        sa.Column("nameservers", sa.JSON(), nullable=False),
        sa.Column("glue", sa.JSON(), nullable=False),
        sa.Column("ds_records", sa.JSON(), nullable=False),
        sa.Column("nameserver_count", sa.Integer(), nullable=False),
        sa.Column("ds_record_count", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("published_generation", sa.Integer(), nullable=False),
        sa.Column("provision_error", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", Instant, nullable=True),
        sa.Column("published_at", Instant, nullable=True),
        sa.Column("published_serial", BIG_ID, nullable=True),
        sa.Column("registered_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("last_renewed_at", Instant, nullable=True),
        sa.Column("period_days", sa.Integer(), nullable=False),
        sa.Column("suspended_at", Instant, nullable=True),
        sa.Column("suspended_reason", sa.Text(), nullable=True),
        sa.Column("trashed_at", Instant, nullable=True),
        sa.Column("purged_at", Instant, nullable=True),
        sa.Column("released_at", Instant, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.Column("unsuspended_at", Instant, nullable=True),
        sa.Column("due_at", Instant, nullable=True),
        sa.Column("loss_at", Instant, nullable=True),
        sa.Column("auto_renew_tried_at", Instant, nullable=True),
        sa.Column("auto_renew_max_credits", BIG_ID, nullable=True),
        sa.Column("generation_at", Instant, nullable=True),
        sa.Column("held_with_user", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("skeleton", sa.String(253), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_subdomains"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_subdomains_platform_domain_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_subdomains_user_id"),
        sa.CheckConstraint("published_generation <= generation", name=op.f("ck_subdomains_generation")),
        sa.CheckConstraint("purged_at IS NULL OR trashed_at IS NOT NULL", name=op.f("ck_subdomains_purged")),
        sa.CheckConstraint(
            "released_at IS NULL OR purged_at IS NOT NULL", name=op.f("ck_subdomains_released")
        ),
        sqlite_autoincrement=True,
    )


def _create_indexes_of_subdomains() -> None:
    op.create_index("ix_subdomains_user_id_created_at", "subdomains", ["user_id", "created_at", "id"])
    _create_partial_index(
        "uq_subdomains_fqdn_unreleased", "subdomains", ["fqdn"], where="released_at IS NULL", unique=True
    )
    _create_partial_index("ix_subdomains_due_at", "subdomains", ["due_at"], where="due_at IS NOT NULL")
    _create_partial_index("ix_subdomains_loss_at", "subdomains", ["loss_at"], where="loss_at IS NOT NULL")
    _create_partial_index(
        "ix_subdomains_unpublished",
        "subdomains",
        ["platform_domain_id", "generation_at", "id"],
        where="generation != published_generation",
    )
    _create_partial_index(
        "ix_subdomains_fqdn_released", "subdomains", ["fqdn"], where="released_at IS NOT NULL"
    )
    _create_partial_index(
        "ix_subdomains_skeleton",
        "subdomains",
        ["skeleton"],
        where="released_at IS NULL AND skeleton IS NOT NULL",
    )
    # Each registration counts its user's free names.
    _create_partial_index(
        "ix_subdomains_user_id_free",
        "subdomains",
        ["user_id", "registration_type", "trashed_at"],
        where="registration_type = 'free' AND trashed_at IS NULL",
    )
    _create_partial_index(
        "ix_subdomains_platform_domain_id_generation_at",
        "subdomains",
        ["platform_domain_id", "generation_at"],
        where="generation_at IS NOT NULL",
    )


def _create_nameservers() -> None:
    op.create_table(
        "nameserver_hosts",
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("host_key", OWNER_KEY, nullable=False),
        sa.Column("dropped_generation", sa.Integer(), nullable=True),
        sa.Column("told", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("told_since", Instant, nullable=True),
        sa.PrimaryKeyConstraint("subdomain_id", "host_key", name="pk_nameserver_hosts"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_nameserver_hosts_subdomain_id"),
    )
    op.create_index("ix_nameserver_hosts_host_key", "nameserver_hosts", ["host_key"])
    op.create_table(
        "published_owners",
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("owner", sa.String(253), nullable=False),
        sa.Column("sent", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("subdomain_id", "owner", name="pk_published_owners"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_published_owners_subdomain_id"),
    )


def _create_name_transfers() -> None:
    op.create_table(
        "name_transfers",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("from_user_id", BIG_ID, nullable=False),
        sa.Column("recipient_email", sa.String(254), nullable=False),
        sa.Column("to_user_id", BIG_ID, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("is_mailed", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.Column("ended_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_name_transfers"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_name_transfers_subdomain_id"),
        sa.ForeignKeyConstraint(["from_user_id"], ["users.id"], name="fk_name_transfers_from_user_id"),
        sa.ForeignKeyConstraint(["to_user_id"], ["users.id"], name="fk_name_transfers_to_user_id"),
        sa.CheckConstraint("(state = 'pending') = (ended_at IS NULL)", name=op.f("ck_name_transfers_ended")),
        sa.CheckConstraint(
            "(state IN ('accepted', 'declined')) = (to_user_id IS NOT NULL)",
            name=op.f("ck_name_transfers_answered"),
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_name_transfers_from_user_id_created_at", "name_transfers", ["from_user_id", "created_at", "id"]
    )
    op.create_index(
        "ix_name_transfers_recipient_email_created_at",
        "name_transfers",
        ["recipient_email", "created_at", "id"],
    )
    op.create_index("ix_name_transfers_to_user_id", "name_transfers", ["to_user_id"])
    _create_partial_index(
        "uq_name_transfers_subdomain_id_pending",
        "name_transfers",
        ["subdomain_id"],
        where="ended_at IS NULL",
        unique=True,
    )
    _create_partial_index(
        "ix_name_transfers_expires_at_pending", "name_transfers", ["expires_at"], where="ended_at IS NULL"
    )


def _create_ledger() -> None:
    op.create_table(
        "ledger_accounts",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("balance", BIG_ID, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_accounts"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_ledger_accounts_user_id"),
        sa.UniqueConstraint("user_id", name="uq_ledger_accounts_user_id"),
        sa.CheckConstraint("(kind = 'user') = (user_id IS NOT NULL)", name=op.f("ck_ledger_accounts_kind")),
        sa.CheckConstraint("kind <> 'user' OR balance >= 0", name=op.f("ck_ledger_accounts_balance")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "transfers",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("reference", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("debit_account_id", BIG_ID, nullable=False),
        sa.Column("credit_account_id", BIG_ID, nullable=False),
        sa.Column("credits", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("balance_after", BIG_ID, nullable=False),
        sa.Column("amount", sa.String(32), nullable=True),
        sa.Column("currency", sa.String(3), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=True),
        sa.Column("subdomain", sa.String(253), nullable=True),
        sa.Column("refunded_transfer_id", BIG_ID, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("token_id", BIG_ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_transfers"),
        sa.ForeignKeyConstraint(
            ["credit_account_id"], ["ledger_accounts.id"], name="fk_transfers_credit_account_id"
        ),
        sa.ForeignKeyConstraint(
            ["debit_account_id"], ["ledger_accounts.id"], name="fk_transfers_debit_account_id"
        ),
        sa.ForeignKeyConstraint(
            ["refunded_transfer_id"], ["transfers.id"], name="fk_transfers_refunded_transfer_id"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_transfers_user_id"),
        sa.UniqueConstraint("reference", name="uq_transfers_reference"),
        sa.UniqueConstraint("refunded_transfer_id", name="uq_transfers_refunded_transfer_id"),
        sa.CheckConstraint("(amount IS NULL) = (currency IS NULL)", name=op.f("ck_transfers_amount")),
        sa.CheckConstraint("balance_after >= 0", name=op.f("ck_transfers_balance_after")),
        sa.CheckConstraint("credits > 0", name=op.f("ck_transfers_credits")),
        sa.CheckConstraint("debit_account_id <> credit_account_id", name=op.f("ck_transfers_accounts")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_transfers_user_id_created_at", "transfers", ["user_id", "created_at", "id"])


def _create_terms() -> None:
    op.create_table(
        "terms",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("starts_at", Instant, nullable=False),
        sa.Column("ends_at", Instant, nullable=False),
        sa.Column("charged_credits", BIG_ID, nullable=False),
        sa.Column("transfer_id", BIG_ID, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_terms"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_terms_subdomain_id"),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfers.id"], name="fk_terms_transfer_id"),
        sa.UniqueConstraint("transfer_id", name="uq_terms_transfer_id"),
        sa.CheckConstraint("(charged_credits > 0) = (transfer_id IS NOT NULL)", name=op.f("ck_terms_charge")),
        sa.CheckConstraint("ends_at > starts_at", name=op.f("ck_terms_order")),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_terms_subdomain_id_starts_at", "terms", ["subdomain_id", "starts_at"], unique=True)


def _create_packages_and_coupons() -> None:
    op.create_table(
        "packages",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("credits", BIG_ID, nullable=False),
        sa.Column("price", sa.String(32), nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("retired_at", Instant, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_packages"),
        sa.CheckConstraint("credits > 0", name=op.f("ck_packages_credits")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "coupons",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("code", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("value", BIG_ID, nullable=False),
        sa.Column("max_uses", sa.Integer(), nullable=True),
        sa.Column("max_uses_per_user", sa.Integer(), nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("valid_from", Instant, nullable=True),
        sa.Column("valid_until", Instant, nullable=True),
        sa.Column("action", sa.String(16), nullable=True),
        sa.Column("platform_domain_id", BIG_ID, nullable=True),
        sa.Column("registration_mode", sa.String(16), nullable=True),
        sa.Column("retired_at", Instant, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_coupons"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_coupons_platform_domain_id"
        ),
        sa.UniqueConstraint("code", name="uq_coupons_code"),
        sa.CheckConstraint(
            "value > 0 AND (kind <> 'percent' OR value <= 100)", name=op.f("ck_coupons_value")
        ),
        sa.CheckConstraint("max_uses IS NULL OR uses <= max_uses", name=op.f("ck_coupons_uses")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "coupon_uses",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("coupon_id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("transfer_id", BIG_ID, nullable=True),
        sa.Column("discount_credits", BIG_ID, nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_coupon_uses"),
        sa.ForeignKeyConstraint(["coupon_id"], ["coupons.id"], name="fk_coupon_uses_coupon_id"),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfers.id"], name="fk_coupon_uses_transfer_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_coupon_uses_user_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_coupon_uses_coupon_id_user_id", "coupon_uses", ["coupon_id", "user_id"])


def _create_mails() -> None:
    op.create_table(
        "mails",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("reference", sa.String(128), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("recipient", sa.String(254), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", Instant, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sent_at", Instant, nullable=True),
        sa.Column("logged_at", Instant, nullable=True),
        sa.Column("given_up_at", Instant, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("page", sa.Text(), nullable=False, server_default=""),
        sa.Column("expires_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_mails"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_mails_user_id"),
        sa.UniqueConstraint("reference", name="uq_mails_reference"),
        sa.CheckConstraint(
            "CASE WHEN next_attempt_at IS NULL THEN 0 ELSE 1 END"
            " + CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END"
            " + CASE WHEN logged_at IS NULL THEN 0 ELSE 1 END"
            " + CASE WHEN given_up_at IS NULL THEN 0 ELSE 1 END = 1",
            name=op.f("ck_mails_state"),
        ),
        sqlite_autoincrement=True,
    )
    _create_partial_index(
        "ix_mails_next_attempt_at", "mails", ["next_attempt_at"], where="next_attempt_at IS NOT NULL"
    )
    op.create_index("ix_mails_recipient_created_at", "mails", ["recipient", "created_at"])
    _create_partial_index("ix_mails_text", "mails", ["created_at"], where="sent_at IS NULL AND text != ''")
    _create_partial_index("ix_mails_envelope", "mails", ["created_at"], where="text = ''")
    op.create_table(
        "operator_notices",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("reference", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("quoted", sa.Text(), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("mail_id", BIG_ID, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_operator_notices"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_operator_notices_user_id"),
        sa.ForeignKeyConstraint(
            ["mail_id"], ["mails.id"], name="fk_operator_notices_mail_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("reference", name="uq_operator_notices_reference"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_operator_notices_mail_id", "operator_notices", ["mail_id"])
    op.create_index("ix_operator_notices_user_id", "operator_notices", ["user_id"])


def _create_sweep() -> None:
    op.create_table(
        "clockwork",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seen_at", Instant, nullable=True),
        sa.Column("stopped_at", Instant, nullable=True),
        sa.Column("stopped_reason", sa.Text(), nullable=True),
        sa.Column("stopped_losses", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("resumed", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("granted_losses", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("granted_at", Instant, nullable=True),
        sa.Column("granted_settled", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("id", name="pk_clockwork"),
        sa.CheckConstraint("id = 1", name=op.f("ck_clockwork_one")),
    )
    op.create_table(
        "milestones",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("about", Instant, nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("mail_id", BIG_ID, nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_milestones"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_milestones_subdomain_id"),
        sa.ForeignKeyConstraint(["mail_id"], ["mails.id"], name="fk_milestones_mail_id"),
        sa.UniqueConstraint("subdomain_id", "kind", "about", name="uq_milestones_subdomain_id_kind_about"),
        sa.UniqueConstraint("mail_id", name="uq_milestones_mail_id"),
        sqlite_autoincrement=True,
    )
    _create_partial_index(
        "ix_milestones_lost", "milestones", ["created_at"], where="kind IN ('trashed', 'purged')"
    )
    op.create_table(
        "forecasts",
        sa.Column("made_at", Instant, nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("made_at", name="pk_forecasts"),
    )


def _create_tickets() -> None:
    op.create_table(
        "tickets",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=True),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("priority", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("requester_email", sa.String(254), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("last_message_at", Instant, nullable=False),
        sa.Column("updated_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tickets"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_tickets_subdomain_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tickets_user_id"),
        sa.CheckConstraint(
            "priority IN ('low', 'normal', 'high', 'urgent')", name=op.f("ck_tickets_priority")
        ),
        sa.CheckConstraint("status IN ('open', 'answered', 'closed')", name=op.f("ck_tickets_status")),
        sa.CheckConstraint("type IN ('contact', 'abuse', 'support')", name=op.f("ck_tickets_type")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_tickets_last_message_at", "tickets", ["last_message_at", "id"])
    op.create_index("ix_tickets_user_id_last_message_at", "tickets", ["user_id", "last_message_at", "id"])
    op.create_table(
        "messages",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("ticket_id", BIG_ID, nullable=False),
        sa.Column("author_type", sa.String(16), nullable=False),
        sa.Column("author_name", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("message_format", sa.String(16), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_messages"),
        sa.ForeignKeyConstraint(["ticket_id"], ["tickets.id"], name="fk_messages_ticket_id"),
        sa.CheckConstraint(
            "author_type IN ('user', 'staff', 'system')", name=op.f("ck_messages_author_type")
        ),
        sa.CheckConstraint("message_format IN ('text', 'markdown')", name=op.f("ck_messages_message_format")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_messages_ticket_id", "messages", ["ticket_id", "id"])


def _create_zones() -> None:
    op.create_table(
        "zone_records",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("owner_key", OWNER_KEY, nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("rdata", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_zone_records"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_zone_records_platform_domain_id"
        ),
    )
    op.create_index("ix_zone_records_owner_key", "zone_records", ["platform_domain_id", "owner_key"])
    op.create_table(
        "zone_states",
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("fence", sa.String(64), nullable=True),
        sa.Column("rebuilt_at", Instant, nullable=True),
        sa.Column("problem", sa.String(32), nullable=True),
        sa.Column("problem_detail", sa.Text(), nullable=True),
        sa.Column("problem_at", Instant, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", Instant, nullable=True),
        sa.Column("checked_at", Instant, nullable=True),
        sa.Column("checked_serial", BIG_ID, nullable=True),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.Column("different", sa.Integer(), nullable=False),
        sa.Column("orphaned", sa.Integer(), nullable=False),
        sa.Column("foreign_records", sa.Integer(), nullable=False),
        sa.Column("repair_stopped_at", Instant, nullable=True),
        sa.Column("repair_stopped_reason", sa.Text(), nullable=True),
        sa.Column("seen_at", Instant, nullable=True),
        sa.Column("watch_problem", sa.String(32), nullable=True),
        sa.Column("watch_problem_detail", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("platform_domain_id", name="pk_zone_states"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_zone_states_platform_domain_id"
        ),
    )
    op.create_table(
        "zone_updates",
        sa.Column("fence", sa.String(64), nullable=False),
        sa.Column("platform_domain_id", BIG_ID, nullable=False),
        sa.Column("owners", sa.JSON(), nullable=False),
        sa.Column("sent_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("fence", name="pk_zone_updates"),
        sa.ForeignKeyConstraint(
            ["platform_domain_id"], ["platform_domains.id"], name="fk_zone_updates_platform_domain_id"
        ),
    )
    op.create_index("ix_zone_updates_platform_domain_id", "zone_updates", ["platform_domain_id"])


def _create_health() -> None:
    op.create_table(
        "delegation_health",
        sa.Column("subdomain_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since", Instant, nullable=False),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.Column("checked_at", Instant, nullable=True),
        sa.Column("next_state", sa.String(16), nullable=True),
        sa.Column("next_since", Instant, nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("mailed_at", Instant, nullable=True),
        sa.Column("due_at", Instant, nullable=False),
        sa.Column("warned_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("subdomain_id", name="pk_delegation_health"),
        sa.ForeignKeyConstraint(
            ["subdomain_id"], ["subdomains.id"], name="fk_delegation_health_subdomain_id"
        ),
    )
    op.create_index("ix_delegation_health_due_at", "delegation_health", ["due_at"])
    op.create_index("ix_delegation_health_state", "delegation_health", ["state", "subdomain_id"])
    op.create_table(
        "health_changes",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("subdomain_id", BIG_ID, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("codes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_health_changes"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_health_changes_subdomain_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_health_changes_subdomain_id_id", "health_changes", ["subdomain_id", "id"])
    op.create_table(
        "health_targets",
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("held_until", Instant, nullable=False),
        sa.Column("booked_until", Instant, nullable=False),
        sa.PrimaryKeyConstraint("address", name="pk_health_targets"),
    )


def _create_requests_of_child_zones() -> None:
    op.create_table(
        "automatic_ds",
        sa.Column("subdomain_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("bootstrap", sa.Boolean(), nullable=False),
        sa.Column("signed_at", Instant, nullable=True),
        sa.Column("refusal", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("refused_since", Instant, nullable=True),
        sa.PrimaryKeyConstraint("subdomain_id", name="pk_automatic_ds"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_automatic_ds_subdomain_id"),
    )
    op.create_table(
        "csync_states",
        sa.Column("subdomain_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=True),
        sa.Column("signed_at", Instant, nullable=True),
        sa.Column("refusal", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("refused_since", Instant, nullable=True),
        sa.PrimaryKeyConstraint("subdomain_id", name="pk_csync_states"),
        sa.ForeignKeyConstraint(["subdomain_id"], ["subdomains.id"], name="fk_csync_states_subdomain_id"),
    )


def _create_processes() -> None:
    op.create_table(
        "processes",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("revision", sa.String(32), nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("seen_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_processes"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(36), nullable=False),
        sa.Column("epoch", BIG_ID, nullable=False),
        sa.Column("expires_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "commit_marks",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("made_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_commit_marks"),
    )
    op.create_index("ix_commit_marks_made_at", "commit_marks", ["made_at"])
    op.create_table(
        "schema_compatible_with",
        sa.Column("revision", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_schema_compatible_with"),
    )


def _create_requests() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("user_id", BIG_ID, nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", Instant, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "key", name="pk_idempotency_keys"),
    )
    # Unlogged, which saves waits for the disk: counts of a minute need not survive a crash of PostgreSQL.
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "rate_windows",
        sa.Column("policy", sa.String(32), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("ends_at", Instant, nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("lent", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("policy", "key", name="pk_rate_windows"),
        prefixes=["UNLOGGED"] if is_postgresql else [],
    )
    op.create_index("ix_rate_windows_ends_at", "rate_windows", ["ends_at"])


def _create_audit() -> None:
    op.create_table(
        "audit_events",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("actor_kind", sa.String(16), nullable=False),
        sa.Column("user_id", BIG_ID, nullable=True),
        sa.Column("token_id", BIG_ID, nullable=True),
        sa.Column("actor_name", sa.String(), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("object_type", sa.String(32), nullable=False),
        sa.Column("object_id", BIG_ID, nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("session_id", BIG_ID, nullable=True),
        sa.Column("address", sa.String(45), nullable=True),
        sa.Column("owner_id", BIG_ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_events_at", "audit_events", ["at"])
    op.create_index(
        "ix_audit_events_object_type_object_id", "audit_events", ["object_type", "object_id", "id"]
    )
    _create_partial_index(
        "ix_audit_events_user_id", "audit_events", ["user_id", "id"], where="user_id IS NOT NULL"
    )
    _create_partial_index(
        "ix_audit_events_owner_id", "audit_events", ["owner_id", "id"], where="owner_id IS NOT NULL"
    )
    _create_partial_index("ix_audit_events_address", "audit_events", ["at"], where="address IS NOT NULL")
